import gzip
import json

import pytest

from geoalign.config.dialogue import HHRLHFConfig
from geoalign.errors import ConfigError, InputError
from geoalign.tasks import make_task
from geoalign.tasks.hh_rlhf import read_dialogue, read_pair

ASK = "\n\nHuman: Hi\n\nAssistant: Yes?\n\nHuman: Why is\n\nthe sky blue?\n\nAssistant:"


def pair(chosen=ASK + " Light.", rejected=ASK + " No."):
    return {"chosen": chosen, "rejected": rejected}


def test_a_dialogue_is_split_into_its_turns():
    assert read_dialogue(ASK + " Light: it scatters. ") == (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Why is\n\nthe sky blue?"},
        {"role": "assistant", "content": "Light: it scatters."},
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Human: Hi\n\nAssistant: Yes",  # no blank line in front
        "Hello\n\nHuman: Hi\n\nAssistant: Yes",  # something in front
        "\n\nAssistant: Yes",  # nobody asked
        "\n\nHuman: Hi",  # nobody replied
        "\n\nHuman:\n\nAssistant: Yes",  # an earlier turn without text
    ],
)
def test_what_is_no_dialogue(text):
    assert read_dialogue(text) is None


def test_a_pair_shares_its_prompt():
    found, reason = read_pair(pair())
    assert reason == ""
    assert [turn["content"] for turn in found.prompt] == ["Hi", "Yes?", "Why is\n\nthe sky blue?"]
    assert (found.chosen, found.rejected) == ("Light.", "No.")


REPEATED = "\n\nHuman: Hi\n\nHuman: Hello?\n\nAssistant:"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "malformed"),
        (pair(chosen=3), "malformed"),
        (pair(rejected="No."), "malformed"),
        (pair(rejected=ASK + " Light. "), "identical"),
        (pair(rejected=ASK), "empty"),
        (pair(rejected="\n\nHuman: Hi\n\nAssistant: No."), "different history"),
        (pair(REPEATED + " Yes.", REPEATED + " No."), "repeated turn"),
    ],
)
def test_rows_that_are_no_usable_pair(row, reason):
    assert read_pair(row) == (None, reason)


def test_bad_rows_are_counted_or_refused(write_jsonl):
    path = write_jsonl("pairs.jsonl", [pair(), {"chosen": 1}, pair(rejected=ASK), pair(rejected=ASK + " Dust.")])
    task = make_task(HHRLHFConfig(train=path), seed=0)
    assert [item.rejected for item in task.preference_pairs()] == ["No.", "Dust."]
    assert task.notes() == [f"{path}: 2 of 4 rows left out: 1 malformed, 1 empty"]
    with pytest.raises(InputError, match=r"pairs\.jsonl, line 2: expected a usable pair of dialogues, .* malformed"):
        make_task(HHRLHFConfig(train=path, on_bad_row="error"), seed=0).preference_pairs()


def test_prompts_demonstrations_and_evaluation(write_jsonl):
    other = "\n\nHuman: Bye\n\nAssistant:"
    train = write_jsonl(
        "train.jsonl", [pair(), pair(rejected=ASK + " Dust."), pair(other + " So long.", other + " No.")]
    )
    test = write_jsonl("test.jsonl", [pair(other + " See you.", other + " Go.")])
    task = make_task(HHRLHFConfig(train=train, evaluation={"test": test}), seed=0)
    # The first two pairs have one prompt, so there are two problems, but three demonstrations.
    assert [problem.id for problem in task.train_problems()] == [f"{train}, line 1", f"{train}, line 3"]
    assert [item.completion for item in task.demonstrations()] == ["Light.", "Light.", "So long."]
    assert [problem.answer for problem in task.evaluation_problems()["test"]] == ["See you."]
    assert task.notes() == ["evaluation set test: 1 of 1 end in a turn that ends a training prompt"]
    assert task.gold_utility(task.train_problems()[0], "Light.") is None
    with pytest.raises(ConfigError, match="shortcut, got hh_rlhf"):
        task.takes_shortcut("Light.")


def test_prompts_for_rl_may_come_from_another_file(write_jsonl):
    other = "\n\nHuman: Bye\n\nAssistant:"
    train, rl = write_jsonl("a.jsonl", [pair()]), write_jsonl("b.jsonl", [pair(other + " A.", other + " B.")])
    task = make_task(HHRLHFConfig(train=train, rl=rl), seed=0)
    assert [problem.prompt[-1]["content"] for problem in task.train_problems()] == ["Bye"]
    assert len(task.preference_pairs()) == 1


def test_limits(write_jsonl):
    path = write_jsonl("pairs.jsonl", [pair(), pair(rejected=ASK + " x" * 500), pair(rejected=ASK + " Dust.")])
    short = make_task(HHRLHFConfig(train=path, max_characters=100), seed=0)
    assert len(short.preference_pairs()) == 2
    assert "1 too long" in short.notes()[0]
    assert len(make_task(HHRLHFConfig(train=path, limit=1), seed=0).preference_pairs()) == 1


def test_files_without_a_usable_pair_are_refused(write_jsonl):
    path = write_jsonl("pairs.jsonl", [{"chosen": "x", "rejected": "y"}])
    with pytest.raises(
        InputError, match=r"pairs\.jsonl: expected at least one usable pair of dialogues, got none in 1"
    ):
        make_task(HHRLHFConfig(train=path), seed=0).train_problems()
    with pytest.raises(ConfigError, match=r"nowhere\.jsonl"):
        make_task(HHRLHFConfig(train="nowhere.jsonl"), seed=0).train_problems()


def test_gzip_is_read(tmp_path):
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(pair()).encode()))
    assert len(make_task(HHRLHFConfig(train=str(path)), seed=0).preference_pairs()) == 1


def test_the_real_test_splits(shared_data):
    files = sorted(str(path) for path in (shared_data / "hh_rlhf").glob("*/test.jsonl.gz"))
    assert len(files) == 4
    task = make_task(HHRLHFConfig(train=tuple(files)), seed=0)
    # 2312 + 2354 + 1137 + 2749 = 8552 rows; 36 identical and 17 with different histories, as counted elsewhere; of
    # the 11 empty replies one stands in a row that is malformed otherwise.
    skipped = {}
    for note in task.notes():
        for part in note.partition("left out: ")[2].split(", "):
            count, _, reason = part.partition(" ")
            skipped[reason] = skipped.get(reason, 0) + int(count)
    assert skipped == {"malformed": 4, "identical": 36, "empty": 10, "different history": 17, "repeated turn": 10}
    assert len(task.preference_pairs()) == 8552 - sum(skipped.values())
    assert all(item.prompt[-1]["role"] == "user" for item in task.train_problems())
