"""A reward model of which the head alone is fitted, in one pass over the pairs: for machines that cannot train more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import softplus

from geoalign.errors import ConfigError
from geoalign.lab.config.reward_model import RewardHeadConfig
from geoalign.lab.rewards.reward_model import mark_mean, mean_reply_states, reply_start
from geoalign.lab.tasks.base import PreferencePair

# Replies whose states are made at a time; neighbours in length share a batch.
_BATCH = 8


def fit_head(model: Any, tokenizer: Any, pairs: Sequence[PreferencePair], config: RewardHeadConfig) -> None:
    """Makes a sequence classifier score the chosen reply of each pair above the other, by its head alone, in place.

    The head reads the mean last-layer state of the reply (`geoalign.lab.rewards.reward_model`); from then on the
    model's config says so. All other weights stay; layers above `config.layers` are left out.

    Raises:
        ConfigError: the model has fewer layers.
    """
    _cut(model, config.layers)
    dialogues = [
        [*pair.prompt, {"role": "assistant", "content": reply}]
        for pair in pairs
        for reply in (pair.chosen, pair.rejected)
    ]
    states = _reply_states(model, tokenizer, dialogues)
    weights = preference_direction(states[0::2], states[1::2], config.penalty)
    mark_mean(model)
    with torch.no_grad():
        model.score.weight.copy_(weights.unsqueeze(0))


def _cut(model: Any, layers: int | None) -> None:
    """Leaves the first layers only, followed by the model's own last norm."""
    if layers is None:
        return
    there = len(model.base_model.layers)
    if layers > there:
        raise ConfigError(f"reward_head.layers: expected at most the model's {there}, got {layers}")
    model.base_model.layers = model.base_model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None) is not None:
        model.config.layer_types = model.config.layer_types[:layers]


def preference_direction(
    chosen: Float64[Tensor, "pairs width"], rejected: Float64[Tensor, "pairs width"], penalty: float
) -> Float64[Tensor, " width"]:
    """The direction w of the Bradley-Terry model P(chosen over rejected) = sigmoid(w . (chosen - rejected)).

    v minimises mean softplus(-v . (chosen - rejected) / s) + penalty / 2 |v|^2, with s the standard deviation of each
    coordinate over all replies, and w = v / s. Convex, so it depends on no draw. A coordinate that is the same in all
    replies gets 0.
    """
    scale = torch.cat([chosen, rejected]).std(dim=0, correction=0)
    scale = torch.where(scale > 0, scale, torch.inf)
    differences = (chosen - rejected) / scale
    direction = torch.zeros(differences.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([direction], max_iter=1000, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        value = softplus(-(differences @ direction)).mean() + penalty / 2 * direction.square().sum()
        value.backward()
        return value

    solver.step(loss)
    return direction.detach() / scale


def _reply_states(model: Any, tokenizer: Any, dialogues: Sequence[Any]) -> Float64[Tensor, "replies width"]:
    tokens = [tokenizer.apply_chat_template(item, tokenize=True, return_dict=True)["input_ids"] for item in dialogues]
    starts = [reply_start(tokenizer, item) for item in dialogues]
    order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
    made: list[Any] = [None] * len(tokens)
    for first in range(0, len(order), _BATCH):
        rows = order[first : first + _BATCH]
        states = mean_reply_states(model, [tokens[row] for row in rows], [starts[row] for row in rows])
        for row, state in zip(rows, states.double().cpu(), strict=True):
            made[row] = state
    return torch.stack(made)
