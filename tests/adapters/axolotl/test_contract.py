"""The contract of adapters, through Axolotl's own `train` on a tiny model. Run by `make test-axolotl`."""

import functools
import tempfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from geoalign.testing import TrainedRows, adapter_checks

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("axolotl" not in packages_distributions(), reason="not installed (make test-axolotl)"),
]

if "axolotl" in packages_distributions():
    import axolotl_parts


@functools.cache
def inputs():
    """The tiny model and its data, made once."""
    return axolotl_parts.prepare(Path(tempfile.mkdtemp(prefix="geoalign_axolotl_")))


def train_with(curator, rewards, second_verifier=None):
    axolotl_parts.verdicts[:] = [None if reward != reward else reward for reward in rewards]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        trained = axolotl_parts.train(
            inputs(), Path(folder), {"curator": "grpo", "second_verifier": second_verifier}, curator=curator,
            monkeypatch=patch, max_steps=1, trl={"reward_funcs": ["axolotl_parts.told"], "loss_type": "dapo"},
        )  # fmt: skip
    responses = [response or None for _, response, _ in trained.entered]
    return TrainedRows(responses=responses, advantages=[advantage for _, _, advantage in trained.entered])


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
