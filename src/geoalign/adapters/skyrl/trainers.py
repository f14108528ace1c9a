"""A curator inside SkyRL's trainers, the synchronous and the fully asynchronous one: methods wrapped, none copied.

`convert_to_training_input` notes what the generator says of each row; `compute_advantages_and_returns` decides, and
carries the curation out around SkyRL's own advantages; checkpoints take the curator along.
"""

# No `annotations` of the future: SkyRL reads the types of a configuration's fields, not their names.
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray, validate_cfg

from geoalign.adapters.exports import check_engine
from geoalign.adapters.placement import Placement
from geoalign.adapters.settings import SECTION, EngineSettings, read_section
from geoalign.adapters.skyrl.batch import apply_advantages, move_rows, read_rollouts
from geoalign.adapters.step import decide, make_session, named, refuse, wanted_components
from geoalign.curators.session import STATE_FILE, CurationSession

if TYPE_CHECKING:
    _Base: Any
else:
    _Base = object

# Losses that are finite in every token and masked token by token. Not so: clip_cov, kl_cov and importance_sampling,
# whose ratios overflow in rows that the mask hides.
DROPPING_LOSSES = ("regular", "dual_clip", "gspo", "sapo", "cispo", "rollout_is", "dppo")
# In the metadata of a batch, between the two hooks.
NOTES = "geoalign_notes"
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
        data.metadata[NOTES] = {name: generator_output.get(name) for name in ("stop_reasons", "env_metrics")}
        return data

    @torch.no_grad()
    def compute_advantages_and_returns(self, data: Any) -> Any:
        """SkyRL's advantages, or the curator's, of the curated batch."""
        algorithm = self.cfg.trainer.algorithm
        by_std, notes = algorithm.grpo_norm_by_std, data.metadata.pop(NOTES, {})
        rollouts = read_rollouts(data, notes, self._session.curator, self._geoalign, by_std=by_std)
        decision = decide(self._session, rollouts)
        self._session.calls += 1
        check_drops(decision.placement, algorithm, self._session.name)
        move_rows(data, decision.placement)
        data = super().compute_advantages_and_returns(data)
        apply_advantages(data, decision.placement, rollouts, by_std=by_std)
        self.all_metrics.update(named(decision.metrics))
        return data

    def save_checkpoints(self) -> Any:
        """SkyRL's checkpoint, with the curator: first, as SkyRL's last act names it the one to resume from."""
        self._session.save(Path(self.cfg.trainer.ckpt_path) / f"global_step_{self.global_step}" / STATE_FILE)
        return super().save_checkpoints()

    def load_checkpoints(self) -> Any:
        """SkyRL's checkpoint, and the curator's state in it."""
        found = super().load_checkpoints()
        if found[0] > 0:
            self._session.load(
                Path(found[1]) / STATE_FILE,
                setting="trainer.resume_mode",
                otherwise="set the geoalign.curator.type that it was saved with; or, to start curating in the middle "
                "of a training that did not, give its model as trainer.policy.model.path and trainer.resume_mode=none",
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
    """The settings and the curator of a configuration; raises by name unless the adapter carries it out."""
    check_engine("skyrl")
    place = "such as geoalign.curator.type=denoise"
    settings = read_section(EngineSettings, getattr(cfg, SECTION, None), engine="SkyRL", path=SECTION, place=place)
    how = "geoalign.rollout_fields.{need}=<name in the environment's get_metrics()>"
    session = make_session(settings, engine="SkyRL", how=how)
    trainer, algorithm, generator = cfg.trainer, cfg.trainer.algorithm, cfg.generator
    estimator, sampling, critic = (
        algorithm.advantage_estimator,
        algorithm.dynamic_sampling.type,
        trainer.critic.model.path,
    )
    refuse(
        {
            f"{session.name} requires hidden states, which SkyRL's workers do not return; take a curator without, such "
            "as geoalign.curator.type=denoise geoalign.curator.geometry=none": "hidden" in session.curator.requires,
            f"trainer.algorithm.advantage_estimator={estimator}: curated batches are carried out under grpo only; set it "
            "to grpo (grpo_norm_by_std may be either)": estimator != "grpo",
            "trainer.algorithm.use_kl_in_reward=true: curated rewards have no KL term; set it to false "
            "(use_kl_loss=true instead)": algorithm.use_kl_in_reward,
            "trainer.algorithm.advantage_batch_normalize=true: it would shift the advantages of all rows, those "
            "without weight among them; set it to false": algorithm.advantage_batch_normalize,
            "trainer.algorithm.policy_loss_type=cross_entropy: it reads no advantages, and so neither weights nor "
            "rewards; take another": algorithm.policy_loss_type == "cross_entropy",
            f"trainer.critic.model.path={critic}: curated batches have no values of a critic; leave it out": critic,
            "generator.step_wise_trajectories=true: rows that are turns are not curated; set it to false, and a "
            "trajectory of several turns is one row": generator.step_wise_trajectories,
            "generator.n_samples_per_prompt=1: expected at least 2, as SkyRL takes the reward of a single one for its "
            "advantage": generator.n_samples_per_prompt < 2,
            f"trainer.algorithm.dynamic_sampling.type={sampling} with fields of get_metrics(): SkyRL leaves those "
            "behind where it moves rows; leave it out (zero_variance_filter instead)": (
                sampling and (settings.rollout_fields or wanted_components(session.curator))
            ),
            f"trainer.ckpt_path={trainer.ckpt_path}: the curator's state goes to a local folder": (
                "://" in str(trainer.ckpt_path)
            ),
        }
    )
    return settings, session


def check_drops(placement: Placement, algorithm: Any, curator: str) -> None:
    """Raises UnsupportedError where SkyRL's loss cannot leave dropped rows out of what divides it."""
    loss, reduction = algorithm.policy_loss_type, algorithm.loss_reduction
    problems = {
        f"loss_reduction={reduction}, which divides by rows or prompts; set it to token_mean": (
            reduction != "token_mean"
        ),
        f"policy_loss_type={loss}, which is not known to leave them out; set it to one of "
        f"{', '.join(DROPPING_LOSSES)}": loss not in DROPPING_LOSSES,
        "use_kl_loss or use_entropy_loss=true, means that count them; set both to false": (
            algorithm.use_kl_loss or algorithm.use_entropy_loss
        ),
    }
    start, instead = f"{curator} drops rows under trainer.algorithm.", ", or let the curator replace or weigh rows"
    refuse({start + problem + instead: placement.dropped and holds for problem, holds in problems.items()})
