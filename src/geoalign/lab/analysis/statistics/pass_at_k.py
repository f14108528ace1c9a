"""pass@k: the chance that of k answers drawn from n at least one is right."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, fsum

from geoalign.errors import InputError


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k), the unbiased estimate from n = `samples` answers of which c = `correct` are right.

    Chen et al. 2021 (arXiv 2107.03374), Eq. 1. Computed in whole numbers and divided once, so that it is exact to the
    last bit even where it is close to 0 or 1. With fewer than k wrong answers it is 1.

    Raises:
        InputError: k or `correct` does not lie within the number of samples.
    """
    if not 1 <= k <= samples:
        raise InputError(f"k: expected 1 to {samples} (samples), got {k}")
    if not 0 <= correct <= samples:
        raise InputError(f"correct: expected 0 to {samples} (samples), got {correct}")
    draws = comb(samples, k)
    return (draws - comb(samples - correct, k)) / draws


def mean_pass_at_k(correct: Sequence[int], *, samples: int, k: int) -> float:
    """The mean of `pass_at_k` over problems with `samples` answers each.

    Args:
        correct: right answers of each problem.

    Raises:
        InputError: no problem, or numbers out of range.
    """
    if not correct:
        raise InputError("correct: expected at least one problem, got none")
    return fsum(pass_at_k(samples, count, k) for count in correct) / len(correct)


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`."""
    return [2**power for power in range(largest.bit_length()) if 2**power <= largest]
