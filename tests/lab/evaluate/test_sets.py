import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.settings import FieldsConfig
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.evaluate.sets import load_sets, prompted_set
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.language_model import make_tokenizer


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
    (one, two), notes = load_sets([f"aime24={aime}"], [f"helpful={talk}"], config)
    assert (one.name, one.kind, one.samples, one.max_new_tokens, len(one.problems)) == ("aime24", "benchmark", 8, 50, 5)
    assert [message["role"] for message in one.problems[0].prompt] == ["system", "user"]
    assert any("5 problems, where AIME24 has 30" in note for note in notes)
    # The same prompt twice is one.
    assert (two.name, two.kind, two.samples, len(two.problems)) == ("helpful", "dialogue", 3, 2)
    assert [message["role"] for message in two.problems[0].prompt] == ["user"]


def test_a_path_may_hold_an_equals_sign_and_two_files_are_one_set(tmp_path, aime):
    (tmp_path / "a=b.jsonl").write_text(aime.read_text())
    (one,), _ = load_sets([f"mine={tmp_path}/a=b.jsonl ", f"mine={aime}"], [], EvaluateConfig())
    assert [problem.id for problem in one.problems[4:6]] == ["line 5", "file 2, line 1"]


def test_the_problems_of_a_set_keep_their_names_when_a_second_file_is_added(tmp_path, aime):
    (alone,), _ = load_sets([f"mine={aime}"], [], EvaluateConfig())
    (tmp_path / "more.jsonl").write_text(aime.read_text())
    (both,), _ = load_sets([f"mine={aime}", f"mine={tmp_path}/more.jsonl"], [], EvaluateConfig())
    names = [problem.id for problem in alone.problems]
    assert [problem.id for problem in both.problems[: len(names)]] == names


@pytest.mark.parametrize(
    ("benchmarks", "dialogues", "values", "said"),
    [
        ([], [], {}, "expected --benchmark NAME=PATH_OR_ID or --dialogue NAME=PATH_OR_ID, got neither"),
        (["aime26"], [], {}, r"--benchmark: expected NAME=FILE or NAME=HUB_ID, got 'aime26'"),
        (["=x.jsonl"], [], {}, r"--benchmark: expected NAME=FILE or NAME=HUB_ID, got '=x.jsonl'"),
        (["aime24= "], [], {}, "expected NAME=FILE or NAME=HUB_ID, such as aime24=HuggingFaceH4/aime_2024@train, got"),
        ([], ["helpful"], {}, "--dialogue: expected NAME=FILE or NAME=HUB_ID"),
        (["mine=x"], ["mine=y"], {}, "got --benchmark mine and --dialogue mine"),
        (["mine=x", "mine=x"], [], {}, "mine: expected each file once, got x twice"),
        (["mine=x"], [], {"fields": {"other": FieldsConfig()}}, "fields.other: no set of --benchmark is called other"),
        ([], ["talk=x"], {"fields": {"talk": FieldsConfig()}}, "fields.talk: no set of --benchmark is called talk"),
        (["aime24=/nowhere/x.jsonl"], [], {}, r"/nowhere/x\.jsonl: expected a local file"),
        (["aime24=x"], [], {"samples": {"amc23": 2}}, "samples.amc23: no set is called amc23, but aime24"),
    ],
)
def test_sets_that_are_none_are_refused(benchmarks, dialogues, values, said):
    with pytest.raises(ConfigError, match=said):
        load_sets(benchmarks, dialogues, EvaluateConfig(**values))


PROBLEMS = [("What is 1+1?", "2"), ('Say "a, b"', "a, b")]


def write_set(path, fields):
    """The two problems in the format that the file's name ends in, under these fields."""
    rows = [dict(zip(fields, problem, strict=True)) for problem in PROBLEMS]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            writer.writerows(rows)


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv"])
def test_a_set_of_ones_own_has_any_name_and_format(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    write_set(path, ("problem", "answer"))
    (mine,), _ = load_sets([f"my.set-1={path}"], [], EvaluateConfig())
    assert (mine.name, mine.kind, mine.samples, mine.max_new_tokens) == ("my.set-1", "benchmark", 1, 8192)
    assert [(problem.prompt[-1]["content"], problem.answer) for problem in mine.problems] == PROBLEMS
    assert mine.problems[0].prompt[0]["role"] == "system"


def test_columns_of_ones_own_are_named(tmp_path):
    path = tmp_path / "mine.csv"
    write_set(path, ("q", "gold"))
    with pytest.raises(
        InputError, match=r"got gold, q; prompt_field and answer_field name .*--set fields\.NAME\.prompt_field="
    ):
        load_sets([f"mine={path}"], [], EvaluateConfig())
    fields = {"mine": FieldsConfig(prompt_field="q", answer_field="gold")}
    (mine,), _ = load_sets([f"mine={path}"], [], EvaluateConfig(fields=fields))
    assert [(problem.prompt[-1]["content"], problem.answer) for problem in mine.problems] == PROBLEMS
    fields = {"mine": FieldsConfig(prompt_field="nothing", answer_field="gold")}
    with pytest.raises(InputError, match="in 2 rows with the columns q, gold: 2 without a usable prompt"):
        load_sets([f"mine={path}"], [], EvaluateConfig(fields=fields))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,a\n1,2\n", "expected columns of different names, got two or more of a"),
        ("problem,answer\n1,2\n1\n", "line 3: expected 2 cells as in the first line, got 1"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_row(tmp_path, text, message):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_sets([f"mine={path}"], [], EvaluateConfig())


def set_of(*texts, max_new_tokens=4):
    problems = [Problem(str(n), ({"role": "user", "content": text},), "1") for n, text in enumerate(texts)]
    return EvaluationSet(name="s", kind="benchmark", problems=problems, samples=2, max_new_tokens=max_new_tokens)


def test_prompts_that_do_not_fit_are_left_out_and_counted_never_cut():
    tokenizer = make_tokenizer(None, max_length=2048)
    # One token a letter, one each before the user's and the model's turn: 12, 11 and 3 tokens; 5 more must fit.
    found = prompted_set(set_of("x" * 10, "y" * 9, "z", max_new_tokens=5), tokenizer, {}, longest=16)
    assert dict(found.left_out) == {"longer than 11 tokens": 1}
    assert len(found.requests[0].tokens) == 11
    requests = [(request.problem.id, request.sample) for request in found.requests]
    assert requests == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]


def test_a_prompt_that_is_no_text_or_that_the_template_refuses_is_left_out():
    tokenizer = make_tokenizer(None, max_length=2048)
    refusal = "{% if messages[0]['content'] == 'bad' %}{{ raise_exception('no ' + style) }}{% endif %}"
    tokenizer.chat_template = refusal + "{{ messages[0]['content'] }}"
    found = prompted_set(set_of("a", "\ud800", "bad", "b"), tokenizer, {"style": "\x1b[2Jthanks"}, longest=None)
    assert [request.problem.id for request in found.requests] == ["0", "0", "3", "3"]
    assert dict(found.left_out) == {
        "with characters that are no text": 1,
        "refused by the chat template (no <U+001B>[2Jthanks)": 1,
    }


@pytest.mark.parametrize(
    ("texts", "tokens", "message"),
    [
        (("x" * 50, "y" * 50), 4, "s: expected at least one prompt that the model takes, got none: 2 longer"),
        (("x",), 20, "max_new_tokens: expected less than the 20 tokens that the model takes, got 20"),
    ],
)
def test_no_prompt_left_and_no_room_for_a_response_are_errors(texts, tokens, message):
    with pytest.raises((InputError, ConfigError), match=message):
        prompted_set(set_of(*texts, max_new_tokens=tokens), make_tokenizer(None, max_length=2048), {}, longest=20)
