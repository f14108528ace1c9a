"""Numbers and two-dimensional views that describe directions and scores, for logs and figures."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# The paper's mark for an aligned direction (Fig. "Visualization of latent vectors").
ALIGNED = 0.8
_QUANTILES = {"gdi_q05": 0.05, "gdi_q25": 0.25, "gdi_q50": 0.5, "gdi_q75": 0.75, "gdi_q95": 0.95, "gdi_max": 1.0}


def cosine_summary(name: str, cosine: Float[Tensor, " p"]) -> dict[str, float]:
    """Mean cosine to the prototype, and the share of cosines above 0.8; NaN without pairs."""
    if not len(cosine):
        return {f"{name}_cosine_mean": torch.nan, f"{name}_cosine_share_080": torch.nan}
    return {
        f"{name}_cosine_mean": float(cosine.mean()),
        f"{name}_cosine_share_080": float((cosine > ALIGNED).float().mean()),
    }


def score_summary(scores: Float[Tensor, " n"]) -> dict[str, float]:
    """Quantiles of the scored rollouts' GDI; NaN where none is scored."""
    if not len(scores):
        return dict.fromkeys(_QUANTILES, torch.nan)
    ascending = scores.sort().values.cpu()
    # Linear interpolation by hand: torch.quantile refuses more than 16 million values.
    place = torch.tensor(list(_QUANTILES.values())) * (len(ascending) - 1)
    low, high = ascending[place.floor().long()], ascending[place.ceil().long()]
    values = low + (high - low) * (place - place.floor())
    return dict(zip(_QUANTILES, values.tolist(), strict=True))


def projection_2d(directions: Float[Tensor, "s d"], prototype: Float[Tensor, " d"]) -> Float[Tensor, "s 2"]:
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
