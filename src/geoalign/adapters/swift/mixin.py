"""A curator inside ms-swift's GRPO: the stages of a generation batch wrapped, none copied.

`_score_completions` has the rewards and the samples, before anything is encoded: the curator decides there, and what
ms-swift encodes, measures and counts afterwards are the curated samples. `_postprocess_batch` leaves dropped rows out,
`_compute_advantages` has ms-swift's own advantages or those of the curated rewards, `_log_rollout` shows what was
generated. The others take the curator along in checkpoints.
"""

from __future__ import annotations

from typing import Any

import torch
from swift.rlhf_trainers.grpo_trainer import GRPOTrainer
from torch import Tensor

from geoalign.adapters.grpo_trainer.generation_batch import CuratedTrainer, fields_with_answers, trainers_verifier
from geoalign.adapters.grpo_trainer.states import HiddenLocation
from geoalign.adapters.swift.curate import CurationRound, guard_rewards, log_columns
from geoalign.adapters.swift.plug_in import installed_settings
from geoalign.adapters.swift.refusals import check_trainer
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession


class CuratedGRPO(CuratedTrainer):
    """Puts a curator into a subclass of ms-swift's GRPOTrainer: `class Mine(CuratedGRPO, GRPOTrainer)`.

    Replacement, weights, drops, subsets, shaped rewards and given advantages are carried out so that the loss sees the
    curated batch; evaluation is never curated. Rank 0 decides for all processes. Settings are those of `install`. A
    reward function that raises in training leaves its rows unscored.

    Raises:
        UnsupportedError: a combination that is refused; the message names it.
        ConfigError: the curator requires a field that neither the settings nor the adapter provide.
    """

    _session: CurationSession

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings, curator, rollout_fields = installed_settings()
        super().__init__(*args, **kwargs)
        made = curator or as_curator(settings.curator)
        self._session = CurationSession(made, seed=settings.seed, monitor=settings.monitor)
        self._rollout_fields = fields_with_answers(rollout_fields, self._session.curator)
        self._location = HiddenLocation(settings.hidden_position, settings.hidden_layer)
        self._log_metrics = settings.log_metrics
        self._quiet_alarms = {}
        self._curation_round: CurationRound | None = None
        self._second_verifier = trainers_verifier(
            settings.second_verifier,
            self._session,
            endpoint=settings.second_verifier_endpoint,
            seconds=settings.second_verifier_seconds,
            fields=self._rollout_fields,
        )
        check_trainer(
            self,
            self._session,
            location=self._location,
            rollout_fields=self._rollout_fields,
            second_verifier=self._second_verifier,
        )
        self._failed: set[str] = set()
        guard_rewards(self, self._failed)

    @property
    def _tokenizer(self) -> Any:
        # By this name the TRL adapter's functions ask for it.
        return self.template.tokenizer

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self._failed.clear()
        try:
            return super()._generate_and_score_completions(inputs)
        finally:
            if self._curation_round is not None:
                self._session.calls += 1
            self._curation_round = None

    def _score_completions(self, samples: list[Any]) -> list[Any]:
        samples = super()._score_completions(samples)
        if not self.model.training:
            log_columns(self, None, torch.arange(len(self._rewards_per_func)))
            return samples
        self._curation_round = CurationRound(
            self, self._session, self._location, self._rollout_fields, self._log_metrics, self._second_verifier
        )
        return self._curation_round.curate(samples, self._rewards_per_func, failed=self._failed)

    def _postprocess_batch(self, samples: list[Any], batch_encoded_inputs: list[dict[str, Any]]) -> None:
        if self._curation_round is not None:
            self._curation_round.leave_out(batch_encoded_inputs)
        super()._postprocess_batch(samples, batch_encoded_inputs)

    def _compute_advantages(
        self, samples: list[Any], rewards_per_func: Tensor, batch_encoded_inputs: list[dict[str, Any]]
    ) -> Tensor:
        # ms-swift also logs the rewards here: as they were scored.
        computed = super()._compute_advantages(samples, rewards_per_func, batch_encoded_inputs)
        return computed if self._curation_round is None else self._curation_round.advantages(computed)

    def _log_rollout(self, samples: list[Any]) -> None:
        super()._log_rollout(samples if self._curation_round is None else self._curation_round.generated)


class GeoAlignSwiftTrainer(CuratedGRPO, GRPOTrainer):
    """`swift rlhf --rlhf_type grpo` whose generation batches pass through a curator before advantages."""
