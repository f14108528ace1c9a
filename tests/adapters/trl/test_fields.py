import pytest
import torch
from trl_parts import Scripted, curated_batch, curation, data, trainer

from geoalign.adapters.trl import boxed_answers
from geoalign.errors import ConfigError, InputError


def seen_with(folder, fields, requires=(), optional=(), second_verifier=None, **changes):
    watcher = Scripted(curation, requires=requires)
    watcher.optional = optional
    extra = {"rollout_fields": fields, "second_verifier": second_verifier}
    made = trainer(folder, watcher, extra=extra, **changes)
    curated_batch(made)
    return watcher.seen[0]


def test_columns_and_callables(tmp_path):
    rows_seen = []

    def answers(rows):
        rows_seen.extend(rows)
        return [row["completion"][:1] or None for row in rows]

    def references(rows):
        return [[row["score_a"], None] for row in rows]

    fields = {"answers": answers, "true_rewards": "score_a", "reference_rewards": references}
    seen = seen_with(tmp_path, fields, requires=tuple(fields))
    # Prompts come in groups of four; the column says which prompt it is ("3+4=" has score_a 3).
    numbers = [float(row["prompt"].split("+")[0]) for row in rows_seen]
    assert seen.true_rewards.tolist() == numbers
    assert len(set(numbers[:4])) == 1
    assert seen.answers == [row["completion"][:1] for row in rows_seen]
    assert seen.reference_rewards.shape == (8, 2)
    assert seen.reference_rewards[:, 0].tolist() == numbers
    assert seen.reference_rewards[:, 1].isnan().all()
    assert {"prompt", "completion", "completion_ids", "gold", "score_a"} <= rows_seen[0].keys()


def test_a_prompt_has_its_key_in_every_batch(tmp_path):
    def keys(seed):
        seen = seen_with(tmp_path, {}, optional=("prompt_keys",), dataset=data(rows=2), seed=seed)
        return seen.prompt_keys

    first = keys(seed=1)
    second = keys(seed=2)
    assert torch.equal(first[:4], first[0].expand(4))
    assert set(first.tolist()) == set(second.tolist())


def test_the_second_verifier_reads_the_rows_alone_that_it_is_asked_about(tmp_path):
    calls = []

    def second(prompts, completions, completion_ids, gold, answer, **columns):
        calls.append({"gold": gold, "answer": answer, "score_a": columns["score_a"]})
        return [None, len(completion_ids[1])]

    fields = {"gold_answers": "gold"}
    seen = seen_with(tmp_path, fields, requires=("second_rewards",), second_verifier=second)
    assert calls == []
    verdicts = seen.second_rewards([5, 2])
    [call] = calls
    # Of two prompts with four rows each.
    assert len(set(call["gold"])) == 2
    assert call["answer"] == call["gold"]
    assert call["score_a"] == [float(gold) for gold in call["gold"]]
    assert verdicts == [None, float(seen.lengths[2])]


def test_gold_answers_may_be_made_by_a_callable(tmp_path):
    def gold(rows):
        return [f"gold of {row['prompt']}" for row in rows]

    def second(prompts, completions, answer, **columns):
        assert answer == [f"gold of {prompt}" for prompt in prompts]
        return [0.5] * len(prompts)

    seen = seen_with(tmp_path, {"gold_answers": gold}, requires=("second_rewards",), second_verifier=second)
    assert seen.second_rewards([7]) == [0.5]


def test_math_verify_is_refused_where_no_column_has_the_gold_answer(tmp_path):
    with pytest.raises(
        ConfigError, match=r"expected one in answer or solution, got none; set rollout_fields with gold"
    ):
        trainer(tmp_path, "appeals", extra={"second_verifier": "math_verify"})
    trainer(tmp_path, "appeals", extra={"second_verifier": "math_verify", "rollout_fields": {"gold_answers": "gold"}})


def test_an_asynchronous_callable_is_awaited(tmp_path):
    async def judged(rows):
        return [0.5 for _ in rows]

    assert seen_with(tmp_path, {"true_rewards": judged}).true_rewards.tolist() == [0.5] * 8


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, ConfigError, r"Scripted requires true_rewards: .*true_rewards=<column or callable>"),
        ({"true_rewards": "nothing"}, InputError, "expected a dataset column 'nothing', got columns .*gold"),
        ({"true_rewards": lambda rows: ["a"]}, InputError, "expected 8 values from the callable, got 1"),
        ({"true_rewards": lambda rows: 1.0}, InputError, "expected a list of 8 values from the callable, got 1.0"),
        ({"true_rewards": "prompt"}, InputError, "expected numbers"),
        ({"true_rewards": lambda rows: [[1.0, 2.0], *[[3.0]] * 7]}, InputError, "true_rewards: expected numbers, one"),
    ],
)
def test_bad_fields_are_named(tmp_path, fields, error, words):
    with pytest.raises(error, match=words):
        seen_with(tmp_path, fields, requires=("true_rewards",))


def boxes(rows):
    """Every other response answers 7 in a box, spelt in two ways, in the place of what the tiny model says."""
    in_turn = [r"\boxed{7.0}", "no box", r"\boxed{7.}", "no box"]
    return [in_turn[row % 4] for row in range(rows)]


@pytest.mark.parametrize(("boxed", "requires", "optional", "found"), [
    (True, (), ("answers",), ["7", None] * 4),
    (True, ("answers",), (), ["7", None] * 4),
    (True, (), (), None),  # not wanted
    (False, (), ("answers",), None),  # a task without boxes: answers of another kind, not none
    (False, ("answers",), (), [None] * 8),
])  # fmt: skip
def test_answers_are_read_from_boxes_where_none_are_given(tmp_path, monkeypatch, boxed, requires, optional, found):
    def answers(completions):
        return boxed_answers(boxes(len(completions)) if boxed else completions)

    monkeypatch.setattr("geoalign.adapters.grpo_trainer.generation_batch.boxed_answers", answers)
    assert seen_with(tmp_path, {}, requires=requires, optional=optional).answers == found


def test_given_answers_come_in_their_normal_form(tmp_path):
    def answers(rows):
        in_turn = ["1,234", r"\dfrac12", "", None]
        return [in_turn[row % 4] for row in range(len(rows))]

    seen = seen_with(tmp_path, {"answers": answers}, optional=("answers",))
    assert seen.answers == ["1234", r"\frac{1}{2}", None, None] * 2
