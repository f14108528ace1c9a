import math
from types import SimpleNamespace

import pytest
import torch
from asking import settings_with
from slime_parts import Sample, arguments

from geoalign.adapters.settings import SlimeSettings
from geoalign.adapters.slime.hooks import SlimeRun
from geoalign.adapters.slime.samples import group_ids, read_rollouts, reward_of, rollout_rows, verifier_rows
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.denoise import Denoise
from geoalign.errors import ConfigError, InputError, UnsupportedError


def read(samples, *reads, **fields):
    return read_members([[sample] for sample in samples], reads, fields)


def read_members(members, reads=(), fields=None):
    rewards = [reward_of(rollout, None) for rollout in members]
    settings = SlimeSettings(rollout_fields=fields or {})
    curator = SimpleNamespace(reads=reads, components=())
    return read_rollouts(members, group_ids(members, 4), rewards, curator, settings)


def test_fields_of_the_recorded_batch(batch):
    batch[2].remove_sample = True  # a filter took it out of the loss
    batch[0].loss_mask = [1] * batch[0].response_length
    batch[0].loss_mask[1] = 0  # a token of a tool
    found = read(batch, "logprobs", "prompt_keys", answers="answer")
    assert found.rewards.tolist() == [1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1]
    assert found.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert found.donor_ok.tolist() == [row not in (2, 7) for row in range(12)]
    lengths = [sample.response_length for sample in batch]
    assert found.lengths.tolist() == [lengths[0] - 1, *lengths[1:]]
    assert found.answers[:4] == ["4", "4", "5", "4"]
    own = [batch[0].rollout_log_probs[0], *batch[0].rollout_log_probs[2:]]
    assert found.logprobs[0].item() == pytest.approx(sum(own) / len(own))
    assert len(set(found.prompt_keys.tolist())) == 3
    assert len(set(found.response_keys.tolist())) == 12


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reward": None}, math.nan),
        ({"reward": math.nan}, math.nan),
        ({"reward": 0.0, "status": Sample.Status.ABORTED}, math.nan),
        ({"reward": 0.0, "status": Sample.Status.FAILED}, math.nan),
        ({"reward": 0.5, "status": Sample.Status.TRUNCATED}, 0.5),
        ({"reward": {"score": 0.25}}, 0.25),
        ({"reward": {"other": 0.25}}, math.nan),
    ],
)
def test_a_missing_reward_is_nan_and_never_0(changes, expected):
    sample = Sample(**{"status": Sample.Status.COMPLETED, **changes})
    assert reward_of([sample], "score" if isinstance(sample.reward, dict) else None) == pytest.approx(
        expected, nan_ok=True
    )


def test_samples_of_one_rollout_are_one_row(batch):
    for sample in batch[:3]:
        sample.rollout_id = 0
        sample.reward = 1.0
    rows = rollout_rows(batch)
    assert rows == [[0, 1, 2], *[[row] for row in range(3, 12)]]
    members = [[batch[row] for row in part] for part in rows]
    found = read_members(members)
    assert found.groups.tolist() == [0] * 2 + [1] * 4 + [2] * 4
    assert found.lengths[0] == sum(sample.response_length for sample in batch[:3])
    batch[1].reward = 0.0
    with pytest.raises(UnsupportedError, match=r"rollout 0: expected one reward for all of its samples, got 1.0, 0.0"):
        reward_of(members[0], None)


def test_groups_without_an_index_are_those_of_the_place(batch):
    for sample in batch:
        sample.group_index = None
    of_one_sample_each = [[sample] for sample in batch]
    assert group_ids(of_one_sample_each, 4).tolist() == [0] * 4 + [1] * 4 + [2] * 4
    with pytest.raises(InputError, match="group_index: expected one in every sample"):
        group_ids(of_one_sample_each, 5)


def test_hidden_states_are_of_the_last_sample_and_must_be_there(batch):
    for row, sample in enumerate(batch):
        sample.metadata["geoalign_hidden"] = [float(row), 1.0]
    assert torch.equal(read(batch, "hidden").hidden[:, 0], torch.arange(12.0))
    del batch[5].metadata["geoalign_hidden"]
    with pytest.raises(InputError, match=r"metadata\['geoalign_hidden'\]: expected a hidden state, .* in sample 5"):
        read(batch, "hidden")


def test_a_sample_without_a_token_of_the_policy_needs_neither_state_nor_log_probabilities(batch):
    for row, sample in enumerate(batch):
        sample.metadata["geoalign_hidden"] = [float(row), 1.0]
        sample.metadata["answer"] = "1"
    # Aborted before its first token.
    batch[1].status = Sample.Status.ABORTED
    batch[1].response_length = 0
    batch[1].loss_mask = None
    # Masked whole.
    batch[5].loss_mask = [0] * batch[5].response_length
    # Failed, with tokens that nobody has told the probabilities of.
    batch[6].status = Sample.Status.FAILED
    for row in (1, 5, 6):
        batch[row].rollout_log_probs = None
        del batch[row].metadata["geoalign_hidden"]
    found = read(batch, "hidden", "logprobs", answers="answer")
    assert found.logprobs.isnan().nonzero().flatten().tolist() == [1, 5, 6]
    assert found.rewards.isnan().nonzero().flatten().tolist() == [1, 6]
    assert not found.donor_ok[[1, 5, 6]].any()
    # The mean of the states of the other rows of the prompt: it says nothing. (0 + 2 + 3) / 3, (4 + 7) / 2.
    means = torch.tensor([5 / 3, 5.5, 5.5])
    torch.testing.assert_close(found.hidden[[1, 5, 6], 0], means)
    assert SeedGRPO().curate(found).metrics["rows_without_logprob"] == 3
    assert Denoise().curate(found).weights[[1, 6]].tolist() == [0.0, 0.0]


def test_errors_name_the_entry_and_the_sample(batch):
    with pytest.raises(
        ConfigError, match=r"rollout_fields.answers: expected 'final' in Sample.metadata.*answer in sample 0"
    ):
        read(batch, answers="final")
    batch[3].rollout_log_probs = None
    with pytest.raises(InputError, match=r"rollout_log_probs: expected .*, got none in sample 3"):
        read(batch, "logprobs")
    batch[1].reward = {"score": 1.0}
    with pytest.raises(InputError, match="expected a number, or a dict with one under --reward-key"):
        reward_of([batch[1]], None)


def test_a_second_verifier_reads_the_last_sample_of_a_rollout(batch):
    batch[1].prompt = "6 + 3?"
    batch[1].response = "so 9"
    batch[1].label = "9"
    batch[1].metadata = {"answer": "what the response says"}
    rollouts = [[batch[3]], [batch[0], batch[1]]]
    [first, second] = verifier_rows(rollouts, [0, 1])
    assert first["response"] == batch[3].response
    assert second == {"prompt": "6 + 3?", "response": "so 9", "label": "9", "answer": "what the response says"}


def test_math_verify_is_refused_where_samples_have_no_label():
    section = settings_with("math_verify")
    with pytest.raises(
        ConfigError, match=r"expected one in label, got none; set geoalign\.rollout_fields\.gold_answers"
    ):
        SlimeRun(arguments(section))
    SlimeRun(arguments(section, label_key="answer"))
    SlimeRun(arguments({**section, "data_source": "mine.Source"}))  # which may set labels
    SlimeRun(arguments({**section, "rollout_fields": {"gold_answers": "truth"}}))  # an entry of the metadata
