"""What the adapter refuses by name, before the first step."""

from __future__ import annotations

from typing import Any

from geoalign.adapters.trl.round import RolloutField, check_session
from geoalign.adapters.trl.states import StatePlace
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
    trainer: Any, session: CurationSession, *, place: StatePlace, rollout_fields: dict[str, RolloutField]
) -> None:
    """Raises by name unless a trainer that is otherwise complete has what the adapter carries out."""
    for option, reason in _refused(trainer):
        raise UnsupportedError(f"{option}: {reason}")
    if "hidden" in session.curator.requires and trainer.is_multimodal:
        raise UnsupportedError(f"{session.name} with a multimodal model: the pass for hidden states feeds tokens alone")
    check_session(trainer, session, rollout_fields, place=place, engine="ms-swift")


def _refused(trainer: Any) -> list[tuple[str, str]]:
    """The options that cannot be carried out, and why."""
    zero_3 = trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3
    several = "rows of several turns have no one response; curate rollouts of one turn"
    conditions = {
        "multi_turn_scheduler": (trainer.multi_turn_scheduler or trainer.enable_server_multi_turn, several),
        "use_gym_env": (trainer.use_gym_env, several),
        "sequence_parallel_size": (
            trainer.template.sequence_parallel_size > 1,
            "a process then has parts of rows; set it to 1",
        ),
        "teacher": (trainer._has_teacher_explicit(), _TEACHER),
        "scale_rewards=gdpo": (
            trainer.scale_rewards == "gdpo",
            "it normalises each reward function, and curators read one reward per row; set it to group",
        ),
        "kl_in_reward=true": (
            trainer.kl_in_reward and trainer.beta != 0,
            "the KL term enters rewards after they are curated; set it to false",
        ),
        "use_liger_kernel": (trainer.use_liger_loss, "never run with the adapter (it needs a GPU); leave it off"),
        "deepspeed zero3": (zero_3, "never run with the adapter; use data parallelism or zero2"),
        "fsdp": (trainer.is_fsdp_enabled, "never run with the adapter; use data parallelism"),
    }
    return [(option, reason) for option, (set_, reason) in conditions.items() if set_]


def check_batch(trainer: Any, samples: list[Any]) -> None:
    """Raises UnsupportedError for samples with a teacher's prompt, and where a rollout server splits trajectories."""
    if trainer.dynamic_num_samples:
        raise UnsupportedError(
            "a rollout server that splits trajectories into several samples: groups have no one size"
        )
    if any(sample.teacher_prompt or sample.teacher_images is not None for sample in samples):
        raise UnsupportedError(f"data set with teacher_prompt or teacher_images: {_TEACHER}")


def check_drops(trainer: Any, curator: str) -> None:
    """Raises UnsupportedError where the loss has terms that a factor for dropped rows would change, too."""
    if trainer.chord_sft_iterator is not None:
        raise UnsupportedError(f"{curator} drops rows under chord_sft_dataset, whose loss is no mean over rollouts")
