import torch

from geoalign import Rollouts

RB = [0.0, 1, 1, 0, 1, 0, 0, 0]
RC = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4]
EQ = [0.5] * 8


def group(rewards, **fields):
    """One group, its id a number that is no row's."""
    return Rollouts(rewards=torch.tensor(rewards), groups=torch.full((len(rewards),), 17), **fields)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def close(given, expected, atol=1e-6):
    torch.testing.assert_close(given, torch.tensor(expected, dtype=given.dtype), atol=atol, rtol=0)
