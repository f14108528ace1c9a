"""The figures of an evaluation: pass@k by benchmark, and scores over the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from geoalign.lab.reports.documents import Gallery
from geoalign.lab.reports.figures.style import Line, Look, Panel, line_panel
from geoalign.lab.text import inert, label

__all__ = ["MOST_LINES", "Gallery", "Line", "checkpoint_panel", "pass_at_k_panel"]

_LOOKS = (
    Look("blue", "o", "-"), Look("orange", "s", "--"), Look("green", "D", "-."), Look("purple", "^", ":"),
    Look("ink", "v", "-"), Look("soft", "P", "--"),
)  # fmt: skip
# More lines look alike.
MOST_LINES = len(_LOOKS)


def pass_at_k_panel(name: str, lines: Sequence[Line]) -> Panel:
    rest = len(lines) - MOST_LINES
    return line_panel(
        f"pass-at-k-{name}",
        f"pass@k: {label(name)}",
        f"pass@k of {inert(name, 40)}: {_ends(lines[:MOST_LINES])}.",
        "Chance that of k responses at least one is right: 1 - C(n - c, k) / C(n, k), mean over problems, with "
        f"95% intervals over problems as bands.{f' {rest} further models are in results.json.' if rest > 0 else ''}",
        _looking(lines[:MOST_LINES]),
        x="k",
        y="pass@k",
        powers=sorted({x for line in lines[:MOST_LINES] for x in line.x}),
    )


def checkpoint_panel(series: str, name: str, axis: str, line: Line) -> Panel:
    return line_panel(
        f"checkpoints-{series}-{name}",
        f"{label(series, 24)}: {label(name)}",
        f"{axis} over {len(line.x)} checkpoints: {_ends([line])}.",
        "Points: each checkpoint. Thick: smoothed, s = 0.6 s + 0.4 x, which lags behind the points.",
        _looking([line]),
        y=axis,
    )


def _looking(lines: Sequence[Line]) -> list[Line]:
    return [
        replace(line, name=label(line.name), look=look, marked=True) for look, line in zip(_LOOKS, lines, strict=False)
    ]


def _ends(lines: Sequence[Line]) -> str:
    return "; ".join(
        f"{inert(line.name, 40)} from {line.y[0]:.3f} at {line.x[0]:g} to {line.y[-1]:.3f} at {line.x[-1]:g}"
        for line in lines
    )
