"""Draws the figures of docs/evidence.md: `python docs/evidence_picture.py`.

A picture ends in a comment with the numbers that it shows, by which a test knows whether it is up to date.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evidence_results import AGAIN, ARMS, CONTROLS, FRESH, SETTINGS, level_of
from evidence_tables import SHOWN
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import LIGHT, STEP_AXIS, Panel, Theme, render

FOLDER = Path(__file__).parent / "pictures"
LOOKS = {"geoalign": ("blue", "s"), "geoalign_best_guess": ("orange", "D"), "denoise": ("purple", "o")}
# Percent of the headroom; what lies beyond ends in an arrow.
ENDS = (-110, 220)


def shares() -> dict[str, dict[str, list[float]]]:
    """Share of the headroom in percent with its interval, by curator and level, where it was run."""
    found: dict[str, dict[str, list[float]]] = {}
    for arm in SHOWN:
        for setting in SETTINGS:
            if setting.level.has(arm):
                share = setting.level.share(arm)
                numbers = [round(100 * end) for end in (share.estimate, share.low, share.high)]
                found.setdefault(arm, {})[setting.label] = numbers
    return found


def draw(axes: Axes, theme: Theme) -> None:
    """A row for each level, a mark with its interval for each curator."""
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


# The arms of the curves: words, colour and line.
CURVES = {
    "grpo": ("GRPO", "ink", "-"),
    "denoise": ("denoise", "purple", "-"),
    "oracle": ("oracle", "green", "-."),
    "clean": ("no wrong rewards", "soft", ":"),
}


def curves() -> dict[str, list[list[float]]]:
    """Updates and mean proxy reward on dialogue at 40%, by arm."""
    known = {arm: level_of("dialogue_denoise_again", "extremes_40").curve(arm) for arm in CURVES}
    return {arm: [curve.steps.tolist(), [round(value, 3) for value in curve.values]] for arm, curve in known.items()}


def draw_curves(axes: Axes, theme: Theme) -> None:
    """A line for each arm."""
    for arm, (steps, values) in curves().items():
        label, colour, line = CURVES[arm]
        axes.plot(steps, values, line, color=getattr(theme, colour), linewidth=1.8, label=label)
    axes.set(xlabel=STEP_AXIS, ylabel="proxy reward, mean over seeds", ylim=(-0.1, 3.3))
    axes.legend(loc="upper left", ncols=2)


# Levels at which parts of `denoise`, controls and rivals ran, and the words above their columns.
COMPARED = {
    "three numbers, 20% flipped": "three numbers\n20%",
    "three numbers, 40% flipped": "three numbers\n40%",
    "five numbers, 40% flipped": "five numbers\n40%",
    "dialogue, 20% reversed": "dialogue\n20%",
    "dialogue, 40% reversed": "dialogue\n40%",
}
PARTS = {
    "denoise": "denoise",
    "denoise_states": "its states alone",
    "denoise_answers": "its answers alone",
    "denoise_permuted": "its states permuted",
    "majority_vote": "majority vote",
    "rank_trim": "rank_trim",
    "tie_detector": "tie_detector",
    "pair_count": "pair_count",
    "noise_corrected": "noise_corrected",
    "grpo_slow": "GRPO, half the rate",
    "grpo_kl": "GRPO, a KL term",
    "par": "PAR",
    "mc_grpo": "MC-GRPO",
    "quantile": "quantile",
    "geoalign": "GeoAlign (paper)",
}


def parts() -> dict[str, dict[str, list[float]]]:
    """Gain over GRPO with its interval, in percent of the oracle's mean gain on the same seeds, by arm and level."""
    found: dict[str, dict[str, list[float]]] = {}
    for arm in PARTS:
        for level, label in ((one.level, one.label) for one in SETTINGS if one.label in COMPARED):
            if level.has(arm):
                gain = level.score(arm).interval
                mine, best, grpo = (level.row(one).score.values for one in (arm, "oracle", "grpo"))
                whole = sum(best[seed] - grpo[seed] for seed in mine) / len(mine)
                found.setdefault(arm, {})[label] = [
                    round(100 * end / whole) for end in (gain.estimate, gain.low, gain.high)
                ]
    return found


def draw_parts(axes: Axes, theme: Theme) -> None:
    """A row for each arm, a column for each level; what did not run is empty."""
    for row, of in enumerate(parts().values()):
        for column, label in enumerate(COMPARED):
            if label in of:
                estimate, low, high = of[label]
                colour = theme.green if low > 0 else theme.orange if high < 0 else theme.grid
                axes.barh(-row, 0.94, left=column - 0.47, height=0.86, color=colour, alpha=0.35)
                words = f"{estimate} ({low} to {high})" if max(-low, high) < 1000 else f"{estimate}"
                axes.text(column, -row, words, ha="center", va="center", fontsize=6.2)
    axes.set_yticks([-row for row in range(len(PARTS))], list(PARTS.values()), fontsize=7)
    axes.set_xticks(range(len(COMPARED)), list(COMPARED.values()), fontsize=7)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(COMPARED) - 0.5), ylim=(-len(PARTS) + 0.5, 0.5), xlabel="gain, % of the oracle's (95%)")
    axes.grid(False)
    axes.figure.subplots_adjust(left=0.24, top=0.82)


# Dialogue's levels, whose gold utility is known, and their colours and marks.
GOLD = {
    "dialogue, 10% reversed": ("soft", "v"),
    "dialogue, 20% reversed": ("blue", "s"),
    "dialogue, 40% reversed": ("orange", "o"),
    "dialogue, flattery rewarded": ("ink", "x"),
    "dialogue, wider model, 40% reversed": ("green", "D"),
    "dialogue, less bias, 40% reversed": ("purple", "^"),
}


def golds() -> dict[str, dict[str, list[float]]]:
    """What `denoise` and the oracle add to GRPO's proxy reward and gold utility, with intervals, by level."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, level in ((one.label, one.level) for one in SETTINGS if one.label in GOLD):
        for arm in ("denoise", "oracle"):
            both = level.score(arm).interval, level.row(arm).gold.difference.interval
            numbers = [round(end, 2) for one in both for end in (one.estimate, one.low, one.high)]
            found.setdefault(label, {})[arm] = numbers
    return found


def draw_golds(axes: Axes, theme: Theme) -> None:
    """A cross of intervals for each level: filled `denoise`, hollow the oracle."""
    axes.axhline(0, color=theme.ink, linewidth=1)
    for label, of in golds().items():
        name, marker = GOLD[label]
        colour = getattr(theme, name)
        for arm, (x, left, right, y, low, high) in of.items():
            axes.plot([left, right], [y, y], color=colour, linewidth=1)
            axes.plot([x, x], [low, high], color=colour, linewidth=1)
            fill, words = (colour, label) if arm == "denoise" else (theme.paper, None)
            axes.plot(x, y, marker, color=colour, markerfacecolor=fill, markersize=6, linestyle="", label=words)
    axes.set(xlabel="proxy reward, minus GRPO's", ylabel="gold utility, minus GRPO's", ylim=(-1.3, 3.2))
    axes.legend(loc="upper left", fontsize=7)


# The arms under a verifier that errs by itself, likewise.
ERRING = {
    "grpo": ("GRPO", "ink", "-"),
    "geoalign": ("GeoAlign", "blue", "-."),
    "answered": ("answered", "orange", "--"),
    "appeals": ("appeals", "green", "--"),
    "denoise": ("denoise", "purple", "-"),
    "clean": ("the truth as reward", "soft", ":"),
}


def verifier() -> dict[str, dict[str, list[list[float]]]]:
    """Updates, and accuracy by the truth of each run, by arm."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for arm in ERRING:
        runs = [run for one in (AGAIN, FRESH, ARMS, CONTROLS) for run in one.level.curves(arm) if one.level.has(arm)]
        if runs:
            values = [[round(value, 3) for value in run.values] for run in runs]
            found[arm] = {"updates": [runs[0].steps.tolist()], "accuracy": values}
    return found


def draw_verifier(axes: Axes, theme: Theme) -> None:
    """A thick line for the mean of each arm, thin ones for its runs."""
    for arm, of in verifier().items():
        label, colour, line = ERRING[arm]
        for values in of["accuracy"]:
            axes.plot(of["updates"][0], values, line, color=getattr(theme, colour), linewidth=0.7, alpha=0.5)
        mean = [sum(each) / len(each) for each in zip(*of["accuracy"], strict=True)]
        label = f"{label}, {len(of['accuracy'])} runs"
        axes.plot(of["updates"][0], mean, line, color=getattr(theme, colour), linewidth=2.2, label=label)
    axes.set(xlabel=STEP_AXIS, ylabel="accuracy by the truth", ylim=(0, 1.2), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.legend(loc="upper left", ncols=2)


@dataclass(frozen=True, eq=False)
class Drawn(Panel):
    """A panel by a function of this module."""

    by: Callable[[Axes, Theme], None]

    def draw(self, axes: Axes, theme: Theme) -> None:
        """Draws it on empty, styled axes."""
        self.by(axes, theme)


PANELS = {
    "recovered": (shares, Drawn("recovered", "What curators recovered", "", "", draw)),
    "curves": (curves, Drawn("curves", "Dialogue, 40% of the rewards reversed", "", "", draw_curves)),
    "parts": (parts, Drawn("parts", "What gains: parts, controls, rivals", "", "", draw_parts)),
    "gold": (golds, Drawn("gold", "True utility beside the reward (hollow: oracle)", "", "", draw_golds)),
    "verifier": (
        verifier,
        Drawn("verifier", "A verifier that errs by itself (arms differ in seeds)", "", "", draw_verifier),
    ),
}


def shown(name: str) -> Mapping[str, object]:
    """The numbers that a picture shows."""
    return PANELS[name][0]()


def picture(name: str) -> bytes:
    """A picture, and behind it its numbers."""
    return render(PANELS[name][1], LIGHT) + f"<!-- {json.dumps(shown(name))} -->\n".encode()


if __name__ == "__main__":
    for each in PANELS:
        (FOLDER / f"{each}.svg").write_bytes(picture(each))
