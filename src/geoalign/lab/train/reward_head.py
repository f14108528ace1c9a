"""A reward model whose head alone is fitted, in one pass over the pairs: for machines that cannot train more.

The head reads the mean last-layer state of a reply. The rest of the model stays as the warm start left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import softplus

from geoalign.lab.data.task import PreferencePair
from geoalign.lab.rewards.reward_model import mark_mean, mean_reply_states, reply_start
from geoalign.lab.rewards.settings import RewardHeadConfig

# Replies whose states are computed at a time; neighbours in length share a batch.
_BATCH = 8


def fit_head(model: Any, tokenizer: Any, pairs: Sequence[PreferencePair], config: RewardHeadConfig) -> None:
    """Makes a sequence classifier score the chosen reply of each pair above the other, by its head alone, in place.

    Layers above `config.layers` are left out.
    """
    if config.layers is not None:
        _cut(model, config.layers)
    dialogues = [
        [*pair.prompt, {"role": "assistant", "content": reply}]
        for pair in pairs
        for reply in (pair.chosen, pair.rejected)
    ]
    states = _reply_states(model, tokenizer, dialogues)
    direction = preference_direction(chosen=states[0::2], rejected=states[1::2], penalty=config.penalty)
    mark_mean(model)
    with torch.no_grad():
        model.score.weight.copy_(direction.unsqueeze(0))


def _cut(model: Any, layers: int) -> None:
    """Keeps the first layers only, followed by the model's own last norm."""
    model.base_model.layers = model.base_model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None) is not None:
        model.config.layer_types = model.config.layer_types[:layers]


def _reply_states(model: Any, tokenizer: Any, dialogues: Sequence[Any]) -> Float64[Tensor, "replies width"]:
    """The mean state of each dialogue's last message, in the order of the dialogues."""
    tokens = []
    starts = []
    for dialogue in dialogues:
        encoded = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)
        tokens.append(encoded["input_ids"])
        starts.append(reply_start(tokenizer, dialogue))
    by_length = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
    batches = [by_length[first : first + _BATCH] for first in range(0, len(by_length), _BATCH)]
    states = [
        mean_reply_states(model, [tokens[row] for row in rows], [starts[row] for row in rows]).double().cpu()
        for rows in batches
    ]
    in_given_order = torch.empty(len(by_length), dtype=torch.int64)
    in_given_order[by_length] = torch.arange(len(by_length))
    return torch.cat(states)[in_given_order]


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
        likelihood = softplus(-(differences @ direction)).mean()
        value = likelihood + penalty / 2 * direction.square().sum()
        value.backward()
        return value

    solver.step(loss)
    return direction.detach() / scale
