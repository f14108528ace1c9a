"""The projector M: R^d -> R^d' on unit displacements, with its first layer on rollouts (Eq. 4).

The first layer is linear and u is a scaled difference of two rollouts, so W u = (W h_k - W h_l) / ||h_k - h_l||:
rollouts go through it once, and no [pairs, d] tensor ever exists. -u needs only the sign of that product flipped before
the bias.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, cast

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from geoalign.method.arithmetic import full_linear, full_product, take_rows
from geoalign.method.pairs import Pairs
from geoalign.settings import Count, Positive, PositiveShare, Several, Share, setting, settings


@settings
class ProjectorConfig:
    """The projector M of Eq. 4 and its training.

    Widths are reduced to fit a small hidden size d (`hidden_dim` to d, `output_dim` to d).
    """

    layers: Count = setting(default=3, help="Linear layers of the projector.")
    hidden_dim: Count = setting(default=512, help="Width of the hidden layers.")
    output_dim: Several = setting(default=512, help="Width of the projected space.")
    steps: Annotated[int, Field(ge=0)] = setting(default=50, help="Training steps per call.")
    learning_rate: Positive = setting(default=1e-3, help="Initial Adam learning rate; falls to zero along a cosine.")
    holdout: Share = setting(default=0.1, help="Share of the pairs held out, for the early stop only.")
    target_accuracy: PositiveShare | None = setting(
        default=0.95, help="Stop once the held-out pairs reach this accuracy; null: never stop early."
    )
    warm_start: bool = setting(default=True, help="Keep the weights from one call to the next.")
    groups_per_step: Count | Literal["auto"] | None = setting(
        default="auto", help="Groups drawn for each step; null: all; auto: few enough to keep a step small."
    )


class Projector(nn.Module):
    """An MLP of `config.layers` linear layers with ReLU between them, and none on the output.

    Always float32, whatever torch's default dtype. Widths larger than d are reduced to d. Weights are drawn from
    `generator` (on the CPU, then moved), with the usual uniform bound 1 / sqrt(fan in).
    """

    def __init__(self, d: int, config: ProjectorConfig, generator: torch.Generator) -> None:
        super().__init__()
        hidden_widths = [min(config.hidden_dim, d)] * (config.layers - 1)
        sizes = [d, *hidden_widths, min(config.output_dim, d)]
        self.linears = nn.ModuleList(new_linear(*widths, generator) for widths in pairwise(sizes))

    @property
    def output_dim(self) -> int:
        """Width d' of the projected space."""
        return self._linear(-1).out_features

    def on_rollouts(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b h"]:
        """The first layer's product W h of every rollout, without bias."""
        return full_linear(states, self._linear(0).weight)

    def features(self, first: Float[Tensor, "p h"]) -> Float[Tensor, "p f"]:
        """From the first layer's product W u of each pair to what enters the last layer's ReLU."""
        value = first + self._linear(0).bias
        for index in range(1, len(self.linears) - 1):
            value = self._through(index, functional.relu(value))
        return value

    def output(self, features: Float[Tensor, "p f"]) -> Float[Tensor, "p o"]:
        """M(u) from the features."""
        return features if len(self.linears) == 1 else self._through(-1, functional.relu(features))

    def logit(self, features: Float[Tensor, "p f"], probe: Float[Tensor, " o"]) -> Float[Tensor, " p"]:
        """The probe's product w.M(u) from the features.

        The last layer and the probe are both linear: w.(W r + b) = (W^T w).r + w.b. So training and judging an
        orientation cost a vector product where the last layer costs a matrix.
        """
        if len(self.linears) == 1:
            return full_product(features, probe)
        last = self._linear(-1)
        return full_product(functional.relu(features), full_product(last.weight.T, probe)) + last.bias @ probe

    def _through(self, index: int, values: Float[Tensor, "p h"]) -> Float[Tensor, "p o"]:
        linear = self._linear(index)
        return full_linear(values, linear.weight, linear.bias)

    def _linear(self, index: int) -> nn.Linear:
        return cast(nn.Linear, self.linears[index])


def new_linear(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer in float32 on the CPU, its weights drawn from `generator`."""
    linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, dtype=torch.float32)
    bound = 1 / math.sqrt(fan_in)
    nn.init.uniform_(linear.weight, -bound, bound, generator=generator)
    nn.init.uniform_(linear.bias, -bound, bound, generator=generator)
    return linear


def new_probe(output_dim: int, generator: torch.Generator) -> Float[Tensor, " o"]:
    """A fresh linear probe w, drawn like a linear layer's weights."""
    bound = 1 / math.sqrt(output_dim)
    return torch.empty(output_dim, dtype=torch.float32).uniform_(-bound, bound, generator=generator)


def displacement(on_rollouts: Float[Tensor, "b h"], pairs: Pairs) -> Float[Tensor, "p h"]:
    """The unit displacement of each pair, seen through a linear map that was applied to the rollouts."""
    difference = take_rows(on_rollouts, pairs.winner) - take_rows(on_rollouts, pairs.loser)
    return difference / pairs.distance[:, None]
