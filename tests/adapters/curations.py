from dataclasses import replace

import torch

from geoalign.curators.curator import identity


def curation(rollouts, **changes):
    """The identity curation with some fields changed, given as tensors or lists of numbers."""
    changes = {name: torch.tensor(value) if isinstance(value, list) else value for name, value in changes.items()}
    if "source" in changes:
        source = changes["source"]
        changes = {"rewards": rollouts.rewards[source], "weights": torch.ones(len(source)), **changes}
    return replace(identity(rollouts), **changes)
