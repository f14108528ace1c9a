"""Numbers that describe directions and scores, for logs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

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
