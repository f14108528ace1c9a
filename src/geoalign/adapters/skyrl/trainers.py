"""A curator inside SkyRL's trainers, the synchronous and the fully asynchronous one: methods wrapped, none copied.

`convert_to_training_input` notes what the generator says of each row; `compute_advantages_and_returns` decides, and
carries the curation out around SkyRL's own advantages; checkpoints take the curator along.
"""

# No `annotations` of the future: SkyRL reads the types of a configuration's fields, not their names.
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
import torch
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray, validate_cfg
from torch import Tensor

from geoalign.adapters.decision import (
    decide,
    final_advantages,
    group_numbers,
    make_session,
    metrics_to_log,
    named_components,
    named_fields,
    needed_fields,
    refuse,
    rewards_stay,
)
from geoalign.adapters.exports import check_engine
from geoalign.adapters.second_verifier import SecondVerifier, verifier_of_settings
from geoalign.adapters.settings import GOLD_ANSWERS, SECTION, EngineSettings, read_section
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys

_Base: Any = object
# Losses that are finite in every token and masked token by token. Not so: clip_cov, kl_cov and importance_sampling,
# whose ratios overflow in rows that the mask hides.
DROPPING_LOSSES = ("regular", "dual_clip", "gspo", "sapo", "cispo", "rollout_is", "dppo")
# In the columns of the data set beside the prompt.
GOLD = ("reward_spec.ground_truth", "reward_model.ground_truth")
_FILLED_UP = (
    "a batch that SkyRL filled up with copies of rows: choose trainer.train_batch_size so that its rows, times "
    "generator.n_samples_per_prompt, are a multiple of the data-parallel size"
)
NOTES = "geoalign_notes"  # in the metadata of a batch, from one hook to the other


@dataclass
class CuratedConfig(SkyRLTrainConfig):
    """SkyRL's configuration with a section `geoalign`: the settings of `EngineSettings`."""

    geoalign: dict[str, Any] = field(default_factory=dict)


class CuratedRayPPO(_Base):
    """Puts a curator into a subclass of SkyRL's `RayPPOTrainer`: `class Mine(CuratedRayPPO, DAPOTrainer)`.

    Replacement, weights, drops, subsets, shaped rewards and given advantages are carried out on the training batch;
    evaluation is never curated. Settings are `geoalign` in the configuration (`CuratedConfig`, or an attribute that you
    set). Error messages say what to change.
    """

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any) -> None:
        self._geoalign, self._session, self._second_verifier = curation_of(cfg)
        super().__init__(cfg, *args, **kwargs)
        if self._second_verifier is not None:
            missing = "geoalign.second_verifier: it reads prompts from the training data set, and there is none"
            refuse({missing: self.train_dataset is None})
            # Of a name of the user's own the environment may bring the gold answers.
            if GOLD_ANSWERS not in self._geoalign.rollout_fields:
                self._second_verifier.check_gold(DatasetRows(self.train_dataset))

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        """SkyRL's batch, with notes of its rows."""
        data = super().convert_to_training_input(generator_output, uids)
        data.metadata[NOTES] = {name: generator_output.get(name) for name in ("stop_reasons", "env_metrics")}
        return data

    @torch.no_grad()
    def compute_advantages_and_returns(self, data: Any) -> Any:
        """SkyRL's advantages, or the curator's, of the curated batch.

        SkyRL's stay where each row has the reward that it came with, times the weights (the returns, which may be the
        same tensor, without). Else the curator's own are written over them and the returns, or GRPO's of the curated
        rewards; dropped rows leave the loss.
        """
        rollouts = self._read(data, **data.metadata.pop(NOTES, {}))
        decision = decide(self._session, rollouts)
        self.all_metrics.update(metrics_to_log(decision.metrics, self._session.curator, self._geoalign.log_metrics))
        assignment = decision.assignment
        check_drops(self.cfg.trainer.algorithm, self._session.name, drops=assignment.dropped)
        if bool(assignment.replaced.any()):
            data.update({key: value[assignment.source] for key, value in data.items() if value is not None})
        data = super().compute_advantages_and_returns(data)
        if not rewards_stay(assignment, rollouts):
            own = final_advantages(assignment, lambda: self._advantages(assignment.rewards, rollouts.groups))
            values = own[:, None] * data["response_mask"]
            data["advantages"], data["returns"] = values, values.clone()
            data["loss_mask"] = data["loss_mask"] * assignment.kept[:, None]
        elif bool((assignment.weights != 1).any()):
            data["advantages"] = data["advantages"] * assignment.weights[:, None]
        return data

    def _read(self, data: Any, stop_reasons: Any = None, env_metrics: Any = None) -> Rollouts:
        """The rows as a curator reads them, rewards summed over the tokens as by SkyRL's GRPO; trajectories without a
        token in the loss, or that a limit stopped, are no donors."""
        refuse({_FILLED_UP: data.metadata.get("pad_size", 0) > 0})
        own, lengths, uids = data["loss_mask"] > 0, data["response_mask"].sum(-1).long(), data.metadata["uids"]
        rewards, size = data["rewards"].float().sum(-1), len(uids)
        groups, curator, rows = group_numbers(uids), self._session.curator, env_metrics or [None] * size
        shown = data["attention_mask"].bool()
        starts = (shown.sum(-1) - lengths).tolist()

        def tokens(row: int, *, response: bool) -> list[int]:
            part = slice(starts[row], None) if response else slice(starts[row])
            return data["sequences"][row][shown[row]][part].tolist()

        def keys(*, response: bool) -> Tensor:
            return response_keys(tokens(row, response=response) for row in range(size))

        def asked_rows(asked: Sequence[int]) -> list[dict[str, Any]]:
            dataset = DatasetRows(self.train_dataset)
            texts = [self.tokenizer.decode(tokens(row, response=True), skip_special_tokens=True) for row in asked]
            infos = [rows[row] or {} for row in asked]
            columns = [dataset[int(uids[row])] for row in asked]
            parts = zip(infos, columns, texts, strict=True)
            return [{**info, **own, "response": text} for info, own, text in parts]

        def logprobs() -> Tensor:
            found = data["rollout_logprobs"] if data["action_log_probs"] is None else data["action_log_probs"]
            return (found.float() * own).sum(-1) / own.sum(-1)

        makers = {
            "prompt_keys": lambda: keys(response=False),
            "response_keys": lambda: keys(response=True),
            "logprobs": logprobs,
            "advantages": lambda: self._advantages(rewards, groups),
        }
        wanted, fields = curator.components, self._geoalign.rollout_fields
        source = "the dict of the environment's get_metrics() (generator.batched=false brings it along)"
        return Rollouts(
            rewards=rewards,
            groups=groups,
            lengths=lengths,
            ids=[f"{uid}_{row}" for row, uid in enumerate(uids)],
            donor_ok=own.any(-1) & torch.tensor([one in ("stop", None) for one in stop_reasons or [None] * size]),
            second_rewards=None if self._second_verifier is None else self._second_verifier.field(asked_rows),
            **needed_fields(makers, curator.reads),
            **named_components(wanted, rows, rewards, source=f"numbers in {source}"),
            **named_fields(fields, rows, rewards, setting=f"{SECTION}.rollout_fields", source=source),
        )

    def _advantages(self, rewards: Tensor, groups: Tensor) -> Tensor:
        return group_advantages(rewards, groups, scale="std" if self.cfg.trainer.algorithm.grpo_norm_by_std else "none")

    def save_checkpoints(self) -> Any:
        """SkyRL's checkpoint, with the curator: first, as SkyRL's last act names it the one to resume from."""
        self._session.save(Path(self.cfg.trainer.ckpt_path) / f"global_step_{self.global_step}" / STATE_FILE)
        return super().save_checkpoints()

    def load_checkpoints(self) -> Any:
        """SkyRL's checkpoint, and the curator's state in it."""
        found = super().load_checkpoints()
        if found[0] > 0:
            otherwise = "set the geoalign.curator it was saved with, or begin anew: trainer.resume_mode=none"
            self._session.load(Path(found[1]) / STATE_FILE, setting="trainer.resume_mode", otherwise=otherwise)
        return found


class DatasetRows:
    """The rows of SkyRL's data set as dicts: `prompt`, as chat messages, and the columns that environments get.

    A row's number is the `uid` of the rollouts of its prompt.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> dict[str, Any]:
        [row] = self._dataset.collate_fn([self._dataset[number]])
        return {**row["env_extras"], "prompt": row["prompt"]}


class GeoAlignTrainer(CuratedRayPPO, RayPPOTrainer):
    """SkyRL's synchronous trainer with a curator."""


class GeoAlignFullyAsyncTrainer(CuratedRayPPO, FullyAsyncRayPPOTrainer):
    """SkyRL's fully asynchronous trainer; each of its mini-batches is curated by itself."""


class CuratedExp(BasePPOExp):
    """SkyRL's experiment with the curated trainer that `trainer.fully_async.enabled` asks for."""

    def get_trainer(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """The trainer, of the arguments that SkyRL's takes."""
        kind = GeoAlignFullyAsyncTrainer if cfg.trainer.fully_async.enabled else GeoAlignTrainer
        return kind(cfg, *args, **kwargs)


@ray.remote(num_cpus=1)
def _train(cfg: Any) -> None:
    CuratedExp(cfg).run()


def main() -> None:
    """What `trainer.override_entrypoint=geoalign.adapters.skyrl` runs in the place of SkyRL's own entry point."""
    words = [word for word in sys.argv[1:] if not word.startswith("trainer.override_entrypoint=")]
    cfg = CuratedConfig.from_cli_overrides(words)
    # Before Ray, the engines and the model are there.
    curation_of(cfg)
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(_train.remote(cfg))


def curation_of(cfg: Any) -> tuple[EngineSettings, CurationSession, SecondVerifier | None]:
    """The settings, the curator and the second verifier of a configuration; raises by name unless the adapter carries
    it out."""
    check_engine("skyrl")
    place = "such as geoalign.curator.type=denoise"
    settings = read_section(EngineSettings, getattr(cfg, SECTION, None), engine="SkyRL", path=SECTION, place=place)
    how = "geoalign.rollout_fields.{need}=<name in the environment's get_metrics()>"
    session = make_session(settings, how=how)
    trainer, generator, algorithm = cfg.trainer, cfg.generator, cfg.trainer.algorithm
    estimator, sampling = algorithm.advantage_estimator, algorithm.dynamic_sampling.type
    refuse(
        {
            f"{session.name} requires hidden states, which SkyRL's workers do not return; take a curator without, such "
            "as geoalign.curator.type=denoise geoalign.curator.geometry=none": "hidden" in session.curator.requires,
            f"trainer.algorithm.advantage_estimator={estimator}: curated batches are carried out under grpo only; set "
            "it to grpo": estimator != "grpo",
            "trainer.algorithm.use_kl_in_reward=true: curated rewards have no KL term; set it to false "
            "(use_kl_loss=true instead)": algorithm.use_kl_in_reward,
            "trainer.algorithm.advantage_batch_normalize=true: it would shift the advantages of all rows, those "
            "without weight among them; set it to false": algorithm.advantage_batch_normalize,
            "trainer.algorithm.policy_loss_type=cross_entropy: it reads no advantages; take another": (
                algorithm.policy_loss_type == "cross_entropy"
            ),
            "trainer.critic.model.path: expected none, as curated rows have no values": trainer.critic.model.path,
            "generator.step_wise_trajectories=true: rows that are turns are not curated; set it to false, and a "
            "trajectory of several turns is one row": generator.step_wise_trajectories,
            "generator.n_samples_per_prompt=1: expected at least 2, as SkyRL takes the reward of a single one for its "
            "advantage": generator.n_samples_per_prompt < 2,
            f"trainer.algorithm.dynamic_sampling.type={sampling} with fields of get_metrics(): SkyRL leaves those "
            "behind where it moves rows; leave it out (zero_variance_filter instead)": (
                sampling and (set(settings.rollout_fields) - {GOLD_ANSWERS} or session.curator.components)
            ),
            f"trainer.ckpt_path={trainer.ckpt_path}: expected a local folder": "://" in str(trainer.ckpt_path),
        }
    )
    check_drops(algorithm, session.name, drops=session.curator.drops_rows)

    def larger_batch(factor: float) -> str:
        size = math.ceil(trainer.train_batch_size * factor)
        together = ", and trainer.policy_mini_batch_size with it" if trainer.fully_async.enabled else ""
        return f"raise trainer.train_batch_size to {size}{together}"

    session.remedies = replace(session.remedies, enlarge=larger_batch)
    return settings, session, verifier_of_settings(settings, session, gold=GOLD, path=SECTION)


def check_drops(algorithm: Any, curator: str, *, drops: bool) -> None:
    """Raises UnsupportedError where a curator of this name `drops` rows, and SkyRL's loss cannot leave them out of what
    divides it."""
    loss, reduction = algorithm.policy_loss_type, algorithm.loss_reduction
    problems = {
        f"loss_reduction={reduction}, which counts rows or prompts; set it to token_mean": reduction != "token_mean",
        f"policy_loss_type={loss}, not known to leave them out; set it to one of {', '.join(DROPPING_LOSSES)}": (
            loss not in DROPPING_LOSSES
        ),
        "use_kl_loss or use_entropy_loss=true, means that count them; set both to false": (
            algorithm.use_kl_loss or algorithm.use_entropy_loss
        ),
    }
    start, instead = f"{curator} drops rows under trainer.algorithm.", ", or let the curator replace or weigh rows"
    refuse({start + problem + instead: drops and holds for problem, holds in problems.items()})
