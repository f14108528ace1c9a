"""The contract of adapters on SkyRL's own trainer, by `make test-skyrl`; its workers and engines are stood in for."""

import asyncio
import tempfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from asking import settings_with
from skyrl_parts import generated, trainer_of

from geoalign.testing import TrainedRows, adapter_checks

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("skyrl" not in packages_distributions(), reason="skyrl is not installed (make test-skyrl)"),
]


def train_with(curator, rewards, second_verifier=None):
    def judged(request):
        return {**generated(request), "rewards": list(rewards)}

    with tempfile.TemporaryDirectory() as folder:
        trainer, staged = trainer_of(
            Path(folder), settings_with(second_verifier), generate=judged, **{"trainer.max_training_steps": 1}
        )
        trainer._session.curator = curator
        asyncio.run(trainer.train())
    batch = staged[0]
    responses = []
    for tokens, mask in zip(batch["sequences"], batch["loss_mask"].bool(), strict=True):
        responses.append(tuple(tokens.tolist()) if mask.any() else None)
    # SkyRL divides the advantages by the tokens in the loss.
    advantages = batch["advantages"][:, -1] * batch["loss_mask"].sum()
    return TrainedRows(responses=responses, advantages=advantages.tolist())


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
