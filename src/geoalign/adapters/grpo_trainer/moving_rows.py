"""Moving rows of TRL's generation batch, donors of other processes too, and leaving rows out of its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor

from geoalign.errors import UnsupportedError

# Per-row tensors that travel with a rollout, and what pads their columns (None: the tokenizer's padding token).
MOVED: dict[str, float | None] = {
    "completion_ids": None,
    "completion_mask": 0,
    "tool_mask": 1,
    "old_per_token_logps": 0.0,
    "ref_per_token_logps": 0.0,
    "sampling_per_token_logps": 0.0,
    "importance_sampling_ratio": 1.0,
}
# Padded on the left.
PROMPT: dict[str, float | None] = {"prompt_ids": None, "prompt_mask": 0}
# Rows of one group share their prompt, advantages are recomputed, and the count is one number for the whole batch.
IN_PLACE = ("prompt_ids", "prompt_mask", "advantages", "num_items_in_batch")

# What makes the ratio to the old policy, and the KL term to the reference, of a row without its response at most 1.
_LEFT_OUT = {"old_per_token_logps": 0.0, "ref_per_token_logps": -1e4}


def check_batch_keys(batch: dict[str, Any]) -> None:
    """Raises UnsupportedError if the batch holds anything but single numbers that is not known to travel with a row."""
    for key, value in batch.items():
        if key in MOVED or key in IN_PLACE or value is None:
            continue
        if isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.dim() == 0):
            continue
        raise UnsupportedError(
            f"TRL batch with {key!r} (images, or a per-row key that this version of geoalign does not know): curating "
            "such rows is not supported"
        )


def leave_out(batch: dict[str, Any], kept: Bool[Tensor, " b"]) -> None:
    """Takes the rows that are not `kept` out of the loss of this process's part of the batch.

    Their log-probabilities go, too: of a response that the mask hides they have no meaning, and a ratio that overflows
    is no number after its multiplication by the mask.
    """
    batch["completion_mask"] = batch["completion_mask"] * kept[:, None]
    for key, neutral in _LEFT_OUT.items():
        if batch.get(key) is not None:
            batch[key] = batch[key].masked_fill(~kept[:, None], neutral)


def move_rows(
    batch: dict[str, Any],
    keys: Mapping[str, float | None],
    source: Int[Tensor, " b"],
    accelerator: Any,
    *,
    pad_id: int,
    crossing: bool,
) -> None:
    """Puts the content of the donors into this process's positions, in the batch itself.

    `keys`: what moves, and what pads it; `source`: the donor of each of this process's positions, counted over all
    processes; `crossing`: a donor of any process lives on another one.
    """
    first = accelerator.process_index * len(source)
    for key, fill in keys.items():
        if batch.get(key) is None:
            continue
        rows = batch[key]
        if not crossing:
            batch[key] = rows[source - first]
            continue
        rows = accelerator.pad_across_processes(
            rows, dim=1, pad_index=pad_id if fill is None else fill, pad_first=key in PROMPT
        )
        batch[key] = accelerator.gather(rows.contiguous())[source]


# "rows": a mean over the rows of the batch. A dropped row's mask is zero, so it adds nothing, but the mean still
# divides by it: the loss is scaled by B / kept. "tokens": a sum over `num_items_in_batch`, which is counted again
# without the dropped rows. Not "bnpo": it divides each micro-batch by its own tokens, so that one of which all rows are
# dropped counts as much as the others, and a row that stays alone in its own as much as many.
LOSS_NORMALISERS = {
    **dict.fromkeys(("grpo", "sapo", "luspo", "dr_grpo"), "rows"),
    **dict.fromkeys(("dapo", "cispo", "vespo"), "tokens"),
}


def dropping_scale(trainer: Any, *, rows: int, kept: int) -> float:
    """The factor on the loss that makes its gradient that of the `kept` of `rows` rows alone, where there is one."""
    normaliser = LOSS_NORMALISERS.get(trainer.loss_type)
    if normaliser is None:
        raise UnsupportedError(
            f"dropping rows with loss_type={trainer.loss_type!r}: expected one of {', '.join(LOSS_NORMALISERS)}, which "
            "can leave rows out, or a curator that replaces or weighs rows"
        )
    if getattr(trainer, "aux_loss_enabled", False):
        raise UnsupportedError("dropping rows with a router auxiliary loss: it counts the prompts of dropped rows")
    if normaliser != "rows":
        return 1.0
    if getattr(trainer, "_entropy_bonus_enabled", False):
        raise UnsupportedError(
            f"dropping rows with an entropy bonus and loss_type={trainer.loss_type!r}: the loss is a mean over rows "
            "and the bonus one over tokens, so no factor serves both; use loss_type='dapo'"
        )
    return rows / max(kept, 1)
