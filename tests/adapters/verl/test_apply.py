"""A curation carried out around verl's advantages, on a batch in memory."""

import pytest
import torch
from curations import curation
from verl_parts import batch_of

from geoalign.adapters.placement import place
from geoalign.adapters.verl.apply import apply_curation
from geoalign.adapters.verl.rows import read_rollouts

GROUPS = {"a": [1.0, 2.0, 3.0], "b": [0.0, 4.0]}


def read(batch, needs=("hidden",)):
    return read_rollouts(batch, range(len(batch.keys)), needs, rollout_fields={}, longest_response=9)


def carried(groups=GROUPS, *, by_std=True, **changes):
    batch = batch_of(groups)
    rollouts = read(batch)
    made = place(curation(rollouts, **changes), rollouts.groups)
    assert apply_curation(batch, range(len(rollouts)), rollouts, made, by_std=by_std) == "whole"
    return batch


def advantages(batch):
    return [row["advantages"][0].item() for row in batch.rows]


def test_an_identity_touches_nothing_but_verls_own_advantages():
    plain = batch_of(GROUPS)
    plain.advantages()
    batch = carried()
    assert batch.computed == [[0, 1, 2, 3, 4]]
    for row, expected in zip(batch.rows, plain.rows, strict=True):
        assert row.keys() == expected.keys()
        assert all(torch.equal(row[name], expected[name]) for name in row if isinstance(row[name], torch.Tensor))


def test_a_replaced_row_carries_all_that_its_donor_holds_under_its_own_key():
    before = batch_of(GROUPS).rows
    # Slot 0 takes row 2 and slot 4 takes row 3: rewards 3, 2, 3 (mean 8/3, deviation 1/sqrt 3) and 0, 0.
    batch = carried(source=[2, 1, 2, 3, 3])
    assert [row["key"] for row in batch.rows] == [row["key"] for row in before]
    for slot, donor in ((0, 2), (4, 3)):
        for name in ("responses", "rm_scores", "response_mask", "old_log_probs", "geoalign_hidden"):
            assert torch.equal(batch.rows[slot][name], before[donor][name])
        assert batch.rows[slot]["uid"] == before[slot]["uid"]
    third = 1 / 3
    expected = [third * 3**0.5, -2 * third * 3**0.5, third * 3**0.5, 0.0, 0.0]
    assert advantages(batch) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("rewards", "by_std", "expected"),
    [
        ([0.0, 1.0, 2.0, 5.0, 5.0], True, [-1.0, 0.0, 1.0, 0.0, 0.0]),
        ([0.0, 2.0, 4.0, 5.0, 5.0], False, [-2.0, 0.0, 2.0, 0.0, 0.0]),
        # An unscorable row keeps its tokens.
        ([1.0, torch.nan, 3.0, 5.0, 5.0], True, [-(0.5**0.5), 0.0, 0.5**0.5, 0.0, 0.0]),
    ],
)
def test_shaped_rewards_reach_the_advantages_and_leave_the_raw_scores(rewards, by_std, expected):
    batch = carried(rewards=rewards, by_std=by_std)
    assert advantages(batch) == pytest.approx(expected, abs=1e-5)
    assert [row["rm_scores"].sum().item() for row in batch.rows] == [1.0, 2.0, 3.0, 0.0, 4.0]
    assert batch.rows[1]["response_mask"].tolist() == [1, 1]


def test_weights_multiply_the_advantages_and_not_the_returns():
    batch = carried(weights=[0.5, 1.0, 0.0, 1.0, 1.0])
    assert advantages(batch)[:3] == pytest.approx([-0.5, 0.0, 0.0], abs=1e-5)
    assert batch.rows[2]["returns"][0].item() == pytest.approx(1.0, abs=1e-5)


def test_given_advantages_stand_in_every_token_of_the_policys_own():
    batch = batch_of(GROUPS)
    batch.rows[2]["response_mask"] = torch.tensor([1, 0, 1])
    rollouts = read(batch)
    given = curation(rollouts, advantages=[0.1, 0.2, 0.3, 0.4, 0.5], weights=[1.0, 1.0, 2.0, 1.0, 1.0])
    apply_curation(batch, range(5), rollouts, place(given, rollouts.groups))
    assert batch.rows[2]["advantages"].tolist() == pytest.approx([0.6, 0.0, 0.6])
    assert torch.equal(batch.rows[2]["returns"], batch.rows[2]["advantages"])


def test_dropped_rows_have_no_token_and_no_say_in_the_statistics():
    # Row 2 is dropped: rewards 1 and 2 stay (deviation 1/sqrt 2), so the advantages are -+1/sqrt 2.
    batch = carried(source=[0, 1, 3, 4])
    assert advantages(batch)[:3] == pytest.approx([-(0.5**0.5), 0.5**0.5, 0.0], abs=1e-5)
    assert batch.rows[2]["response_mask"].tolist() == [0, 0, 0]
    assert batch.rows[2]["loss_mask"].tolist() == [0, 0, 0]
    assert batch.rows[1]["response_mask"].sum() > 0


def test_the_last_row_left_of_a_group_gets_no_advantage():
    """verl takes the reward of a lone row itself for its advantage."""
    batch = carried(source=[0, 1, 2, 4])
    assert batch.rows[4]["advantages"].tolist() == [0.0, 0.0]
    assert batch.rows[4]["response_mask"].tolist() == [1, 1]
    assert batch.rows[3]["response_mask"].tolist() == [0]


def test_a_group_of_one_from_the_start_stays_as_verl_has_it():
    batch = carried({"a": [1.0, 2.0], "b": [0.7]})
    assert batch.rows[2]["advantages"][0].item() == pytest.approx(0.7, abs=1e-5)


def test_padding_rows_stay_as_verl_has_them():
    batch = batch_of({**GROUPS, "pad1": [0.7]})
    rollouts = read_rollouts(batch, range(5), ("hidden",), rollout_fields={}, longest_response=9)
    apply_curation(batch, range(5), rollouts, place(curation(rollouts, source=[0, 1, 3, 4]), rollouts.groups))
    assert batch.computed == [[0, 1, 2, 3, 4, 5]]
    assert batch.rows[5]["advantages"].tolist() == pytest.approx([0.7] * 3)
