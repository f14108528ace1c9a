"""Which rewards the score mistrusts, and how the score rises over the ranks."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Bools, Floats
from geoalign.lab.store.rollouts import RolloutStep

# More points than this hide one another and swell the page; a regular subset is drawn and the caption says so.
MAX_POINTS = 2000


def reward_score_panel(steps: tuple[RolloutStep, ...], kind: str = "GDI") -> Panel | str:
    """Every scored rollout by reward and score, flagged ones apart; why not, where none has a score."""
    reward, score, flagged = _scored(steps)
    if not len(score):
        return "No rollout has a score."
    shown = _subset(flagged)
    mean = {True: reward[flagged], False: reward[~flagged]}
    words = ", ".join(
        f"mean reward of the {'flagged' if which else 'others'} {values.mean():.3g}"
        for which, values in mean.items()
        if len(values)
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for mask, colour, marker, name in (
            (~flagged & shown, theme.blue, "o", "not flagged"),
            (flagged & shown, theme.orange, "^", f"flagged: {int(flagged.sum()):,}"),
        ):
            size = 12 if marker == "o" else 22
            axes.scatter(
                reward[mask], score[mask], s=size, marker=marker, color=colour, alpha=0.6, linewidths=0, label=name
            )
        axes.set(xlabel="reward", ylabel=kind)
        axes.legend(loc="best", markerscale=1.4)

    return Panel(
        name="reward-score",
        title=f"Reward against {kind}",
        alt=f"{len(score):,} rollouts by reward and {kind}; {words or 'none of them'}.",
        caption="Flags that lie at one end of the rewards only mistrust that end as a whole: look whether it is the "
        f"minority of its groups.{_part(shown)}",
        draw=draw,
    )


def rank_panel(steps: tuple[RolloutStep, ...], kind: str = "GDI") -> Panel | str:
    """The scores of all steps in rising order, flagged ones apart; why not, where none has a score."""
    _, score, flagged = _scored(steps)
    if not len(score):
        return "No rollout has a score."
    order = np.argsort(score, kind="stable")
    score, flagged = score[order], flagged[order]
    rank = np.arange(1, len(score) + 1)
    shown = _subset(flagged)
    lowest = f", the lowest flagged score {score[flagged].min():.3g}" if flagged.any() else ""

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(rank[shown], score[shown], color=theme.blue, linewidth=2.2, label=kind)
        if flagged.any():
            axes.scatter(
                rank[flagged & shown], score[flagged & shown], s=22, marker="^", color=theme.orange, linewidths=0,
                zorder=3, label=f"flagged: {int(flagged.sum()):,}",
            )  # fmt: skip
        axes.set(xlabel=f"rank (highest {kind} right)", ylabel=kind)
        axes.legend(loc="upper left")

    return Panel(
        name="score-rank",
        title=f"{kind} by rank",
        alt=f"{kind} of {len(score):,} rollouts by rank, from {score[0]:.3g} to {score[-1]:.3g}{lowest}.",
        caption="A bend at the right end means that a few rollouts stand apart; a straight line, that flagging draws a "
        f"border where there is none.{_part(shown)}",
        draw=draw,
    )


def _scored(steps: tuple[RolloutStep, ...]) -> tuple[Floats, Floats, Bools]:
    """Reward, score and flag of the rollouts that have both, steps one after the other."""
    parts = [(step.reward, step.score, step.anomalous, step.scored & np.isfinite(step.reward)) for step in steps]
    if not parts:
        return np.empty(0), np.empty(0), np.empty(0, dtype=bool)
    reward, score, flagged = (np.concatenate([part[at][part[3]] for part in parts]) for at in range(3))
    return reward, score, flagged.astype(bool)


def _subset(flagged: Bools) -> Bools:
    """All flagged ones, up to the limit, and a regular subset of the others."""
    shown = np.zeros(len(flagged), dtype=bool)
    for mask in (flagged, ~flagged):
        rows = np.flatnonzero(mask)
        shown[rows[:: -(-len(rows) // MAX_POINTS) if len(rows) else 1]] = True
    return shown


def _part(shown: Bools) -> str:
    return "" if shown.all() else f" {int(shown.sum()):,} of {len(shown):,} points are drawn."
