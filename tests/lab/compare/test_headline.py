"""What wrong rewards cost and what was recovered, on comparisons made by hand."""

import json
from types import SimpleNamespace

import pytest

from geoalign.lab.compare.analysis import analyse
from geoalign.lab.compare.headline import headline_numbers
from geoalign.lab.compare.read_settings import parse_compare_config
from geoalign.lab.compare.results import parse_result

SCORES = {"grpo": [0.4], "theirs": [0.38], "ours": [0.5], "oracle": [0.58], "clean": [0.6]}
# Differences between seeds are known well, and the oracle is clearly above GRPO.
THREE = {
    "grpo": [0.39, 0.4, 0.41],
    "theirs": [0.37, 0.38, 0.39],
    "ours": [0.48, 0.5, 0.52],
    "oracle": [0.57, 0.58, 0.6],
    "clean": [0.6, 0.6, 0.6],
}


def result(arm, seed, score, gold):
    line = {"step": 10, "stage": "after_rl", "set": "test", "accuracy": score, "correct": None, "count": 100}
    value = {
        "schema_version": 1,
        "arm": arm,
        "level": "flip",
        "seed": seed,
        "status": "finished" if score is not None else "failed",
        "curator": "grpo" if arm == "clean" else arm,
        "evaluations": [{**line, "reward": score, "gold_utility": gold}] if score is not None else [],
        "run": {"grpo": {}},
    }
    return parse_result(json.loads(json.dumps(value)), None)


def level(scores, *, reward=None, metric="accuracy", gold=None, arms=None, oracle="oracle"):
    """The level of a comparison with these final scores by arm and seed; None: the run failed."""
    names = {"clean": {"curator": {"type": "grpo"}, "reward": {"flip": 0.0, "shortcut": 0.0}}}
    plan = {
        "arms": {**{arm: names.get(arm, {"curator": {"type": arm}}) for arm in scores}, **(arms or {})},
        "levels": {"flip": {"reward": reward or {"flip": 0.4}}},
        "seeds": list(range(max(map(len, scores.values())))),
        "primary": [{"arm": "ours", "against": "grpo"}],
        "metric": metric,
        "oracle": oracle if oracle in scores else None,
    }
    cells = [
        result(arm, seed, score, None if gold is None else gold[arm])
        for arm, values in scores.items()
        for seed, score in enumerate(values)
    ]
    config = parse_compare_config(plan)
    found = analyse(cells, config).levels[0]
    return SimpleNamespace(
        headline=found.headline,
        footnote=found.footnote,
        statements=found.statements,
        outcome=headline_numbers(found, config),
    )


def test_shares_are_of_the_loss():
    found = level(SCORES).outcome
    # The loss is 0.6 - 0.4; ours wins back 0.1 of 0.2, theirs -0.02, the oracle 0.18.
    assert found.cost.interval.estimate == pytest.approx(0.2)
    shares = {arm: found.share(arm).estimate for arm in found.other_arms}
    assert shares == pytest.approx({"oracle": 0.9, "ours": 0.5, "theirs": -0.1})


def test_the_headline_names_the_baseline_first_and_the_primary_arm_before_others():
    words = level(THREE).headline
    values = ["grpo 0.400", "ours 0.500", "theirs 0.380", "0.583", "0.600"]
    assert [words.index(value) for value in values] == sorted(words.index(value) for value in values)
    assert words.index("ours 50%") < words.index("theirs -10%") < words.index("oracle 92%")
    many = level({**THREE, **{f"other_{at}": [0.44, 0.45, 0.46] for at in range(4)}})
    assert "theirs" not in many.headline
    assert "other_0" not in many.headline
    assert many.outcome.absent == ()


@pytest.mark.parametrize("failed", ["grpo", "ours", "theirs", "oracle", "clean"])
def test_every_number_is_of_the_seeds_that_all_named_arms_have(failed):
    # The fourth seed lies far below the others: with it every mean would be another.
    scores = {arm: [*values, values[0] - 0.3] for arm, values in THREE.items()}
    scores[failed][3] = None
    found = level(scores)
    assert found.headline == level(THREE).headline
    assert found.outcome.cost == level(THREE).outcome.cost
    assert found.outcome.scores.equals(level(THREE).outcome.scores)
    assert "seeds 0-2" in found.footnote


def test_an_arm_with_too_few_seeds_makes_no_illustration_of_the_others():
    found = level({**THREE, "theirs": [0.37, 0.38, None]})
    assert found.outcome.scores.index.tolist() == [0, 1, 2]
    assert found.outcome.absent == ("theirs",)
    assert "ours 50%" in found.headline


def test_an_arm_that_shares_no_seed_is_left_out_and_named():
    scores = {arm: [*values, None] for arm, values in THREE.items()}
    scores["theirs"] = [None, None, None, 0.9]
    found = level(scores)
    assert found.outcome.scores.index.tolist() == [0, 1, 2]
    assert found.outcome.absent == ("theirs",)
    assert "theirs" not in found.headline
    assert "theirs" in found.footnote
    # Without a seed of both there is nothing to say of wrong rewards.
    assert level({"grpo": [0.4, None], "ours": [0.5, 0.5], "clean": [None, 0.6]}).outcome.clean is None


@pytest.mark.parametrize(("seeds", "words"), [(1, "One seed"), (2, "Two seeds")])
def test_too_few_seeds_are_an_illustration_without_a_claim(seeds, words):
    found = level({arm: values[:seeds] for arm, values in THREE.items()})
    sentences = [found.headline, found.footnote, *(item.text for item in found.statements)]
    assert found.headline.startswith(f"{words}, an illustration.")
    assert {item.verdict for item in found.statements} == {"none"}
    assert not any(word in " ".join(sentences) for word in ("recovered", "better", "worse"))


def test_no_share_is_claimed_where_no_curator_can_be_judged():
    found = level({**THREE, "oracle": [0.3, 0.58, 0.5]})
    assert found.statements[0].verdict == "undecided"
    assert "recovered" not in found.headline
    assert found.footnote == ""


def test_without_an_oracle_the_run_without_wrong_rewards_is_the_headroom():
    found = level({arm: values for arm, values in THREE.items() if arm != "oracle"})
    assert (found.statements[0].arm, found.statements[0].verdict) == ("clean", "better")
    assert "ours 50%" in found.headline


def test_the_truth_leads_where_the_reward_is_its_proxy():
    gold = {"grpo": -0.03, "theirs": 0.1, "ours": -0.93, "oracle": -0.5, "clean": -0.57}
    dialogue = {"metric": "reward", "reward": {"extremes": 0.4}, "gold": gold, "arms": {"clean": CLEAN_DIALOGUE}}
    words = level(THREE, **dialogue).headline
    assert words.index("ours -0.93") < words.index("ours 0.5")
    # Ours has more of the proxy than GRPO and less of the truth: the headline says so.
    assert words.index("ours 50%") < words.index("By the true reward ours, oracle and clean end below grpo")
    one = level({arm: values[:1] for arm, values in THREE.items()}, **dialogue)
    assert one.headline.startswith("One seed, an illustration.")
    assert "ours -0.93" in one.headline
    # Where the table compares the truth itself, nothing stands beside it.
    assert "-0.93" not in level(THREE, gold=gold).headline


def test_without_a_clean_arm_the_headline_gives_the_verdicts():
    found = level({arm: values for arm, values in THREE.items() if arm != "clean"})
    assert found.outcome.clean is None
    assert "ours scored better than grpo." in found.headline
    assert "recovered" not in found.headline


CLEAN_DIALOGUE = {"curator": {"type": "grpo"}, "reward": {"extremes": 0.0}}


def test_without_a_loss_nothing_is_recovered():
    assert "nothing to recover" in level({**THREE, "clean": [0.38, 0.39, 0.4]}).headline
    unsure = {**THREE, "clean": [0.39, 0.6, 0.4]}
    assert "not distinguishable from zero" in level(unsure).headline


def test_of_a_shortcut_no_share_of_wrong_rewards_is_told():
    found = level(THREE, reward={"shortcut": 0.5})
    assert found.headline.startswith("Some of the rewards were wrong.")


def test_there_is_none_without_corruption_or_without_the_clean_arm():
    assert level({"grpo": [0.4], "ours": [0.5]}).outcome.clean is None
    assert level(SCORES, reward={"flip": 0.0}).outcome.clean is None
    assert level({**SCORES, "clean": [None]}).outcome.clean is None
    assert level({**SCORES, "grpo": [None]}).outcome is None
    # Of an arm with other wrong rewards, or of another curator without any, the loss is not told.
    fewer = {"curator": {"type": "grpo"}, "reward": {"flip": 0.1}}
    assert level(SCORES, arms={"clean": fewer}).outcome.clean is None
    assert (
        level(
            {"grpo": [0.4], "ours": [0.5]}, arms={"ours": {"curator": {"type": "denoise"}, "reward": {"flip": 0}}}
        ).outcome.clean
        is None
    )
