"""What the adapter refuses by name, before the first step."""

from __future__ import annotations

from typing import Any, get_args

from transformers import ProcessorMixin
from trl import GRPOTrainer

from geoalign.adapters.decision import refuse
from geoalign.adapters.grpo_trainer.generation_batch import COLUMNS, CuratedTrainer, check_session
from geoalign.adapters.grpo_trainer.moving_rows import dropping_scale
from geoalign.adapters.grpo_trainer.states import HiddenSource, sharding, trl_pass_problem
from geoalign.adapters.trl.curate import RoundOptions, shaped_sum
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, UnsupportedError
from geoalign.settings.hidden import check_layer, check_position


def check_flow(trainer: type) -> None:
    """Raises UnsupportedError unless the class behind the mixin has the flow of TRL's GRPOTrainer, which it wraps."""
    behind = _behind(trainer)
    # Its trainer keeps the names of what is wrapped, and has another loss and per-row keys of its own.
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


def other_loss(trainer: type) -> str | None:
    """The part of a trainer's loss that is not GRPOTrainer's, so that its division by rows is unknown; or None."""
    for name, classes in (("_compute_loss", trainer.__mro__), ("compute_loss", _behind(trainer))):
        # What this package adds hands the loss on.
        ours = (base.__module__.startswith("geoalign.") for base in classes)
        owner = next(base for base, own in zip(classes, ours, strict=True) if name in vars(base) and not own)
        if owner is not GRPOTrainer:
            return (
                f"{owner.__name__} has a {name} of its own, which may count them; let the curator replace or weigh rows"
            )
    return None


def _behind(trainer: type) -> tuple[type, ...]:
    return trainer.__mro__[trainer.__mro__.index(CuratedTrainer) + 1 :]


def check_actions(trainer: Any, session: CurationSession, options: RoundOptions) -> None:
    """Raises UnsupportedError for what the curator declares to do, and this trainer cannot carry out."""
    curator = session.curator
    if curator.drops_rows:
        if options.other_loss is not None:
            raise UnsupportedError(f"{session.name} drops rows, and {options.other_loss}")
        # Refuses a loss from which no row can be left out.
        dropping_scale(trainer, rows=1, kept=1)
    if "rewards" in (curator.acts_on or ()) and trainer.multi_objective_aggregation == "normalize_then_sum":
        raise UnsupportedError(shaped_sum(session.name))


def check_trainer(trainer: Any, session: CurationSession, options: RoundOptions) -> None:
    """Raises by name unless a trainer that is otherwise complete has what the adapter carries out."""
    check_position(options.location.position)
    check_layer(options.location.layer)
    source = options.hidden_source
    if source not in get_args(HiddenSource):
        raise ConfigError(f"hidden_source: expected one of {', '.join(get_args(HiddenSource))}, got {source!r}")
    if options.details_every < 0:
        raise ConfigError(f"details_every: expected 0 (never) or a positive number, got {options.details_every}")
    check_session(trainer, session, options.fields, location=options.location, second_verifier=options.second_verifier)
    taken = sorted(set(COLUMNS) & set(trainer.reward_func_names))
    kind = type(trainer.processing_class)
    refuse(
        {
            f"{kind.__name__}: rows with images are not curated; to train a model with a processor on text alone, give "
            "processing_class=AutoTokenizer.from_pretrained(...)": issubclass(kind, ProcessorMixin),
            "FSDP1: never run with the adapter; use FSDP2 (fsdp_config={'version': 2})": sharding(trainer) == "FSDP1",
            f"reward function called {''.join(taken[:1])!r}: the completions table has a column of that name": taken,
            "use_liger_kernel: this TRL takes Liger's loss, too, which was never run with the adapter; leave it off or "
            "install TRL 1.16, which takes its layers alone": (
                trainer.args.use_liger_kernel and hasattr(trainer, "compute_liger_loss")
            ),
        }
    )
    check_actions(trainer, session, options)
    if "hidden" in session.curator.requires and source == "logprob_pass":
        problem = trl_pass_problem(trainer)
        if problem is not None:
            raise UnsupportedError(f"hidden_source={source!r}: {problem}; use 'auto'")
