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
    failures = Failures()

    def plan(**columns: Any) -> tuple[list[Callable[[], Any]], Callable[[Sequence[Any]], list[float | None]]]:
        batch = _Batch(columns, row_by_row)
        calls: list[Callable[[], Any]] = [functools.partial(reward, **call) for call in batch.calls]
        return calls, functools.partial(batch.rewards, reward, failures)

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


class _Batch:
    """One of TRL's calls, as the calls that are made of it."""

    def __init__(self, columns: dict[str, Any], row_by_row: bool) -> None:
        self._columns = columns
        self._rows = len(columns["completions"])
        self._extra: dict[str, list[Any]] = {}
        self.calls = [self._row(row) for row in range(self._rows)] if row_by_row else [columns]

    def _row(self, row: int) -> dict[str, Any]:
        call = {name: [value[row]] if isinstance(value, list) else value for name, value in self._columns.items()}

        def log_extra(column: str, values: list[Any]) -> None:
            # TRL's table needs a value of every row, also of one that failed.
            self._extra.setdefault(column, [None] * self._rows)[row] = values[0]

        return {**call, "log_extra": log_extra} if "log_extra" in call else call

    def rewards(self, reward: _Reward, failures: Failures, results: Sequence[Any]) -> list[float | None]:
        """The rewards of all rows, None where their call gave an error; counts and logs those."""
        name = function_name(reward)
        rewards: list[float | None] = []
        failures.rows = []
        errors = [result for result in results if isinstance(result, Exception)]
        for call, result in zip(self.calls, results, strict=True):
            count, failed = len(call["completions"]), isinstance(result, Exception)
            values = [None] * count if failed else list(result)
            if len(values) != count:
                raise InputError(f"reward function {name!r}: expected {count} rewards, got {len(values)}")
            rewards += values
            failures.rows += [failed] * count
        failures.total += sum(failures.rows)
        for column, logged in self._extra.items():
            self._columns["log_extra"](column, logged)
        if "log_metric" in self._columns:
            self._columns["log_metric"](f"geoalign/failed_rewards/{name}", sum(failures.rows) / self._rows)
        if errors:
            said = f"{sum(failures.rows)} of {self._rows} rows without a reward, {failures.total} so far"
            warn_of_failure(reward, errors[-1], said)
        return rewards
