"""The figures of an evaluation: pass@k by benchmark, and scores over the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.reports.documents import Gallery
from geoalign.lab.reports.figures.style import Line, Look, Panel, interval_line, line_panel
from geoalign.lab.text import inert, label

_LOOKS = (
    Look("blue", "o", "-"), Look("orange", "s", "--"), Look("green", "D", "-."), Look("purple", "^", ":"),
    Look("ink", "v", "-"), Look("soft", "P", "--"),
)  # fmt: skip
# More lines look alike.
MOST_LINES = len(_LOOKS)


def draw(panels: Sequence[Panel], folder: Path) -> None:
    """Draws figures into a folder."""
    Gallery(folder).section("figures", "", panels)


def pass_at_k_panel(name: str, models: Mapping[str, Mapping[int, Interval]]) -> Panel:
    """pass@k of a benchmark over k, a line for each model (the first `MOST_LINES` of them)."""
    shown, rest = dict(islice(models.items(), MOST_LINES)), len(models) - MOST_LINES
    lines = [
        interval_line(label(model), list(passed), list(passed.values()), look)
        for (model, passed), look in zip(shown.items(), _LOOKS, strict=False)
    ]
    return line_panel(
        f"pass-at-k-{name}",
        f"pass@k: {label(name)}",
        f"pass@k of {inert(name, 40)}: {'; '.join(map(_ends, shown, lines))}.",
        "Chance that of k responses at least one is right: 1 - C(n - c, k) / C(n, k), mean over problems, with "
        f"95% intervals over problems as bands.{f' {rest} further models are in results.json.' if rest > 0 else ''}",
        lines,
        x="k",
        y="pass@k",
        powers=sorted({k for passed in shown.values() for k in passed}),
    )


def checkpoint_panel(
    series: str, name: str, axis: str, steps: Sequence[int], values: Sequence[float], smooth: Sequence[float]
) -> Panel:
    """A score over the checkpoints of a run: points thin, smoothed thick."""
    line = Line(label(name), steps, values, smooth=smooth, marked=True)
    return line_panel(
        f"checkpoints-{series}-{name}",
        f"{label(series, 24)}: {label(name)}",
        f"{axis} over {len(line.x)} checkpoints: {_ends(name, line)}.",
        "Points: each checkpoint. Thick: smoothed, s = 0.6 s + 0.4 x, which lags behind the points.",
        [line],
        y=axis,
    )


def _ends(name: str, line: Line) -> str:
    return f"{inert(name, 40)} from {line.y[0]:.3f} at {line.x[0]:g} to {line.y[-1]:.3f} at {line.x[-1]:g}"
