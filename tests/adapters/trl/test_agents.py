"""Rows of several turns: tools, environments and rollout functions with an `env_mask`, in TRL itself."""

from dataclasses import replace

import pytest
import torch
import trl
from packaging.version import Version
from trl import GRPOTrainer
from trl_parts import (
    SHORT,
    Scripted,
    curated_batch,
    curation,
    data,
    digits,
    same_weights,
    tokenizer,
    trainer,
    weights_of,
)

from geoalign.adapters.grpo_trainer.states import HiddenLocation, RowTokens
from geoalign.hidden.tap import backbone_of

# TRL 1.16.0 needs jmespath for transformers before 5.13 only, 1.8.0 always (grpo_trainer.py, `__init__`).
if Version(trl.__version__) < Version("1.16"):
    pytest.importorskip("jmespath")

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
EVERYTHING = ("hidden", "lengths", "logprobs", "ids", "advantages", "prompt_keys")
TEMPLATE = (
    "{% for m in messages %}{% if m['role']=='user' %}<u>{{ m['content'] }}{% elif m['role']=='tool' %}"
    "={{ m['content'] }}{% else %}<a>{{ m['content'] }}{% for c in m['tool_calls'] or [] %}{{ c['function']['name'] }}"
    "{{ c['function']['arguments'] }}{% endfor %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
# What the tool says, and the template around it: "=", the answer, "<a>".
TOLD = "answer is 7"
TOLD_TOKENS = len(TOLD) + 2


@pytest.fixture(autouse=True)
def _silence(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def calling_tokenizer():
    """The tiny tokenizer, for which a turn of an even first token is a tool call: TRL's own parser wants real ones."""
    made = tokenizer(TEMPLATE)

    def parse_response(ids, prefix=None, tools=None):
        turn = {"role": "assistant", "content": made.decode(ids, skip_special_tokens=True)}
        calls = [{"type": "function", "function": {"name": "look", "arguments": {"place": "here"}}}]
        return {**turn, "tool_calls": calls} if ids[0] % 2 == 0 else turn

    made.response_template = {"stands": "in"}
    made.parse_response = parse_response
    return made


def look(place: str) -> str:
    """Says what is there.

    Args:
        place: Where to look.
    """
    return TOLD


class Room:
    """An environment whose prompts differ from rollout to rollout, and that scores its own."""

    made = 0

    def __init__(self):
        Room.made += 1
        self.number = Room.made
        self.looks = 0

    def reset(self, **row):
        self.looks = 0
        return "0" * (self.number % 4)

    def look(self, place: str) -> str:
        """Says what is there.

        Args:
            place: Where to look.
        """
        self.looks += 1
        return TOLD

    def get_reward(self):
        return float(self.looks)


def last_turn_digits(completions, **columns):
    return digits([[turn for turn in turns if turn["role"] == "assistant"][-1:] for turns in completions])


def agent(folder, curator=None, environments=False, **changes):
    """A trainer whose rollouts call tools; with an environment, its prompts differ and its reward is added."""
    Room.made = 0
    return trainer(
        folder,
        curator,
        reward=last_turn_digits,
        dataset=data(conversational=True),
        processing=calling_tokenizer(),
        extra={"environment_factory": Room} if environments else {"tools": [look]},
        **{"max_completion_length": 32, "max_tool_calling_iterations": 2, **SHORT, **changes},
    )


# Rows of three shapes: the tokens of a completion, and which of them are the policy's.
SHAPES = (
    ([7, 8, 9, 10, 2], [1, 0, 0, 1, 0]),
    ([7, 9, 2], [1, 1, 1]),
    ([8, 11], [0, 1]),
)


def rows_with_tool_output(prompts, made):
    """A rollout function of which the policy wrote some tokens and was told others: the three shapes in turn."""
    chosen = [SHAPES[row % 3] for row in range(len(prompts))]
    return {
        "prompt_ids": [[5, 6]] * len(prompts),
        "completion_ids": [list(ids) for ids, _ in chosen],
        "logprobs": [[0.0] * len(ids) for ids, _ in chosen],
        "env_mask": [list(mask) for _, mask in chosen],
    }


@pytest.mark.parametrize(
    ("environments", "changes"), [(False, {}), (True, {"num_iterations": 2, "mask_truncated_completions": True})]
)
def test_identity_is_bit_identical(tmp_path, environments, changes):
    plain = agent(tmp_path / "plain", cls=GRPOTrainer, environments=environments, **changes)
    plain.train()
    watcher = Scripted(curation, requires=EVERYTHING)
    curated = agent(tmp_path / "curated", watcher, environments=environments, **changes)
    curated.train()
    assert plain.state.log_history[0]["tools/call_frequency"] > 0
    assert same_weights(weights_of(plain), weights_of(curated))
    assert len(watcher.seen) == (1 if changes else 2)


@pytest.mark.parametrize("environments", [False, True])
def test_a_replaced_row_takes_its_donors_masks(tmp_path, environments):
    before = curated_batch(agent(tmp_path / "plain", Scripted(curation), environments=environments))
    source = torch.tensor([2, 3, 2, 3, 6, 7, 6, 7])
    moving = Scripted(lambda rollouts: curation(rollouts, source=source))
    batch = curated_batch(agent(tmp_path / "moved", moving, environments=environments))
    # Tools were used, so that the masks differ from row to row and from the completions' own.
    assert int((before["tool_mask"] == 0).sum()) >= TOLD_TOKENS
    assert not torch.equal(before["tool_mask"], before["tool_mask"][source])
    assert torch.equal(batch["tool_mask"], before["tool_mask"][source])
    assert torch.equal(batch["completion_ids"], before["completion_ids"][source])
    assert int(batch["num_items_in_batch"]) == int((batch["tool_mask"] * batch["completion_mask"]).sum())
    assert int(batch["num_items_in_batch"]) < int(batch["completion_mask"].sum())
    # In an environment a prompt goes on with what it shows, another for each rollout: donors bring theirs.
    expected = before["prompt_ids"][source if environments else slice(None)]
    assert torch.equal(batch["prompt_ids"], expected)
    assert (len(set(before["prompt_mask"].sum(1).tolist())) > 1) == environments


# `rows_with_tool_output` gives, after a prompt of two tokens in columns 0 and 1:
#   row 0: columns 2..6, the policy's are 2 and 5: final 5, predicting 4, mean of 2 and 5
#   row 1: columns 2..4, all the policy's:         final 4, predicting 3, mean of 2, 3 and 4
#   row 2: columns 2..3, the policy's is 3:        final 3, predicting 2, mean of 3
COLUMNS = {
    "final": [[5], [4], [3]],
    "predicting": [[4], [3], [2]],
    "mean": [[2, 5], [2, 3, 4], [3]],
    # No answer anywhere: as `predicting`.
    "answer_start": [[4], [3], [2]],
}


@pytest.mark.parametrize("source", ["own_pass", "logprob_pass"])
def test_states_are_those_of_what_the_policy_wrote(tmp_path, source):
    watcher = Scripted(curation, requires=EVERYTHING)
    extra = {"rollout_func": rows_with_tool_output, "hidden_source": source}
    made = trainer(tmp_path, watcher, extra=extra, **({} if source == "own_pass" else {"num_iterations": 2}))
    for position in COLUMNS:
        made._curation_options = replace(made._curation_options, location=HiddenLocation(position, 1.0))
        curated_batch(made)
    rows = rows_with_tool_output([None] * 3, None)
    for row in range(3):
        ids = torch.tensor([rows["prompt_ids"][row] + rows["completion_ids"][row]])
        with torch.no_grad():
            states = backbone_of(made.model.eval())(input_ids=ids).last_hidden_state[0]
            logprobs = made.model(input_ids=ids).logits[0].log_softmax(-1)
        # The state in a column predicts the token of the next one.
        of_the_policy = [logprobs[column - 1, ids[0, column]] for column in COLUMNS["mean"][row]]
        expected_logprob = torch.stack(of_the_policy).mean()
        for seen, columns in zip(watcher.seen, COLUMNS.values(), strict=True):
            expected_state = states[columns[row]].mean(0)
            torch.testing.assert_close(seen.hidden[row], expected_state, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(seen.logprobs[row], expected_logprob, atol=1e-5, rtol=1e-4)
            assert seen.lengths[:3].tolist() == [2, 3, 1]
            assert seen.donor_ok.all()


def test_an_answer_is_the_policys_own():
    tokenizer = calling_tokenizer()

    def ids_of(text):
        return [tokenizer.convert_tokens_to_ids(character) for character in text]

    def found(response, mask):
        rows = RowTokens([[1]], [response], mask)
        rows.find_answers(tokenizer, HiddenLocation("answer_start", 1.0))
        return rows.answers

    # The 4 stands in token 13 of the response, the tool's 7 in token 25.
    whole = ids_of("so answer is 4" + "=answer is 7" + "ok")
    policys_mask = [1] * 14 + [0] * 12 + [1] * 2
    assert found(whole, [policys_mask]) == [13]
    assert found(whole, None) == [25]
    # An answer in the second turn is counted in the whole response: "=..." has 12 tokens, then 10 before the answer.
    second_turn = ids_of("=answer is 7" + "answer is 4")
    assert found(second_turn, [[0] * 12 + [1] * 11]) == [22]


def test_a_row_in_which_the_policy_wrote_nothing(tmp_path):
    def silent(prompts, made):
        rows = rows_with_tool_output(prompts, made)
        rows["env_mask"][1] = [0, 0, 0]
        return rows

    watcher = Scripted(curation, requires=("hidden", "logprobs"))
    made = trainer(tmp_path, watcher, extra={"rollout_func": silent})
    batch = curated_batch(made)
    seen = watcher.seen[0]
    assert seen.donor_ok.tolist() == [row != 1 for row in range(8)]
    assert seen.lengths[1] == 0
    assert seen.logprobs.isnan().tolist() == [row == 1 for row in range(8)]
    assert int((batch["completion_mask"] * batch["tool_mask"])[1].sum()) == 0
    assert made._metrics["train"]["geoalign/rows_without_policy_token"] == [1.0]
