"""The settings of a model: a tiny one, or a pretrained one with or without adapters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from geoalign.settings import Count, Name, Options, Positive, default_type, setting, settings


@settings
class TinyModelConfig:
    """A small Qwen3-architecture language model with a character tokenizer, made from the task's alphabet."""

    type: Literal["tiny"] = "tiny"
    hidden_size: Annotated[int, Field(ge=8)] = setting(default=128, help="Width of the model.")
    layers: Count = setting(default=3, help="Transformer layers.")
    heads: Count = setting(default=4, help="Attention heads; divides hidden_size.")
    max_length: Annotated[int, Field(ge=16)] = setting(
        default=4096, help="Longest sequence, prompt and response together, in tokens."
    )
    # What a pretrained model's settings say, and the tiny model's need not.
    dtype: ClassVar[Literal["float32"]] = "float32"
    trust_remote_code: ClassVar[bool] = False
    chat_template_kwargs: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    lora: ClassVar[None] = None

    @model_validator(mode="after")
    def _even_heads(self) -> TinyModelConfig:
        # Rotary positions turn pairs of numbers.
        if self.hidden_size % (2 * self.heads):
            expected = f"expected a number whose double divides hidden_size = {self.hidden_size}"
            raise ValueError(f"heads: {expected}, got {self.heads}")
        return self


@settings
class LoraConfig:
    """Low-rank adapters by peft, in every stage that trains: warm start, reward and gold model, RL."""

    rank: Count = setting(default=16, help="Rank of the updates.")
    scale: Positive = setting(default=2.0, help="Factor on the updates (peft's lora_alpha / rank).")
    target_modules: str | Annotated[tuple[str, ...], Field(strict=False)] = setting(
        default="all-linear", help="Names of the layers that get an adapter, or all-linear."
    )


@settings
class PretrainedModelConfig:
    """A causal language model from a folder or from the Hugging Face hub."""

    path: Name = setting(help="Folder, or id on the Hugging Face hub.")
    type: Literal["pretrained"] = "pretrained"
    revision: str | None = setting(default=None, help="Branch, tag or commit on the hub.")
    dtype: Literal["float32", "bfloat16", "float16"] = setting(default="float32", help="Type of the weights in memory.")
    trust_remote_code: bool = setting(default=False, help="Run the Python code that comes with the model.")
    chat_template_kwargs: Options = setting(
        default_factory=dict,
        help="Arguments of the chat template, everywhere it is applied, such as enable_thinking: false.",
    )
    lora: LoraConfig | None = setting(
        default=None, help="Train low-rank adapters, merged after each stage; null: all weights."
    )


ModelConfig = Annotated[TinyModelConfig | PretrainedModelConfig, Field(discriminator="type"), default_type("tiny")]


# In place of a set's name: every set that is not named.
EVERY_OTHER = "*"
