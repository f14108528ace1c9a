"""Loading a ready reward model: as the class it was trained as, with all its weights, its own code only if allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
from transformers.models.llama import modeling_llama

from geoalign.errors import ConfigError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.pretrained import from_pretrained, own_code

CODE_SETTING = "reward.model.trust_remote_code"
_CLASS = "AutoModelForSequenceClassification"


def load_ready_model(model_id: str | Path, config: RewardModelConfig) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or the hub, the weights in `config.dtype`, on the CPU.

    Raises:
        ConfigError: there is no sequence classifier with its tokenizer, some of its weights are missing (they would be
            drawn at random, as for a plain language model), or it comes with code that nobody allowed to run.
    """
    settings, tokenizer = _settings(model_id, config)
    _supply_names_of_older_transformers()
    with _described(model_id):
        model, report = from_pretrained(
            AutoModelForSequenceClassification,
            model_id,
            config=settings,
            dtype=getattr(torch, config.dtype),
            output_loading_info=True,
            **_options(config),
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(
            f"reward model: expected all weights of {type(model).__name__} in {str(model_id)!r}, got no {missing[0]!r} "
            f"({len(missing)} missing): is it a language model without a trained head?"
        )
    return model, tokenizer


def check_ready_model(model_id: str | Path, config: RewardModelConfig) -> None:
    """Finds what is wrong with a reward model without reading its weights.

    Raises:
        ConfigError: its settings or its tokenizer are not there, it has more than one label and no code of its own, or
            code that nobody allowed to run.
    """
    settings, tokenizer = _settings(model_id, config)
    if not _own_code(settings) and settings.num_labels != 1:
        raise ConfigError(
            f"reward.model.path: expected a model with one label, got {settings.num_labels} in {model_id!r}"
        )
    if tokenizer.chat_template is None:
        raise ConfigError(f"reward.model.path: expected a tokenizer with a chat template, got none in {model_id!r}")


def has_own_code(model: Any) -> bool:
    """Whether a model's class is defined outside transformers, by code that came with its weights."""
    return not type(model).__module__.startswith("transformers.")


def _settings(model_id: str | Path, config: RewardModelConfig) -> tuple[Any, Any]:
    with _described(model_id):
        settings = from_pretrained(AutoConfig, model_id, **_options(config))
        if not config.trust_remote_code and _own_code(settings):
            # Without its code transformers would take the plain classifier of that architecture, with a random head.
            raise own_code(model_id, CODE_SETTING)
        return settings, from_pretrained(AutoTokenizer, model_id, **_options(config))


def _options(config: RewardModelConfig) -> dict[str, Any]:
    code = {"trust_remote_code": config.trust_remote_code, "setting": CODE_SETTING}
    return {"revision": config.revision, **code}


def _own_code(settings: Any) -> bool:
    return _CLASS in (getattr(settings, "auto_map", None) or {})


@contextmanager
def _described(model_id: str | Path) -> Iterator[None]:
    """What transformers raises about a model, in this package's words."""
    try:
        yield
    except ConfigError:
        raise
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"reward model: expected a sequence classifier with its tokenizer, got {str(model_id)!r}: {error}"
        ) from error


def _supply_names_of_older_transformers() -> None:
    # ArmoRM's code imports this docstring, which transformers has dropped and which means nothing to the model.
    if not hasattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING"):
        setattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING", "")  # noqa: B010 - mypy knows that the name is not there
