"""The hidden state of each experience: what it brings in its `info`, or what a model of ours computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.trinity.experiences import generated
from geoalign.adapters.trinity.settings import TrinitySettings
from geoalign.errors import InputError, UnsupportedError
from geoalign.hidden.answers import answer_starts, rows_without_answer
from geoalign.hidden.extract import extract_states
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.pretrained import from_pretrained


def take_given_states(experiences: Sequence[Any], key: str) -> Float[Tensor, "b d"] | None:
    """Takes the states out of the experiences' `info`, so that they are not written to a buffer; None if none has one.

    Raises:
        InputError: some have one and some have not, or they are no lists of numbers of one length.
    """
    states = [experience.info.pop(key, None) for experience in experiences]
    missing = [row for row, state in enumerate(states) if state is None]
    if len(missing) == len(states):
        return None
    if missing:
        raise InputError(
            f"Experience.info[{key!r}]: expected a hidden state in every experience or in none, got none in "
            f"{len(missing)} of {len(states)}, the first {experiences[missing[0]].eid.uid}"
        )
    rows: list[Tensor] = []
    for experience, state in zip(experiences, states, strict=True):
        try:
            row = torch.as_tensor(state).detach().float().cpu()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"Experience.info[{key!r}]: expected numbers, got {error} in {experience.eid.uid}"
            ) from error
        if row.dim() != 1 or (rows and len(row) != len(rows[0])):
            expected = f"[{len(rows[0])}]" if rows else "[d]"
            raise InputError(
                f"Experience.info[{key!r}]: expected shape {expected}, got {list(row.shape)} in {experience.eid.uid}"
            )
        rows.append(row)
    return torch.stack(rows)


def token_rows(experience: Any, position: str) -> tuple[list[int], list[int]]:
    """Prompt and response as token lists; the response ends with the last generated token.

    Where no token is generated (a truncated prompt), the last token of all is taken as the response: such a row has a
    state like any other.

    Raises:
        UnsupportedError: position "mean" over a response with turns that the model did not generate.
    """
    tokens, start, mask = experience.tokens.tolist(), experience.prompt_length, generated(experience)
    last = int(mask.nonzero().max()) if bool(mask.any()) else len(tokens) - start - 1
    prompt, response = tokens[:start], tokens[start : start + last + 1]
    if not response:
        return tokens[:-1], tokens[-1:]
    if position == "mean" and bool(mask.any()) and not bool(mask[: last + 1].all()):
        raise UnsupportedError(
            f"hidden_position 'mean': experience {experience.eid.uid} has tokens between its first and last that the "
            f"model did not generate; use 'predicting' or 'final'"
        )
    return prompt, response


class StateModel:
    """A Hugging Face model that computes hidden states, and takes new weights.

    Attributes:
        version: of the weights: 0 for those of `model_path`, then what the synchroniser calls them.
        tokenizer: for the position `anchor`, otherwise None.

    Raises:
        InputError: the model has no such layer.
    """

    def __init__(self, settings: TrinitySettings) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        assert settings.model_path is not None
        self.settings = settings
        self.version = 0
        model: torch.nn.Module = from_pretrained(
            AutoModelForCausalLM,
            settings.model_path,
            dtype=getattr(torch, settings.dtype),
            trust_remote_code=settings.trust_remote_code,
            setting="trust_remote_code",
        )
        self.model: Any = model
        self.tokenizer: Any = None
        if settings.hidden_position == "anchor":
            options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code, "setting": "trust_remote_code"}
            self.tokenizer = from_pretrained(AutoTokenizer, settings.model_path, **options)
        wanted_layers(backbone_of(model), settings.hidden_layer)
        model.to(settings.device).eval().requires_grad_(False)

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Takes the weights of another version of the policy, as Trinity publishes them.

        Raises:
            InputError: weights are missing or of other shapes: the model is not that of the policy.
        """
        own = self.model.state_dict()
        tied = set(getattr(self.model, "_tied_weights_keys", None) or ())
        missing = [name for name in own if name not in weights and name not in tied]
        other = [name for name in own if name in weights and weights[name].shape != own[name].shape]
        if missing or other:
            what = f"no {missing[0]}" if missing else f"{other[0]} of shape {list(weights[other[0]].shape)}"
            raise InputError(
                f"weights of version {version}: expected those of {self.settings.model_path} ({len(own)} tensors), got "
                f"{what}"
            )
        self.model.load_state_dict({name: weights[name] for name in own if name in weights}, strict=False)
        self.version = version

    def states(self, experiences: Sequence[Any]) -> tuple[Float[Tensor, "b d"], int | None]:
        """[B, d] hidden state of each experience, float32 on the CPU; how many have no final answer (`anchor`)."""
        position = self.settings.hidden_position
        rows = [token_rows(experience, position) for experience in experiences]
        responses = [response for _, response in rows]
        starts = None if self.tokenizer is None else answer_starts(self.tokenizer, responses)
        found = extract_states(
            self.model,
            [prompt for prompt, _ in rows],
            responses,
            position=position,
            layer=self.settings.hidden_layer,
            answer_starts=starts,
            batch_size=self.settings.batch_size,
        )
        return found.states, None if starts is None else rows_without_answer(starts)
