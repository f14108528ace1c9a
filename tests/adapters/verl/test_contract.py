"""The contract of adapters, around verl's advantages on a batch in memory."""

import pytest
from verl_parts import Tokenizer, batch_of

from geoalign.adapters.decision import decide
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import StateSettings
from geoalign.adapters.verl.apply import apply_curation
from geoalign.adapters.verl.batch import GOLD, read_rollouts
from geoalign.curators.session import CurationSession
from geoalign.testing import TrainedRows, adapter_checks


def train_with(curator, rewards, second_verifier=None):
    batch = batch_of({"a": list(rewards[:4]), "b": list(rewards[4:])})
    rows = range(len(rewards))
    session = CurationSession(curator, seed=0)
    settings = StateSettings(second_verifier=second_verifier)
    rollouts = read_rollouts(
        batch,
        rows,
        curator.reads,
        rollout_fields={},
        longest_response=9,
        second_verifier=verifier_of_settings(settings, session, gold=GOLD),
        tokenizer=Tokenizer(),
    )
    decision = decide(session, rollouts)
    apply_curation(batch, [[row] for row in rows], rollouts, decision.assignment)
    responses = [tuple(row["responses"].tolist()) if row["response_mask"].any() else None for row in batch.rows]
    return TrainedRows(responses=responses, advantages=[row["advantages"][0].item() for row in batch.rows])


@pytest.mark.parametrize("check", adapter_checks(train_with))
def test_the_contract(check):
    check()
