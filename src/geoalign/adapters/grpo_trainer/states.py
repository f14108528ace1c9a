"""Hidden states and mean log-probabilities of this process's rows, from TRL's own pass or one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from geoalign.hidden.answer_tokens import answer_starts
from geoalign.hidden.extract import batched_states, eval_mode
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.settings.hidden import HiddenLayer, HiddenPosition

TokenIds = list[list[int]]
HiddenSource = Literal["auto", "own_pass", "logprob_pass"]


@dataclass(frozen=True)
class HiddenLocation:
    """Which state stands for a response: at which position, after which layers."""

    position: HiddenPosition
    layer: HiddenLayer


class RowTokens:
    """The tokens of this process's rows, and which of them the policy wrote.

    Attributes:
        mask: [B, r] TRL's `tool_mask` (`env_mask` of a rollout function), padded with False; without it, it wrote all.
            A row in which it wrote nothing is True throughout: it must have a state.
        nothing: B flags of these rows, which are no donors.
        lengths: [B] tokens that the policy wrote.
        answers: B tokens with which the answers begin, once they are looked for.
    """

    def __init__(self, prompts: TokenIds, responses: TokenIds, masks: Sequence[Sequence[int]] | None = None) -> None:
        self.prompts, self.responses = prompts, responses
        self.answers: list[int] | None = None
        written = [torch.tensor(mask, dtype=torch.bool) for mask in masks or [[1] * len(ids) for ids in responses]]
        self.lengths: Int[Tensor, " b"] = torch.stack([mask.sum() for mask in written])
        self.nothing = [not bool(mask.any()) for mask in written]
        rows = [mask | none for mask, none in zip(written, self.nothing, strict=True)]
        self.mask: Bool[Tensor, "b r"] = pad_sequence(rows, batch_first=True)

    def find_answers(self, tokenizer: Any, location: HiddenLocation) -> None:
        """Notes where the answers begin (`geoalign.hidden.answer_tokens`), where the position needs it.

        An answer is looked for in what the policy wrote, over all its turns; never in the output of a tool.
        """
        if location.position != "answer_start":
            return
        columns = [row.nonzero().squeeze(1).tolist() for row in self.mask]
        own = [[ids[at] for at in part] for ids, part in zip(self.responses, columns, strict=True)]
        starts = answer_starts(tokenizer, own)
        self.answers = [part[start] if start >= 0 else -1 for part, start in zip(columns, starts, strict=True)]


def trl_pass_problem(trainer: Any) -> str | None:
    """Why TRL's pass for the old log-probabilities cannot serve a curator; None if it can.

    It runs where generation and optimisation are not aligned, or with vLLM and its importance correction. It feeds
    truncated rows without their completion under `mask_truncated_completions`, and leaves dropout on.
    """
    args = trainer.args
    generate_every = args.steps_per_generation * trainer.num_iterations
    corrected = trainer.use_vllm and trainer.vllm_importance_sampling_correction
    if args.gradient_accumulation_steps % generate_every == 0 and not corrected:
        return (
            "TRL computes no old log-probabilities here: gradient_accumulation_steps is a multiple of "
            "steps_per_generation * num_iterations"
        )
    if trainer.mask_truncated_completions:
        return "mask_truncated_completions hides truncated completions from that pass"
    if has_dropout(trainer.model):
        return "the model has dropout, which stays on in that pass"
    return None


def has_dropout(model: torch.nn.Module) -> bool:
    """Whether a training-mode forward pass of the model drops anything: a dropout layer, or one in its config."""
    layers = any(isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0 for module in model.modules())
    config = getattr(model, "config", None)
    settings = config.to_dict() if config is not None else {}
    drops = [value for key, value in settings.items() if "dropout" in key or key.endswith("pdrop")]
    return layers or any(isinstance(value, float) and value > 0 for value in drops)


class TrlPass:
    """Listens to one log-probability pass of TRL's: mean log-probabilities, and with a `location` hidden states."""

    hidden: Tensor
    logprobs: Tensor

    def __init__(self, location: HiddenLocation | None) -> None:
        self.location = location
        self.done = False

    def listen(
        self, run: Callable[[], Any], model: torch.nn.Module, input_ids: Tensor, logits_to_keep: int, rows: RowTokens
    ) -> Any:
        """Runs TRL's pass and returns its result; the prompt is left-padded, the response right-padded after it."""
        location = self.location
        if location is None:
            result = run()
        else:
            lengths = torch.tensor([len(ids) for ids in rows.responses], device=input_ids.device)
            start = torch.full_like(lengths, input_ids.size(1) - logits_to_keep)
            begins = None if rows.answers is None else torch.tensor(rows.answers)

            def select(states: Tensor, first: int) -> Tensor:
                part = slice(first, first + len(states))
                answer = None if begins is None else begins[part]
                return response_states(states, start[part], lengths[part], location.position, answer, rows.mask[part])

            with BackboneTap(model, select, layer=location.layer) as tap:
                result = run()
            self.hidden = torch.cat(tap.states)
        # The mean over the tokens that the policy wrote, NaN where it wrote none; responses stand in the first columns.
        inside = rows.mask.to(result[0].device)
        means = (result[0][:, : inside.size(1)].float() * inside).sum(1) / inside.sum(1)
        self.logprobs = means.masked_fill(torch.tensor(rows.nothing, device=means.device), torch.nan)
        self.done = True
        return result


def sharding(trainer: Any) -> str | None:
    """What leaves each process a part of the weights: "FSDP1", "FSDP2" or "ZeRO-3"; None: it has all of them."""
    if trainer.is_fsdp_enabled:
        return f"FSDP{trainer.accelerator.state.fsdp_plugin.fsdp_version}"
    stage = trainer.accelerator.state.deepspeed_plugin.zero_stage if trainer.is_deepspeed_enabled else 0
    return "ZeRO-3" if stage == 3 else None


def own_hidden(trainer: Any, rows: RowTokens, location: HiddenLocation) -> Float[Tensor, "b d"]:
    """The states of these rows under the current policy, by a pass of its own that draws no random number.

    Weights in parts are gathered by a pass of the whole model alone, on every process: then TRL's function runs it.
    """
    if sharding(trainer) is not None:
        return own_pass(trainer, rows, location).hidden
    backbone = backbone_of(trainer.model)

    def forward(ids: Tensor, mask: Tensor) -> Any:
        with trainer.accelerator.autocast():
            return backbone(input_ids=ids, attention_mask=mask, use_cache=False)

    with eval_mode(trainer.model):
        return batched_states(
            trainer.model,
            forward,
            rows.prompts,
            rows.responses,
            position=location.position,
            layer=location.layer,
            answer_starts=rows.answers,
            written=rows.mask,
            batch_size=trainer.args.per_device_train_batch_size,
            pad_id=trainer._tokenizer.pad_token_id,
            device=trainer.accelerator.device,
        )


def own_pass(trainer: Any, rows: RowTokens, location: HiddenLocation | None) -> TrlPass:
    """Listens to TRL's own function over these rows, in eval mode: log-probabilities at the sampling temperature."""
    batch_size = trainer.args.per_device_train_batch_size

    def padded(values: Callable[[list[int]], list[int]], fill: int) -> Tensor:
        sides = ((rows.prompts, "left"), (rows.responses, "right"))
        parts = [pad_sequence([torch.tensor(values(ids)) for ids in part], True, fill, side) for part, side in sides]
        return torch.cat(parts, dim=1).to(trainer.accelerator.device)

    ids, mask = padded(list, trainer._tokenizer.pad_token_id), padded(lambda ids: [1] * len(ids), 0)
    width, heard = max(map(len, rows.responses)), TrlPass(location)

    def run() -> Any:
        model = trainer.model
        return trainer._get_per_token_logps_and_entropies(model, ids, mask, width, batch_size=batch_size)

    with torch.no_grad(), eval_mode(trainer.model):
        heard.listen(run, trainer.model, ids, width, rows)
    return heard
