"""The settings of a model that is loaded."""

from __future__ import annotations

from typing import Literal

from geoalign.settings import Name, setting, settings


@settings
class LoadedModelConfig:
    """How a model that is not trained is loaded."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        default="auto",
        help="Type of the model's weights; auto: bfloat16, but float32 on a CPU that has neither AMX nor AVX512-BF16.",
    )
    device: Name | None = setting(default=None, help="Device of transformers; null: an accelerator where there is one.")
    revision: Name | None = setting(default=None, help="Branch, tag or commit of the model on the hub.")
    trust_remote_code: bool = setting(default=False, help="Run the Python code that comes with the model.")
