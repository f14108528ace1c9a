"""Draws the figures of the pages on evidence: `python -m tools.evidence.pictures`.

Each is drawn twice, for light and for dark pages: `docs/pictures/NAME.svg` and `NAME_dark.svg`. A file ends in a
comment with the numbers that it shows, by which a test knows whether it is up to date.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from geoalign.pages.style import DARK, LIGHT, Theme
from geoalign.statistics import Interval, holm, seed_interval
from tools.evidence import runs
from tools.evidence.results import ROOT, Level

FOLDER = ROOT / "docs" / "pictures"
# GitHub's page colours, on which the figures have no visible edge.
THEMES = {
    "": dataclasses.replace(LIGHT, paper="#ffffff"),
    "_dark": dataclasses.replace(DARK, paper="#0d1117"),
}
# Small, so that letters can still be read where a phone shows it 360 pixels wide.
SIZE = (5.6, 3.6)

# The numbers of a picture, as they are written behind it.
Numbers = dict[str, Any]


# --- curves -----------------------------------------------------------------------------------------------------------

# Arms of a picture of curves: words, colour and dash.
CURVES = {
    "grpo": ("GRPO", "ink", (0, (5, 2))),
    "denoise": ("denoise", "purple", "-"),
    "clean": ("true rewards", "green", (0, (1, 1.5))),
}


def _curve(levels: list[Level], arm: str) -> Numbers:
    """The mean curve of an arm with its interval: warm starts are the units, each the mean over its seeds."""
    of_warm_starts: dict[tuple[int, int], list[np.ndarray]] = {}
    steps: list[int] = []
    for place, level in enumerate(levels):
        for seed, curve in level.curves(arm).items():
            of_warm_starts.setdefault((place, level.warm_start_of(seed)), []).append(curve.values)
            steps = [int(step) for step in curve.steps]
    means = np.array([np.mean(curves, axis=0) for curves in of_warm_starts.values()])
    found = [seed_interval(column) for column in means.T]
    return {
        "updates": steps,
        "warm_starts": len(means),
        "mean": [round(one.estimate, 3) for one in found],
        "low": [round(one.low, 3) for one in found],
        "high": [round(one.high, 3) for one in found],
    }


def _draw_curves(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """A line for each arm with its interval as a band, and its name at the end of the line."""
    for arm, curve in numbers.items():
        _, colour_name, dash = CURVES[arm]
        colour = getattr(theme, colour_name)
        axes.plot(curve["updates"], curve["mean"], color=colour, linestyle=dash, linewidth=2.2)
        axes.fill_between(curve["updates"], curve["low"], curve["high"], color=colour, alpha=0.12, linewidth=0)
    last = max(curve["updates"][-1] for curve in numbers.values())
    axes.set(xlabel="update (bands: 95% over warm starts)", xlim=(0, last))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=[1, 2, 5, 10]))
    axes.figure.subplots_adjust(left=0.12, right=0.77)
    _name_ends(axes, theme, numbers)


def _name_ends(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """The name of each line at its right end, moved apart where two would overlap."""
    low, high = axes.get_ylim()
    room = 0.085 * (high - low)
    height = -np.inf
    for arm, curve in sorted(numbers.items(), key=lambda item: item[1]["mean"][-1]):
        words, colour, _ = CURVES[arm]
        height = max(curve["mean"][-1], height + room)
        axes.annotate(
            words,
            (curve["updates"][-1], height),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=10.5,
            fontweight="bold",
            color=getattr(theme, colour),
            annotation_clip=False,
        )


def verifier() -> Numbers:
    """SmolLM2 under the substring verifier, rounds 4 and 5."""
    levels = [runs.ROUND_4.level, runs.ROUND_5.level]
    return {arm: _curve(levels, arm) for arm in CURVES}


def draw_verifier(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """Accuracy along training."""
    axes.set(ylim=(0, 0.85), ylabel="accuracy")
    _draw_curves(axes, theme, numbers)


def long() -> Numbers:
    """Five numbers, three times as long."""
    return {arm: _curve([runs.LONG_FIVE.level], arm) for arm in ("grpo", "denoise")}


def draw_long(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """Accuracy along training."""
    axes.set(ylim=(0, 0.85), ylabel="accuracy")
    _draw_curves(axes, theme, numbers)


# --- one mark for each level ------------------------------------------------------------------------------------------


def _draw_interval(axes: Axes, theme: Theme, height: float, found: list[float], colour: str, filled: bool) -> None:
    estimate, low, high = found
    of_theme = getattr(theme, colour)
    face = of_theme if filled else theme.paper
    axes.plot([low, high], [height, height], color=of_theme, linewidth=2, solid_capstyle="round")
    axes.plot(estimate, height, "o", color=of_theme, markerfacecolor=face, markeredgewidth=1.8, markersize=7)


def _name_rows(axes: Axes, names: list[str], left: float) -> None:
    axes.set_yticks([-row for row in range(len(names))], names, fontsize=10)
    axes.set_ylim(-len(names) + 0.4, 0.75)
    axes.grid(False, axis="y")
    axes.figure.subplots_adjust(left=left, right=0.96)


def _rounded(interval: Interval, digits: int) -> list[float]:
    return [round(end, digits) for end in (interval.estimate, interval.low, interval.high)]


def by_level() -> Numbers:
    """Share of the loss that `denoise` recovered, in percent with its interval, and whether the gain is significant."""
    corrected = holm([one.level.score("denoise").p for one in runs.TWELVE])
    numbers: Numbers = {}
    for setting, p in zip(runs.TWELVE, corrected, strict=True):
        share = setting.level.share("denoise", "clean")
        percent = [round(100 * end) for end in (share.estimate, share.low, share.high)]
        significant = bool(p < 0.05 and setting.level.score("denoise").interval.low > 0)
        numbers[setting.label] = {"percent": percent, "significant": significant}
    return numbers


def draw_by_level(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """A row for each level; hollow where the gain over GRPO is not significant."""
    axes.axvline(0, color=theme.ink, linewidth=1.2)
    axes.axvline(100, color=theme.green, linewidth=1.2)
    for row, of in enumerate(numbers.values()):
        _draw_interval(axes, theme, -row, of["percent"], "purple", of["significant"])
    axes.set(xlim=(-12, 135), xlabel="% of the loss (95%; hollow: not significant)")
    names = [label.removesuffix(" flipped").removesuffix(" reversed") for label in numbers]
    _name_rows(axes, names, 0.37)
    axes.set_ylim(-len(names) + 0.4, 1.1)
    axes.text(0, 0.62, " GRPO", fontsize=9.5, color=theme.ink)
    axes.text(100, 0.62, " true rewards", fontsize=9.5, color=theme.green)


# Dialogue's levels, whose gold utility is known, and the words of the picture for them.
GOLD = {
    runs.DIALOGUE_10: "10% reversed",
    runs.DIALOGUE_20: "20% reversed",
    runs.DIALOGUE_40: "40% reversed",
    runs.FLATTERY: "flattery rewarded",
    runs.WIDER: "wider model, 40%",
    runs.LESS_BIAS: "less biased, 40%",
}


def gold() -> Numbers:
    """What `denoise` and the oracle add to GRPO's gold utility on dialogue, with intervals."""
    levels = {one.label: one.level for one in runs.EARLIER}

    def found(setting: str, arm: str) -> list[float]:
        return _rounded(levels[setting].row(arm).gold.difference.interval, 2)

    return {words: {arm: found(label, arm) for arm in ("denoise", "oracle")} for label, words in GOLD.items()}


def draw_gold(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """Two marks in each row."""
    axes.axvline(0, color=theme.ink, linewidth=1.2)
    for row, of in enumerate(numbers.values()):
        _draw_interval(axes, theme, -row + 0.16, of["denoise"], "purple", True)
        _draw_interval(axes, theme, -row - 0.16, of["oracle"], "green", False)
    axes.set(xlabel="gold utility, minus GRPO's (95% over seeds)")
    _name_rows(axes, list(numbers), 0.27)
    axes.text(-1.15, -4, "denoise", fontsize=10.5, fontweight="bold", color=theme.purple, va="center")
    axes.text(-1.15, -4.6, "oracle (hollow)", fontsize=10.5, fontweight="bold", color=theme.green, va="center")


# --- bars -------------------------------------------------------------------------------------------------------------

# Arms where errors repeat with the answer: words and colour.
CHECKS = {
    "grpo": ("GRPO", "soft"),
    "denoise": ("denoise", "purple"),
    "majority_vote": ("majority vote", "soft"),
    "checked_majority": ("majority, 16 checks", "blue"),
    "appeals_13": ("appeals, 13 checks", "blue"),
    "appeals": ("appeals, 26 checks", "blue"),
    "clean": ("true rewards", "green"),
}


def checks() -> Numbers:
    """Final accuracy of each arm."""
    level = runs.APPEALS.level
    return {arm: round(level.final(arm), 2) for arm in CHECKS}


def draw_checks(axes: Axes, theme: Theme, numbers: Numbers) -> None:
    """A bar for each arm with its accuracy."""
    for row, (arm, accuracy) in enumerate(numbers.items()):
        colour = getattr(theme, CHECKS[arm][1])
        axes.barh(-row, accuracy, height=0.7, color=colour, alpha=0.75)
        axes.text(accuracy + 0.012, -row, f"{accuracy:.2f}", va="center", fontsize=10.5, color=theme.ink)
    axes.set(xlim=(0, 0.75), xlabel="accuracy after training, mean over eight warm starts")
    _name_rows(axes, [CHECKS[arm][0] for arm in numbers], 0.31)


@dataclass(frozen=True)
class Picture:
    """A figure: its title, what it shows, and how it is drawn."""

    title: str
    numbers: Callable[[], Numbers]
    draw: Callable[[Axes, Theme, Numbers], None]


PICTURES = {
    "verifier": Picture(
        "Accuracy under a verifier that errs:\ndenoise follows the true rewards", verifier, draw_verifier
    ),
    "by_level": Picture(
        "How much of the loss denoise recovers:\na gain in six of seven settings", by_level, draw_by_level
    ),
    "checks": Picture("Errors that repeat with the answer:\na few checks help, denoise does not", checks, draw_checks),
    "gold": Picture("True utility can fall below GRPO's\nwhere the reward model is biased", gold, draw_gold),
    "long": Picture("Five numbers, three times as long:\nGRPO levels off below denoise", long, draw_long),
}


def render(name: str, theme: Theme) -> bytes:
    """A picture as SVG, letters as outlines, and behind it its numbers: the same bytes for the same results."""
    picture = PICTURES[name]
    numbers = picture.numbers()
    figure = Figure(figsize=SIZE, facecolor=theme.paper)
    FigureCanvasSVG(figure)
    figure.subplots_adjust(bottom=0.15, top=0.82)
    axes = figure.add_subplot()
    axes.set_facecolor(theme.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.soft)
    axes.tick_params(colors=theme.soft, labelcolor=theme.ink, labelsize=10)
    axes.grid(True, color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    picture.draw(axes, theme, numbers)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=theme.ink, fontsize=10)
    figure.text(0.02, 0.97, picture.title, fontsize=12.5, fontweight="bold", color=theme.ink, va="top")
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", facecolor=theme.paper, metadata={"Date": None})
    return buffer.getvalue() + f"<!-- {json.dumps(numbers)} -->\n".encode()


def main() -> None:
    """Writes every picture for light and for dark pages."""
    for name in PICTURES:
        for suffix, theme in THEMES.items():
            (FOLDER / f"{name}{suffix}.svg").write_bytes(render(name, theme))


if __name__ == "__main__":
    main()
