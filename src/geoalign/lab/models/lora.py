"""Low-rank adapters by peft: put on before a stage and merged after it, so that what it makes is a plain model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from geoalign.errors import MissingExtraError
from geoalign.lab.config.run import LoraConfig, PretrainedModelConfig


def lora_of(model_config: Any) -> LoraConfig | None:
    """The adapters that a run trains; None where it trains all weights."""
    return model_config.lora if isinstance(model_config, PretrainedModelConfig) else None


def with_adapters(model: Any, config: LoraConfig | None, *, seed: int) -> Any:
    """The model with fresh adapters, drawn from `seed`, and its own weights frozen; the model itself for None.

    An update B A starts at zero (Hu et al. 2022), so the model answers as before.

    Raises:
        MissingExtraError: peft is not installed.
    """
    if config is None:
        return model
    peft = _peft()
    targets = config.target_modules if isinstance(config.target_modules, str) else list(config.target_modules)
    options = peft.LoraConfig(
        task_type="CAUSAL_LM", r=config.rank, lora_alpha=config.scale * config.rank, target_modules=targets
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, options)


def merged(model: Any) -> Any:
    """The plain model with its adapters added to its weights; a model without adapters as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def merged_from(model: Any, checkpoint: Path) -> Any:
    """The plain model with the adapters of a checkpoint added to its weights."""
    return merged(_peft().PeftModel.from_pretrained(model, checkpoint))


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("model.lora needs peft: pip install 'geoalign[trl]'") from error
    return peft
