"""One generation batch on its way through a curator: what TRL's trainer and ms-swift's, which is made of it, share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.adapters.placement import Placement, place
from geoalign.adapters.step import as_answers, as_floats, decision_metrics, summed_components
from geoalign.adapters.trl import logs
from geoalign.adapters.trl.distributed import curation_from_rank_0, gather_list, gather_to_rank_0
from geoalign.adapters.trl.fields import RolloutField, field_values
from geoalign.adapters.trl.states import TokenIds
from geoalign.curators.session import CurationSession
from geoalign.types import Curation, Rollouts, response_keys

_Result = TypeVar("_Result")


class TrainerRound:
    """Follows one generation batch over all processes; the methods are called on every process alike.

    Args:
        trainer: with `accelerator`, `num_generations`, `reward_weights` and `reward_func_names`.
        fields: the user's rollout fields.
    """

    def __init__(self, trainer: Any, session: CurationSession, fields: dict[str, RolloutField]) -> None:
        self._trainer = trainer
        self._session = session
        self._curator = session.curator
        self._fields = fields
        self._metrics: dict[str, float] = {}
        self._rollouts: Rollouts
        self._placement: Placement

    def _read(
        self,
        rewards: Float[Tensor, " b"],
        per_function: Float[Tensor, "b f"],
        *,
        prompts: TokenIds,
        contents: TokenIds,
        lengths: Int[Tensor, " l"],
        hidden: Callable[[], Tensor],
        logprobs: Callable[[], Tensor],
        advantages: Callable[[Tensor, Tensor], Tensor],
        unfit: list[bool] | None,
        rows: list[dict[str, Any]],
    ) -> Rollouts:
        """The batch of all processes as a curator reads it.

        Args:
            rewards: [B] of all processes' rows, NaN where unscored; so are `per_function`. The rest is this process's.
            contents: what tells one row of a group from another.
            hidden, logprobs: compute them; called where the curator requires them.
            advantages: the engine's, of rewards and groups.
            unfit: rows that are no donors; None: nothing is known against any.
            rows: as `rollout_fields` get them.
        """
        accelerator, needs = self._trainer.accelerator, self._curator.requires
        device, gather = accelerator.device, accelerator.gather
        groups = torch.arange(len(rewards), device=device) // self._trainer.num_generations
        fields: dict[str, Any] = {
            "lengths": gather(lengths.to(device)),
            "ids": [f"{self._session.calls}:{row}" for row in range(len(rewards))],
            "response_keys": gather(response_keys(contents).to(device)),
        }
        if "prompt_keys" in needs:
            fields["prompt_keys"] = gather(response_keys(prompts).to(device))
        if "hidden" in needs:
            # Only rank 0 curates: elsewhere there are none.
            fields["hidden"] = gather_to_rank_0(self._timed("hidden_seconds", hidden), accelerator)
        if "logprobs" in needs:
            fields["logprobs"] = gather(self._timed("logprob_seconds", logprobs).contiguous())
        if "advantages" in needs:
            fields["advantages"] = advantages(rewards, groups)
        if "components" in needs:
            names = self._trainer.reward_func_names
            fields["components"] = summed_components(per_function, self._trainer.reward_weights, names)
        if unfit is not None or "donor_ok" in needs:
            fields["donor_ok"] = ~gather(torch.tensor(unfit or [False] * len(contents), device=device))
        fields.update(self._user_fields(rows))
        return Rollouts(rewards=rewards, groups=groups, **fields)

    def _user_fields(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        accelerator = self._trainer.accelerator
        fields: dict[str, Any] = {}
        for name, field in self._fields.items():
            if name == "second_rewards":
                # Rank 0 curates, and asks for the rows that it chooses.
                if name in self._curator.requires:
                    fields[name] = partial(_second_rewards, field, gather_list(rows))
            elif name == "answers":
                fields[name] = gather_list(as_answers(field_values(name, field, rows)))
            else:
                values = field_values(name, field, rows)
                fields[name] = accelerator.gather(as_floats(name, values, accelerator.device))
        return fields

    def _decide(
        self, rollouts: Rollouts, *, details: bool = False, anchors: Callable[[], Rollouts | None] = lambda: None
    ) -> Curation:
        """The curation, decided on rank 0; keeps the assignment of its rows. `anchors` are asked for there."""
        accelerator = self._trainer.accelerator

        def curate() -> Curation:
            shown = anchors()
            return self._timed("seconds", lambda: self._session.curate(rollouts, details=details, anchors=shown))

        curation = curation_from_rank_0(curate, rows=len(rollouts), device=accelerator.device, accelerator=accelerator)
        self._rollouts = rollouts
        self._placement = place(curation, rollouts.groups, by=self._session.name)
        return curation

    def _count(self, name: str, rows: int) -> None:
        """Notes the sum of a number over all processes as a metric."""
        accelerator = self._trainer.accelerator
        self._metrics[name] = float(accelerator.gather(torch.tensor(rows, device=accelerator.device)).sum())

    def _log_metrics(self, curation: Curation) -> None:
        if self._trainer.accelerator.is_main_process:
            found = decision_metrics(curation, self._rollouts, self._placement, **self._metrics)
            logs.log_metrics(self._trainer, found)

    def _timed(self, name: str, run: Callable[[], _Result]) -> _Result:
        """Runs one part of the round and keeps its seconds; a GPU's work counts where it was ordered."""
        device = self._trainer.accelerator.device
        wait = torch.cuda.synchronize if device.type == "cuda" else lambda device: None
        wait(device)
        started = time.perf_counter()
        result = run()
        wait(device)
        self._metrics[name] = time.perf_counter() - started
        return result


def _second_rewards(field: RolloutField, inputs: list[dict[str, Any]], rows: Sequence[int]) -> list[float]:
    values = field_values("second_rewards", field, [inputs[row] for row in rows])
    verdicts: list[float] = as_floats("second_rewards", values, torch.device("cpu")).tolist()
    return verdicts
