"""Figures of numbers and names that no run should have: each is drawn, or a sentence says why not."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from geoalign.files.rollout_step import Density, RolloutStep
from geoalign.lab.runs.curves import evaluation_panels, reward_panel
from geoalign.lab.runs.numbers import numbers_of
from geoalign.lab.runs.reading import Evaluation, MetricRow, Run
from geoalign.lab.train.page import figure_sections
from geoalign.pages.score_panels import cosine_panel, density_panel
from geoalign.pages.style import LIGHT, render

NAN, TOP = float("nan"), 1e100
COLUMNS = {
    "none": [], "one": [0.5], "nan": [NAN] * 6, "largest": [TOP, -TOP, TOP, -TOP],
    "smallest": [5e-324, -5e-324, 0.0, 5e-324], "far apart": [1e-300, TOP, 0.0, -1.0],
}  # fmt: skip
NAMES = [
    "$x", r"$\frac{1}{0}$", "_hidden", "a" * 5000, "\U0001f600", "\u202eabc", "\x00", "{x}^_%#&~", "\ud800",
]  # fmt: skip


def run_of(values, names=("test",)):
    values = np.array(values, dtype=float)
    rows = np.arange(len(values))
    step = RolloutStep(
        step=1,
        path=Path("none"),
        row=rows,
        group=rows % 2,
        reward=values,
        true_reward=values[::-1].copy(),
        flipped=rows % 3 == 0,
        flip_known=np.ones(len(rows), dtype=bool),
        score=values,
        anomalous=rows % 2 == 1,
        source=rows[::-1].copy(),
        weight=np.ones(len(rows)),
    )
    keys = (
        "reward", "ppo_kl", "clip_ratio/region_mean", "geoalign/new_group_accuracy", "geoalign/train_accuracy",
        "geoalign/new_group_accuracy_low", "geoalign/new_group_accuracy_high", "geoalign/replaced",
    )  # fmt: skip
    metrics = [MetricRow("rl", at, dict.fromkeys(keys, float(value))) for at, value in enumerate(values)]
    evaluations = []
    for name in names:
        evaluations += [
            Evaluation(at, "rl", name, NAN, None, 3, float(value), float(value)) for at, value in enumerate(values)
        ]
    for name in names:
        evaluations += [Evaluation(at, "rl", f"{name}2", 0.5, 2, 4) for at in range(len(values))]
    config = {"curator": {"type": "geoalign"}}
    return Run(Path("none"), config, "", {}, tuple(metrics), (step,), {}, tuple(evaluations), True)


def drawn(panels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for panel in panels:
            if not isinstance(panel, str):
                assert render(panel, LIGHT).startswith(b"<?xml")


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_any_numbers_are_drawn(values):
    run = run_of(values)
    numbers = numbers_of(run)
    drawn([reward_panel(numbers), *evaluation_panels(numbers)])
    drawn(panel for _, _, panels in figure_sections(run, numbers) for panel in panels)
    if len(values):
        scores = np.array(values, dtype=float)
        density = Density(scores, scores[::-1].copy(), *[values[0]] * 4)
        drawn([density_panel(1, density, run.rollouts[0])])
        cosines = np.nan_to_num(scores)  # the readers refuse others
        drawn([cosine_panel(1, cosines, cosines)])


def test_any_names_are_drawn_and_stand_in_the_legend():
    for names in (NAMES[:4], NAMES[4:]):
        panels = evaluation_panels(numbers_of(run_of([0.5, 1.0], names)))
        axes = Figure().add_subplot()
        drawn(panels)
        panels[-1].draw(axes, LIGHT)
        assert len(axes.get_legend().get_texts()) == len(names)
