"""The contract of adapters, through ms-swift's own `rlhf_main` on a tiny model. Run by `make test-swift`."""

import functools
import tempfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from geoalign.testing import TrainedRows, adapter_checks

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("swift" not in packages_distributions(), reason="ms-swift is not installed (make test-swift)"),
]

if "swift" in packages_distributions():
    from swift.rewards import orms
    from swift_parts import prepare, train


@functools.cache
def inputs():
    """The tiny model and its data, made once."""
    return prepare(Path(tempfile.mkdtemp(prefix="geoalign_swift_")))


def train_with(curator, rewards, second_verifier=None):
    verdicts = [None if reward != reward else reward for reward in rewards]
    orms["contract"] = lambda args=None: lambda completions, **columns: list(verdicts)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"log_metrics": "all", "second_verifier": second_verifier}
        trained = train(inputs(), Path(folder), curator, settings=settings, reward_funcs="contract", max_steps=1)
    responses = [response or None for _, response, _ in trained.entered]
    return TrainedRows(responses=responses, advantages=[advantage for _, _, advantage in trained.entered])


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
