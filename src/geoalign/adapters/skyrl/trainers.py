"""A curator inside SkyRL's trainers, the synchronous and the fully asynchronous one: methods wrapped, none copied.

`convert_to_training_input` notes what the generator says of each row; `compute_advantages_and_returns` decides, and
carries the curation out around SkyRL's own advantages; checkpoints take the curator along.
"""

# SkyRL reads the classes of a configuration's fields, no names of them: annotations are evaluated here.
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray, validate_cfg
from torch import Tensor

from geoalign.adapters.exports import check_engine
from geoalign.adapters.placement import Placement
from geoalign.adapters.settings import SECTION, EngineSettings, read_section
from geoalign.adapters.skyrl.batch import NOTED, NOTES, move_rows, read_rollouts, weigh, write_advantages
from geoalign.adapters.step import (
    decide,
    final_advantages,
    make_session,
    named,
    refuse,
    rewards_stay,
    wanted_components,
)
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts

if TYPE_CHECKING:
    _Base: Any
else:
    _Base = object

# Advantages of one number a trajectory, out of the rewards of its prompt's.
ESTIMATORS = ("grpo", "rloo", "maxrl")
# Losses that are finite in every token and masked token by token. Not so: clip_cov, kl_cov and importance_sampling,
# whose ratios overflow in rows that the mask hides.
DROPPING_LOSSES = ("regular", "dual_clip", "gspo", "sapo", "cispo", "rollout_is", "dppo")
_OVERRIDE = "trainer.override_entrypoint="


@dataclass
class CuratedConfig(SkyRLTrainConfig):
    """SkyRL's configuration with a section `geoalign`: the curator, its seed, and `rollout_fields`."""

    geoalign: dict[str, Any] = field(default_factory=dict)


class CuratedSteps(_Base):
    """Puts a curator into a subclass of SkyRL's `RayPPOTrainer`: `class Mine(CuratedSteps, DAPOTrainer)`.

    Replacement, weights, drops, subsets, shaped rewards and given advantages are carried out on the training batch;
    evaluation is never curated. Settings are the section `geoalign` of the configuration (`CuratedConfig`, or an
    attribute that you set). What is refused says what to change.
    """

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any) -> None:
        self._geoalign, self._session = curation_of(cfg)
        super().__init__(cfg, *args, **kwargs)

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        """SkyRL's batch, with notes of its rows."""
        data = super().convert_to_training_input(generator_output, uids)
        data.metadata[NOTES] = {name: generator_output.get(name) for name in NOTED}
        return data

    @torch.no_grad()
    def compute_advantages_and_returns(self, data: Any) -> Any:
        """SkyRL's advantages, or the curator's, of the curated batch."""
        rollouts = read_rollouts(data, data.metadata.pop(NOTES, {}), self._session.curator, self._geoalign)
        if "advantages" in self._session.curator.reads:
            rollouts = replace(rollouts, advantages=self._estimated(rollouts, rollouts.rewards))
        decision = decide(self._session, rollouts)
        self._session.calls += 1
        placement = decision.placement
        check_drops(placement, self.cfg.trainer.algorithm, self._session.name)
        move_rows(data, placement)
        data = super().compute_advantages_and_returns(data)
        if rewards_stay(placement, rollouts):
            weigh(data, placement)
        else:
            own = final_advantages(placement, lambda: self._estimated(rollouts, placement.rewards))
            write_advantages(data, placement, own)
        self.all_metrics.update(named(decision.metrics))
        return data

    def _estimated(self, rollouts: Rollouts, rewards: Tensor) -> Tensor:
        """[B] what SkyRL's estimator makes of the rewards, NaN left out; 0 where all of a prompt's are equal, or one is
        left: to SkyRL a single reward is an advantage, and the rounding of its mean a deviation."""
        algorithm, scored = self.cfg.trainer.algorithm, ~rewards.isnan()
        found = torch.zeros_like(rewards)
        if bool(scored.any()):
            values = rewards[scored][:, None]
            advantages, _ = ppo_utils.compute_advantages_and_returns(
                token_level_rewards=values,
                response_mask=torch.ones_like(values),
                index=rollouts.groups[scored].tolist(),
                adv_estimator=algorithm.advantage_estimator,
                config=algorithm,
                grpo_norm_by_std=algorithm.grpo_norm_by_std,
            )
            found[scored] = advantages[:, 0]
        return found.masked_fill(group_advantages(rewards, rollouts.groups, scale="none") == 0, 0.0)

    def save_checkpoints(self) -> Any:
        """SkyRL's checkpoint, with the curator: first, as SkyRL's last act names it the one to resume from."""
        folder = Path(self.cfg.trainer.ckpt_path) / f"global_step_{self.global_step}"
        self._session.save(folder / STATE_FILE)
        return super().save_checkpoints()

    def load_checkpoints(self) -> Any:
        """SkyRL's checkpoint, and the curator's state in it."""
        found = super().load_checkpoints()
        if found[0] > 0:
            self._session.load(
                Path(found[1]) / STATE_FILE,
                setting="trainer.resume_mode",
                otherwise="set the geoalign.curator.type that it was saved with; or, to start curating in the middle of "
                "a training that did not, give its model as trainer.policy.model.path and trainer.resume_mode=none",
            )
        return found


class GeoAlignTrainer(CuratedSteps, RayPPOTrainer):
    """SkyRL's synchronous trainer with a curator."""


class GeoAlignFullyAsyncTrainer(CuratedSteps, FullyAsyncRayPPOTrainer):
    """SkyRL's fully asynchronous trainer; each of its mini-batches is curated by itself."""


class CuratedExp(BasePPOExp):
    """SkyRL's experiment with the curated trainer of the configuration's mode."""

    def get_trainer(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """The trainer; `trainer.fully_async.enabled` says which."""
        kind = GeoAlignFullyAsyncTrainer if cfg.trainer.fully_async.enabled else GeoAlignTrainer
        return kind(cfg, *args, **kwargs)


@ray.remote(num_cpus=1)
def _train(cfg: Any) -> None:
    CuratedExp(cfg).run()


def main() -> None:
    """What `trainer.override_entrypoint=geoalign.adapters.skyrl` runs in the place of SkyRL's own entry point."""
    cfg = CuratedConfig.from_cli_overrides([text for text in sys.argv[1:] if not text.startswith(_OVERRIDE)])
    # Before Ray, the engines and the model are there.
    curation_of(cfg)
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(_train.remote(cfg))


def curation_of(cfg: Any) -> tuple[EngineSettings, CurationSession]:
    """The settings and the curator of a configuration that the adapter carries out; raises by name where it is none."""
    check_engine("skyrl")
    place = "such as geoalign.curator.type=denoise"
    settings = read_section(EngineSettings, getattr(cfg, SECTION, None), engine="SkyRL", path=SECTION, place=place)
    how = "geoalign.rollout_fields.{need}=<name in the environment's get_metrics()>"
    session = make_session(settings, engine="SkyRL", how=how)
    check_config(cfg, session, settings)
    return settings, session


def check_config(cfg: Any, session: CurationSession, settings: EngineSettings) -> None:
    """Raises UnsupportedError by name unless SkyRL's configuration is one that the adapter carries out."""
    trainer, algorithm, generator = cfg.trainer, cfg.trainer.algorithm, cfg.generator
    sampling, critic = algorithm.dynamic_sampling.type, trainer.critic.model.path
    by_name = bool(settings.rollout_fields or wanted_components(session.curator))
    refuse(
        {
            f"{session.name} requires hidden states, which SkyRL's workers do not return; take a curator without, such "
            "as geoalign.curator.type=denoise geoalign.curator.geometry=none": "hidden" in session.curator.requires,
            f"trainer.algorithm.advantage_estimator={algorithm.advantage_estimator}: curated batches are carried out "
            f"under {', '.join(ESTIMATORS)}; set one of them": algorithm.advantage_estimator not in ESTIMATORS,
            "trainer.algorithm.use_kl_in_reward=true: curated rewards have no KL term; set it to false "
            "(trainer.algorithm.use_kl_loss=true instead)": algorithm.use_kl_in_reward,
            "trainer.algorithm.advantage_batch_normalize=true: it would shift the advantages of all rows, those without "
            "weight among them; set it to false": algorithm.advantage_batch_normalize,
            f"trainer.algorithm.policy_loss_type={algorithm.policy_loss_type}: it reads no advantages, and so neither "
            "weights nor shaped rewards": algorithm.policy_loss_type == "cross_entropy",
            f"trainer.critic.model.path={critic}: curated batches have no values of a critic; leave it out": critic,
            "generator.step_wise_trajectories=true: rows that are turns are not curated; set it to false, and a "
            "trajectory of several turns is one row": generator.step_wise_trajectories,
            f"generator.n_samples_per_prompt={generator.n_samples_per_prompt}: expected at least 2, as SkyRL takes the "
            "reward of a single one for its advantage": generator.n_samples_per_prompt < 2,
            f"trainer.algorithm.dynamic_sampling.type={sampling} with fields of get_metrics(): SkyRL leaves those behind "
            "where it moves rows; leave it out (zero_variance_filter instead)": sampling is not None and by_name,
            f"trainer.ckpt_path={trainer.ckpt_path}: the curator's state goes to a local folder": (
                "://" in str(trainer.ckpt_path)
            ),
        }
    )


def check_drops(placement: Placement, algorithm: Any, curator: str) -> None:
    """Raises UnsupportedError where SkyRL's loss cannot leave dropped rows out of what divides it."""
    instead = "or let the curator replace or weigh rows"
    loss, reduction = algorithm.policy_loss_type, algorithm.loss_reduction
    if not placement.dropped:
        return
    refuse(
        {
            f"{curator} drops rows under trainer.algorithm.loss_reduction={reduction}, which divides by a number of "
            f"rows or prompts; set it to token_mean, {instead}": reduction != "token_mean",
            f"{curator} drops rows under trainer.algorithm.policy_loss_type={loss}, which is not known to leave them "
            f"out; set it to one of {', '.join(DROPPING_LOSSES)}, {instead}": loss not in DROPPING_LOSSES,
            f"{curator} drops rows under trainer.algorithm.use_kl_loss or use_entropy_loss=true, means over rows or "
            f"micro-batches that count them; set both to false, {instead}": (
                algorithm.use_kl_loss or algorithm.use_entropy_loss
            ),
        }
    )
