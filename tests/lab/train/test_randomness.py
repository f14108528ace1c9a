import random

import numpy as np
import torch

from geoalign.lab.models.process_setup import undisturbed


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_the_body_draws_from_its_seed_and_leaves_no_trace() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = [draws() for _ in range(2)]
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    found = [draws()]
    with undisturbed(5):
        first = draws()
    found.append(draws())
    with undisturbed(5):
        assert draws() == first
    assert found == expected
