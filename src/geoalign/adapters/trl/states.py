"""Hidden states and mean log-probabilities of this process's rows, from TRL's own pass or one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from geoalign.hidden.answers import answer_starts
from geoalign.hidden.extract import batched_states, eval_mode
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.settings.hidden import HiddenLayer, HiddenPosition

TokenIds = list[list[int]]
HiddenSource = Literal["own_pass", "logprob_pass"]


@dataclass(frozen=True)
class StatePlace:
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

    def find_answers(self, tokenizer: Any, place: StatePlace) -> None:
        """Notes where the answers begin (`geoalign.hidden.answer_starts`), where the position needs it.

        An answer is looked for in what the policy wrote, over all its turns; never in the output of a tool.
        """
        if place.position != "anchor":
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
    """Listens to TRL's first log-probability pass of the policy in a generation batch."""

    def __init__(self, place: StatePlace | None) -> None:
        self._place = place
        self.done = False
        self.hidden: Tensor | None = None
        self.logprobs: Tensor | None = None

    def listen(
        self, run: Callable[[], Any], model: torch.nn.Module, input_ids: Tensor, logits_to_keep: int, rows: RowTokens
    ) -> Any:
        """Runs TRL's pass and returns its result; the prompt is left-padded, the response right-padded after it."""
        self.done = True
        if self._place is None:
            result = run()
        else:
            place = self._place
            lengths = torch.tensor([len(ids) for ids in rows.responses], device=input_ids.device)
            start = torch.full_like(lengths, input_ids.size(1) - logits_to_keep)
            begins = None if rows.answers is None else torch.tensor(rows.answers)

            def select(states: Tensor, first: int) -> Tensor:
                part = slice(first, first + len(states))
                answer = None if begins is None else begins[part]
                return response_states(states, start[part], lengths[part], place.position, answer, rows.mask[part])

            with BackboneTap(model, select, layer=place.layer) as tap:
                result = run()
            self.hidden = torch.cat(tap.states)
        self.logprobs = mean_logprobs(result[0], rows)
        return result


def mean_logprobs(per_token: Float[Tensor, "b t"], rows: RowTokens) -> Float[Tensor, " b"]:
    """Mean over the tokens of each response that the policy wrote, which stand in the first columns of its row."""
    inside = rows.mask.to(per_token.device)
    return (per_token[:, : inside.size(1)].float() * inside).sum(1) / inside.sum(1)


def own_hidden(trainer: Any, rows: RowTokens, place: StatePlace) -> Float[Tensor, "b d"]:
    """The states of these rows under the current policy, by a pass of its own that draws no random number."""
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
            position=place.position,
            layer=place.layer,
            answer_starts=rows.answers,
            written=rows.mask,
            batch_size=trainer.args.per_device_train_batch_size,
            pad_id=trainer._tokenizer.pad_token_id,
            device=trainer.accelerator.device,
        )


def own_logprobs(trainer: Any, rows: RowTokens) -> Float[Tensor, " b"]:
    """Mean log-probability per token under the current policy, at the sampling temperature, by TRL's own function."""
    device, pad = trainer.accelerator.device, trainer._tokenizer.pad_token_id
    before, after = max(map(len, rows.prompts)), max(map(len, rows.responses))
    ids, attention = [], []
    for prompt, response in zip(rows.prompts, rows.responses, strict=True):
        left, right = before - len(prompt), after - len(response)
        ids.append([pad] * left + list(prompt) + list(response) + [pad] * right)
        attention.append([0] * left + [1] * (len(prompt) + len(response)) + [0] * right)
    with torch.no_grad(), eval_mode(trainer.model):
        result = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            torch.tensor(ids, device=device),
            torch.tensor(attention, device=device),
            after,
            batch_size=trainer.args.per_device_train_batch_size,
        )
    return mean_logprobs(result[0], rows)
