"""What `geoalign bench --rollouts` measures, as it is printed and written."""

from __future__ import annotations

from dataclasses import dataclass

from geoalign.lab.analysis.statistics import Interval


@dataclass(frozen=True)
class Ordered:
    """One score or curator on one view of the rewards.

    Attributes:
        view: the rewards "as given", or as verdicts.
        batches: "one", or how many prompts a batch has.
        states: layer and position, chosen for the first half of the prompts on the second, and the reverse.
        order: of right responses over wrong ones (`geoalign.lab.analysis.order`), over the mixed groups.
        gain: the same minus that of the observed reward, paired by group.
        halves: order on either half.
        cosine: of the advantages with those of the labels; bootstrap over groups.
        auroc: of the scores for wrong verdicts, over rows in a pair; bootstrap over groups.
        precision, recall: of the flags for wrong verdicts.
        flagged: rows.
    """

    view: str
    batches: str
    score: str
    states: tuple[str, ...]
    order: Interval
    gain: Interval
    halves: tuple[float, float]
    cosine: Interval
    auroc: Interval
    precision: Interval
    recall: Interval
    flagged: int


@dataclass(frozen=True)
class Skipped:
    """A curator that a view does not suit, and why."""

    view: str
    score: str
    reason: str


@dataclass(frozen=True)
class Explored:
    """The order on either half by one layer and position, before any choice."""

    view: str
    batches: str
    score: str
    states: str
    halves: tuple[float, float]


@dataclass(frozen=True)
class Measurement:
    """All that was measured of a dump."""

    rows: list[Ordered]
    explored: list[Explored]
    skipped: list[Skipped]
