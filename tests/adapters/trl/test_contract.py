"""The contract of adapters, on TRL's own trainer."""

import math
import tempfile

import pytest
from trl_parts import Recording, curated_batch, trainer

from geoalign.adapters.trl import unscored_on_failure
from geoalign.testing import TrainedRows, adapter_checks


def train_with(curator, rewards, second_verifier=None):
    given = iter(rewards)

    def verifier(completions, **columns):
        reward = next(given)
        if math.isnan(reward):
            raise ArithmeticError("this verifier fails")
        return [reward]

    with tempfile.TemporaryDirectory() as folder:
        reward = unscored_on_failure(verifier, row_by_row=True)
        made = trainer(folder, curator, cls=Recording, reward=reward, extra={"second_verifier": second_verifier})
        batch = curated_batch(made)
    responses = []
    for tokens, mask in zip(batch["completion_ids"], batch["completion_mask"].bool(), strict=True):
        responses.append(tuple(tokens[mask].tolist()) or None)
    return TrainedRows(responses=responses, advantages=batch["advantages"].tolist())


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
