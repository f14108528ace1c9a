"""One look for every figure: a panel is one pair of axes, drawn on matplotlib's SVG canvas without pyplot's state."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from geoalign.files.columns import Floats, Ints, Series
from geoalign.statistics import Interval, ema, mean, seed_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Small enough that a phone shows it without shrinking the letters below reading size.
SIZE = (5.4, 3.5)
# Steps are whole numbers, so are the ticks under them.
STEP_AXIS = "RL step"
# Letters in a line of a legend, and those that a line's sample takes.
_LEGEND_WIDTH = 66
_LEGEND_HANDLE = 8
# With few points a smoothed curve stays near the first one and hides the rest.
SMOOTHED_FROM = 8


@dataclass(frozen=True)
class Theme:
    """Colours of one page style. Colour-blind readers can distinguish those with names (after Okabe and Ito)."""

    ink: str
    soft: str
    grid: str
    paper: str
    blue: str
    orange: str
    green: str
    purple: str
    yellow: str


LIGHT = Theme(
    ink="#1b1f24", soft="#59636e", grid="#d9dee3", paper="#ffffff",
    blue="#0072b2", orange="#d55e00", green="#00856a", purple="#a8488c", yellow="#8f7500",
)  # fmt: skip
DARK = Theme(
    ink="#e8ebee", soft="#a3adb8", grid="#2c333b", paper="#171b20",
    blue="#56b4e9", orange="#f0a13a", green="#2fc7a1", purple="#e08cc4", yellow="#e3d34f",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """Colour (a name of the theme), marker and dash of a line; without a dash the markers stand alone."""

    colour: str
    marker: str = "o"
    dash: str = "-"


@dataclass(frozen=True, eq=False)
class Line:
    """A line over `x`, with intervals from `low` to `high`: empty, or NaN where there is none.

    `y` is thin where there is a `smooth`, which then is thick; `marked`: every point has a marker of `size`, as a
    single one always has; `bars`: intervals are error bars instead of a band.
    """

    name: str
    x: Sequence[float] | NDArray[Any]
    y: Sequence[float] | NDArray[Any]
    low: Sequence[float] | NDArray[Any] = ()
    high: Sequence[float] | NDArray[Any] = ()
    smooth: Sequence[float] | NDArray[Any] = ()
    look: Look = Look("blue")
    marked: bool = False
    bars: bool = False
    size: float = 4

    def draw(self, axes: Axes, theme: Theme) -> None:
        """Draws it with its interval; a single point has its interval as an error bar."""
        colour = getattr(theme, self.look.colour)
        x = np.asarray(self.x)
        y = np.asarray(self.y, np.float64)
        low = np.asarray(self.low, np.float64)
        high = np.asarray(self.high, np.float64)
        is_smoothed = len(self.smooth) > 0
        thick = np.asarray(self.smooth, np.float64) if is_smoothed else y
        if np.isfinite(low).any():
            if self.bars or len(x) == 1:
                reach = np.nan_to_num([thick - low, high - thick]).clip(0)
                axes.errorbar(x, thick, yerr=reach, fmt="none", ecolor=colour, elinewidth=1.8, capsize=3)
            else:
                axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        has_markers = self.marked or len(x) == 1 or not self.look.dash
        marker = self.look.marker if has_markers else ""
        style: dict[str, Any] = {"color": colour, "markersize": self.size}
        if is_smoothed:
            axes.plot(x, y, linewidth=0.8, alpha=0.5, marker=marker, **style)
            marker = ""
        axes.plot(x, thick, linestyle=self.look.dash, linewidth=2, marker=marker, label=self.name, **style)


def interval_line(name: str, x: Sequence[float], found: Sequence[Interval], look: Look, *, bars: bool = False) -> Line:
    """A line of estimates, each with its interval: a band, or with `bars` error bars."""
    return Line(
        name=name,
        x=x,
        y=[item.estimate for item in found],
        low=[item.low for item in found],
        high=[item.high for item in found],
        look=look,
        marked=True,
        bars=bars,
    )


def smoothed(name: str, look: Look, series: Series) -> Line:
    """A thin line over steps, and its moving average, thick."""
    return Line(name=name, x=series.steps, y=series.values, smooth=ema(series.values), look=look)


def histogram(name: str, values: Floats, edges: Floats, look: Look) -> Line:
    """The outline of a histogram, in percent of the values; those outside the edges count at the ends."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    heights = np.repeat(100 * counts / max(len(values), 1), 2)
    return Line(name=name, x=np.repeat(edges, 2), y=np.concatenate([[0], heights, [0]]), look=look)


def band(name: str, look: Look, steps: Ints, seeds: Floats) -> Line:
    """The curves [seeds, steps] of several seeds, NaN where one lacks a step: each smoothed, then mean and interval."""
    smooth = np.full_like(seeds, np.nan)
    for row, values in enumerate(seeds):
        there = ~np.isnan(values)
        smooth[row, there] = ema(values[there]) if there.sum() >= SMOOTHED_FROM else values[there]
    over_seeds = [seed_interval(column) for column in smooth.T]
    return Line(
        name=name,
        x=steps,
        y=[mean(column) for column in seeds.T],
        low=[item.low for item in over_seeds],
        high=[item.high for item in over_seeds],
        smooth=[item.estimate for item in over_seeds],
        look=look,
    )


@dataclass(frozen=True, eq=False)
class Panel(ABC):
    """One picture: the stem of its file, the title above its axes, what it shows in words (`alt`), how to read it."""

    name: str
    title: str
    alt: str
    caption: str

    @abstractmethod
    def draw(self, axes: Axes, theme: Theme) -> None:
        """Draws it on empty, styled axes."""


@dataclass(frozen=True, eq=False)
class LinePanel(Panel):
    """Lines and their legend, "above" in room made for it at the top, so that bands stay uncovered.

    `powers` are the ticks of an x axis in powers of two, `xlim` and `ylim` the ends of the axes.
    """

    lines: Sequence[Line]
    y: str = field(kw_only=True)
    x: str = STEP_AXIS
    chance: float | None = None
    powers: Sequence[float] = ()
    scientific: bool = False
    legend: Literal["best", "lower left", "above"] = "best"
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None

    def draw(self, axes: Axes, theme: Theme) -> None:
        """Draws lines, chance, ticks, labels and legend."""
        for line in self.lines:
            line.draw(axes, theme)
        if self.chance is not None:
            axes.axhline(self.chance, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)), label="chance")
        if self.powers:
            axes.set_xscale("log", base=2)
            axes.set_xticks(self.powers, [f"{value:g}" for value in self.powers])
            axes.minorticks_off()
        axes.set(xlabel=self.x, ylabel=self.y)
        if self.xlim is not None:
            axes.set_xlim(*self.xlim)
        if self.ylim is not None:
            axes.set_ylim(*self.ylim)
        if self.scientific:
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))
            axes.yaxis.get_offset_text().set_color(theme.soft)
        if self.legend == "above":
            self._draw_legend_above(axes)
        else:
            axes.legend(loc=self.legend, ncols=1 if self.legend == "best" else 2)

    def _draw_legend_above(self, axes: Axes) -> None:
        """The legend inside the top of the axes, in room made for it: error bars and bands stay uncovered."""
        names = [line.name for line in self.lines if not line.name.startswith("_")]
        longest = max(map(len, names), default=0)
        columns = max(1, min(3, len(names), _LEGEND_WIDTH // (longest + _LEGEND_HANDLE)))
        rows = math.ceil(len(names) / columns)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + (high - low) * (0.04 + 0.085 * rows))
        axes.legend(loc="upper center", ncols=columns, columnspacing=1.2, handlelength=2.2)


@dataclass(frozen=True, eq=False)
class IntervalPanel(Panel):
    """Names from top to bottom with their intervals, and a dotted line where nothing would lie."""

    rows: Sequence[tuple[str, Look, Interval]]
    x: str = field(kw_only=True)
    zero: float = field(kw_only=True)

    def draw(self, axes: Axes, theme: Theme) -> None:
        """Draws the dotted line, and each interval beside its name."""
        heights = np.arange(len(self.rows))[::-1]
        axes.axvline(self.zero, color=theme.soft, linestyle=":", linewidth=1.2)
        for height, (_, look, found) in zip(heights, self.rows, strict=True):
            reach = np.nan_to_num([[found.estimate - found.low], [found.high - found.estimate]])
            colour = getattr(theme, look.colour)
            axes.errorbar(found.estimate, height, xerr=reach, fmt=look.marker, capsize=4, linewidth=1.8, color=colour)
        # Names at the left, in room made for them.
        axes.set_yticks(heights, [row[0] for row in self.rows], fontsize=max(6.5, 10 - len(self.rows) / 5))
        axes.set(xlabel=self.x, ylim=(-0.6, len(self.rows) - 0.4))
        axes.figure.subplots_adjust(left=0.31)


def render(panel: Panel, theme: Theme) -> bytes:
    """The panel as an SVG file: letters as outlines, the same bytes for the same data."""
    # Takes a quarter of a second to import, and most audits draw nothing.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=SIZE, facecolor=theme.paper)
    FigureCanvasSVG(figure)
    # Fixed margins: a layout engine would draw everything twice, for nothing that these panels need.
    figure.subplots_adjust(left=0.135, right=0.97, bottom=0.15, top=0.88)
    axes = figure.add_subplot()
    _dress(axes, theme)
    panel.draw(axes, theme)
    if axes.get_xlabel() == STEP_AXIS:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(panel.title, loc="left", fontsize=11.5, fontweight="bold", color=theme.ink, pad=10)
    legend = axes.get_legend()
    if legend is not None:
        legend.set_frame_on(True)
        legend.get_frame().set(facecolor=theme.paper, edgecolor="none", alpha=0.8)
        for text in legend.get_texts():
            text.set(color=theme.ink, fontsize=9.5)
    buffer = io.BytesIO()
    salt = panel.name.encode("utf-8", "replace").decode("utf-8")
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", facecolor=theme.paper, metadata={"Date": None})
    figure.clear()
    return buffer.getvalue()


def recoloured(picture: bytes, old: Theme, new: Theme) -> bytes:
    """The same picture in another theme: much faster than drawing it again. Every colour comes from the theme."""
    text = picture.decode("utf-8")
    for item in fields(Theme):
        text = text.replace(getattr(old, item.name), getattr(new, item.name))
    return text.encode("utf-8")


def _dress(axes: Axes, theme: Theme) -> None:
    """Gives empty axes the colours of the theme, two spines and a grid."""
    axes.set_facecolor(theme.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.soft)
    axes.tick_params(colors=theme.soft, labelsize=10)
    axes.xaxis.label.set(color=theme.ink, fontsize=10.5)
    axes.yaxis.label.set(color=theme.ink, fontsize=10.5)
    axes.grid(True, color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
