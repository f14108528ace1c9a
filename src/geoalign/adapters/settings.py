"""The settings of every engine's adapter, from plain data of that engine's own configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.errors import ConfigError
from geoalign.settings import Name, Options, Positive, setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import NOWHERE, Locations, dotted

# The section's name in the configurations of verl, slime and SkyRL.
SECTION = "geoalign"
# Where rows of Trinity (`Experience.info`) and slime (`Sample.metadata`) bring their hidden state.
HIDDEN = "geoalign_hidden"
# Rollout fields that no engine knows by itself.
RolloutFieldName = Annotated[str, Field(pattern="^(answers|reference_rewards|true_rewards|gold_answers)$")]
# Of these, what is no field of `Rollouts`: it goes to the second verifier.
GOLD_ANSWERS = "gold_answers"
# What an engine logs of a curation: five metrics and what went wrong, or all of them.
LogMetrics = Literal["headline", "all"]


@settings
class EngineSettings:
    """The settings that all engines share."""

    curator: CuratorSection = setting(
        default_factory=default_curator, help="Settings of the curator: a section with its `type`, or a name alone."
    )
    monitor: bool = setting(default=False, help="Only watch: nothing is changed, as with the curator `monitor`.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(default=0, help="Seed of the curator's draws.")
    rollout_fields: dict[RolloutFieldName, str] = setting(
        default_factory=dict,
        help=(
            "Where the engine's rows hold answers, reference_rewards and true_rewards; and for a second verifier "
            "gold_answers, where the engine's own place is not the right one."
        ),
    )
    second_verifier: Name | None = setting(
        default=None,
        help="Judges the rows that `appeals` asks about: math_verify, MODULE:NAME, a command or https://host/v1.",
    )
    second_verifier_endpoint: Options = setting(
        default_factory=dict, help="For `https://...` above: model, max_tokens, ... as in `geoalign judge`."
    )
    second_verifier_seconds: Positive = setting(
        default=60.0, help="Seconds for the questions of one call; what is not answered by then stays as it is."
    )
    log_metrics: LogMetrics = setting(
        default="headline", help="headline: five metrics and what went wrong; all: every metric of the curator."
    )


@settings
class StateSettings(EngineSettings):
    """The settings of verl, ms-swift and Trinity, where the adapter reads hidden states."""

    hidden_position: HiddenPosition = setting(
        default="predicting", help="Where in a response its hidden state is read (`geoalign.hidden`)."
    )
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: its number, or a share of the depth; a list: several."
    )


@settings
class TrinitySettings(StateSettings):
    """The content of `args` (operator) or `advantage_fn_args` in Trinity's YAML."""

    model_path: str | None = setting(
        default=None, help="Model that computes the hidden states; null: every experience brings its own."
    )
    reload: Literal["published", "never"] = setting(
        default="published",
        help="published: the latest weights of Trinity's synchroniser; never: always those of model_path.",
    )
    device: str = setting(default="cpu", help="Device of model_path.")
    dtype: Literal["float32", "bfloat16", "float16"] = setting(default="float32", help="Type of model_path's weights.")
    batch_size: Annotated[int, Field(ge=1)] = setting(default=8, help="Rows per forward pass of model_path.")
    trust_remote_code: bool = setting(default=False, help="Run the Python code that comes with model_path.")
    state_file: str | None = setting(
        default=None, help="Projector and random state, written after each batch and resumed from."
    )


@settings
class SlimeSettings(EngineSettings):
    """The section `geoalign` in the file of slime's `--custom-config-path`."""

    data_source: str | None = setting(
        default=None, help="Path of the data source to wrap; null: the one that --data-source-path has by default."
    )
    resume: bool = setting(
        default=True, help="Save the curator's state with checkpoints, and restore it from those of --load."
    )


@settings
class RllmSettings(EngineSettings):
    """What `geoalign.adapters.rllm.register` takes."""

    state_file: str | None = setting(
        default=None, help="The curator's state, written after each batch and resumed from; rLLM saves none of its own."
    )


Settings = TypeVar("Settings", bound=EngineSettings)


def read_section(
    kind: type[Settings],
    given: Any,
    *,
    engine: str,
    path: str = "",
    place: str = "",
    locations: Locations = NOWHERE,
) -> Settings:
    """The settings of the class `kind` from plain data; None: all defaults. Only TRL shows labelled rollouts.

    Args:
        engine: its name; `path`: the dotted key of the section; `place`: what is expected there; for messages.
        locations: where each key was written.

    Raises:
        ConfigError: no section, an unknown key (with the nearest known one), a value out of range, labelled rollouts.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{path}: expected a section {place}, got {given!r}")
    plain = dict(given or {})
    if plain.get("labelled_rollouts") is not None:
        raise ConfigError(
            f"{dotted(path, 'labelled_rollouts')}: expected to be left out, got a value: inside {engine} none can be "
            "shown to a curator, inside TRL they can (geoalign.adapters.trl)"
        )
    parsed: Settings = load_settings(kind, plain, locations, path=path)
    return parsed
