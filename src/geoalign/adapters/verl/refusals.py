"""What the adapter refuses by name, each message with what to change. Imports no verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.adapters.assignment import Assignment
from geoalign.adapters.decision import refuse
from geoalign.adapters.settings import SECTION, StateSettings
from geoalign.adapters.verl.keys import VENDOR, VENDOR_VARIABLE
from geoalign.errors import ConfigError, InputError, UnsupportedError
from geoalign.settings.hidden import is_last_layer, layer_numbers

# The names under which our trainers stand in verl's registry.
MODES = ("geoalign_sync", "geoalign_colocate_async", "geoalign_separate_async")
# verl's losses that are masked token by token and divided as `loss_agg_mode` says. Not so: sapo (a mean over sequences
# whatever is set), geo_mean (over the rows of a micro-batch), clip_cov and kl_cov (ratios overflow in masked rows).
DROPPING_LOSSES = ("vanilla", "gspo", "cispo", "dppo_tv", "dppo_kl", "gpg", "dro")


def check_config(config: Mapping[str, Any]) -> None:
    """Raises by name unless verl's resolved configuration, as plain data, is one that the adapter carries out."""
    strategy, algorithm = config["actor_rollout_ref"]["actor"]["strategy"], config["algorithm"]
    bypassed = (algorithm.get("rollout_correction") or {}).get("bypass_mode", False)
    refuse(
        {
            f"actor_rollout_ref.actor.strategy={strategy}: hidden states come from the FSDP engines only; set "
            "model_engine=dp, actor_rollout_ref.actor.strategy=fsdp2": strategy not in ("fsdp", "fsdp2"),
            "algorithm.rollout_correction.bypass_mode=true: verl then makes no forward pass for the old "
            "log-probabilities, from which the hidden states come; set it to false": bypassed,
            f"algorithm.adv_estimator={algorithm['adv_estimator']}: curated batches are carried out under grpo only; "
            "set algorithm.adv_estimator=grpo": (algorithm["adv_estimator"] != "grpo"),
            "algorithm.use_kl_in_reward=true: curated rewards have no KL term; set it to false "
            "(actor_rollout_ref.actor.use_kl_loss=true instead)": algorithm["use_kl_in_reward"],
            "distillation.enabled=true: never run with the adapter; set it to false": (
                (config.get("distillation") or {}).get("enabled", False)
            ),
        }
    )


def check_mode(config: Mapping[str, Any]) -> None:
    """Raises UnsupportedError where verl would run a trainer of its own, which no curator is in."""
    trainer = config["trainer"]
    mode = trainer["v1"]["trainer_mode"]
    refuse(
        {
            "trainer.use_v1=false: verl's older trainer would run, without a curator; leave it at true": (
                not trainer["use_v1"]
            ),
            f"trainer.v1.trainer_mode={mode}: verl's own trainer would run, without a curator; set it to one of "
            f"{', '.join(MODES)}": mode not in MODES,
        }
    )


def check_states(settings: StateSettings, model: Any) -> None:
    """Checks layers and position against verl's configuration of the actor's model (`HFModelConfig`)."""
    text = model.hf_config.get_text_config() if hasattr(model.hf_config, "get_text_config") else model.hf_config
    if not is_last_layer(settings.hidden_layer):
        try:
            layer_numbers(settings.hidden_layer, text.num_hidden_layers)
        except InputError as error:
            raise ConfigError(f"{SECTION}.{error}") from error
    refuse(
        {
            f"{SECTION}.hidden_position=answer_start: answers are found in the text of responses, and verl loads no "
            "tokenizer; set actor_rollout_ref.model.load_tokenizer=true, or another position": (
                settings.hidden_position == "answer_start" and model.tokenizer is None
            )
        }
    )


def check_tokenizer(tokenizer: Any) -> None:
    """Raises UnsupportedError where a second verifier is to read responses, and verl has no tokenizer."""
    refuse(
        {
            f"{SECTION}.second_verifier: it reads the text of responses, and verl loads no tokenizer; set "
            "actor_rollout_ref.model.load_tokenizer=true": tokenizer is None
        }
    )


def check_assignment(assignment: Assignment, config: Mapping[str, Any], curator: str) -> None:
    """Raises UnsupportedError where rows were dropped that verl's loss cannot leave out of what divides it."""
    check_drops(config, curator, drops=assignment.dropped)


def check_drops(config: Mapping[str, Any], curator: str, *, drops: bool) -> None:
    """Raises UnsupportedError where a curator of this name `drops` rows, and verl's loss cannot leave them out of what
    divides it."""
    actor = config["actor_rollout_ref"]["actor"]
    aggregated, mode = actor["loss_agg_mode"], actor["policy_loss"]["loss_mode"]
    refuse(
        {
            f"{curator} drops rows under actor_rollout_ref.actor.policy_loss.loss_mode={mode}, which is not known to "
            f"leave them out of what it divides by; set it to one of {', '.join(DROPPING_LOSSES)}, or let the curator "
            "replace or weigh rows": drops and mode not in DROPPING_LOSSES,
            f"{curator} drops rows under actor_rollout_ref.actor.loss_agg_mode={aggregated}, which divides by a fixed "
            "number of sequences; set it to token-mean, or let the curator replace or weigh rows": (
                drops and aggregated not in ("token-mean", "token-sum")
            ),
        }
    )


def check_sessions(assignment: Assignment, sessions: Sequence[Sequence[int]], curator: str) -> None:
    """Raises UnsupportedError where a session would stand in the place of one with another number of rows."""
    rows = [len(session) for session in sessions]
    refuse(
        {
            f"{curator} puts an agent loop's session of {rows[donor]} rows in the place of one of {rows[position]}: "
            "use a curator that replaces no rows (denoise), or equally many outputs": rows[donor] != rows[position]
            for position, donor in enumerate(assignment.source.tolist())
        }
    )


def check_engines(engines: Sequence[str]) -> None:
    """Raises UnsupportedError where a worker would run verl's own engine, by the engine's class in each process."""
    for rank, engine in enumerate(engines):
        if not engine.startswith("geoalign."):
            raise UnsupportedError(
                f"actor worker {rank} of {len(engines)} has {engine}: set {VENDOR_VARIABLE}={VENDOR} for every Ray "
                f"process (in the shell, and on a cluster with +ray_kwargs.ray_init.runtime_env.env_vars."
                f"{VENDOR_VARIABLE}={VENDOR}), install geoalign[verl] on every node, and let VERL_USE_EXTERNAL_PLUGINS "
                "be unset or name geoalign"
            )
