"""How well an arm's scores and the controls rank corrupted rewards, over its seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from geoalign.lab.analysis.comparison.table import Detection, DetectionRow
from geoalign.lab.analysis.statistics import Interval, paired_difference, seed_interval
from geoalign.lab.store.comparison_results import Cell

OWN_SCORE = "score"
# The pair count as a score, and turned round: the control is whichever ranks better.
PAIR_COUNT_SCORES = ("pair_count", "fewest_pairs")


def detection(cells: Sequence[Cell]) -> Detection | None:
    """Detection over the seeds; None where no seed holds a score's AUROC."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.detection))
    areas = {name: {cell.seed: _quality(cell, name)[0] for cell in cells} for name in names}
    if not any(not math.isnan(value) for column in areas.values() for value in column.values()):
        return None
    rows = tuple(
        DetectionRow(
            score=name,
            auroc=_share_interval(list(areas[name].values())),
            auprc=_share_interval([_quality(cell, name)[1] for cell in cells]),
            seeds=sum(not math.isnan(value) for value in areas[name].values()),
        )
        for name in names
    )
    controls = [row for row in rows if row.score in PAIR_COUNT_SCORES and not math.isnan(row.auroc.estimate)]
    control = max(controls, key=lambda row: row.auroc.estimate).score if controls else ""
    return Detection(
        rows=rows,
        precision=_share_interval([cell.replaced_precision for cell in cells]),
        base_rate=_share_interval([cell.base_rate for cell in cells]),
        control=control,
        gain=paired_difference(areas.get(OWN_SCORE, {}), areas.get(control, {})),
    )


def _share_interval(values: Sequence[float]) -> Interval:
    """The interval over seeds of what lies between 0 and 1, cut to that."""
    found = seed_interval(values)
    return Interval(found.estimate, *(float(np.clip(end, 0, 1)) for end in (found.low, found.high)))


def _quality(cell: Cell, name: str) -> tuple[float, float]:
    found = cell.detection.get(name)
    return (found.auroc, found.auprc) if found else (math.nan, math.nan)
