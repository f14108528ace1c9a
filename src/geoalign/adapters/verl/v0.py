"""verl's older `RayPPOTrainer` (`trainer.use_v1=false`): one call on its batch, before its advantages."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.placement import place
from geoalign.curators.base import Curator
from geoalign.errors import InputError, UnsupportedError
from geoalign.types import Rollouts, response_keys


def curate_dataproto(
    data: Any,
    curator: Curator,
    *,
    hidden: Float[Tensor, "b d"] | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Any, dict[str, float]]:
    """Curates the rows of a `verl.DataProto` by verl's own `select_idxs`, which copies every field of a row.

    Call it in a subclass of `RayPPOTrainer` after the rewards and before `compute_advantage`:

        batch, curated = curate_dataproto(batch, self.curator, hidden=states, generator=self.generator)
        metrics.update(curated)

    Args:
        data: with `uid` per row, and `token_level_scores` (or `token_level_rewards`), `responses`, `response_mask`.
        curator: one that replaces rows or leaves them; row counts, weights and advantages are not carried here.
        hidden: [b, d] hidden states, if the curator requires them; V0 returns none (`geoalign.hidden.batched_states`).
        generator: of the curator's draws.

    Returns:
        the curated data (the same object where nothing changed), and its metrics as `geoalign/<name>`.

    Raises:
        InputError: `data` lacks a field.
        UnsupportedError: the curation drops, weighs or shapes rows, gives advantages, or crosses groups.
    """
    scores = next(
        (data.batch[name] for name in ("token_level_scores", "token_level_rewards") if name in data.batch), None
    )
    if scores is None or "uid" not in data.non_tensor_batch:
        raise InputError(
            "data: expected a DataProto with uid and token_level_scores, as RayPPOTrainer has after its rewards, got "
            f"{sorted(data.batch.keys())} and {sorted(data.non_tensor_batch)}"
        )
    numbers: dict[str, int] = {}
    groups = torch.tensor([numbers.setdefault(str(uid), len(numbers)) for uid in data.non_tensor_batch["uid"]])
    keys = response_keys(data.batch["responses"].tolist()) if "responses" in data.batch else None
    rollouts = Rollouts(rewards=scores.float().sum(-1), groups=groups, hidden=hidden, response_keys=keys)
    curation = curator.curate(rollouts, generator=generator)
    name = type(curator).__name__
    placement = place(curation, groups, by=name)
    moved = rollouts.rewards[placement.source]
    if placement.dropped or placement.advantages is not None or bool((placement.weights != 1).any()):
        raise UnsupportedError(
            f"{name} drops or weighs rows: expected replacement only with V0; set trainer.use_v1=true"
        )
    if not torch.equal(placement.rewards, moved):
        raise UnsupportedError(f"{name} shapes rewards: expected replacement only with V0; set trainer.use_v1=true")
    metrics = {f"geoalign/{key}": value for key, value in curation.metrics.items() if value == value}
    metrics["geoalign/replaced_rows"] = float(placement.replaced.sum())
    return (data.select_idxs(placement.source) if bool(placement.replaced.any()) else data), metrics
