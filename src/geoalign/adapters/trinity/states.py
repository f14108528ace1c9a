"""The hidden state of each experience: what it brings in its `info`, or what a model of ours computes, which has the
newest weights of the policy as far as Trinity's synchroniser lets an operator have them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.decision import as_floats, states_of_rows
from geoalign.adapters.settings import HIDDEN, TrinitySettings
from geoalign.adapters.trinity.experiences import generated_mask, group_ids
from geoalign.errors import InputError, UnsupportedError
from geoalign.hidden.answer_tokens import answer_starts, rows_without_answer
from geoalign.hidden.extract import extract_states
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.pretrained.from_pretrained import from_pretrained


def take_given_states(experiences: Sequence[Any]) -> Float[Tensor, "b d"] | None:
    """Takes the states out of the experiences' `info`, so that no buffer stores them; None if none has one.

    An experience without a reward, or without a generated token, may lack its state (`states_of_rows`).
    """
    states = [experience.info.pop(HIDDEN, None) for experience in experiences]
    if all(state is None for state in states):
        return None
    missing = [
        experience
        for experience, state in zip(experiences, states, strict=True)
        if state is None and _scored(experience) and bool(generated_mask(experience).any())
    ]
    if missing:
        raise InputError(
            f"Experience.info[{HIDDEN!r}]: expected a hidden state in every scored experience or in none, got none in "
            f"{len(missing)} of {len(states)}, the first {missing[0].eid.uid}"
        )
    known = [state for state in states if state is not None]
    given = iter(as_floats(HIDDEN, known, torch.device("cpu"), setting="Experience.info"))
    return states_of_rows([None if state is None else next(given) for state in states], group_ids(experiences))


def _scored(experience: Any) -> bool:
    return experience.reward is not None and not math.isnan(experience.reward)


def token_rows(experience: Any, position: str) -> tuple[list[int], list[int]]:
    """Prompt and response as token lists; the response ends with the last generated token, or, where none is (a
    truncated prompt), is the last token of all: such a row has a state like any other."""
    tokens, start, mask = experience.tokens.tolist(), experience.prompt_length, generated_mask(experience)
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
    """A Hugging Face model that computes hidden states, and takes new weights; `version` is what the synchroniser calls
    them, 0 those of `model_path`; the tokenizer is for the position `answer_start`."""

    def __init__(self, settings: TrinitySettings) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        assert settings.model_path is not None
        self.settings = settings
        self.version = 0
        options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code, "setting": "trust_remote_code"}
        dtype = getattr(torch, settings.dtype)
        model: torch.nn.Module = from_pretrained(AutoModelForCausalLM, settings.model_path, dtype=dtype, **options)
        self.model: Any = model
        self.tokenizer: Any = None
        if settings.hidden_position == "answer_start":
            self.tokenizer = from_pretrained(AutoTokenizer, settings.model_path, **options)
        wanted_layers(backbone_of(model), settings.hidden_layer)
        model.to(settings.device).eval().requires_grad_(False)

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Takes the weights of another version of the policy, as Trinity publishes them."""
        own = self.model.state_dict()
        tied = set(getattr(self.model, "_tied_weights_keys", None) or ())
        other = [
            f"{name}: {list(weights[name].shape) if name in weights else 'none'}"
            for name, value in own.items()
            if (name not in tied if name not in weights else weights[name].shape != value.shape)
        ]
        if other:
            expected = f"expected those of {self.settings.model_path}"
            raise InputError(f"weights of version {version}: {expected}, got another shape of {other[0]}")
        self.model.load_state_dict({name: weights[name] for name in own if name in weights}, strict=False)
        self.version = version

    def states(self, experiences: Sequence[Any]) -> tuple[Float[Tensor, "b d"], int | None]:
        """[B, d] hidden state of each experience, float32 on the CPU; how many lack an `answer_start`."""
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


class PublishedWeights:
    """Asks the synchroniser, a Ray actor of the run's namespace, for weights.

    It has them with `sync_method: memory` (it holds them) and `checkpoint` (it knows their folder). With `nccl` they go
    from the trainer to the rollout engines directly: it knows their version only. `synchronizer` is its actor; None:
    looked up by its name when it is first needed.
    """

    def __init__(self, synchronizer: Any = None) -> None:
        self._synchronizer = synchronizer

    async def newer_than(self, version: int) -> tuple[Mapping[str, Tensor], int] | None:
        """Weights newer than a version, and their own version.

        None where there are none, and where a newer version took their place as they were read: the next batch has it.
        """
        actor = self._actor()
        newest = 0 if actor is None else await actor.get_latest_model_version.remote()
        if newest <= version:
            return None
        try:
            weights = await _read(actor)
        except Exception:
            # The synchroniser removes a version's folder as soon as there is a newer one; what a reader makes of that
            # depends on where it was. Without a newer one the error is another.
            if await actor.get_latest_model_version.remote() == newest:
                raise
            return None
        if weights is None:
            raise UnsupportedError(
                f"weights of version {newest} are published by synchronizer.sync_method=nccl, which passes them to the "
                "rollout engines only; set it to memory or checkpoint, give hidden states in Experience.info, or set "
                "reload: never to score with the weights of model_path throughout"
            )
        return (weights, newest) if await actor.get_latest_model_version.remote() == newest else None

    def _actor(self) -> Any:
        if self._synchronizer is None:
            import ray

            if not ray.is_initialized():
                return None
            try:
                self._synchronizer = ray.get_actor("synchronizer")
            except ValueError:  # none of that name: a pipeline without an explorer
                return None
        return self._synchronizer


async def _read(actor: Any) -> Mapping[str, Tensor] | None:
    if await actor.get_state_dict_meta.remote() is not None:
        stream = actor.get_model_state_dict_iterator.options(num_returns="streaming").remote()
        return dict([await reference async for reference in stream])
    path = await actor.get_latest_model_path.remote()
    return None if path is None else await asyncio.to_thread(_load, path)


def _load(path: str) -> Mapping[str, Tensor]:
    if not Path(path).is_dir():
        raise InputError(
            f"weights of synchronizer.sync_method=checkpoint: expected the folder {path}, got none on this machine; "
            "put checkpoint_root_dir where the process of the operator sees it, or set sync_method to memory"
        )
    from trinity.common.models.utils import load_state_dict

    weights: Mapping[str, Tensor] = load_state_dict(path)
    return weights
