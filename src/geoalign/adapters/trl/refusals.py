"""What the adapter refuses by name, before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from transformers import ProcessorMixin
from trl import GRPOTrainer

from geoalign.adapters.trl.curate import RoundOptions
from geoalign.adapters.trl.logs import COLUMNS
from geoalign.adapters.trl.round import check_session
from geoalign.adapters.trl.states import HiddenSource, trl_pass_problem
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, UnsupportedError
from geoalign.settings.hidden import check_layer, check_position


def check_flow(trainer: type, mixin: type) -> None:
    """Raises UnsupportedError unless the class behind the mixin has the flow of TRL's GRPOTrainer, which it wraps.

    RLOOTrainer has methods of the same names, and other keys in its batches. AsyncGRPOTrainer (1.8.0 to 1.16.0) has a
    process of its own, which holds no model, scores one group at a time and puts rows with their advantage into a
    queue: there is no batch of groups to curate, and no states where the advantage is made.

    Unsloth rewrites TRL's trainer and keeps the names of what is wrapped (unsloth 2026.10.9, `models/rl.py` and
    `models/rl_replacements.py`), but its log-probability pass packs rows to the left, so that no column holds the token
    that it holds in TRL, its batches have per-row keys of their own (`max_left_pad`), and its loss is another.
    """
    behind = _behind(trainer, mixin)
    if any(base.__name__ == "_UnslothGRPOTrainer" for base in behind):
        raise UnsupportedError(
            f"{trainer.__name__} on Unsloth's GRPOTrainer: never run with the adapter (it needs a GPU), and its "
            "log-probabilities stand in other columns than TRL's; import geoalign.adapters.trl and trl without unsloth"
        )
    if GRPOTrainer not in behind:
        raise UnsupportedError(
            f"{trainer.__name__} on {behind[0].__name__}: expected a subclass of trl.GRPOTrainer. RLOOTrainer's "
            "batches have other keys; AsyncGRPOTrainer makes the advantages of one group at a time in a process "
            "without the model, so no curator sees a batch"
        )


def other_loss(trainer: type, mixin: type) -> str | None:
    """What in a trainer's loss is not GRPOTrainer's, so that nobody knows how it divides by rows; None: nothing."""
    owners = {
        "_compute_loss": _owner(trainer.__mro__, "_compute_loss"),
        "compute_loss": _owner(_behind(trainer, mixin), "compute_loss"),
    }
    for name, owner in owners.items():
        if owner is not GRPOTrainer:
            return (
                f"{owner.__name__} has a {name} of its own, which may count them; let the curator replace or weigh rows"
            )
    return None


def _behind(trainer: type, mixin: type) -> tuple[type, ...]:
    return trainer.__mro__[trainer.__mro__.index(mixin) + 1 :]


def _owner(classes: Sequence[type], method: str) -> type:
    # What this package adds hands the loss on.
    return next(base for base in classes if method in vars(base) and not base.__module__.startswith("geoalign."))


def check_trainer(trainer: Any, session: CurationSession, options: RoundOptions) -> None:
    """Raises by name unless a trainer that is otherwise complete has what the adapter carries out."""
    check_position(options.place.position)
    check_layer(options.place.layer)
    source = options.hidden_source
    if source not in get_args(HiddenSource):
        raise ConfigError(f"hidden_source: expected one of {', '.join(get_args(HiddenSource))}, got {source!r}")
    if options.details_every < 0:
        raise ConfigError(f"details_every: expected 0 (never) or a positive number, got {options.details_every}")
    check_session(trainer, session, options.fields, place=options.place, engine="TRL")
    if isinstance(trainer.processing_class, ProcessorMixin):
        raise UnsupportedError(
            f"vision model (processing class {type(trainer.processing_class).__name__}): curating its rows is not "
            "supported"
        )
    taken = sorted(set(COLUMNS) & set(trainer.reward_func_names))
    if taken:
        raise UnsupportedError(f"reward function called {taken[0]!r}: the completions table has a column of that name")
    if trainer.args.use_liger_kernel and hasattr(trainer, "compute_liger_loss"):
        raise UnsupportedError(
            "use_liger_kernel: this TRL takes Liger's loss, too, which was never run with the adapter; leave it off or "
            "install TRL 1.16, which takes its layers alone"
        )
    if trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3:
        raise UnsupportedError("DeepSpeed ZeRO-3: never run with the adapter; use data parallelism or ZeRO-2")
    if trainer.is_fsdp_enabled:
        raise UnsupportedError("FSDP: never run with the adapter; use data parallelism")
    if "hidden" in session.curator.requires and source == "logprob_pass":
        problem = trl_pass_problem(trainer)
        if problem is not None:
            raise UnsupportedError(f"hidden_source={source!r}: {problem}; use 'own_pass'")
