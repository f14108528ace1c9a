"""The figures of an audit's page: the scores of wrong rewards where they are known, and what GeoAlign measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geoalign.audit.results import AuditReport
from geoalign.files.json_files import float_or_nan
from geoalign.files.rollout_step import Density, RolloutStep
from geoalign.pages.documents import Drawn, first_middle_last
from geoalign.pages.score_panels import cosine_panel, density_panel, rank_curves, rank_panel


def audit_sections(report: AuditReport) -> list[tuple[str, str, list[Drawn]]]:
    """The sections of figures: name, heading, and panels. A section without panels is left out of the page."""
    steps = steps_of(report)
    curves = rank_curves(steps)
    scores: list[Drawn] = [*_densities(report, steps)]
    if any(curve.flipped.any() for curve in curves):
        scores.append(rank_panel(curves))
    return [
        ("scores", "Scores, and where the threshold lies", scores),
        ("directions", "Directions before and after the projector", _directions(report)),
    ]


def steps_of(report: AuditReport) -> list[RolloutStep]:
    """The rows as the figures of a run read them: one object a step, with numbers in the input for rows."""
    assert report.folder is not None
    steps = []
    step: Any
    for step, rows in report.rows.groupby("step"):
        flip_known = rows["true_reward"].notna() & rows["reward"].notna()
        found = RolloutStep(
            step=int(step),
            path=report.folder,
            row=rows.index.to_numpy(),
            group=rows["group"].to_numpy(),
            reward=rows["reward"].to_numpy(),
            true_reward=rows["true_reward"].to_numpy(),
            flipped=(flip_known & (rows["true_reward"] != rows["reward"])).to_numpy(),
            flip_known=flip_known.to_numpy(),
            score=rows["score"].to_numpy(),
            anomalous=rows["anomalous"].to_numpy(),
            source=rows["source"].to_numpy(),
            weight=rows["weight"].to_numpy(),
        )
        steps.append(found)
    return steps


def _densities(report: AuditReport, steps: Sequence[RolloutStep]) -> list[Drawn]:
    """The density of the scores of the first, the middle and the last step."""
    if report.densities is None:
        return []
    rollouts = {step.step: step for step in steps}
    panels: list[Drawn] = []
    for step in first_middle_last(np.unique(report.densities["step"]).tolist()):
        rows = report.densities[report.densities["step"] == step]
        grid = rows["score"].to_numpy()
        heights = rows["density"].to_numpy()
        density = Density(
            grid=grid,
            density=heights,
            peak=float(rows["peak"].iloc[0]),
            mode=float(grid[np.argmax(heights)]),
            alpha=float_or_nan(report.curator.get("alpha")),
            threshold=float(rows["threshold"].iloc[0]),
        )
        panels.append(density_panel(step, density, rollouts.get(step)))
    return panels


def _directions(report: AuditReport) -> list[Drawn]:
    """The cosines of the last step's pairs to their prototype, before and after the projector."""
    pairs = report.pairs
    if pairs is None or pairs.empty:
        return []
    step = int(pairs["step"].max())
    last = pairs[pairs["step"] == step]
    raw = last["raw_cosine"].to_numpy()
    projected = last["projected_cosine"].to_numpy()
    if not (np.isfinite(raw).all() and np.isfinite(projected).all()):
        return []
    return [cosine_panel(step, raw, projected)]
