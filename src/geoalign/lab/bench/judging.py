"""What a curator makes of a dump: with what each row is trained, how suspicious it is, whether it was flagged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.denoise.ridge import fold_predictions, group_centred
from geoalign.curators.denoise.rows import FOLDS
from geoalign.curators.registry import make_curator
from geoalign.curators.session import CurationSession
from geoalign.lab.bench.curators import settings_of
from geoalign.lab.bench.labelled import LabelledRollouts
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys

# Settings with this key get the states of all layers and positions side by side.
ALL_STATES = "all_states"


@dataclass(frozen=True, eq=False)
class Judged:
    """What became of B rows.

    Attributes:
        advantages: [B] the sum over the output rows that hold a row: 0 where it was replaced or left out. Denoised
            rewards and rewards as they came keep their order inside a group.
        scores: [B] suspicion; NaN where unscored.
        flagged: [B] whether the row was found anomalous.
    """

    advantages: Float[np.ndarray, " b"]
    scores: Float[np.ndarray, " b"]
    flagged: Bool[np.ndarray, " b"]


def by_score(scores: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"]) -> Judged:
    """A score in the reward's place, which flags nothing."""
    advantages = group_advantages(torch.from_numpy(scores), torch.from_numpy(groups)).numpy()
    return Judged(advantages, np.full(len(scores), np.nan), np.zeros(len(scores), dtype=bool))


def by_prediction(
    hidden: Float[Tensor, "b d"],
    rewards: Float[np.ndarray, " b"],
    groups: Int[np.ndarray, " b"],
    *,
    share: float,
) -> Judged:
    """share x prediction + (1 - share) x reward, both standardised inside groups: states without a model of the noise.

    The prediction is that of a ridge regression of the rewards on the states, of each fifth of the groups by the others
    (`geoalign.curators.denoise.ridge.fold_predictions`, which `denoise` begins with).
    """
    group = torch.from_numpy(groups)
    targets = group_advantages(torch.from_numpy(rewards), group)
    states = group_centred(hidden, group)
    predicted = fold_predictions(states, targets[:, None], targets != 0, group % FOLDS)[0, :, 0]
    standardised = group_advantages(predicted.double(), group)
    return by_score((share * standardised + (1 - share) * targets).numpy(), groups)


def by_curator(
    values: Mapping[str, Any],
    dump: LabelledRollouts,
    rewards: Float[np.ndarray, " b"],
    hidden: Float[Tensor, "b d"] | None,
    *,
    states: int,
    batch_groups: int | None,
) -> Judged:
    """A curator on a dump: all of it as one batch, or `batch_groups` prompts at a time in the order of the file.

    Args:
        values: its settings, as `geoalign.lab.bench.curators` has them.
        hidden: [B, d] the states; of several side by side their number is `states`.

    Raises:
        InputError: the dump lacks what the curator needs, or has rewards that it does not take.
    """
    rest = {name: value for name, value in values.items() if name != ALL_STATES}
    wide = {"states": states} if values.get(ALL_STATES) else {}
    config = settings_of({**rest, **wide}, torch.from_numpy(rewards))
    session = CurationSession(make_curator(config), seed=0)
    whole = Rollouts(
        rewards=torch.from_numpy(rewards),
        groups=torch.from_numpy(dump.groups),
        hidden=hidden,
        true_rewards=torch.from_numpy(dump.correct.astype(np.float64)),
        answers=None if dump.answers is None else list(dump.answers),
        response_keys=response_keys(dump.responses),
    )
    whole.require(*session.curator.requires, by=str(values["type"]))
    rows = len(rewards)
    judged = Judged(np.zeros(rows), np.full(rows, np.nan), np.zeros(rows, dtype=bool))
    for index in _batches(dump.groups, batch_groups):
        batch = whole.take(torch.from_numpy(index))
        curation = session.curate(batch)
        given = curation.advantages
        if given is None:
            given = group_advantages(curation.rewards, batch.groups[curation.source])
        given = (given * curation.weights).nan_to_num(0.0).double()
        taken = torch.zeros(len(index), dtype=torch.float64).index_add_(0, curation.source, given)
        judged.advantages[index] = taken.numpy()
        judged.scores[index] = curation.scores.numpy()
        judged.flagged[index] = curation.anomalous.numpy()
    return judged


def needs_states(values: Mapping[str, Any]) -> bool:
    """Whether a curator of these settings reads hidden states."""
    rest = {name: value for name, value in values.items() if name != ALL_STATES}
    config = settings_of(rest, torch.tensor([0.0, 1.0]))
    return "hidden" in make_curator(config).requires


def _batches(groups: Int[np.ndarray, " b"], size: int | None) -> list[Int[np.ndarray, " n"]]:
    if size is None:
        return [np.arange(len(groups))]
    return [np.flatnonzero(groups // size == number) for number in range(int(groups.max()) // size + 1)]
