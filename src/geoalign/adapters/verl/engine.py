"""verl's FSDP engine that also returns hidden states, from the forward pass that verl makes anyway."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from geoalign.adapters.verl.names import ANSWER_KEY, HIDDEN_KEY, LAYER_KEY, POSITION_KEY, VENDOR
from geoalign.adapters.verl.refusals import NO_TOKENIZER
from geoalign.adapters.verl.states import packed_states
from geoalign.errors import UnsupportedError
from geoalign.hidden.answers import answer_starts
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap
from geoalign.settings.hidden import LAST


class GeoAlignFSDPEngine(FSDPEngineWithLMHead):
    """`FSDPEngineWithLMHead`, FSDP1 and FSDP2, whose forward-only passes can return one hidden state per row.

    A batch that carries `geoalign_hidden_position` gets the key `geoalign_hidden`, a jagged tensor [b, 1, d] in float32
    of the state after the layers of `geoalign_hidden_layer` (the last: after the final norm), several side by side;
    verl writes it to TransferQueue like its own outputs. For the position `anchor` it also gets `geoalign_answer_start`
    [b, 1]: the worker's tokenizer reads the responses. Other passes, those of training among them, are verl's own.
    """

    _tap: BackboneTap | None = None

    def forward_step(self, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        """verl's step; listens to the backbone where the batch asks for hidden states."""
        if not forward_only or tu.get_non_tensor_data(micro_batch, POSITION_KEY, None) is None:
            return super().forward_step(micro_batch, loss_function, forward_only)
        layer = json.loads(tu.get_non_tensor_data(micro_batch, LAYER_KEY, str(LAST)))
        with BackboneTap(self.module, layer=layer) as self._tap:
            try:
                return super().forward_step(micro_batch, loss_function, forward_only)
            finally:
                self._tap = None

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Any]:
        """verl's outputs, and the hidden states where they are asked for."""
        outputs = super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        if self._tap is not None:
            answers = self._answer_starts(micro_batch)
            states = self._row_states(self._tap.states[0], output_args, micro_batch, answers)
            outputs[HIDDEN_KEY] = _one_a_row(states)
            if answers is not None:
                outputs[ANSWER_KEY] = _one_a_row(answers[:, None].to(states.device))
        return outputs

    def _answer_starts(self, micro_batch: Any) -> Tensor | None:
        if tu.get_non_tensor_data(micro_batch, POSITION_KEY, None) != "anchor":
            return None
        tokenizer = getattr(self.model_config, "tokenizer", None)
        if tokenizer is None:
            raise UnsupportedError(NO_TOKENIZER)
        responses = [response.tolist() for response in micro_batch["responses"].unbind()]
        return torch.tensor(answer_starts(tokenizer, responses))

    def _row_states(
        self, states: Tensor, output_args: dict[str, Any], micro_batch: Any, answers: Tensor | None
    ) -> Tensor:
        position = tu.get_non_tensor_data(micro_batch, POSITION_KEY, None)
        offsets = micro_batch["input_ids"].offsets().long()
        responses = micro_batch["responses"].offsets().diff().long()
        # verl writes `pad_size` where it removed the padding, and gathers what Ulysses split over the processes.
        if "pad_size" in output_args:
            flat = self._gather_and_unpad_packed(states.squeeze(0), output_args["pad_size"])
            return packed_states(flat, offsets, responses, position, answers)
        return response_states(states, offsets.diff() - responses, responses, position, answers)


def _one_a_row(values: Tensor) -> Tensor:
    """[b, n] as a jagged tensor [b, 1, n]."""
    return torch.nested.nested_tensor_from_jagged(values.contiguous(), torch.arange(len(values) + 1).to(values.device))


EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cuda", "npu"], vendor=VENDOR)(
    GeoAlignFSDPEngine
)
