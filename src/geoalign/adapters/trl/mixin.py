"""A curator inside TRL's GRPO: three of its methods wrapped, none copied.

`_calculate_rewards` has the rewards of the whole generation batch: the curator decides there, and TRL's own code goes
on with them as they are. `_generate_and_score_completions` then moves the rows, and writes the advantages of the
curated rewards over TRL's. `compute_loss` scales the loss where rows were dropped. The others only listen (`_generate`,
`_get_per_token_logps_and_entropies`) or take the curator along in checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor
from trl import GRPOTrainer

from geoalign.adapters.exports import check_engine
from geoalign.adapters.grpo_trainer.generation_batch import (
    CuratedTrainer,
    RolloutField,
    fields_with_answers,
    table_columns,
    trainers_verifier,
)
from geoalign.adapters.grpo_trainer.states import HiddenLocation, HiddenSource, RowTokens
from geoalign.adapters.settings import LogMetrics
from geoalign.adapters.trl.curate import CurationObserver, GenerationRound, RoundOptions
from geoalign.adapters.trl.failing_rewards import unscore_failed
from geoalign.adapters.trl.flagged_traces import FlaggedTraces
from geoalign.adapters.trl.labelled_rows import LabelledRows
from geoalign.adapters.trl.refusals import check_flow, check_trainer, other_loss
from geoalign.answers.function import RewardFunction
from geoalign.curators.curator import Curator
from geoalign.curators.labelled_rollouts import LabelledRollouts
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError
from geoalign.settings.hidden import LAST, HiddenLayer, HiddenPosition


class GeoAlignMixin(CuratedTrainer):
    """Puts a curator into a subclass of `trl.GRPOTrainer`: `class Mine(GeoAlignMixin, MyGRPOTrainer)`.

    Replacement, weights, drops, subsets, shaped rewards and given advantages are carried out so that the loss sees the
    curated batch; evaluation is never curated. Rank 0 decides for all processes. Pass the same arguments on every
    process.

    Args:
        curator: any `Curator`, its name ("denoise"), a dict ({"type": "denoise", "window": 3}) or its settings; None:
            plain GRPO, with no extra pass and no extra file.
        monitor: only observe with it, as with the curator `Monitor`.
        hidden_position: which hidden state a curator gets (`geoalign.hidden.response_states`).
        hidden_layer: after which layer: its number (0: the embeddings), or a share of the depth as a float (1.0: the
            last); a list: several states side by side (`geoalign.hidden.BackboneTap`).
        hidden_source: "logprob_pass" listens to TRL's pass for the old log-probabilities; "own_pass" runs the backbone
            (under FSDP2 and ZeRO-3 the model) once more, in eval mode; "auto": the first where it can serve.
        rollout_fields: "answers", "reference_rewards" or "true_rewards" -> a dataset column, or a callable that takes
            this process's input rows (dicts with "prompt", "completion", "completion_ids" and the dataset's columns)
            and returns one value per row. Called after the rewards were computed. Where the curator looks at answers
            and none are given, they are the boxed ones of completions (`boxed_answers`), if any has a box.
            "gold_answers": those that a second verifier compares with, where they are not in the data set's column
            "answer", or else "solution".
        second_verifier: judges the rows that the curator `Appeals` asks about, on rank 0: "math_verify",
            "module:name", a command, the address of an endpoint, or a reward function in TRL's form. Its failures leave
            rows as they are, and never end the training.
        second_verifier_endpoint: for an address: `model`, `max_tokens` and what else `geoalign judge` takes.
        second_verifier_seconds: the time for the questions of one call, of which a batch may need several.
        curation_observer: called on rank 0 with a `CuratedStep` after each curation.
        details_every: ask the curator for `Curation.details` in every n-th generation; 0: never.
        labelled_rollouts: with true rewards, for a curator that reads `trusted`. It sees them beside every batch, with
            states of the current policy (by a pass of their own, on all processes); neither loss nor logs see them.
        log_metrics: "headline" logs five metrics of each curation, and what went wrong in it; "all": every one.

    Raises:
        UnsupportedError: AsyncGRPOTrainer, processors, Liger, FSDP1, PEFT prompt learning, a "logprob_pass" that cannot
            serve, a curator that declares to drop rows under a loss that cannot leave them out, or to change rewards
            under normalize_then_sum; later: unknown per-row keys, sources across groups, and what a curator does
            without having declared it.
        InputError: an unknown position, or a layer that the model does not have.
        ConfigError: an argument is out of range, the curator requires a field that `rollout_fields` lacks, or makes no
            use of labelled rollouts.
    """

    def __init__(
        self,
        *args: Any,
        curator: Curator | str | Mapping[str, Any] | Any | None = None,
        monitor: bool = False,
        hidden_position: HiddenPosition = "predicting",
        hidden_layer: HiddenLayer = LAST,
        hidden_source: HiddenSource = "auto",
        rollout_fields: Mapping[str, RolloutField] | None = None,
        curation_observer: CurationObserver | None = None,
        details_every: int = 0,
        labelled_rollouts: LabelledRollouts | None = None,
        log_metrics: LogMetrics = "headline",
        second_verifier: str | RewardFunction | None = None,
        second_verifier_endpoint: Mapping[str, Any] | None = None,
        second_verifier_seconds: float = 60.0,
        **kwargs: Any,
    ) -> None:
        if log_metrics not in get_args(LogMetrics):
            raise ConfigError(f"log_metrics: expected one of {', '.join(get_args(LogMetrics))}; got {log_metrics!r}")
        if curator is not None:
            check_engine("trl")
            curator = as_curator(curator)
            check_flow(type(self))
        else:
            useless = {
                "monitor": ("watches", monitor),
                "labelled_rollouts": ("reads trusted rewards", labelled_rollouts is not None),
                "second_verifier": ("asks one", second_verifier is not None),
            }
            for name, (what, given) in useless.items():
                if given:
                    raise ConfigError(f"{name}: expected with a curator that {what}, got none")
        super().__init__(*args, **kwargs)
        self.curator = curator
        self._session = None
        self._curation_round: GenerationRound | None = None
        self._quiet_alarms = {}
        self._flagged_traces: FlaggedTraces | None = None
        if curator is None:
            return
        if self.log_completions and "trackio" in (self.args.report_to or ()):
            self._flagged_traces = FlaggedTraces()
        observers = (curation_observer, self._flagged_traces)
        self._session = CurationSession(curator, seed=self.args.seed, labelled=labelled_rollouts, monitor=monitor)
        fields = fields_with_answers(rollout_fields or {}, self._session.curator)
        self._curation_options = RoundOptions(
            location=HiddenLocation(hidden_position, hidden_layer),
            hidden_source=hidden_source,
            fields=fields,
            observers=tuple(observer for observer in observers if observer is not None),
            details_every=details_every,
            other_loss=other_loss(type(self)),
            labelled=LabelledRows(self, labelled_rollouts, fields.get("answers")) if labelled_rollouts else None,
            log_metrics=log_metrics,
            second_verifier=trainers_verifier(
                second_verifier,
                self._session,
                endpoint=second_verifier_endpoint or {},
                seconds=second_verifier_seconds,
                fields=fields,
            ),
        )
        check_trainer(self, self._session, self._curation_options)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """TRL's log, and with its table of completions in trackio the flagged rollouts as traces."""
        super().log(logs, *args, **kwargs)
        if self._flagged_traces is not None and self.accelerator.is_main_process:
            self._flagged_traces.log(self.state.global_step)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self._session is None or not self.model.training:
            return super()._generate_and_score_completions(inputs)
        self._curation_round = GenerationRound(self, self._session, self._curation_options)
        try:
            batch = super()._generate_and_score_completions(inputs)
            self._curation_round.apply(batch)
        finally:
            self._curation_round = None
        self._session.calls += 1
        return batch

    def _generate(self, prompts: list[Any]) -> Any:
        generated = super()._generate(prompts)
        if self._curation_round is not None:
            self._curation_round.note_tokens(RowTokens(*generated[:3]))
        return generated

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> Any:
        def run() -> Any:
            return super(GeoAlignMixin, self)._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
            )

        if self._curation_round is None or model is not self.model:
            return run()
        return self._curation_round.on_logprob_pass(run, input_ids, logits_to_keep)

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any], completion_ids_list: Any
    ) -> Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rewards = unscore_failed(self, rewards)
        if self._curation_round is not None:
            self._curation_round.curate(rewards, inputs, prompts, completions)
        elif self.curator is not None:
            rows = torch.arange(len(prompts)) + self.accelerator.process_index * len(prompts)
            for column, values in table_columns(None, rows).items():
                self._log_completion_extra(column, values)
        return rewards


class GeoAlignGRPOTrainer(GeoAlignMixin, GRPOTrainer):
    """`trl.GRPOTrainer` whose generation batches pass through a curator before they enter the loss.

    Takes every argument of `trl.GRPOTrainer`, and those of `GeoAlignMixin` as keywords.
    """
