import math
from dataclasses import replace

import pytest
import torch
from verl_parts import Tokenizer, batch_of

from geoalign.adapters.verl.batch import read_rollouts, sessions_of, verifier_rows
from geoalign.adapters.verl.keys import HIDDEN_KEY, RESPONSE_KEY, REWARD_KEY
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.errors import ConfigError, UnsupportedError
from geoalign.types import response_keys


def read(batch, needs=(), fields=None, longest=9, rows=None):
    rows = range(len(batch.keys)) if rows is None else rows
    return read_rollouts(batch, rows, needs, rollout_fields=fields or {}, longest_response=longest)


def test_rewards_groups_and_lengths_in_the_batchs_order():
    batch = batch_of({"b": [1.0, 2.0], "a": [3.0]})
    rollouts = read(batch)
    assert rollouts.rewards.tolist() == [1.0, 2.0, 3.0]
    assert rollouts.groups.tolist() == [0, 0, 1]
    assert rollouts.lengths.tolist() == [1, 2, 3]
    assert rollouts.ids == ["b_0_0", "b_1_0", "a_0_0"]
    assert rollouts.hidden is None
    assert rollouts.logprobs is None


def test_outputs_of_an_agent_loop_are_one_session():
    keys = ["u_1_10", "pad_0_0", "u_1_2", "with_underscore_0_0", "u_0_0", "u_1_0"]
    assert sessions_of(keys, [0, 2, 3, 4, 5]) == [[5, 2, 0], [3], [4]]
    for key in ("u", "u_1", "u_1_x"):
        with pytest.raises(UnsupportedError, match=f"row '{key}': expected a key"):
            sessions_of([key], [0])


def test_what_a_curator_asks_for_is_read():
    batch = batch_of({"a": [1.0, 2.0, 3.0]})
    batch.rows[2]["response_mask"] = torch.tensor([1, 0, 1])
    batch.advantages()
    rollouts = read(batch, ("hidden", "logprobs", "advantages"), longest=3)
    assert rollouts.hidden.tolist() == [[0.0] * 4, [1.0] * 4, [2.0] * 4]
    # Row 2 has log-probabilities -3, -4, -5, the middle one a tool's: mean -4.
    assert rollouts.logprobs.tolist() == [-1.0, -2.5, -4.0]
    assert rollouts.donor_ok.tolist() == [True, True, False]
    assert rollouts.advantages.tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)


def test_no_field_with_a_number_for_every_token_is_read_where_sums_and_lengths_are_there():
    batch = batch_of({"a": [1.0, 2.0], "b": [3.0]})
    by_token = read(batch, ("hidden",), longest=3)
    assert {"rm_scores", "response_mask", "responses"} <= set(batch.was_read)
    for row in batch.rows:
        row[REWARD_KEY] = row["rm_scores"].sum().reshape(1, 1)
        row[RESPONSE_KEY] = response_keys([row["responses"].tolist()]).reshape(1, 1)
        row["length_tag"] = len(row["responses"])
    batch.was_read = []
    by_row = read(batch, ("hidden",), longest=3)
    assert sorted(batch.was_read) == sorted(["uid", HIDDEN_KEY, REWARD_KEY, RESPONSE_KEY])
    for name in ("rewards", "lengths", "response_keys", "donor_ok", "hidden", "groups"):
        assert torch.equal(getattr(by_row, name), getattr(by_token, name)), name
    # Means over tokens of the policy's own still take the mask.
    batch.was_read = []
    read(batch, ("logprobs",))
    assert {"response_mask", "old_log_probs"} <= set(batch.was_read)
    assert "rm_scores" not in batch.was_read


def test_a_prompt_has_its_key_in_every_batch():
    first = read(batch_of({"b": [1.0, 2.0], "a": [3.0]}), ("prompt_keys",)).prompt_keys.tolist()
    second = read(batch_of({"a": [1.0, 0.0]}), ("prompt_keys",)).prompt_keys.tolist()
    assert first[0] == first[1] != first[2]
    assert second == [first[2]] * 2
    assert read(batch_of({"a": [1.0]})).prompt_keys is None


def test_a_row_without_a_token_of_its_own():
    batch = batch_of({"a": [1.0, 2.0]})
    batch.rows[1]["response_mask"] = torch.zeros(2, dtype=torch.int64)
    batch.advantages()
    rollouts = read(batch, ("logprobs",))
    assert rollouts.logprobs.isnan().tolist() == [False, True]
    assert SeedGRPO().curate(replace(rollouts, answers=["x", "y"])).metrics["rows_without_logprob"] == 1


def test_an_unscored_row_may_lack_what_the_others_return():
    batch = batch_of({"a": [1.0, math.nan, 3.0]})
    for row, info in zip(
        batch.rows, [{"true": 0.5, "all": [1.0, 2.0], "answer": "x"}, {"acc": math.nan}, {}], strict=True
    ):
        row["extra_fields"] = {"reward_extra_info": info}
    batch.rows[2]["extra_fields"] = batch.rows[0]["extra_fields"]
    fields = {"true_rewards": "true", "reference_rewards": "all", "answers": "answer"}
    rollouts = read(batch, fields=fields)
    torch.testing.assert_close(rollouts.true_rewards, torch.tensor([0.5, math.nan, 0.5]), equal_nan=True)
    assert rollouts.reference_rewards.isnan().tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert rollouts.answers == ["x", None, "x"]
    with pytest.raises(ConfigError, match=r"true_rewards: expected 'gold' in the dict .* got all, answer, true in row"):
        read(batch, fields={"true_rewards": "gold"})


def test_components_are_numbers_of_the_reward_functions_result():
    batch = batch_of({"a": [1.0, 2.0]})
    rollouts = read_rollouts(batch, range(2), (), rollout_fields={}, components=["true"], longest_response=9)
    assert rollouts.components["true"].tolist() == [0.5, 1.0]
    with pytest.raises(ConfigError, match="component: expected one of true; got 'answer'"):
        read_rollouts(batch, range(2), (), rollout_fields={}, components=["answer"], longest_response=9)


def test_a_second_verifier_reads_the_rows_that_it_is_asked_about():
    batch = batch_of({"a": [1.0, 2.0], "b": [3.0]})
    [row] = verifier_rows(batch, [2], Tokenizer())
    assert row["prompt"] == [{"role": "user", "content": "b"}]
    assert row["response"] == "20 21 22"
    assert row["reward_model"]["ground_truth"] == "gold of b"
    assert (row["data_source"], row["answer"], row["true"]) == ("letters", "a2", 1.5)
