"""Reward functions that fail: a row without its reward is unscored, and never has the reward 0."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.failures import check_function, function_name, guarded, warn_of_failure
from geoalign.errors import InputError

_Reward = Callable[..., Any]


@dataclass
class Failures:
    """Which rows of the last call got no reward because the function failed, and how many in all calls."""

    rows: list[bool] = field(default_factory=list)
    total: int = 0


def unscored_on_failure(reward: _Reward, *, timeout: float | None = None, row_by_row: bool = False) -> _Reward:
    """A reward function for TRL that gives None where `reward` raises or takes too long, and goes on.

    TRL itself ends the training there. A None of `reward` itself keeps TRL's meaning: it does not apply to this row,
    and the other functions' rewards count. A failure is not that: in a trainer with `GeoAlignMixin` the whole row is
    unscored (NaN), in plain TRL where there is no other function. Failures are counted in
    `geoalign/failed_rewards/<name>`, a share of the rows, and logged as warnings.

    Args:
        reward: TRL's kind of function, synchronous or asynchronous (then so is the result); no model.
        timeout: seconds for one call; None: no limit. A synchronous call is left behind in a thread that cannot be
            stopped, an asynchronous one is cancelled.
        row_by_row: one call a row (asynchronous ones all at once), so that a failure costs one row and not the batch.

    Raises:
        ConfigError: `reward` is no function, or `timeout` is not positive.
        InputError: later, where `reward` returns another number of rewards than it got rows.
    """
    check_function(reward, timeout)
    name, failures = function_name(reward), Failures()

    def plan(**columns: Any) -> tuple[list[Callable[[], Any]], Callable[[Sequence[Any]], list[float | None]]]:
        count = len(columns["completions"])
        extra: dict[str, list[Any]] = {}

        def log_row(row: int, column: str, values: list[Any]) -> None:
            # TRL's table needs a value of every row, also of one that failed.
            extra.setdefault(column, [None] * count)[row] = values[0]

        def of_row(row: int) -> dict[str, Any]:
            call = {key: [value[row]] if isinstance(value, list) else value for key, value in columns.items()}
            if "log_extra" in call:
                call["log_extra"] = lambda key, values: extra.setdefault(key, [None] * count).__setitem__(
                    row, values[0]
                )
            return call

        calls = [of_row(row) for row in range(count)] if row_by_row else [columns]

        def finish(results: Sequence[Any]) -> list[float | None]:
            rewards: list[float | None] = []
            failures.rows = []
            for call, result in zip(calls, results, strict=True):
                rows, failed = len(call["completions"]), isinstance(result, Exception)
                values = [None] * rows if failed else list(result)
                if len(values) != rows:
                    raise InputError(f"reward function {name!r}: expected {rows} rewards, got {len(values)}")
                rewards += values
                failures.rows += [failed] * rows
            lost = sum(failures.rows)
            failures.total += lost
            for column, logged in extra.items():
                columns["log_extra"](column, logged)
            if "log_metric" in columns:
                columns["log_metric"](f"geoalign/failed_rewards/{name}", lost / count)
            for error in [result for result in results if isinstance(result, Exception)][-1:]:
                said = f"{lost} of {count} rows without a reward, {failures.total} so far"
                warn_of_failure(reward, error, said)
            return rewards

        return [functools.partial(reward, **call) for call in calls], finish

    wrapped = guarded(reward, plan, timeout)
    vars(wrapped)["failures"] = failures
    return wrapped


def unscore_failed(trainer: Any, rewards: Float[Tensor, "b f"]) -> Float[Tensor, "b f"]:
    """The rewards of all processes' rows with NaN in every column of a row for which a function failed."""
    noted = [reward.failures.rows for reward in trainer.reward_funcs if hasattr(reward, "failures")]
    if not noted:
        return rewards
    failed = torch.tensor(noted, device=rewards.device).any(0)
    return rewards.masked_fill(trainer.accelerator.gather(failed)[:, None], torch.nan)
