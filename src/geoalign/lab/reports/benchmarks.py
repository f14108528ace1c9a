"""The figures of an evaluation: pass@k by benchmark, and scores over the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from geoalign.lab.reports.documents import write
from geoalign.lab.reports.figures.style import LIGHT, STEP_AXIS, Panel, Theme, render
from geoalign.lab.text import inert, label

_LOOKS = (
    ("blue", "o", "-"), ("orange", "s", "--"), ("green", "D", "-."), ("purple", "^", ":"), ("ink", "v", "-"),
    ("soft", "P", "--"),
)  # fmt: skip
# More lines look alike.
MOST_LINES = len(_LOOKS)


@dataclass(frozen=True)
class Line:
    """A line of a figure: `y` over rising `x`; `low` and `high` bound a band, or are empty; `smooth` is drawn thick."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    smooth: Sequence[float] = ()


def pass_at_k_panel(name: str, lines: Sequence[Line]) -> Panel:
    """pass@k of a benchmark over k, a line for each model (the first `MOST_LINES` of them)."""
    shown = lines[:MOST_LINES]

    def draw(axes: Axes, theme: Theme) -> None:
        _draw(axes, theme, shown)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted({x for line in shown for x in line.x})))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        axes.set(xlabel="k", ylabel="pass@k")
        axes.legend(loc="best")

    return Panel(
        name=f"pass-at-k-{name}",
        title=f"pass@k: {label(name)}",
        alt=f"pass@k of {inert(name, 40)}: {_ends(shown)}.",
        caption="Chance that of k responses at least one is right: 1 - C(n - c, k) / C(n, k), mean over problems, with "
        f"95% intervals over problems as bands.{_left_out(lines)}",
        draw=draw,
    )


def checkpoint_panel(series: str, name: str, axis: str, line: Line) -> Panel:
    """A score over the checkpoints of a run: points thin, smoothed thick."""

    def draw(axes: Axes, theme: Theme) -> None:
        _draw(axes, theme, [line])
        axes.set(xlabel=STEP_AXIS, ylabel=axis)
        axes.legend(loc="best")

    return Panel(
        name=f"checkpoints-{series}-{name}",
        title=f"{label(series, 24)}: {label(name)}",
        alt=f"{axis} over {len(line.x)} checkpoints: {_ends([line])}.",
        caption="Points: each checkpoint. Thick: smoothed, s = 0.6 s + 0.4 x, which lags behind the points.",
        draw=draw,
    )


def write_figures(panels: Sequence[Panel], folder: Path) -> list[Path]:
    """Writes each panel as `folder`/<name>.svg; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{panel.name}.svg" for panel in panels]
    for panel, file in zip(panels, files, strict=True):
        write(file, render(panel, LIGHT))
    return files


def _draw(axes: Axes, theme: Theme, lines: Sequence[Line]) -> None:
    for (colour, marker, dash), line in zip(_LOOKS, lines, strict=False):
        shade = getattr(theme, colour)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=shade, alpha=0.15, linewidth=0)
        thin = bool(line.smooth)
        axes.plot(
            line.x, line.y, color=shade, marker=marker, markersize=4, label=None if thin else label(line.name),
            linewidth=0.8 if thin else 2.0, linestyle="-" if thin else dash, alpha=0.6 if thin else 1.0,
        )  # fmt: skip
        if thin:
            axes.plot(line.x, line.smooth, color=shade, linestyle=dash, linewidth=2.2, label=label(line.name))


def _ends(lines: Sequence[Line]) -> str:
    return "; ".join(
        f"{inert(line.name, 40)} from {line.y[0]:.3f} at {line.x[0]:g} to {line.y[-1]:.3f} at {line.x[-1]:g}"
        for line in lines
    )


def _left_out(lines: Sequence[Line]) -> str:
    rest = len(lines) - MOST_LINES
    return f" {rest} further models are in results.json." if rest > 0 else ""
