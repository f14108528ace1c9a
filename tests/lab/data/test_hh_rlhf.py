import json

import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.hh_rlhf import load_dialogues, read_dialogue, read_pair, read_prompt
from geoalign.lab.data.settings import HHRLHFConfig
from geoalign.lab.data.sources import LeftOutError
from geoalign.lab.data.tasks import make_task

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


REPEATED = "\n\nHuman: Hi\n\nHuman: Hello?\n\nAssistant:"
OTHER = "\n\nHuman: Bye\n\nAssistant:"
CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "So?"}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "malformed"),
        (pair(chosen=3), "malformed"),
        *(
            (pair(rejected=text), "malformed")
            for text in (
                "",
                "Human: Hi\n\nAssistant: Yes",  # no blank line in front
                "Hello\n\nHuman: Hi\n\nAssistant: Yes",  # something in front
                "\n\nAssistant: Yes",  # nobody asked
                "\n\nHuman: Hi",  # nobody replied
                "\n\nHuman:\n\nAssistant: Yes",  # an earlier turn without text
            )
        ),
        (pair(rejected=ASK + " Light. "), "identical"),
        (pair(rejected=ASK), "empty"),
        (pair(rejected="\n\nHuman: Hi\n\nAssistant: No."), "different history"),
        (pair(REPEATED + " Yes.", REPEATED + " No."), "repeated turn"),
        *(
            ({"prompt": prompt}, "malformed")
            for prompt in (
                *(None, [], "  "),
                CHAT[:2],  # ends with the assistant
                CHAT[1:],  # begins with it
                [{"role": "user", "content": " "}],
                [{"role": "human", "content": "Hi"}],
                [CHAT[0], {"role": "system", "content": "x"}, CHAT[0]],
                ASK + " Light.",  # a reply is there already
            )
        ),
        ({"prompt": [CHAT[0], CHAT[0]]}, "repeated turn"),
    ],
)
def test_rows_that_are_no_usable_pair_or_prompt(row, reason):
    with pytest.raises(LeftOutError, match=f"^{reason}$"):
        read_prompt(row) if "prompt" in row else read_pair(row)


def test_bad_rows_are_counted(write_jsonl):
    malformed = {"chosen": 1}
    empty = pair(rejected=ASK)
    path = write_jsonl("pairs.jsonl", [pair(), malformed, empty, pair(rejected=ASK + " Dust.")])
    task = make_task(HHRLHFConfig(train=path), seed=0)
    assert [item.rejected for item in task.preference_pairs] == ["No.", "Dust."]
    assert task.notes[:-1] == [f"{path}: 2 of 4 rows left out: 1 empty, 1 malformed"]


def test_prompts_demonstrations_and_evaluation(write_jsonl):
    rows = [pair(), pair(rejected=ASK + " Dust."), pair(OTHER + " So long.", OTHER + " No.")]
    train = write_jsonl("train.jsonl", rows)
    test = write_jsonl("test.jsonl", [pair(OTHER + " See you.", OTHER + " Go.")])
    task = make_task(HHRLHFConfig(train=train, evaluation={"test": test}), seed=0)
    # The first two pairs have one prompt, so there are two problems, but three demonstrations.
    assert [problem.id for problem in task.train_problems] == ["line 1", "line 3"]
    assert [item.completion for item in task.demonstrations] == ["Light.", "Light.", "So long."]
    assert [problem.answer for problem in task.evaluation_problems["test"]] == ["See you."]
    assert task.notes == [
        "evaluation set test: 1 of 1 begin like a training prompt",
        "3 replies for SFT, 3 pairs for a reward model, 2 prompts for RL (the paper's split: 144,716 for SFT, 17,226 "
        "for RL)",
    ]
    assert task.gold_utility is task.takes_shortcut is task.final_answer is None


def test_files_without_a_usable_pair_are_refused(write_jsonl):
    path = write_jsonl("pairs.jsonl", [{"chosen": "x", "rejected": "y"}])
    message = r"pairs\.jsonl: expected at least one usable pair of dialogues, got none in 1 rows"
    with pytest.raises(InputError, match=message + " with the columns chosen, rejected: 1 malformed"):
        make_task(HHRLHFConfig(train=path), seed=0)
    with pytest.raises(ConfigError, match=r"nowhere\.jsonl"):
        make_task(HHRLHFConfig(train="nowhere.jsonl"), seed=0)


def test_a_prompt_is_a_list_of_messages_or_a_text():
    system = {"role": "system", "content": "Be kind."}
    for given, prompt in (
        (CHAT, tuple(CHAT)),
        ([system, *CHAT], (system, *CHAT)),
        ("Hi", ({"role": "user", "content": "Hi"},)),
        (ASK, read_pair(pair()).prompt),
    ):
        assert read_prompt({"prompt": given, "answer": ""}) == prompt


def test_prompts_for_rl_and_evaluation_as_chat_messages(write_jsonl):
    train = write_jsonl("train.jsonl", [pair()])
    rows = [
        {"prompt": CHAT, "answer": ""},
        {"prompt": CHAT[:2]},
        {"prompt": CHAT, "answer": "So."},
        {"prompt": "Ho"},
    ]
    prompts = write_jsonl("prompts.jsonl", rows)
    task = make_task(HHRLHFConfig(train=train, rl=prompts, evaluation={"helpful": prompts, "harmless": train}), seed=0)
    assert [(problem.id, problem.answer) for problem in task.train_problems] == [("line 1", ""), ("line 4", "")]
    assert [len(problems) for problems in task.evaluation_problems.values()] == [2, 1]
    assert f"{prompts}: 1 of 4 rows left out: 1 malformed" in task.notes
    with pytest.raises(InputError, match="one usable pair of dialogues, got none in 4 rows with the columns prompt"):
        make_task(HHRLHFConfig(train=prompts), seed=0)


def test_the_last_prompts_are_kept_for_rl(write_jsonl):
    rows = []
    for row, number in enumerate((1, 2, 3, 2, 1)):
        ask = f"\n\nHuman: Ask {number}\n\nAssistant:"
        rows.append(pair(f"{ask} yes {row}", f"{ask} no"))
    path = write_jsonl("pairs.jsonl", rows)
    task = make_task(HHRLHFConfig(train=path, rl_prompts=2), seed=0)
    # Different prompts in the order of first appearance: 1, 2, 3; the last two are 2 and 3.
    assert [problem.prompt[-1]["content"] for problem in task.train_problems] == ["Ask 2", "Ask 3"]
    assert [item.completion for item in task.demonstrations] == ["yes 0", "yes 4"]
    assert [item.chosen for item in task.preference_pairs] == ["yes 0", "yes 4"]
    with pytest.raises(InputError, match=r"task\.rl_prompts: expected less than the 3 different prompts .*, got 3"):
        make_task(HHRLHFConfig(train=path, rl_prompts=3), seed=0)
    with pytest.raises(ConfigError, match="rl_prompts: expected null where `rl` has the prompts"):
        HHRLHFConfig(train=path, rl=path, rl_prompts=1)


def test_duplicates_conflicts_and_overlap_are_dropped(write_jsonl):
    tested = "\n\nHuman: Tested\n\nAssistant:"
    rows = [
        pair(),
        pair(),  # repeats the first
        pair(rejected=ASK + " Dust."),
        pair(OTHER + " A.", OTHER + " B."),
        pair(OTHER + " B.", OTHER + " A."),  # the other way round
        pair(tested + " A", tested + " B"),
    ]
    train = write_jsonl("train.jsonl", rows)
    test = write_jsonl("test.jsonl", [{"prompt": "tested?"}, {"prompt": "New"}])

    def task_of(mode):
        return make_task(HHRLHFConfig(train=train, evaluation={"helpful": test}, decontaminate=mode), seed=0)

    task = task_of("drop")
    assert task.notes[:-1] == [
        "train: 4 of 6 rows dropped: 1 stand before, 2 conflict with another, 1 stand in an evaluation set; 2 left"
    ]
    assert [item.rejected for item in task.preference_pairs] == ["No.", "Dust."]
    assert len(task.train_problems) == 1
    assert len(task_of("off").notes) == 1


PARTS = {
    "helpful-base": (2354, {"malformed": 1, "identical": 2, "empty": 3, "different history": 9, "repeated turn": 6}),
    "helpful-online": (1137, {"malformed": 3, "identical": 2, "empty": 3}),
    "helpful-rejection-sampled": (2749, {"identical": 32, "different history": 3}),
    "harmless-base": (2312, {"empty": 4, "different history": 5, "repeated turn": 4}),
}


@pytest.mark.parametrize("part", PARTS)
def test_the_real_test_splits(shared_data, part):
    rows, skipped = PARTS[part]
    dialogues, (note,) = load_dialogues(str(shared_data / "hh_rlhf" / part / "test.jsonl.gz"), prompts=False)
    assert len(dialogues) == rows - sum(skipped.values())
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    assert note.endswith(f"{sum(skipped.values())} of {rows} rows left out: {parts}")
    assert all(dialogue.problem.prompt[-1]["role"] == "user" for dialogue in dialogues)


def test_the_authors_own_prompts(shared_data):
    base, online, train, harmless = (str(shared_data / "hh_rlhf" / part / "test.jsonl.gz") for part in PARTS)
    rl, sample = (
        str(shared_data / "hh_rlhf_geoalign_sample" / f"{name}_sample_50.parquet") for name in ("train", "test")
    )
    evaluation = {"sample": sample, "helpful": (base, online), "harmless": harmless}
    task = make_task(HHRLHFConfig(train=train, rl=rl, evaluation=evaluation), seed=0)
    assert len(task.train_problems) == 50
    assert {problem.answer for problem in task.train_problems} == {""}
    assert all(problem.prompt[0]["role"] == problem.prompt[-1]["role"] == "user" for problem in task.train_problems)
    assert [len(problems) for problems in task.evaluation_problems.values()] == [50, 3462, 2297]
    assert not [note for note in task.notes if "sample_50" in note]


def test_pairs_that_begin_alike_go_to_one_of_two_reward_models(tmp_path):
    def rows(numbers):
        # Of each dialogue the first reply, and the second after another turn.
        for number in numbers:
            first = f"\n\nHuman: What is {number}?\n\nAssistant:"
            second = f"{first} It is {number}.\n\nHuman: Really?\n\nAssistant:"
            for asked in (first, second):
                yield {"chosen": asked + " Yes.", "rejected": asked + " No."}

    def sides(numbers):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(numbers)))
        task = make_task(HHRLHFConfig(train=str(path), gold_share=0.3), seed=0)
        of_proxy = [found.prompt[0]["content"] for found in task.preference_pairs]
        of_gold = [found.prompt[0]["content"] for found in task.gold_pairs]
        return of_proxy, of_gold

    proxy, gold = sides(range(1000))
    assert len(proxy) + len(gold) == 2000
    assert not set(proxy) & set(gold)
    assert all(gold.count(first) == 2 for first in gold[:20])
    # Binomial: 300 of 1000 dialogues, with a deviation of 14.5.
    assert 250 < len(set(gold)) < 350
    # The side of a dialogue does not depend on what else the file holds.
    fewer, kept = sides(range(300, 600))
    assert set(fewer) <= set(proxy)
    assert set(kept) <= set(gold)
