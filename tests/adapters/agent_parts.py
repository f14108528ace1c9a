"""Tools, an environment and a rollout function for the tiny model, whose tokenizer reads many texts as tool calls."""

from __future__ import annotations

import pytest
import trl
from packaging.version import Version
from trl_parts import data, digits, tokenizer, trainer

# TRL 1.16.0 needs jmespath for transformers before 5.13 only, 1.8.0 always (grpo_trainer.py, `__init__`).
if Version(trl.__version__) < Version("1.16"):
    pytest.importorskip("jmespath")

TEMPLATE = (
    "{% for m in messages %}{% if m['role']=='user' %}<u>{{ m['content'] }}{% elif m['role']=='tool' %}"
    "={{ m['content'] }}{% else %}<a>{{ m['content'] }}{% for c in m['tool_calls'] or [] %}{{ c['function']['name'] }}"
    "{{ c['function']['arguments'] }}{% endfor %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
# What the tool says, and the template around it: "=", the answer, "<a>".
TOLD = "answer is 7"
TOLD_TOKENS = len(TOLD) + 2


def calling_tokenizer():
    """The tiny tokenizer, for which a turn of an even first token is a tool call: TRL's own parser wants real ones."""
    made = tokenizer()

    def parse_response(ids, prefix=None, tools=None):
        turn = {"role": "assistant", "content": made.decode(ids, skip_special_tokens=True)}
        calls = [{"type": "function", "function": {"name": "look", "arguments": {"place": "here"}}}]
        return {**turn, "tool_calls": calls} if ids[0] % 2 == 0 else turn

    made.chat_template = TEMPLATE
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


def agent(folder, curator=None, environments=False, extra=None, **changes):
    """A trainer whose rollouts call tools; with an environment, its prompts differ and its reward is added."""
    Room.made = 0
    how = {"environment_factory": Room} if environments else {"tools": [look]}
    values = {"max_completion_length": 96, "max_tool_calling_iterations": 2, **changes}
    return trainer(
        folder,
        curator,
        reward=last_turn_digits,
        dataset=data(conversational=True),
        processing=calling_tokenizer(),
        extra={**how, **(extra or {})},
        **values,
    )


def told(prompts, made):
    """A rollout function: four tokens of the policy's and three that it was told, in rows of three shapes."""
    rows = [([7, 8, 9, 10, 2], [1, 0, 0, 1, 0]), ([7, 9, 2], [1, 1, 1]), ([8, 11], [0, 1])]
    chosen = [rows[i % len(rows)] for i in range(len(prompts))]
    return {
        "prompt_ids": [[5, 6]] * len(prompts),
        "completion_ids": [list(ids) for ids, _ in chosen],
        "logprobs": [[0.0] * len(ids) for ids, _ in chosen],
        "env_mask": [list(mask) for _, mask in chosen],
    }
