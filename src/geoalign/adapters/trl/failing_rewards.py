"""Reward functions that fail: a row without its reward is unscored, and never has the reward 0."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.failures import check_function, guarded, warn_of_failure
from geoalign.answers.calls import function_name, reward_list


def unscored_on_failure(
    reward: Callable[..., Any], *, timeout: float | None = None, row_by_row: bool = False
) -> Callable[..., Any]:
    """A reward function for TRL that gives None where `reward` raises or takes too long, and goes on.

    TRL itself ends the training there. A None of `reward` itself keeps TRL's meaning: it does not apply to this row,
    and the other functions' rewards count. A failure is not that: in a trainer with `GeoAlignMixin` the whole row is
    unscored (NaN), in plain TRL where there is no other function. Failures are counted in
    `geoalign/failed_rewards/<name>`, a share of the rows, and logged as warnings.

    Args:
        reward: TRL's kind of function, synchronous or asynchronous (then so is the result); no model. Partials and
            objects are taken for what they call; an awaitable that a synchronous one returns is awaited. The rewards
            may be a list, tuple, generator, array or tensor.
        timeout: seconds for one call; None: no limit. A synchronous call runs in a thread, which cannot be stopped
            and where signals (math-verify's own timeouts) fail; an asynchronous one is cancelled.
        row_by_row: one call a row (asynchronous ones all at once), so that a failure costs one row and not the batch.

    Raises:
        ConfigError: `reward` is no function, or `timeout` is not positive.
        InputError: later, where `reward` returns another number of rewards than it got rows, one value for all of
            them, or what is no number.
    """
    check_function(reward, timeout)
    name = function_name(reward)
    failed: list[bool] = []  # of the rows of the last call
    logged: set[str] = set()  # columns of any call so far

    def plan(**columns: Any) -> tuple[list[Callable[[], Any]], Callable[[Sequence[Any]], list[float | None]]]:
        count = len(columns["completions"])
        extra: list[dict[str, list[Any]]] = []  # of each call; what one logs that comes too late nobody reads

        def log_rows(own: dict[str, list[Any]], column: str, values: list[Any]) -> None:
            own.setdefault(column, []).extend(values)

        def of_rows(rows: slice) -> dict[str, Any]:
            call = {key: value[rows] if isinstance(value, list) else value for key, value in columns.items()}
            extra.append({})
            return call | ({"log_extra": functools.partial(log_rows, extra[-1])} if "log_extra" in call else {})

        calls = [of_rows(slice(row, row + 1)) for row in range(count)] if row_by_row else [of_rows(slice(count))]

        def finish(results: Sequence[Any]) -> list[float | None]:
            rewards: list[float | None] = []
            failed.clear()
            for call, result in zip(calls, results, strict=True):
                rows, raised = len(call["completions"]), isinstance(result, Exception)
                rewards += [None] * rows if raised else reward_list(result, rows, by=f"reward function {name!r}")
                failed.extend([raised] * rows)
            logged.update(*map(list, extra))
            for column in sorted(logged):
                # TRL's table needs a value of every row, also of one that failed.
                given = [(own.get(column, []), len(one["completions"])) for own, one in zip(extra, calls, strict=True)]
                columns["log_extra"](column, [cell for own, rows in given for cell in (own + [None] * rows)[:rows]])
            if "log_metric" in columns:
                columns["log_metric"](f"geoalign/failed_rewards/{name}", sum(failed) / count)
            for error in [result for result in results if isinstance(result, Exception)][-1:]:
                warn_of_failure(reward, error, f"{sum(failed)} of {count} rows without a reward")
            return rewards

        return [functools.partial(reward, **call) for call in calls], finish

    wrapped = guarded(reward, plan, timeout)
    vars(wrapped)["geoalign_failed"] = failed
    return wrapped


def unscore_failed(trainer: Any, rewards: Float[Tensor, "b f"]) -> Float[Tensor, "b f"]:
    """The rewards of all processes' rows with NaN in every column of a row for which a function failed."""
    noted = [reward.geoalign_failed for reward in trainer.reward_funcs if hasattr(reward, "geoalign_failed")]
    if not noted:
        return rewards
    failed = trainer.accelerator.gather(torch.tensor(noted, device=rewards.device).any(0))
    return rewards.masked_fill(failed[:, None], torch.nan)
