import copy

import pytest
import torch
from curations import curation

from geoalign.adapters.assignment import assign
from geoalign.adapters.trinity.experiences import (
    apply_assignment,
    check_experiences,
    group_ids,
    read_rollouts,
    verifier_rows,
)
from geoalign.errors import ConfigError, InputError, UnsupportedError


def carry(experiences, **changes):
    found = curation(read_rollouts(experiences), scores=torch.arange(float(len(experiences))), **changes)
    return apply_assignment(experiences, assign(found, group_ids(experiences)), found.scores)


def test_rollouts_by_hand(experience):
    masked = torch.tensor([True, True, False, False])
    rows = [
        experience(7, 0, 1.0, logprobs=torch.tensor([-1.0, -2.0, -3.0, -4.0])),
        experience(3, 0, None, logprobs=torch.tensor([-1.0, -2.0, -9.0, -9.0]), action_mask=masked),
        experience(7, 1, 0.25, logprobs=torch.zeros(4), action_mask=torch.zeros(4, dtype=torch.bool)),
    ]
    found = read_rollouts(rows, reads=("logprobs",))
    assert found.rewards[0] == 1
    assert found.rewards[1].isnan()
    assert found.groups.tolist() == [1, 0, 1]  # sorted task ids: 3, 7
    assert found.lengths.tolist() == [4, 2, 0]
    assert found.donor_ok.tolist() == [True, True, False]
    assert found.logprobs[:2].tolist() == [-2.5, -1.5]
    assert found.logprobs[2].isnan()
    assert list(found.ids) == [row.eid.uid for row in rows]
    assert found.hidden is None


def test_a_prompt_has_its_key_in_every_batch(experience):
    """Whatever its task is called there: the key is that of its tokens."""
    first = read_rollouts([experience(7, 0), experience(3, 0)], reads=("prompt_keys",)).prompt_keys
    again = experience(7, 0, batch=1, prompt=3, response=9)
    again.eid.task = "another name"
    second = read_rollouts([again], reads=("prompt_keys",)).prompt_keys
    assert first[0] != first[1]
    assert second.tolist() == [first[0]]
    assert read_rollouts([again]).prompt_keys is None


def test_groups_do_not_depend_on_the_order_and_batches_stay_apart(experience):
    rows = [experience(task, run, batch=batch) for batch in (0, 1) for task in (1, 0) for run in (0, 1)]
    groups = group_ids(rows)
    assert groups.tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    order = torch.tensor([5, 0, 7, 2, 1, 6, 3, 4])
    assert torch.equal(group_ids([rows[row] for row in order.tolist()]), groups[order])


def test_entries_of_info(experience):
    rows = [
        experience(0, 0, info={"answer": "0", "clean": 0.0, "others": [0.0, 1.0]}),
        experience(0, 1, info={"answer": None, "clean": 0.5, "others": [0.0, 1.0]}),
    ]
    fields = {"answers": "answer", "true_rewards": "clean", "reference_rewards": "others"}
    found = read_rollouts(rows, rollout_fields=fields)
    assert list(found.answers) == ["0", None]
    assert found.true_rewards.tolist() == [0, 0.5]
    assert found.reference_rewards.tolist() == [[0, 1], [0, 1]]
    del rows[1].info["clean"]
    with pytest.raises(
        ConfigError, match=r"true_rewards: expected 'clean' in Experience\.info, got answer, others in 0/0/1"
    ):
        read_rollouts(rows, rollout_fields=fields)


def test_log_probabilities_that_are_not_there(experience):
    with pytest.raises(InputError, match="expected 4 log-probabilities, got none; the rollout model must return them"):
        read_rollouts([experience()], reads=("logprobs",))
    with pytest.raises(InputError, match="expected 4 log-probabilities, got 3"):
        read_rollouts([experience(logprobs=torch.zeros(3))], reads=("logprobs",))


def test_a_row_without_a_token_of_the_policy_needs_no_log_probabilities(experience):
    masked_whole = experience(0, 0, action_mask=torch.zeros(4, dtype=torch.bool))
    empty = experience(0, 1, response=0)
    usual = experience(0, 2, logprobs=torch.zeros(4))
    rows = [masked_whole, empty, usual]
    assert read_rollouts(rows, reads=("logprobs",)).logprobs.isnan().tolist() == [True, True, False]


def test_a_copy_of_the_donor_stands_in_the_slot(experience):
    rows = [experience(0, run, run / 3, info={"tag": run}) for run in range(3)]
    before = copy.deepcopy(rows)
    found, positions = carry(rows, source=[2, 1, 2])
    assert positions == [0, 1, 2]
    assert found[1] is rows[1]
    assert found[2] is rows[2]
    new = found[0]
    assert new is not rows[2]
    assert torch.equal(new.tokens, rows[2].tokens)
    assert new.tokens.data_ptr() != rows[2].tokens.data_ptr()
    assert new.reward == rows[2].reward == 2 / 3  # all digits, not those of float32
    assert (new.eid.task, new.eid.run) == (0, 0)
    assert new.eid.suffix not in {row.eid.suffix for row in before}
    assert new.info["geoalign_donor"] == before[2].eid.uid
    assert new.info["geoalign_replaced"] == before[0].eid.uid
    assert new.info["tag"] == 2
    assert "geoalign_donor" not in rows[2].info
    assert [row.info["geoalign_score"] for row in found] == [2, 1, 2]
    new.info["tag"] = "changed"
    assert rows[2].info["tag"] == 2


def test_dropped_and_unscored_rows_are_left_out_and_one_that_is_then_alone(experience):
    rows = [
        experience(task=0, run=0, reward=1.0),
        experience(task=0, run=1, reward=0.5),
        experience(task=0, run=2, reward=None),
        experience(task=0, run=3, reward=0.0),
        experience(task=1, run=0, reward=1.0),
    ]
    found, positions = carry(rows, source=[0, 2, 3, 4], weights=[1.0, 0.0, 1.0, 1.0])
    assert found == [rows[0], rows[3], rows[4]]
    assert positions == [0, 3, 4]
    # Trinity would take the reward of a task's only experience for its advantage.
    found, positions = carry(rows, source=[0, 2, 4], weights=[1.0, 0.0, 1.0])
    assert found == [rows[4]]
    assert positions == [4]


def test_shaped_rewards(experience):
    rows = [experience(0, 0, 1.0), experience(0, 1, 0.1)]
    found, _ = carry(rows, rewards=[0.5, 0.1])
    assert found[0].reward == 0.5
    assert found[1].reward == 0.1  # untouched: not 0.10000000149
    rows = [experience(0, 0, 1.0, token_level_reward=torch.zeros(4))]
    with pytest.raises(UnsupportedError, match="shapes rewards, and token_level_reward is there"):
        carry(rows, rewards=[0.5])


def test_runs_of_several_experiences_and_preference_pairs_are_refused(experience):
    check_experiences([experience(0, 0), experience(0, 1), experience(1, 0)])
    # A workflow that leaves `run` alone: all 0, one experience each.
    check_experiences([experience(0, 0), experience(0, 0)])
    with pytest.raises(UnsupportedError, match=r"runs of several experiences \(steps 0 and 1\) are not curated"):
        check_experiences([experience(0, 0), experience(0, 0, step=1)])
    with pytest.raises(UnsupportedError, match="preference pairs are not curated"):
        check_experiences([experience(0, 0, experience_type="dpo")])


def test_components_are_what_a_workflow_leaves_in_metrics(experience):
    rows = [experience(0, run, 1.1, metrics={"accuracy": 1.0, "format_score": 0.1}) for run in range(2)]
    found = read_rollouts(rows, components=["accuracy"])
    assert found.components["accuracy"].tolist() == [1.0, 1.0]
    with pytest.raises(ConfigError, match="component: expected one of accuracy, format_score; got 'verdict'"):
        read_rollouts(rows, components=["verdict"])


def test_a_second_verifier_reads_texts_or_the_messages_of_several_turns(experience):
    rows = [experience(7, run) for run in range(3)]
    rows[0].prompt_text = "1 + 1?"
    rows[0].response_text = "2"
    rows[0].info = {"truth": "2"}
    rows[1].prompt_text = rows[1].response_text = None
    rows[1].messages = [
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "3"},
    ]
    found = verifier_rows(rows, [1, 0])
    assert found[0]["prompt"][-1]["content"] == "Sure?"
    assert found[0]["response"] == "3"
    assert found[1] == {"truth": "2", "prompt": "1 + 1?", "response": "2"}
    rows[2].prompt_text = rows[2].response_text = rows[2].messages = None
    with pytest.raises(InputError, match=r"expected response_text or messages, which the second verifier reads"):
        verifier_rows(rows, [2])
