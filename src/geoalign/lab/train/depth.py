"""Whether the model of a run has the layers that `hidden_layer` names, before anything is trained."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig

from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.run import PretrainedModelConfig, RunConfig
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.settings.hidden import is_last, layer_numbers
from geoalign.settings.locations import NOWHERE, Locations


def check_depth(config: RunConfig, locations: Locations = NOWHERE) -> None:
    """Raises ConfigError for a layer that the model does not have; of a pretrained one only the settings are read."""
    if is_last(config.hidden_layer):
        return
    model = config.model
    depth = _depth(model) if isinstance(model, PretrainedModelConfig) else model.layers
    try:
        layer_numbers(config.hidden_layer, depth)
    except InputError as error:
        raise ConfigError(f"{locations.prefix('hidden_layer')}{error}") from error


def _depth(model: PretrainedModelConfig) -> int:
    allowed: dict[str, Any] = {
        "trust_remote_code": model.trust_remote_code,
        "setting": "model.trust_remote_code",
    }
    try:
        config = from_pretrained(AutoConfig, model.path, revision=model.revision, **allowed)
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path: expected a model, got {model.path!r}: {error}") from error
    return int(config.get_text_config().num_hidden_layers)
