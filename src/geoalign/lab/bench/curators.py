"""What curators make of rewards some of which are wrong: how close their advantages come to those of the true ones.

A curator sees the batches of one kind in order, as in a training, with its state carried from each to the next. The
first `WARM_UP` batches count for nothing, so that methods that learn from earlier batches have some.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.curators.registry import CURATORS, CuratorSettings, make_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.lab.analysis.detection import Ranking, Tally, ranking, rows_that_count, tally
from geoalign.lab.analysis.statistics import Interval, mean_interval
from geoalign.lab.bench.batches import PlantedBatch
from geoalign.shown import shown
from geoalign.types import Curation

WARM_UP = 3
PAPER = "paper"
_PAPER: dict[str, Any] = {"type": "geoalign", PAPER: True}
_MENDED: dict[str, Any] = {
    **_PAPER,
    "scoring": "cross_fit",
    "signed": True,
    "identical": "contradict",
}
# Label -> settings, `type` included; "paper" stands for the paper's settings for the rewards at hand.
CURATOR_SETTINGS: dict[str, dict[str, Any]] = {
    "grpo": {"type": "grpo"},
    "geoalign, paper's": _PAPER,
    "denoise": {"type": "denoise"},
    "denoise, no geometry": {"type": "denoise", "geometry": "none"},
    "denoise, permuted": {"type": "denoise", "geometry": "permuted"},
    "pair count": {"type": "pair_count"},
    "reward distance": {"type": "reward_distance"},
    "oracle": {"type": "oracle"},
    "geoalign, signed": {**_PAPER, "scoring": "cross_fit", "signed": True},
    "geoalign, contradict": {**_PAPER, "identical": "contradict"},
    "geoalign, mended": _MENDED,
}


@dataclass(frozen=True)
class Curated:
    """One curator on the batches of one kind.

    Attributes:
        advantage_cosine: with the advantages of the true rewards, mean over batches with its 95% interval.
        observed_advantage_cosine: the same of the rewards as they came.
        auroc: of the scores for corrupted rewards, over rows in a pair; NaN without scores.
        precision, recall: of the anomalous rows, over all batches together; NaN where undefined.
        seconds: per batch.
        batches: those that count.
    """

    batch: str
    curator: str
    advantage_cosine: Interval
    observed_advantage_cosine: Interval
    auroc: Interval
    precision: float
    recall: float
    seconds: float
    batches: int


def parse_curators(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings by label: a label of `CURATOR_SETTINGS`, a curator's name, or settings as JSON with their `type`.

    Raises:
        ConfigError: none of these.
    """
    return {text: _parsed(text) for text in texts} or CURATOR_SETTINGS


def _parsed(text: str) -> dict[str, Any]:
    if text in CURATOR_SETTINGS:
        return CURATOR_SETTINGS[text]
    if not text.lstrip().startswith("{"):
        return {"type": _known(text)}
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"--curator: expected settings as JSON, got {shown(text)} ({error})") from error
    if "type" not in values:
        raise ConfigError(f"--curator: expected the key type, got {shown(text)}")
    settings_of({**values, "type": _known(values["type"])}, torch.zeros(0))
    return dict(values)


def _known(name: Any) -> str:
    if not isinstance(name, str) or name not in CURATORS:
        labels = ", ".join([*CURATOR_SETTINGS, *CURATORS])
        raise ConfigError(f"--curator: expected JSON or one of {labels}; got {shown(name)}")
    return name


def settings_of(values: Mapping[str, Any], rewards: Tensor) -> CuratorSettings:
    """The settings of a curator; with `paper`, GeoAlign's for verified answers or for other rewards."""
    rest = {name: value for name, value in values.items() if name not in ("type", PAPER)}
    if values.get(PAPER):
        binary = len(rewards[~rewards.isnan()].unique()) <= 2
        return GeoAlignConfig.preset("paper", task="math" if binary else "dialogue", **rest)
    config: CuratorSettings = CURATORS[values["type"]].config_class(**rest)
    return config


def measure_curators(
    kinds: Iterable[tuple[str, list[PlantedBatch]]],
    settings: Mapping[str, Mapping[str, Any]],
    progress: Callable[[str], None] | None = None,
) -> list[Curated]:
    """Every curator on every kind of batch; kinds whose true rewards are not all known are left out.

    Raises:
        InputError: the batches lack a field that a curator requires.
    """
    rows = []
    for name, batches in kinds:
        if any(batch.rollouts.true_rewards is None for batch in batches):
            continue
        for label, values in settings.items():
            if progress is not None:
                progress(f"{name}, {label}")
            rows.append(curate_in_order(name, label, settings_of(values, batches[0].rollouts.rewards), batches))
    return rows


def curate_in_order(name: str, label: str, config: CuratorSettings, batches: Sequence[PlantedBatch]) -> Curated:
    """One curator on batches in their order; of the first `WARM_UP` it only learns."""
    session = CurationSession(make_curator(config), seed=0)
    missing = [field for field in session.curator.requires if getattr(batches[0].rollouts, field) is None]
    if missing:
        raise InputError(f"--curator {label}: expected batches with {', '.join(missing)}, got none in {name}")
    cosines, observed, rankings, seconds, counts = [], [], [], [], Tally()
    for number, batch in enumerate(batches):
        started = time.perf_counter()
        curation = session.curate(batch.rollouts)
        if number < WARM_UP:
            continue
        seconds.append(time.perf_counter() - started)
        cosines.append(curation.metrics["advantage_cosine"])
        observed.append(curation.metrics["observed_advantage_cosine"])
        ranked, counted = _detected(batch, curation)
        rankings.append(ranked)
        counts += counted
    return Curated(
        name,
        label,
        mean_interval(np.asarray(cosines)),
        mean_interval(np.asarray(observed)),
        mean_interval(np.asarray([each.auroc for each in rankings])),
        counts.precision,
        counts.recall,
        float(np.mean(seconds)) if seconds else float("nan"),
        len(cosines),
    )


def _detected(batch: PlantedBatch, curation: Curation) -> tuple[Ranking, Tally]:
    rewards, groups = batch.rollouts.rewards.numpy(), batch.rollouts.groups.numpy()
    corrupted, known = batch.corrupted.numpy(), np.ones(len(rewards), dtype=bool)
    counting = rows_that_count(rewards, groups, known)
    counted = tally(curation.anomalous.numpy(), corrupted, counting, known)
    return ranking(curation.scores.numpy(), corrupted, counting), counted
