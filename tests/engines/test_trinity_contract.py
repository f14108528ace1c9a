"""The contract of adapters, through Trinity-RFT's own experience pipeline. Run by `make test-trinity`."""

import math
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from trinity_batches import ADVANTAGE, by_place, rollouts, settings, through

from geoalign.testing import TrainedRows, adapter_checks

# What Trinity-RFT and the packages below it warn about is theirs.
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
PLACES = [(task, run) for task in (0, 1) for run in range(4)]


def train_with(curator, rewards, second_verifier=None):
    places = by_place(rollouts(states=False))
    batch = [places[place] for place in PLACES]
    for experience, reward in zip(batch, rewards, strict=True):
        experience.reward = None if math.isnan(reward) else reward
        experience.response_text = str(experience.tokens[experience.prompt_length :].tolist())
    with tempfile.TemporaryDirectory() as folder, patch("geoalign.adapters.decision.as_curator", lambda _: curator):
        arguments = {"curator": "grpo", "second_verifier": second_verifier}
        config = settings(Path(folder) / "run", advantage=ADVANTAGE, arguments=arguments)
        trained = by_place(through(config, batch)[0])
    responses, advantages = [], []
    for place in PLACES:
        row = trained.get(place)
        responses.append(None if row is None else tuple(row.tokens.tolist()))
        advantages.append(0.0 if row is None else row.advantages[0].item())
    return TrainedRows(responses=responses, advantages=advantages)


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
