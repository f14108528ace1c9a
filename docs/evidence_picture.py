"""Draws docs/pictures/recovered.svg, shares of the headroom by curator: `python docs/evidence_picture.py`.

The picture ends in a comment with the numbers that it shows, by which a test knows whether it is up to date.
"""

from __future__ import annotations

import json
from pathlib import Path

from evidence_results import SETTINGS
from evidence_tables import SHOWN
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import LIGHT, Panel, Theme, render

PATH = Path(__file__).parent / "pictures" / "recovered.svg"
LOOKS = {"geoalign": ("blue", "s"), "geoalign_best_guess": ("orange", "D"), "denoise": ("purple", "o")}
# Percent of the headroom; what lies beyond ends in an arrow.
ENDS = (-110, 220)


def shares() -> dict[str, dict[str, list[float]]]:
    """Share of the headroom in percent with its interval, by curator and setting, where it was run."""
    found: dict[str, dict[str, list[float]]] = {}
    for arm in SHOWN:
        for setting in SETTINGS:
            if setting.level.has(arm):
                share = setting.level.share(arm)
                numbers = [round(100 * end) for end in (share.estimate, share.low, share.high)]
                found.setdefault(arm, {})[setting.label] = numbers
    return found


def draw(axes: Axes, theme: Theme) -> None:
    """A row for each setting, a mark with its interval for each curator."""
    axes.axvline(0, color=theme.ink, linewidth=1.2)
    axes.axvline(100, color=theme.green, linewidth=1.2, linestyle="-.")
    known = shares()
    for place, (arm, of) in enumerate(known.items()):
        name, marker = LOOKS[arm]
        colour = getattr(theme, name)
        for row, setting in enumerate(SETTINGS):
            if setting.label not in of:
                continue
            estimate, low, high = of[setting.label]
            height = -row + 0.13 * (len(known) - 1) - 0.26 * place
            label = SHOWN[arm] if setting.label == next(iter(of)) else None
            axes.plot([max(low, ENDS[0]), min(high, ENDS[1])], [height, height], color=colour, linewidth=1.8)
            axes.plot(estimate, height, marker, color=colour, markersize=5.5, linestyle="", label=label)
            for end, beyond, arrow in ((ENDS[0], low < ENDS[0], "<"), (ENDS[1], high > ENDS[1], ">")):
                if beyond:
                    axes.plot(end, height, arrow, color=colour, markersize=5.5)
    axes.set_yticks([-row for row in range(len(SETTINGS))], [setting.label for setting in SETTINGS], fontsize=8)
    axes.set(xlim=(ENDS[0] - 5, ENDS[1] + 5), ylim=(-len(SETTINGS) + 0.4, 3.1))
    axes.set_xlabel("share of the headroom, % (95% interval)")
    axes.annotate("GRPO", (0, 0.6), xytext=(-4, 0), textcoords="offset points", ha="right", fontsize=9, color=theme.ink)
    axes.annotate("oracle", (100, 0.6), xytext=(4, 0), textcoords="offset points", fontsize=9, color=theme.green)
    axes.legend(loc="upper center", fontsize=8, ncols=3, columnspacing=0.8, handletextpad=0.1)
    axes.grid(False, axis="y")
    axes.figure.subplots_adjust(left=0.42)


def picture() -> bytes:
    """The picture, and behind it its numbers."""
    panel = Panel("recovered", "What curators recovered", "", "", draw)
    return render(panel, LIGHT) + f"<!-- {json.dumps(shares())} -->\n".encode()


if __name__ == "__main__":
    PATH.write_bytes(picture())
