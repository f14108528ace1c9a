"""Hidden states and mean log-probabilities of this process's rows, from TRL's own pass or one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.hidden.answers import answer_starts
from geoalign.hidden.extract import batched_states, eval_mode
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.settings.hidden import HiddenLayer, HiddenPosition

TokenIds = list[list[int]]


class Written:
    """TRL's `tool_mask` of this process's rows (`env_mask` of a rollout function).

    Args:
        responses: B token lists.
        masks: B lists, as long as the responses, of 1 (the policy's token) and 0 (not its); None: it wrote all.

    Attributes:
        mask: [B, r] the masks, padded with False; None as `masks`. A row in which the policy wrote nothing is True
            throughout: it must have a state.
        nothing: B flags of these rows, which are no donors.
        lengths: [B] tokens that the policy wrote.
    """

    def __init__(self, responses: TokenIds, masks: Sequence[Sequence[int]] | None) -> None:
        self.mask: Bool[Tensor, "b r"] | None = None
        self.nothing = [False] * len(responses)
        self.lengths: Int[Tensor, " b"] = torch.tensor([len(ids) for ids in responses])
        if masks is None:
            return
        self.nothing = [not any(mask) for mask in masks]
        self.mask = torch.zeros(len(responses), int(self.lengths.max()), dtype=torch.bool)
        for row, mask in enumerate(masks):
            self.mask[row, : len(mask)] = torch.tensor(mask, dtype=torch.bool) | self.nothing[row]
        self.lengths = torch.tensor([sum(map(bool, mask)) for mask in masks])

    def parts(self, responses: TokenIds) -> tuple[TokenIds, TokenIds]:
        """Of each response the columns that the policy wrote, and the tokens in them."""
        if self.mask is None:
            return [list(range(len(ids))) for ids in responses], responses
        columns = [row.nonzero().squeeze(1).tolist() for row in self.mask]
        return columns, [[ids[at] for at in own] for ids, own in zip(responses, columns, strict=True)]


HiddenSource = Literal["own_pass", "logprob_pass"]


@dataclass(frozen=True)
class StatePlace:
    """Which state stands for a response: at which position, after which layers."""

    position: HiddenPosition
    layer: HiddenLayer

    def answer_starts(self, trainer: Any, responses: TokenIds, written: Written | None = None) -> list[int] | None:
        """The tokens with which the answers begin (`geoalign.hidden.answer_starts`), where the position needs them.

        An answer is looked for in what the policy wrote, over all its turns; never in the output of a tool.
        """
        if self.position != "anchor":
            return None
        if written is None:
            return answer_starts(trainer._tokenizer, responses)
        columns, own = written.parts(responses)
        starts = answer_starts(trainer._tokenizer, own)
        return [places[start] if start >= 0 else -1 for places, start in zip(columns, starts, strict=True)]


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
    """Listens to TRL's first log-probability pass of the policy in a generation batch; keeps what rows need of it."""

    def __init__(self, place: StatePlace | None) -> None:
        self._place = place
        self.done = False
        self.hidden: Tensor | None = None
        self.logprobs: Tensor | None = None

    def listen(
        self,
        run: Callable[[], Any],
        model: torch.nn.Module,
        input_ids: Tensor,
        logits_to_keep: int,
        responses: TokenIds,
        answers: list[int] | None,
        mask: Bool[Tensor, "b r"] | None = None,
    ) -> Any:
        """Runs TRL's pass and returns its result; the prompt is left-padded, the response right-padded after it.

        `mask` is that of `Written`.
        """
        self.done = True
        lengths = torch.tensor([len(ids) for ids in responses], device=input_ids.device)
        if self._place is None:
            result = run()
        else:
            position = self._place.position
            start = torch.full_like(lengths, input_ids.size(1) - logits_to_keep)
            begins = None if answers is None else torch.tensor(answers)

            def select(states: Tensor, first: int) -> Tensor:
                rows = slice(first, first + len(states))
                answer = None if begins is None else begins[rows]
                return response_states(
                    states, start[rows], lengths[rows], position, answer, None if mask is None else mask[rows]
                )

            with BackboneTap(model, select, layer=self._place.layer) as tap:
                result = run()
            self.hidden = torch.cat(tap.states)
        self.logprobs = mean_logprobs(result[0], lengths, mask)
        return result


def mean_logprobs(
    per_token: Float[Tensor, "b t"], lengths: Tensor, mask: Bool[Tensor, "b r"] | None = None
) -> Float[Tensor, " b"]:
    """Mean over the tokens of each response, whose log-probabilities stand in the first columns of its row.

    With the `mask` of `Written`, over the tokens that the policy wrote.
    """
    if mask is None:
        inside = torch.arange(per_token.size(1), device=per_token.device) < lengths[:, None]
    else:
        inside = torch.zeros_like(per_token, dtype=torch.bool)
        inside[:, : mask.size(1)] = mask.to(per_token.device)
        lengths = inside.sum(1)
    return (per_token.float() * inside).sum(1) / lengths


def own_hidden(
    trainer: Any,
    prompts: TokenIds,
    responses: TokenIds,
    place: StatePlace,
    answers: list[int] | None,
    mask: Bool[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b d"]:
    """The states of these rows under the current policy: a pass through its backbone, in eval mode, no gradient.

    It draws no random number and leaves every module in the mode that it had. `answers` are those of `place`, `mask` is
    that of `Written`.
    """
    backbone = backbone_of(trainer.model)

    def forward(ids: Tensor, mask: Tensor) -> Any:
        with trainer.accelerator.autocast():
            return backbone(input_ids=ids, attention_mask=mask, use_cache=False)

    with eval_mode(trainer.model):
        return batched_states(
            trainer.model,
            forward,
            prompts,
            responses,
            position=place.position,
            layer=place.layer,
            answer_starts=answers,
            written=mask,
            batch_size=trainer.args.per_device_train_batch_size,
            pad_id=trainer._tokenizer.pad_token_id,
            device=trainer.accelerator.device,
        )


def own_logprobs(
    trainer: Any, prompts: TokenIds, responses: TokenIds, mask: Bool[Tensor, "b r"] | None = None
) -> Float[Tensor, " b"]:
    """Mean log-probability per token under the current policy, at the sampling temperature, by TRL's own function.

    `mask` is that of `Written`.
    """
    device = trainer.accelerator.device
    pad = trainer._tokenizer.pad_token_id
    before, after = max(map(len, prompts)), max(map(len, responses))
    ids, attention = [], []
    for prompt, response in zip(prompts, responses, strict=True):
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
    return mean_logprobs(result[0], torch.tensor([len(ids) for ids in responses], device=device), mask)
