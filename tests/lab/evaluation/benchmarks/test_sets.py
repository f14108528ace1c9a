import json

import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.evaluation.sets import EvaluationSet, load_sets, prompted
from geoalign.lab.models.models import make_tokenizer
from geoalign.lab.tasks.base import Problem


@pytest.fixture
def aime(tmp_path):
    path = tmp_path / "aime.jsonl"
    rows = [{"problem": f"What is {n}+1?", "answer": f"{n + 1:03d}"} for n in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def talk(tmp_path):
    path = tmp_path / "talk.jsonl"
    starts = [f"\n\nHuman: hi {n}\n\nAssistant: " for n in (1, 2, 2)]
    rows = [{"chosen": f"{start}yes", "rejected": f"{start}no"} for start in starts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_benchmarks_and_dialogues(aime, talk):
    config = EvaluateConfig(samples={"helpful": 3}, max_new_tokens=50)
    one, two = load_sets([f"aime24={aime}"], [f"helpful={talk}"], config)
    assert (one.name, one.kind, one.samples, one.max_new_tokens, len(one.problems)) == ("aime24", "benchmark", 8, 50, 5)
    assert [message["role"] for message in one.problems[0].prompt] == ["system", "user"]
    assert any("5 problems, where AIME24 has 30" in note for note in one.notes)
    # The same prompt twice is one.
    assert (two.name, two.kind, two.samples, len(two.problems)) == ("helpful", "dialogue", 3, 2)
    assert [message["role"] for message in two.problems[0].prompt] == ["user"]


@pytest.mark.parametrize(
    ("benchmarks", "dialogues", "values", "said"),
    [
        ([], [], {}, "expected --benchmark NAME=PATH_OR_ID or --dialogue NAME=PATH_OR_ID, got neither"),
        (["aime26=x"], [], {}, r"benchmark: expected one of .*aime25.*got 'aime26'"),
        (["aime24"], [], {}, "expected aime24=FILE or a hub id"),
        (["aime24=/nowhere/x.jsonl"], [], {}, r"/nowhere/x\.jsonl: expected a local file"),
        ([], ["helpful"], {}, "--dialogue: expected NAME=PATH_OR_ID"),
        ([], ["../x=y"], {}, "--dialogue: expected NAME=PATH_OR_ID"),
        ([], ["aime24=y"], {}, "--dialogue: expected a name that no benchmark has"),
        (["aime24=x"], [], {"samples": {"amc23": 2}}, "samples.amc23: expected one of aime24, got 'amc23'"),
    ],
)
def test_sets_that_are_none_are_refused(benchmarks, dialogues, values, said):
    with pytest.raises(ConfigError, match=said):
        load_sets(benchmarks, dialogues, EvaluateConfig(**values))


def _of(*texts, max_new_tokens=4):
    problems = [Problem(str(n), ({"role": "user", "content": text},), "1") for n, text in enumerate(texts)]
    return EvaluationSet("s", "benchmark", tuple(problems), 2, max_new_tokens, ())


def test_prompts_that_do_not_fit_are_left_out_and_counted_never_cut():
    tokenizer = make_tokenizer(None, max_length=2048)
    # One token a letter, one each before the user's and the model's turn: 12, 11 and 3 tokens; 5 more must fit.
    found = prompted(_of("x" * 10, "y" * 9, "z", max_new_tokens=5), tokenizer, {}, longest=16)
    assert [prompt.problem.id for prompt in found.prompts] == ["1", "2"]
    assert dict(found.left_out) == {"longer than 11 tokens": 1}
    assert len(found.prompts[0].tokens) == 11
    requests = [(prompt.problem.id, sample) for prompt, sample in found.requests()]
    assert requests == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    shorter = prompted(_of("x" * 10, "z"), tokenizer, {}, longest=None, max_prompt_tokens=5)
    assert dict(shorter.left_out) == {"longer than 5 tokens": 1}


def test_a_prompt_that_is_no_text_or_that_the_template_refuses_is_left_out():
    tokenizer = make_tokenizer(None, max_length=2048)
    refusal = "{% if messages[0]['content'] == 'bad' %}{{ raise_exception('no ' + style) }}{% endif %}"
    tokenizer.chat_template = refusal + "{{ messages[0]['content'] }}"
    found = prompted(_of("a", "\ud800", "bad", "b"), tokenizer, {"style": "\x1b[2Jthanks"}, longest=None)
    assert [prompt.problem.id for prompt in found.prompts] == ["0", "3"]
    assert dict(found.left_out) == {
        "with characters that are no text": 1, "refused by the chat template (no ?[2Jthanks)": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "tokens", "message"),
    [
        (("x" * 50, "y" * 50), 4, "s: expected at least one prompt that the model takes, got none: 2 longer"),
        (("x",), 20, "max_new_tokens: expected less than the 20 tokens that the model takes, got 20"),
    ],
)
def test_no_prompt_left_and_no_room_for_a_response_are_errors(texts, tokens, message):
    with pytest.raises((InputError, ConfigError), match=message):
        prompted(_of(*texts, max_new_tokens=tokens), make_tokenizer(None, max_length=2048), {}, longest=20)
