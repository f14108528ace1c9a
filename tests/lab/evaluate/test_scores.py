import math

import pytest

from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.evaluate.evaluated_models import EvaluatedModel
from geoalign.lab.evaluate.results import result_json
from geoalign.lab.evaluate.scores import ModelScores, average, curve, evaluation_scores, score
from geoalign.lab.evaluate.sets import PromptedSet
from geoalign.lab.models.accuracy import ProblemCounts, counts_by_problem
from geoalign.lab.models.rows import ResponseRow


def _set(rewards, kind="benchmark", name="aime24"):
    """A set whose responses have these rewards, by problem; every other one is truncated; response n has n tokens."""
    evaluation_set = EvaluationSet(name=name, kind=kind, problems=[], samples=len(rewards[0]), max_new_tokens=9)
    rows = []
    for number, of_problem in enumerate(rewards):
        for sample, reward in enumerate(of_problem):
            rows.append(
                ResponseRow(
                    model="m",
                    set=name,
                    id=str(number),
                    sample=sample,
                    prompt="[]",
                    response="",
                    answer="1",
                    reward=reward,
                    correct=bool(reward) if kind == "benchmark" else None,
                    reason="no_answer" if reward == 0 else None,
                    tokens=len(rows),
                    prompt_tokens=3,
                    truncated=len(rows) % 2 == 0,
                )
            )
    return PromptedSet(evaluation_set, [], {"longer than 5 tokens": 2}), rows


def _scored(rewards, kind="benchmark", name="aime24"):
    """The scores of such a set."""
    prompted_set, rows = _set(rewards, kind, name)
    return score(prompted_set, rows)


def test_counts_are_of_each_problem_however_many_responses_it_has():
    _, rows = _set([[1, 0, 0, 0], [1, 1, 1, 0]])
    counts = counts_by_problem(rows[:6])
    assert (counts.right, counts.total) == ((1, 2), (4, 2))
    # 3 of 6; pass@1 = (1/4 + 2/2)/2, pass@2 = (1 - C(3,2)/C(4,2) + 1)/2 = (1/2 + 1)/2; two responses allow no pass@4.
    assert counts.accuracy().estimate == 0.5
    assert {k: counts.pass_interval(k).estimate for k in counts.ks} == {1: 0.625, 2: 0.75}


def test_avg_at_k_and_pass_at_k_by_hand():
    found = _scored([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    # Right: 1, 3 and 0 of 4. avg@4 = 4/12.
    assert (found.correct, found.responses, found.problems) == (4, 12, 3)
    assert found.accuracy.estimate == pytest.approx(1 / 3)
    # pass@1 = (1/4 + 3/4 + 0)/3; pass@2 = (1 - C(3,2)/C(4,2) + 1 - 0 + 0)/3 = (1/2 + 1)/3; pass@4 = 2/3.
    pass_at_k = {k: interval.estimate for k, interval in found.pass_at_k.items()}
    assert pass_at_k == pytest.approx({1: 1 / 3, 2: 0.5, 4: 2 / 3})
    # Tokens 0 to 11.
    assert (found.tokens, found.truncated) == (5.5, 6)
    assert (found.left_out, found.counts) == ({"longer than 5 tokens": 2}, {"no_answer": 8})
    assert (found.reward, found.unscored) == (None, 0)


@pytest.mark.parametrize(("right", "estimate"), [([0] * 30, 0.0), ([8] * 30, 1.0)])
def test_all_wrong_or_all_right_has_an_interval_with_a_width(right, estimate):
    counts = ProblemCounts(right=tuple(right), total=(8,) * 30)
    for found in (counts.accuracy(), counts.pass_interval(4)):
        assert found.low <= found.estimate == estimate <= found.high
        # Wilson's with 30 problems: z^2/(30 + z^2) = 0.1135.
        assert found.high - found.low == pytest.approx(0.1135, abs=1e-4)


def test_the_average_counts_sets_alike_however_many_problems_they_have():
    small = _scored([[1], [1]])
    large = _scored([[0]] * 98, name="amc23")
    dialogue = _scored([[0.3]], "dialogue", "helpful")
    found = average([small, large, dialogue])
    assert found.estimate == 0.5
    # Wilson: 2 of 2 has low 2/5.8415 = 0.3424, 0 of 98 high 3.8415/101.8415 = 0.0377; (1 - 0.3424)/2 and 0.0377/2.
    assert found.low == pytest.approx(0.5 - 0.6576 / 2, abs=1e-4)
    assert found.high == pytest.approx(0.5 + 0.0377 / 2, abs=1e-4)
    assert average([dialogue]) is None


def test_dialogues_have_a_reward_and_no_accuracy():
    found = _scored([[1.0, 3.0], [math.nan, 4.0], [math.nan, math.nan]], "dialogue")
    # Means 2 and 4 by prompt; the third has none.
    assert found.reward.estimate == 3.0
    assert (found.unscored, found.accuracy, found.correct, dict(found.pass_at_k)) == (3, None, None, {})
    assert _scored([[None], [None]], "dialogue").reward is None


def test_the_last_five_and_the_smoothing_by_hand():
    found = curve({30: 0.4, 10: 0.0, 20: 1.0, 40: 0.6, 50: 0.8, 60: 0.2})
    assert found.steps == (10, 20, 30, 40, 50, 60)
    # (1.0 + 0.4 + 0.6 + 0.8 + 0.2)/5.
    assert (found.last, found.last_count) == (pytest.approx(0.6), 5)
    # 0; 0.4 * 1 = 0.4; 0.24 + 0.16 = 0.4; 0.24 + 0.24 = 0.48; 0.288 + 0.32 = 0.608; 0.3648 + 0.08 = 0.4448.
    assert found.smoothed == pytest.approx((0.0, 0.4, 0.4, 0.48, 0.608, 0.4448))
    assert curve({1: 0.5, 2: 1.0}).last_count == 2


def _checkpoint(step, *scores, series="run"):
    model = EvaluatedModel(
        name=f"{series}-{step}", path="/m", series=series, step=step, template_options={}, trust_remote_code=False
    )
    return ModelScores(model, scores, average(scores))


def test_checkpoints_of_a_run_make_curves_of_every_set_and_the_average():
    def sets(first, second, reward):
        """Two benchmarks of four problems, of which so many are right, and a dialogue set."""
        return [
            _scored([[1]] * first + [[0]] * (4 - first)),
            _scored([[1]] * second + [[0]] * (4 - second), name="amc23"),
            _scored([[reward]], "dialogue", "helpful"),
        ]

    later = _checkpoint(20, *sets(4, 2, 0.5))
    earlier = _checkpoint(10, *sets(1, 1, 0.1))
    alone = _checkpoint(5, *sets(0, 0, 0), series="other")
    found = evaluation_scores([later, earlier, alone])
    assert list(found.curves) == ["run"]
    curves = found.curves["run"]
    assert {name: one.values for name, one in curves.sets.items()} == {
        "aime24": (0.25, 1.0),
        "amc23": (0.25, 0.5),
        "helpful": (0.1, 0.5),
    }
    assert curves.average.values == (0.25, 0.75)
    assert {one.steps for one in (*curves.sets.values(), curves.average)} == {(10, 20)}
    written = result_json(found)
    smoothed = written["curves"]["run"]["average"]["smoothed"]
    assert smoothed == pytest.approx([0.25, 0.6 * 0.25 + 0.4 * 0.75])
    assert written["models"]["run-20"]["average"]["estimate"] == 0.75
