"""`geoalign audit --curator denoise`: without states and with them, its columns, and what it writes."""

import numpy as np
import pytest
from dumps import ANSWERS, REWARDS, filtered, table, verdicts, write_lines

# The reward in a row's place is then a probability.
EXPECTED = ("curator.least_slope=1", "curator.unidentified=modelled")


def flagged_places(folder):
    """Of every flagged row its place among the eight rollouts of its prompt."""
    return [row["index"] % 8 for row in table(folder) if row["anomalous"]]


def test_answers_alone_tell_which_verdicts_are_wrong(tmp_path, run):
    summary = run(write_lines(tmp_path / "d.jsonl", verdicts()), curator="denoise", settings=EXPECTED)
    assert summary["curator"]["geometry"] == "none"
    assert summary["hidden"]["from"] == "none"
    assert summary["curator"]["geometry"] == "none"
    assert summary["hidden"]["note"]
    rows = table(tmp_path / "out")
    assert [row["final_answer"] for row in rows[:8]] == list(ANSWERS)
    # In every prompt the refused "a" and the rewarded "b", rows 3 and 5, are flagged.
    assert flagged_places(tmp_path / "out") == [3, 5] * 8
    for row in rows:
        wrong = row["probability_wrong"]
        assert (wrong > 0.5) == row["anomalous"]
        # A binary reward is expected to be 1 with the probability that it is right, or that it is wrong.
        assert row["denoised_reward"] == pytest.approx(1 - wrong if row["reward"] else wrong, abs=1e-6)
        assert row["new_reward"] == row["denoised_reward"]


def test_one_empty_response_hides_no_contradiction_of_the_others(tmp_path, run):
    rows = []
    for prompt in range(9):
        of_most = prompt % 2
        for place in range(8):
            # The first response gets one verdict, the seven others get the other one.
            reward = 1 - of_most if place == 0 else of_most
            rows.append({"prompt": f"p{prompt}", "response": "same", "reward": reward})
    # Empty are the second response of the first prompt and the first of the second.
    rows[1]["response"] = ""
    rows[8]["response"] = ""
    # Of the nine prompts, the empty response of the second is the only one judged otherwise: nothing speaks against it.
    assert run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise")["counts"]["flagged"] == 8


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(("least", "rewards", "flagged"), [
    (0.5, [0.5, 0.5, 1, 0, 0, 1, 0, 0], []),  # no verdicts
    (0.1, REWARDS, [(1, 3), (1, 5)] * 8),  # verdicts, and something for the format
])  # fmt: skip
def test_two_rewards_of_a_step_are_verdicts_only_if_those_of_all_are(tmp_path, run, files, least, rewards, flagged):
    """The first step shows 0 and the least reward above it, as early in a training."""
    first = []
    second = []
    for place, row in enumerate(verdicts()):
        name = row["id"]
        first.append({**row, "step": 0, "id": f"0 {name}", "reward": row["reward"] * least})
        second.append({**row, "step": 1, "id": f"1 {name}", "reward": float(rewards[place % 8])})
    if files == 2:
        paths = [write_lines(tmp_path / "0.jsonl", first), write_lines(tmp_path / "1.jsonl", second)]
    else:
        paths = [write_lines(tmp_path / "0.jsonl", [*first, *second])]
    run(*paths, curator="denoise")
    found = [row for row in table(tmp_path / "out") if row["anomalous"]]
    assert [(row["step"], row["index"] % 8) for row in found] == flagged


def test_the_filtered_rollouts_hold_denoised_rewards_and_their_advantages(tmp_path, run):
    unscored = {**verdicts()[0], "reward": None}
    path = write_lines(tmp_path / "d.jsonl", [unscored, *verdicts()[1:]])
    run(path, curator="denoise", settings=EXPECTED, skip_bad=True, filtered=True)
    rows = table(tmp_path / "out")
    made = filtered(tmp_path / "out")
    assert [one["reward"] for one in made] == [row["new_reward"] for row in rows]
    assert made[0]["reward"] is rows[0]["probability_wrong"] is rows[0]["denoised_reward"] is None
    assert [one["weight"] for one in made] == [0.0] + [1.0] * 63
    advantages = np.array([one["advantage"] for one in made]).reshape(8, 8)
    assert advantages[0, 0] == 0.0
    # The advantages are those of the rewards beside them, on a smaller scale: the truth is not known for sure.
    rewards = np.array([one["reward"] for one in made[8:]]).reshape(7, 8)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    ratio = advantages[1:] / centred
    assert ratio == pytest.approx(np.broadcast_to(ratio[:, :1], ratio.shape), rel=1e-4)
    assert (ratio[:, 0] < 1 / rewards.std(axis=1, ddof=1)).all()


def test_denoised_rewards_within_a_chain(tmp_path, run):
    """PODS keeps the four rollouts of the widest spread, of the expected rewards: "a" against "b" and "c"."""
    path = write_lines(tmp_path / "d.jsonl", verdicts())
    members = ("curator.members=[{type: denoise}, {type: pods, m: 4}]",)
    summary = run(path, curator="chain", settings=members, filtered=True)
    assert [member.get("geometry") for member in summary["curator"]["members"]] == ["none", None]
    assert summary["hidden"]["note"]
    assert flagged_places(tmp_path / "out") == [3, 5] * 8
    # The columns are those of `denoise` alone: a chain's reward is its last member's.
    assert {row["denoised_reward"] for row in table(tmp_path / "out")} == {None}
    made = filtered(tmp_path / "out")
    assert len(made) == 32
    for one in made:
        assert (one["reward"] > 0.5) == ("boxed{a}" in one["response"])


def test_a_prompt_of_an_earlier_file_is_known_again_where_states_are_fitted(tmp_path, run):
    """Of 12 prompts in the second file the first had 8, of 8 rollouts each."""
    paths = []
    states = []
    for number, prompts in enumerate((8, 12)):
        paths.append(write_lines(tmp_path / f"{number}.jsonl", verdicts(prompts)))
        states.append(tmp_path / f"{number}.npy")
        values = np.random.default_rng(number).normal(size=(8 * prompts, 4))
        np.save(states[-1], values.astype(np.float32))
    summary = run(*paths, curator="denoise", hidden=states)
    assert [step["metrics"]["geoalign/repeated_responses"] for step in summary["steps"]] == [0, 64]


def test_another_spelling_is_no_other_answer(tmp_path, run):
    def spelt(answer, number):
        """A letter as sevenths, by turns in three spellings."""
        n = ord(answer)
        spellings = [rf"\frac{{{n}}}{{7}}", rf"\dfrac{{{n}}}{{7}}", f"{n}/7."]
        return spellings[number % 3]

    boxed = []
    column = []
    for number, row in enumerate(verdicts()):
        answer = spelt(ANSWERS[number % 8], number)
        boxed.append({**row, "response": rf"\boxed{{{answer}}}"})
        column.append({**row, "response": "so", "final_answer": answer})
    summary = run(write_lines(tmp_path / "d.jsonl", boxed), curator="denoise")
    assert flagged_places(tmp_path / "out") == [3, 5] * 8
    other = run(write_lines(tmp_path / "e.jsonl", column), curator="denoise", output=tmp_path / "column")
    assert other["verifier"]["groups_with_repeated_answers"] == summary["verifier"]["groups_with_repeated_answers"]
    assert {name: summary["equal_answers"][name] for name in ("compared", "equal", "undecided")} == {
        "compared": 0, "equal": 0, "undecided": 0,
    }  # fmt: skip


def test_what_math_verify_calls_equal_is_one_answer_of_a_prompt(tmp_path, run):
    pytest.importorskip("math_verify")
    judged = [("x+1", 1.0), ("1+x", 1.0), ("2", 0.0)] * 2
    rows = [
        {"prompt": f"p{prompt}", "response": rf"{place}: \boxed{{{answer}}}", "reward": reward}
        for prompt in range(3)
        for place, (answer, reward) in enumerate(judged)
    ]
    summary = run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise")
    assert {row["compared_answer"] for row in table(tmp_path / "out")} == {"1+x", "2"}
    assert summary["equal_answers"]["equal"] == 1
