"""Two-dimensional views of directions, for figures."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def consensus_plane(directions: Float[Tensor, "s d"], prototype: Float[Tensor, " d"]) -> Float[Tensor, "s 2"]:
    """Unit directions seen in the plane of the prototype and of their own widest spread at right angles to it.

    The first coordinate is the cosine to the prototype, the second lies along the first principal axis of what
    remains; so every point lies in the unit disc, and views before and after a projection can be compared. A sign
    convention (the largest coordinate is positive) makes the view unique. Fewer than two directions spread nowhere:
    their second coordinate is 0.
    """
    directions = functional.normalize(directions, dim=1)
    along = directions @ prototype
    rest = directions - along[:, None] * prototype
    if len(directions) < 2:
        return torch.stack([along, torch.zeros_like(along)], dim=1)
    # The principal axis of a few directions in a large space, from their small Gram matrix.
    centred = rest - rest.mean(0)
    _, vectors = torch.linalg.eigh((centred @ centred.T).double().cpu())
    axis = functional.normalize(vectors[:, -1].to(rest) @ centred, dim=0)
    across = rest @ axis
    across = across * across[across.abs().argmax()].sign()
    return torch.stack([along, across], dim=1)
