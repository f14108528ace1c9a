"""verl's FSDP engine that also returns hidden states, from the forward pass that verl makes anyway."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from geoalign.adapters.verl.keys import (
    ANSWER_KEY,
    HIDDEN_KEY,
    LAYER_KEY,
    POSITION_KEY,
    RESPONSE_KEY,
    REWARD_KEY,
    VENDOR,
)
from geoalign.hidden.answer_tokens import answer_starts
from geoalign.hidden.positions import packed_states, response_states
from geoalign.hidden.tap import BackboneTap
from geoalign.settings.hidden import LAST
from geoalign.types import response_keys


class GeoAlignFSDPEngine(FSDPEngineWithLMHead):
    """`FSDPEngineWithLMHead`, FSDP1 and FSDP2, whose forward-only passes can return one hidden state per row.

    A batch that carries `geoalign_hidden_position` gets the keys of `names`, which verl writes to TransferQueue like
    its own outputs: a jagged tensor [b, 1, d] in float32 of the states, and numbers [b, 1] in place of tokens that the
    driver would read. Other passes are verl's own, but for a mini-batch that was dropped whole.
    """

    _tap: BackboneTap | None = None

    def forward_step(self, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        """verl's step; listens to the backbone where the batch asks for hidden states.

        A mini-batch of which every row was dropped has no token to divide its loss by: it is then divided by one.
        """
        if tu.get_non_tensor_data(micro_batch, "batch_num_tokens", None) == 0:
            tu.assign_non_tensor(micro_batch, batch_num_tokens=1)
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
            outputs.update(_row_numbers(micro_batch, states.device))
            if answers is not None:
                outputs[ANSWER_KEY] = _one_a_row(answers[:, None].to(states.device))
        return outputs

    def _answer_starts(self, micro_batch: Any) -> Tensor | None:
        if tu.get_non_tensor_data(micro_batch, POSITION_KEY, None) != "answer_start":
            return None
        responses = [response.tolist() for response in micro_batch["responses"].unbind()]
        return torch.tensor(answer_starts(self.model_config.tokenizer, responses))

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


def _row_numbers(micro_batch: Any, device: torch.device) -> dict[str, Tensor]:
    """[b, 1] in place of what the driver would read of every token: the responses' keys, the sums of their scores."""
    keys = response_keys(response.tolist() for response in micro_batch["responses"].unbind())
    numbers = {RESPONSE_KEY: _one_a_row(keys[:, None].to(device))}
    scores = micro_batch.get("rm_scores", None)
    if scores is not None:
        sums = torch.stack([row.float().sum() for row in scores.unbind()])
        numbers[REWARD_KEY] = _one_a_row(sums[:, None].to(device))
    return numbers


def _one_a_row(values: Tensor) -> Tensor:
    """[b, n] as a jagged tensor [b, 1, n]."""
    return torch.nested.nested_tensor_from_jagged(values.contiguous(), torch.arange(len(values) + 1).to(values.device))


EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cuda", "npu"], vendor=VENDOR)(
    GeoAlignFSDPEngine
)
