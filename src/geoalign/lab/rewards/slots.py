"""Draws that belong to a rollout's slot: the same in every arm of a comparison, on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from geoalign.errors import InputError


def corruption_mask(
    *,
    seed: int,
    step: int,
    prompt_ids: Sequence[str],
    sample_indices: Sequence[int],
    rate: float,
    purpose: str = "",
) -> list[bool]:
    """Which rollouts are corrupted: an independent draw for each, True with probability `rate`.

    A pure function of (seed, step, prompt id, sample index): no generator, so that the model, the curator, the order of
    the rows and the number of processes change nothing. A larger rate takes all that a smaller one does, and more.

    Args:
        purpose: draws of another purpose are independent of these; "" for flips and extremes, which share theirs.

    Raises:
        InputError: `rate` is outside [0, 1], or the lengths differ.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate: expected a share between 0 and 1, got {rate}")
    if len(prompt_ids) != len(sample_indices):
        raise InputError(f"sample_indices: expected {len(prompt_ids)} as prompt_ids, got {len(sample_indices)}")
    return [
        uniform(seed=seed, step=step, prompt_id=prompt_id, sample=sample, purpose=purpose) < rate
        for prompt_id, sample in zip(prompt_ids, sample_indices, strict=True)
    ]


def uniform(*, seed: int, step: int, prompt_id: str, sample: int, purpose: str = "") -> float:
    """A number in [0, 1) from a hash of its arguments."""
    # The purpose and the numbers come first, so that no two different slots are written alike; "surrogatepass": ids are
    # any text.
    slot = f"{purpose}{seed}/{step}/{sample}/{prompt_id}".encode("utf-8", errors="surrogatepass")
    return int.from_bytes(blake2b(slot, digest_size=8).digest(), "big") / 2**64
