"""Draws that belong to a rollout's slot: the same in every arm of a comparison, on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def corruption_mask(
    *, seed: int, step: int, prompt_ids: Sequence[str], sample_indices: Sequence[int], rate: float, purpose: str = ""
) -> list[bool]:
    """Which rollouts are corrupted: an independent draw for each, True with probability `rate`.

    A pure function of (seed, step, prompt id, sample index): no generator, so that the model, the curator, the order of
    the rows and the number of processes change nothing. A larger rate takes all that a smaller one does, and more.
    Draws of another `purpose` are independent of these.
    """
    return [
        uniform(seed=seed, step=step, prompt_id=prompt_id, sample=sample, purpose=purpose) < rate
        for prompt_id, sample in zip(prompt_ids, sample_indices, strict=True)
    ]


def fixed_share_mask(
    *, seed: int, step: int, prompt_ids: Sequence[str], sample_indices: Sequence[int], rate: float, group_size: int
) -> list[bool]:
    """Which rollouts are corrupted where every prompt's share is fixed: `rate` x `group_size` of its rollouts.

    Of a prompt's slots those with the smallest draws are taken, floor(rate K + u) of K, where u is a draw of the
    prompt's: a share that is no whole number is met on average over the prompts. A function of the slot alone, and a
    larger rate takes all that a smaller one does, as in `corruption_mask`.
    """
    taken: dict[str, set[int]] = {}
    for prompt in dict.fromkeys(prompt_ids):
        draws = [uniform(seed=seed, step=step, prompt_id=prompt, sample=sample) for sample in range(group_size)]
        lot = uniform(seed=seed, step=step, prompt_id=prompt, sample=0, purpose="share/")
        # Products such as 0.1 x 30 fall short of whole numbers by rounding alone.
        count = int(rate * group_size + lot + 1e-9)
        taken[prompt] = set(sorted(range(group_size), key=draws.__getitem__)[:count])
    return [sample in taken[prompt] for prompt, sample in zip(prompt_ids, sample_indices, strict=True)]


def uniform(*, seed: int, step: int, prompt_id: str, sample: int, purpose: str = "") -> float:
    """A number in [0, 1) from a hash of its arguments."""
    # The purpose and the numbers come first, so that no two different slots are written alike; "surrogatepass": ids are
    # any text.
    slot = f"{purpose}{seed}/{step}/{sample}/{prompt_id}".encode("utf-8", errors="surrogatepass")
    return int.from_bytes(blake2b(slot, digest_size=8).digest(), "big") / 2**64
