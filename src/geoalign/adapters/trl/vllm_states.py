"""Hidden states from the vLLM engine with which TRL generates in the process of its trainer.

TRL 1.8.0 to 1.16.0 make that engine in `trl/generation/vllm_generation.py` with arguments of their own alone. The name
`LLM` there is another while the trainer is made, which adds those of the connector.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from trl.generation import vllm_generation

from geoalign.adapters.trl.states import StatePlace, own_hidden
from geoalign.adapters.trl.written import TokenIds
from geoalign.errors import InputError
from geoalign.hidden.final_norm import final_norm
from geoalign.hidden.layers import backbone_layers
from geoalign.hidden.tap import backbone_of
from geoalign.hidden.vllm_files import extraction_options, written_files, written_state
from geoalign.settings.hidden import layer_numbers

_LOGGER = logging.getLogger(__name__)


def engine_problem(trainer: Any) -> str | None:
    """Why TRL's engine cannot write states for a curator; None if it can."""
    args = trainer.args
    if not args.use_vllm:
        return "TRL generates without vLLM here (use_vllm=False)"
    if args.vllm_mode != "colocate":
        return (
            f"with vllm_mode={args.vllm_mode!r} TRL's client passes tokens and log-probabilities on, and not the files "
            "of states that a server names"
        )
    if args.vllm_tensor_parallel_size > 1:
        return "with vllm_tensor_parallel_size above 1 one process writes the files of several"
    if args.vllm_enable_sleep_mode:
        return "with vllm_enable_sleep_mode the engine has no weights when rewards are there"
    return None


class EngineStates:
    """TRL's colocated engine with the arguments under which it writes states, and its files, a folder a process."""

    def __init__(self, place: StatePlace) -> None:
        self._place = place
        folder = tempfile.mkdtemp(prefix="geoalign-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._folder = Path(folder)

    @contextmanager
    def connected(self, trainer: Any) -> Iterator[None]:
        """Whatever engine TRL makes in the block for this trainer, which has its model by then, writes states."""
        plain: Any = getattr(vllm_generation, "LLM", None)
        if plain is None:  # there is no vLLM, and TRL says so
            yield
            return

        def connected(**options: Any) -> Any:
            depth = len(backbone_layers(backbone_of(trainer.model)))
            whole, batched = options["max_model_len"], options["max_num_batched_tokens"]
            # Without chunked prefill vLLM wants a batch to hold the longest row; None: it sees to that.
            options["max_num_batched_tokens"] = None if whole is None else max(batched, whole)
            return plain(**options, **extraction_options(self._place.layer, depth, self._folder))

        vllm_generation.LLM = connected
        try:
            yield
        finally:
            vllm_generation.LLM = plain

    def hidden(
        self,
        trainer: Any,
        prompts: TokenIds,
        responses: TokenIds,
        answers: list[int] | None,
        mask: Bool[Tensor, "b r"] | None,
    ) -> tuple[Float[Tensor, "b d"], int]:
        """The states of these rows as of `own_hidden`, and how many of them are of that pass: vLLM wrote none of them.

        The engine holds the policy's weights of this generation. Its files are removed.
        """
        found: dict[int, Tensor] = {}
        problem: InputError | None = None
        read = self._reader(backbone_of(trainer.model))
        for row, path in enumerate(self._files(trainer.vllm_generation.llm, prompts, responses)):
            answer, own = None if answers is None else answers[row], None if mask is None else mask[row]
            try:
                found[row] = read(path, prompts[row], responses[row], answer_start=answer, own=own)
            except InputError as error:
                problem = error
        for left in self._folder.iterdir():  # TRL's own requests write files too
            left.unlink(missing_ok=True)
        missing = [row for row in range(len(prompts)) if row not in found]
        if missing:
            _LOGGER.warning("%d of %d rows without a state of vLLM's: %s", len(missing), len(prompts), problem)
            own_states = own_hidden(
                trainer,
                [prompts[row] for row in missing],
                [responses[row] for row in missing],
                self._place,
                None if answers is None else [answers[row] for row in missing],
                None if mask is None else mask[missing],
            )
            found.update(zip(missing, own_states, strict=True))
        device = trainer.accelerator.device
        return torch.stack([found[row].to(device) for row in range(len(prompts))]), len(missing)

    def _files(self, llm: Any, prompts: TokenIds, responses: TokenIds) -> list[str | None]:
        longest = llm.llm_engine.model_config.max_model_len - 1  # of a prompt: vLLM answers with one token more
        rows = [[*prompt, *response][:longest] for prompt, response in zip(prompts, responses, strict=True)]
        return written_files(llm, vllm_generation.SamplingParams(temperature=0, max_tokens=1, detokenize=False), rows)

    def _reader(self, backbone: nn.Module) -> Callable[..., Tensor]:
        """`written_state` with what it needs of the policy in its present state."""
        position, layer, depth = self._place.position, self._place.layer, len(backbone_layers(backbone))
        norm = deepcopy(final_norm(backbone)).cpu() if depth in layer_numbers(layer, depth) else None
        return partial(written_state, position=position, layer=layer, depth=depth, norm=norm)
