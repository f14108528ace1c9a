"""A batch of Trinity's on its way through a curator: what the operator and the advantage function share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from geoalign.adapters.decision import Decision, decide, make_session, metrics_to_log
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import HIDDEN, TrinitySettings, read_section
from geoalign.adapters.trinity.experiences import check_experiences, read_rollouts, verifier_rows
from geoalign.adapters.trinity.states import PublishedWeights, StateModel, take_given_states
from geoalign.errors import InputError


class CurationRun:
    """Curates one batch after another; `arguments` are those of the operator, `weights`: where published ones are."""

    def __init__(self, arguments: Mapping[str, Any], weights: PublishedWeights | None = None) -> None:
        self.settings = read_section(TrinitySettings, arguments, engine="Trinity")
        how = "rollout_fields.{need}: <entry of Experience.info>"
        self.session = make_session(self.settings, how=how)
        enlarge = "raise buffer.batch_size {:.2g}-fold".format
        self.session.remedies = replace(self.session.remedies, enlarge=enlarge)
        # Trinity itself leaves nothing of a task but its number in an experience.
        self._second_verifier = verifier_of_settings(self.settings, self.session, gold=("truth",))
        self._weights = weights or PublishedWeights()
        self._model: StateModel | None = None
        # Trinity may finish two batches at once; a curator takes them one at a time.
        self._turn = asyncio.Lock()

    async def prepare(self) -> None:
        """Loads the model, where one computes the states, and the state of an earlier run."""
        if "hidden" in self.session.curator.requires and self.settings.model_path is not None:
            self._model = await asyncio.to_thread(StateModel, self.settings)
        path = self.settings.state_file
        if path is not None and Path(path).is_file():
            self.session.load(path, setting="state_file", otherwise="give the curator of that run, or another file")

    async def decide(self, experiences: Sequence[Any]) -> Decision:
        """Curates one batch; the event loop of Trinity's actor goes on meanwhile."""
        async with self._turn:
            check_experiences(experiences)
            hidden, seconds, states = await self._hidden(experiences)
            rollouts = read_rollouts(
                experiences,
                reads=self.session.curator.reads,
                hidden=hidden,
                rollout_fields=self.settings.rollout_fields,
                components=self.session.curator.components,
            )
            if self._second_verifier is not None:
                verifier = self._second_verifier.field(lambda asked: verifier_rows(experiences, asked))
                rollouts = replace(rollouts, second_rewards=verifier)
            decision = await asyncio.to_thread(decide, self.session, rollouts)
            if path := self.settings.state_file:
                await asyncio.to_thread(self.session.save, path)
        return replace(decision, metrics={**decision.metrics, **states, "hidden_seconds": seconds})

    def metrics_to_log(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """What Trinity logs of these metrics, by the settings."""
        return metrics_to_log(metrics, self.session.curator, self.settings.log_metrics)

    async def _hidden(self, experiences: Sequence[Any]) -> tuple[Tensor | None, float, dict[str, float]]:
        """The states, the seconds that they took, and how old their weights are."""
        given = take_given_states(experiences)
        if "hidden" not in self.session.curator.requires or given is not None:
            return given, 0.0, {}
        if self._model is None:
            raise InputError(
                f"{self.session.name} needs hidden states: expected {HIDDEN!r} in Experience.info or model_path, got "
                "neither"
            )
        started = time.perf_counter()
        if self.settings.reload == "published":
            newer = await self._weights.newer_than(self._model.version)
            if newer is not None:
                await asyncio.to_thread(self._model.load, *newer)
        states, without_answer = await asyncio.to_thread(self._model.states, experiences)
        metrics = {"state_version": float(self._model.version)}
        if without_answer is not None:
            metrics["rows_without_answer"] = float(without_answer)
        versions = [item.info["model_version"] for item in experiences if "model_version" in item.info]
        if versions:
            # Above 0: states of a newer policy than that which generated; below: of an older one.
            metrics["state_versions_ahead"] = self._model.version - sum(versions) / len(versions)
        return states, time.perf_counter() - started, metrics
