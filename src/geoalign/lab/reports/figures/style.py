"""One look for every figure: a panel is one pair of axes, drawn on matplotlib's SVG canvas without pyplot's state."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, fields

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Small enough that a phone shows it without shrinking the letters below reading size.
SIZE = (5.4, 3.5)
# Steps are whole numbers, so are the ticks under them.
STEP_AXIS = "RL step"


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


LIGHT = Theme(
    ink="#1b1f24", soft="#59636e", grid="#d9dee3", paper="#ffffff",
    blue="#0072b2", orange="#d55e00", green="#00856a", purple="#a8488c",
)  # fmt: skip
DARK = Theme(
    ink="#e8ebee", soft="#a3adb8", grid="#2c333b", paper="#171b20",
    blue="#56b4e9", orange="#f0a13a", green="#2fc7a1", purple="#e08cc4",
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One picture: its file name, what it is called, its words for those who cannot see it, and how to draw it.

    Attributes:
        name: file stem under figures/.
        title: short heading, drawn above the axes.
        alt: what the picture shows, with its numbers, in words.
        caption: how to read it.
        draw: draws on empty, styled axes.
    """

    name: str
    title: str
    alt: str
    caption: str
    draw: Callable[[Axes, Theme], None]


def render(panel: Panel, theme: Theme) -> bytes:
    """The panel as an SVG file: letters as outlines, the same bytes for the same data."""
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
    axes.set_facecolor(theme.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.soft)
    axes.tick_params(colors=theme.soft, labelsize=10)
    axes.xaxis.label.set(color=theme.ink, fontsize=10.5)
    axes.yaxis.label.set(color=theme.ink, fontsize=10.5)
    axes.grid(True, color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
