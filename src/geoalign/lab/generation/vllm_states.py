"""Hidden states of given prompts and responses, read by vLLM."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.errors import ConfigError, MissingExtraError
from geoalign.hidden.final_norm import load_final_norm
from geoalign.hidden.vllm_files import extraction_options, written_files, written_state
from geoalign.settings.hidden import HiddenLayer, HiddenPosition, layer_numbers


class VLLMStates:
    """vLLM's `LLM` that writes the states of what it reads: prompt and response as one prompt, and one token more.

    Args:
        path: folder of the model; its final norm is read from there.
        depth: layers of the model.
        options: further ones of `LLM`.

    Raises:
        MissingExtraError: vLLM is not installed.
        InputError: the model has no such layer.
        ConfigError: vLLM does not load the model with these settings.
    """

    device = torch.device("cuda")

    def __init__(
        self,
        path: str,
        *,
        depth: int,
        dtype: str,
        layer: HiddenLayer,
        trust_remote_code: bool,
        options: Mapping[str, Any],
    ) -> None:
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise MissingExtraError(f"hidden_source=vllm needs vLLM: pip install vllm ({error})") from error
        self._layer, self._depth = layer, depth
        last = depth in layer_numbers(layer, depth)
        self._norm = load_final_norm(path).to(getattr(torch, dtype)) if last else None
        self._params = SamplingParams(temperature=0, max_tokens=1, detokenize=False)
        folder = tempfile.mkdtemp(prefix="geoalign-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        extraction = extraction_options(layer, depth, folder)
        try:
            self._llm: Any = LLM(
                model=path, dtype=dtype, trust_remote_code=trust_remote_code, **{**extraction, **options}
            )
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"vllm: expected a model that it loads, got {path!r}: {error}") from error

    def states(
        self,
        prompts: Sequence[Sequence[int]],
        responses: Sequence[Sequence[int]],
        *,
        position: HiddenPosition,
        answer_starts: Sequence[int] | None = None,
    ) -> Float[Tensor, "b d"]:
        """[B, d] as `extract_states`, float32 on the CPU.

        Raises:
            InputError: vLLM answers without the file of a row, or with that of other tokens.
        """
        paths = written_files(
            self._llm, self._params, [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
        )
        rows = []
        for row, (path, prompt, response) in enumerate(zip(paths, prompts, responses, strict=True)):
            rows.append(
                written_state(
                    path,
                    prompt,
                    response,
                    position=position,
                    layer=self._layer,
                    depth=self._depth,
                    norm=self._norm,
                    answer_start=None if answer_starts is None else answer_starts[row],
                )
            )
        return torch.stack(rows)
