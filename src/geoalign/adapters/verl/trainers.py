"""A curator inside verl's PPO trainers, under names of their own in verl's registry: methods wrapped, none copied.

`_compute_old_log_prob` asks the engine for hidden states in the pass that it makes anyway, and starts to curate;
`_compute_advantage` carries the curation out around verl's own advantages. Between them verl makes its reference and
value passes on the workers, while the driver curates. `_save_checkpoint` and `_load_checkpoint` take the curator along.
"""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import ray
from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync, register_trainer
from verl.utils.config import omega_conf_to_dataclass

from geoalign.adapters.decision import Decision, decide, metrics_to_log
from geoalign.adapters.exports import check_engine
from geoalign.adapters.settings import GOLD_ANSWERS
from geoalign.adapters.verl.apply import apply_curation
from geoalign.adapters.verl.batch import read_rollouts, rows_for_dump, sessions_of, texts_of_answers
from geoalign.adapters.verl.check import checked_session
from geoalign.adapters.verl.keys import ANSWER_KEY, LAYER_KEY, POSITION_KEY
from geoalign.adapters.verl.queue import QueueBatch
from geoalign.adapters.verl.refusals import (
    check_assignment,
    check_engines,
    check_sessions,
    check_states,
    check_tokenizer,
)
from geoalign.curators.session import STATE_FILE
from geoalign.hidden.answer_tokens import rows_without_answer

_Base: Any = object


class CuratedSteps(_Base):
    """Puts a curator into a subclass of verl's `PPOTrainer`: `class Mine(CuratedSteps, PPOTrainerSync)`.

    Replacement, weights, drops, subsets, shaped rewards and given advantages are carried out on the rows in
    TransferQueue before the actor is updated; validation is never curated. Settings come from `+geoalign` in verl's
    configuration. A subclass names verl's mode in `base_mode`. Error messages say what to change.
    """

    base_mode: ClassVar[str]

    def __init__(self, config: Any) -> None:
        check_engine("verl")
        plain: Any = OmegaConf.to_container(config, resolve=True)
        self._geoalign, self._session, self._second_verifier = checked_session(plain)
        self._session.remedies = replace(self._session.remedies, enlarge=self._larger_batch)
        # One thread decides, while the driver goes on with work that does not touch the curator.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="geoalign")
        self._pending: tuple[list[list[int]], Future[Decision]] | None = None
        self._without_answer: int | None = None
        # What verl's dump of a step's rollouts is to show of each row, by its key.
        self._judged: dict[str, dict[str, Any]] = {}
        # verl compares its mode with names of its own.
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.base_mode
        super().__init__(config)

    def _larger_batch(self, factor: float) -> str:
        """The settings that make batches larger by this factor."""
        if self.base_mode == "separate_async":
            # Each mini-batch is curated by itself, and verl wants a whole number of them in a batch.
            size = math.ceil(self.config.actor_rollout_ref.actor.ppo_mini_batch_size * factor)
            return f"raise actor_rollout_ref.actor.ppo_mini_batch_size to {size}, and data.train_batch_size with it"
        return f"raise data.train_batch_size to {math.ceil(self.config.data.train_batch_size * factor)}"

    def _setup(self) -> None:
        if "hidden" in self._session.curator.requires:
            check_states(self._geoalign, omega_conf_to_dataclass(self.config.actor_rollout_ref.model))
        super()._setup()
        if self._second_verifier is not None:
            check_tokenizer(self.tokenizer)
            # Of a name of the user's own the reward function may bring the gold answers.
            if GOLD_ANSWERS not in self._geoalign.rollout_fields:
                self._second_verifier.check_gold(self.train_dataset)
        if "hidden" in self._session.curator.requires:
            check_engines(engines_of(self.actor_rollout_wg, self.config.actor_rollout_ref.actor.strategy))

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        asked = {POSITION_KEY: self._geoalign.hidden_position, LAYER_KEY: json.dumps(self._geoalign.hidden_layer)}
        asked = asked if "hidden" in self._session.curator.reads else {}
        batch.extra_info.update(asked)
        result = super()._compute_old_log_prob(batch, metrics)
        # A later pass over this batch, a LoRA reference's, must not answer the same question again.
        for key in asked:
            batch.extra_info.pop(key, None)
            (result.extra_info or {}).pop(key, None)
        self._pending = self._start(result)
        return result

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        compute = super()._compute_advantage
        assert self._pending is not None
        sessions, future = self._pending
        self._pending = None
        started = time.perf_counter()
        decision = future.result()
        waited = time.perf_counter() - started
        check_assignment(decision.assignment, self.config, self._session.name)
        check_sessions(decision.assignment, sessions, self._session.name)
        queue = QueueBatch(batch, lambda part: compute(part, metrics))
        by_std = self.config.algorithm.norm_adv_by_std_in_grpo
        result = apply_curation(queue, sessions, decision.rollouts, decision.assignment, by_std=by_std)
        found = {**decision.metrics, "wait_seconds": waited}
        if self._without_answer is not None:
            found["rows_without_answer"] = float(self._without_answer)
        # verl averages a metric over those mini-batches that have it: an alarm of 0 counts as well.
        zeros = self.base_mode == "separate_async"
        metrics.update(metrics_to_log(found, self._session.curator, self._geoalign.log_metrics, zeros=zeros))
        if self.config.trainer.get("rollout_data_dir"):
            keys = [[queue.keys[row] for row in session] for session in sessions]
            answers = texts_of_answers(queue, sessions, self._geoalign.rollout_fields)
            self._judged |= rows_for_dump(decision, keys, answers)
        return result

    def _dump_generations(self, *args: Any, reward_extra_infos_dict: dict[str, Any], **more: Any) -> None:
        keys = reward_extra_infos_dict.get("uid", ())
        # Validation is not curated, and comes before the step's rollouts; verl fills batches up with rows of its own.
        if not self._judged.keys().isdisjoint(keys):
            rows = [self._judged.get(key, {}) for key in keys]
            columns = next(iter(self._judged.values()))
            reward_extra_infos_dict |= {name: [row.get(name) for row in rows] for name in columns}
            self._judged = {}
        super()._dump_generations(*args, reward_extra_infos_dict=reward_extra_infos_dict, **more)

    def _start(self, meta: Any) -> tuple[list[list[int]], Future[Decision]]:
        batch = QueueBatch(meta)
        sessions = sessions_of(batch.keys, batch.real_rows())
        rows = [session[-1] for session in sessions]
        rollouts = read_rollouts(
            batch,
            rows,
            self._session.curator.reads,
            rollout_fields=self._geoalign.rollout_fields,
            components=self._session.curator.components,
            longest_response=self.config.actor_rollout_ref.rollout.response_length,
            by_std=self.config.algorithm.norm_adv_by_std_in_grpo,
            second_verifier=self._second_verifier,
            tokenizer=self.tokenizer,
        )
        if self._geoalign.hidden_position == "answer_start" and "hidden" in self._session.curator.reads:
            starts = batch.read(rows, [ANSWER_KEY])[ANSWER_KEY]
            self._without_answer = rows_without_answer([int(start) for start in starts])
        return sessions, self._thread.submit(decide, self._session, rollouts)

    def _save_checkpoint(self) -> None:
        # First: verl's last act is to name this step the one to resume from.
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        self._session.save(folder / STATE_FILE)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps > 0:
            trainer = self.config.trainer
            folder = f"{trainer.default_local_dir}/global_step_{self.global_steps}"
            if trainer.resume_mode == "resume_path":
                folder = trainer.resume_from_path
            self._session.load(
                Path(folder) / STATE_FILE,
                setting="trainer.resume_mode",
                otherwise="set the +geoalign.curator.type that it was saved with; or, to start curating in the middle "
                "of a training that did not, give its model as actor_rollout_ref.model.path and "
                "trainer.resume_mode=disable",
            )


def engines_of(group: Any, strategy: str) -> list[str]:
    """The engine class that each worker's process would run."""

    # Ray sends a function inside another by value: it runs where geoalign is not installed.
    def engine_here(worker: Any) -> str:
        from verl.workers.engine.base import EngineRegistry

        engine = EngineRegistry.get_engine_cls("language_model", strategy)
        return f"{engine.__module__}.{engine.__qualname__}"

    answers: list[str] = ray.get([worker.__ray_call__.remote(engine_here) for worker in group.workers])
    return answers


@register_trainer("geoalign_sync")
class GeoAlignTrainerSync(CuratedSteps, PPOTrainerSync):
    """verl's synchronous trainer with a curator."""

    base_mode = "sync"


@register_trainer("geoalign_colocate_async")
class GeoAlignTrainerColocateAsync(CuratedSteps, PPOTrainerColocateAsync):
    """verl's colocated asynchronous trainer with a curator."""

    base_mode = "colocate_async"


@register_trainer("geoalign_separate_async")
class GeoAlignTrainerSeparateAsync(CuratedSteps, PPOTrainerSeparateAsync):
    """verl's separated asynchronous trainer; each of its `parameter_sync_step` mini-batches is curated by itself."""

    base_mode = "separate_async"
