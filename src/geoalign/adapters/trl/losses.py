"""How each of TRL's losses is normalised, and what leaving rows out of a batch takes in each."""

from __future__ import annotations

from typing import Any, Literal

from geoalign.errors import UnsupportedError

# "rows": a mean over the rows of the batch. A dropped row's mask is zero, so it adds nothing, but the mean still
# divides by it: the loss is scaled by B / kept. "tokens": a sum over `num_items_in_batch`, which is counted again
# without the dropped rows. Not "bnpo": it divides each micro-batch by its own tokens, so that one of which all rows are
# dropped counts as much as the others, and a row that stays alone in its own as much as many.
LOSS_NORMALISERS: dict[str, Literal["rows", "tokens"]] = {
    "grpo": "rows",
    "sapo": "rows",
    "luspo": "rows",
    "dr_grpo": "rows",
    "dapo": "tokens",
    "cispo": "tokens",
    "vespo": "tokens",
}


def dropping_scale(trainer: Any, *, rows: int, kept: int) -> float:
    """The factor on the loss that makes its gradient that of a batch holding only the `kept` of `rows` rows.

    Raises:
        UnsupportedError: a loss type, or an extra term in the loss, for which no such factor exists.
    """
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
