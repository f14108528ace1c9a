"""A curation carried out around verl's advantages, on a batch in memory."""

from importlib.metadata import packages_distributions

import pytest
import torch
from curations import curation
from verl_parts import batch_of

from geoalign.adapters.assignment import assign
from geoalign.adapters.verl.apply import apply_curation
from geoalign.adapters.verl.batch import read_rollouts, sessions_of

GROUPS = {"a": [1.0, 2.0, 3.0], "b": [0.0, 4.0]}


def read(batch, needs=("hidden",)):
    return read_rollouts(batch, range(len(batch.keys)), needs, rollout_fields={}, longest_response=9)


def carried(groups=GROUPS, *, by_std=True, **changes):
    batch = batch_of(groups)
    rollouts = read(batch)
    made = assign(curation(rollouts, **changes), rollouts.groups)
    assert apply_curation(batch, [[row] for row in range(len(rollouts))], rollouts, made, by_std=by_std) == "whole"
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
    # Position 0 takes row 2 and position 4 takes row 3: rewards 3, 2, 3 (mean 8/3, deviation 1/sqrt 3) and 0, 0.
    batch = carried(source=[2, 1, 2, 3, 3])
    assert [row["key"] for row in batch.rows] == [row["key"] for row in before]
    for position, donor in ((0, 2), (4, 3)):
        for name in ("responses", "rm_scores", "response_mask", "old_log_probs", "geoalign_hidden"):
            assert torch.equal(batch.rows[position][name], before[donor][name])
        assert batch.rows[position]["uid"] == before[position]["uid"]
    third = 1 / 3
    expected = [third * 3**0.5, -2 * third * 3**0.5, third * 3**0.5, 0.0, 0.0]
    assert advantages(batch) == pytest.approx(expected, abs=1e-5)


def test_weights_multiply_the_advantages_and_not_the_returns():
    batch = carried(weights=[0.5, 1.0, 0.0, 1.0, 1.0])
    assert advantages(batch)[:3] == pytest.approx([-0.5, 0.0, 0.0], abs=1e-5)
    assert batch.rows[2]["returns"][0].item() == pytest.approx(1.0, abs=1e-5)


def test_given_advantages_stand_in_every_token_of_the_policys_own():
    batch = batch_of(GROUPS)
    batch.rows[2]["response_mask"] = torch.tensor([1, 0, 1])
    rollouts = read(batch)
    given = curation(rollouts, advantages=[0.1, 0.2, 0.3, 0.4, 0.5], weights=[1.0, 1.0, 2.0, 1.0, 1.0])
    apply_curation(batch, [[row] for row in range(5)], rollouts, assign(given, rollouts.groups))
    assert batch.rows[2]["advantages"].tolist() == pytest.approx([0.6, 0.0, 0.6])
    assert torch.equal(batch.rows[2]["returns"], batch.rows[2]["advantages"])


def test_dropped_rows_have_no_token_and_no_say_in_the_statistics():
    # Row 2 is dropped: rewards 1 and 2 stay (deviation 1/sqrt 2), so the advantages are -+1/sqrt 2.
    batch = carried(source=[0, 1, 3, 4])
    assert advantages(batch)[:3] == pytest.approx([-(0.5**0.5), 0.5**0.5, 0.0], abs=1e-5)
    assert batch.rows[2]["response_mask"].tolist() == [0, 0, 0]
    assert batch.rows[2]["loss_mask"].tolist() == [0, 0, 0]
    assert batch.rows[1]["response_mask"].sum() > 0


def test_padding_rows_stay_as_verl_has_them():
    batch = batch_of({**GROUPS, "pad1": [0.7]})
    rollouts = read_rollouts(batch, range(5), ("hidden",), rollout_fields={}, longest_response=9)
    made = assign(curation(rollouts, source=[0, 1, 3, 4]), rollouts.groups)
    apply_curation(batch, [[row] for row in range(5)], rollouts, made)
    assert batch.computed == [[0, 1, 2, 3, 4, 5]]
    assert batch.rows[5]["advantages"].tolist() == pytest.approx([0.7] * 3)


HALF = 0.5**0.5


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rewards": [0.0, 1.0, 2.0, 5.0, 5.0]}, [-1.0, 0.0, 1.0, 0.0, 0.0]),
        ({"rewards": [0.0, 2.0, 4.0, 5.0, 5.0], "by_std": False}, [-2.0, 0.0, 2.0, 0.0, 0.0]),
        ({"rewards": [1.0, torch.nan, 3.0, 0.0, 4.0]}, [-HALF, 0.0, HALF, -HALF, HALF]),
        # The last row that is left of a group gets none: verl takes the reward of a lone row for its advantage.
        ({"source": [0, 1, 2, 4]}, [-1.0, 0.0, 1.0, 0.0, 0.0]),
        # A group of one from the start stays as verl has it.
        ({"groups": {"a": [1.0, 2.0], "b": [0.7]}}, [-HALF, HALF, 0.7]),
    ],
)
def test_advantages_are_verls_of_the_rewards_that_stand_there(changes, expected):
    batch, kept = carried(**changes), changes.get("source", range(5))
    assert advantages(batch) == pytest.approx(expected, abs=1e-5)
    for number, row in enumerate(batch.rows):
        assert row["response_mask"].tolist() == [int(number in kept)] * len(row["responses"])


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.parametrize(
    ("changes", "expected", "held"),
    [
        # Sessions of rewards 1, 2, 3, of which verl's advantages are -1, 0, 1.
        ({"weights": [0.5, 1.0, 3.0]}, [-0.5, -0.5, 0, 0, 3], [0, 1, 2, 3, 4]),
        ({"advantages": [0.1, 0.2, 0.3]}, [0.1, 0.1, 0.2, 0.2, 0.3], [0, 1, 2, 3, 4]),
        # Rewards 1, 1, 3: mean 5/3, deviation 2/sqrt 3.
        ({"source": [0, 0, 2]}, [-(3**-0.5)] * 4 + [2 * 3**-0.5], [0, 1, 1, 0, 4]),
        ({"source": [1, 2]}, [0, 0, -HALF, -HALF, HALF], [None, None, 2, 3, 4]),
    ],
)
def test_what_is_decided_of_a_session_holds_for_all_its_outputs(changes, expected, held):
    """By verl's own advantages of sessions, two of two outputs and one of one, in no order."""
    from verl import DataProto
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    batch = batch_of({"a": [1.0, 1.0, 2.0, 2.0, 3.0]})
    batch.keys = ["a_0_1", "a_0_0", "a_1_0", "a_1_1", "a_2_0"]
    before, sessions = [row["responses"] for row in batch.rows], sessions_of(batch.keys, range(5))

    def verls():
        fields = {"token_level_rewards": "rm_scores", "response_mask": "response_mask"}
        rows = {name: [row[field] for row in batch.rows] for name, field in fields.items()}
        padded = {name: torch.nn.utils.rnn.pad_sequence(values, batch_first=True) for name, values in rows.items()}
        data = DataProto.from_dict(padded, non_tensors={"uid": ["a"] * 5})
        found = compute_advantage_for_multi_trajectories(data, batch.keys, "grpo").batch["advantages"]
        for row, values in zip(batch.rows, found, strict=True):
            row |= {"advantages": values[: len(row["responses"])]}

    batch.advantages = verls
    rollouts = read_rollouts(batch, [session[-1] for session in sessions], (), rollout_fields={}, longest_response=9)
    apply_curation(batch, sessions, rollouts, assign(curation(rollouts, **changes), rollouts.groups))
    for row, advantage, donor in zip(batch.rows, expected, held, strict=True):
        assert row["advantages"].tolist() == pytest.approx([advantage] * len(row["responses"]), abs=1e-5)
        assert {*row["response_mask"].tolist(), *row["loss_mask"].tolist()} == {int(donor is not None)}
        assert donor is None or torch.equal(row["responses"], before[donor])
