"""A batch curated for a conversion of one's own, which slime calls in place of its own and of the hook for rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from geoalign.adapters.slime.hooks import run_of
from geoalign.adapters.slime.samples import rollout_rows
from geoalign.errors import InputError

Conversion = Callable[[Any, list[Any]], dict[str, Any]]


def curated_conversion(convert: Conversion) -> Conversion:
    """`--custom-convert-samples-to-train-data-path`: `convert` of the curated samples, with their advantages.

    The engine gives `(args, samples)`, samples in a flat list, and trains on the dict that comes back
    (`slime/ray/rollout.py` of 0.2.2 to 0.3.1, `miles/ray/rollout/train_data_conversion.py` of 0.1.0,
    `vime/data/batch_builder.py`). `rewards` and `raw_reward` of that dict become what `post_process_rewards` returns
    for the samples of its rows; everything else is the conversion's. A conversion with advantages of its own is not
    for this: it calls `post_process_rewards(args, samples)` and goes on from there.

    Raises:
        ConfigError, UnsupportedError, InputError: as `post_process_rewards`.
        ConfigError: the conversion curates, too.
        InputError: a row is of no sample, or a dropped sample stays in the loss.
    """

    @wraps(convert)
    def curated(args: Any, samples: list[Any]) -> dict[str, Any]:
        run = run_of(args)
        removed = {id(sample) for sample in samples if sample.remove_sample}
        raw, advantages = run.curate(samples)
        run.converting = True
        try:
            data = convert(args, samples)
        finally:
            run.converting = False
        rows = sample_rows(data, samples)
        dropped = {row for row, one in enumerate(samples) if one.remove_sample and id(one) not in removed}
        _check_masks(data, samples, rows, dropped)
        return {**data, "rewards": [advantages[row] for row in rows], "raw_reward": [raw[row] for row in rows]}

    return curated


def sample_rows(data: Mapping[str, Any], samples: Sequence[Any]) -> list[int]:
    """The position of the sample of each row of the training data.

    Rows are the samples, in their order, or those that `sample_indices` names: some may be left out, or be several
    rows. Where samples of one rollout share an index, the position is that of the rollout's first.

    Raises:
        InputError: a row's index is that of no sample or of several rollouts, or a list has another length.
    """
    own = [sample.index for sample in samples]
    named = list(data.get("sample_indices", own))
    rows = list(range(len(own))) if named == own else _named_rows(named, own, rollout_rows(samples))
    for name in ("tokens", "loss_masks"):
        if len(data.get(name, ())) != len(rows):
            raise InputError(
                f"{name} of the converted samples: expected {len(rows)}, as sample_indices or the samples, got "
                f"{len(data.get(name, ()))}"
            )
    return rows


def _named_rows(named: Sequence[Any], own: Sequence[Any], rollouts: Sequence[Sequence[int]]) -> list[int]:
    firsts: dict[Any, set[int]] = {}
    for members in rollouts:
        for row in members:
            firsts.setdefault(own[row], set()).add(members[0])
    for index in named:
        if len(firsts.get(index, ())) != 1:
            raise InputError(
                f"sample_indices of the converted samples: expected Sample.index of one rollout, got {index}, which "
                f"{len(firsts.get(index, ()))} have"
            )
    return [min(firsts[index]) for index in named]


def _check_masks(data: Mapping[str, Any], samples: Sequence[Any], rows: Sequence[int], dropped: set[int]) -> None:
    for row, mask in zip(rows, data["loss_masks"], strict=True):
        if row in dropped and any(mask):
            raise InputError(
                f"loss_masks of the converted samples: expected zeros for sample {samples[row].index}, which is "
                f"dropped (Sample.remove_sample), got {sum(map(bool, mask))} tokens in the loss"
            )
