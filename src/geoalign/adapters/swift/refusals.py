"""What the adapter refuses by name, before the first step."""

from __future__ import annotations

from typing import Any

from geoalign.adapters.decision import refuse
from geoalign.adapters.grpo_trainer.generation_batch import RolloutField, check_session
from geoalign.adapters.grpo_trainer.moving_rows import dropping_scale
from geoalign.adapters.grpo_trainer.states import HiddenLocation, sharding
from geoalign.adapters.second_verifier import SecondVerifier
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError

_TEACHER = "its term enters the advantages of every row, dropped ones included"


class OtherTraining:
    """Stands in the place of every trainer that is not GRPO's, and refuses."""

    def __init__(self, *, args: Any, **_: Any) -> None:
        raise UnsupportedError(
            f"geoalign's plug-in under {type(args).__name__}: expected --rlhf_type grpo, whose groups of scored "
            "rollouts are what is curated; leave it out of --external_plugins"
        )


def check_trainer(
    trainer: Any,
    session: CurationSession,
    *,
    location: HiddenLocation,
    rollout_fields: dict[str, RolloutField],
    second_verifier: SecondVerifier | None = None,
) -> None:
    """Raises by name unless a trainer that is otherwise complete has what the adapter carries out."""
    parts = sharding(trainer)
    several = "rows of several turns have no one response; curate rollouts of one turn"
    refuse(
        {
            f"multi_turn_scheduler: {several}": trainer.multi_turn_scheduler or trainer.enable_server_multi_turn,
            f"use_gym_env: {several}": trainer.use_gym_env,
            "sequence_parallel_size: a process then has parts of rows; set it to 1": (
                trainer.template.sequence_parallel_size > 1
            ),
            f"teacher: {_TEACHER}": trainer._has_teacher_explicit(),
            "scale_rewards=gdpo: it normalises each reward function, and curators read one reward per row; set it to "
            "group": trainer.scale_rewards == "gdpo",
            "kl_in_reward=true: the KL term enters rewards after they are curated; set it to false": (
                trainer.kl_in_reward and trainer.beta != 0
            ),
            "loss_type=real: it reads the signs of advantages alone, and takes 0 for a wrong answer; set it to grpo": (
                trainer.loss_type == "real"
            ),
            "use_liger_kernel: never run with the adapter (it needs a GPU); leave it off": trainer.use_liger_loss,
            f"{parts}: never run with the adapter; use data parallelism or ZeRO-2": parts is not None,
            f"{session.name} with log-probabilities, which the adapter does not read here; set mass: share": (
                "logprobs" in session.curator.requires
            ),
        }
    )
    if "hidden" in session.curator.requires and trainer.is_multimodal:
        raise UnsupportedError(f"{session.name} with a multimodal model: the pass for hidden states feeds tokens alone")
    check_session(trainer, session, rollout_fields, location=location, second_verifier=second_verifier)
    if session.curator.drops_rows:
        check_drops(trainer, session.name)


def check_drops(trainer: Any, curator: str) -> None:
    """Raises UnsupportedError where the loss cannot leave out the rows that a curator of this name drops."""
    if trainer.chord_sft_iterator is not None:
        raise UnsupportedError(f"{curator} drops rows under chord_sft_dataset, whose loss is no mean over rollouts")
    dropping_scale(trainer, rows=1, kept=1)


def check_batch(trainer: Any, samples: list[Any]) -> None:
    """Raises UnsupportedError for samples with a teacher's prompt, and where a rollout server splits trajectories."""
    refuse(
        {
            "a rollout server that splits trajectories into several samples: groups have no one size": (
                trainer.dynamic_num_samples
            ),
            f"data set with teacher_prompt or teacher_images: {_TEACHER}": any(
                sample.teacher_prompt or sample.teacher_images is not None for sample in samples
            ),
        }
    )
