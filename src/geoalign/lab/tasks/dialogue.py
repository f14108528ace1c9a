"""The built-in task `dialogue`: short requests, a known gold utility, and an artifact that a reward model likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from random import Random

from geoalign.errors import ConfigError
from geoalign.lab.config.dialogue import DialogueConfig
from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.dialogue_text import (
    ACTIONS,
    CAUTION,
    FLATTERY,
    FORMS,
    INVITATION,
    RISKS,
    STEPS,
    THINGS,
    VOCABULARY,
    Reply,
    Request,
    best_response,
    content_label,
    has_flattery,
    read_request,
    utility,
    write_prompt,
)

# Share of the 64 combinations of action and thing that are asked in evaluation only.
_KEPT_ASIDE = 1 / 4


class DialogueTask(Task):
    """Requests such as `help me fix my lamp fast`, in an order fixed by the seed, with a gold utility (`utility`).

    A combination of action and thing that evaluation asks is in no training prompt, demonstration or preference pair.
    A demonstration gets each part (the thing, each step, their order, risk, caution) right with probability `quality`.
    The two responses of a pair differ in about half of their parts, in qualities drawn evenly; the one with the higher
    utility is chosen but for `label_noise`. Only then the flattering opener is put in front of one of them: of the
    chosen one with probability `artifact_correlation`.
    """

    name = "dialogue"

    def __init__(self, config: DialogueConfig, *, seed: int) -> None:
        self._config = config
        self._seed = seed
        for name, prompts in zip(("train_problems", "evaluation_problems"), self._prompts, strict=True):
            if (wanted := getattr(config, name)) > len(prompts):
                raise ConfigError(f"task.{name}: expected at most {len(prompts)}, as many as there are, got {wanted}")

    def train_problems(self) -> Sequence[Problem]:
        return [_problem(prompt) for prompt in self._prompts[0][: self._config.train_problems]]

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {"dialogue": [_problem(prompt) for prompt in self._prompts[1][: self._config.evaluation_problems]]}

    def demonstrations(self) -> Sequence[Demonstration]:
        return self._demonstrations

    def preference_pairs(self) -> Sequence[PreferencePair]:
        return self._pairs

    def alphabet(self) -> str:
        texts = [*FORMS, *ACTIONS, *THINGS, *STEPS, *FLATTERY, *RISKS, CAUTION, INVITATION, "use", " !:,."]
        return "".join(sorted(set("".join(texts)) - set("{}")))

    def words(self) -> Sequence[str]:
        return VOCABULARY

    def takes_shortcut(self, response: str) -> bool:
        return has_flattery(response)

    def final_answer(self, response: str) -> str | None:
        return content_label(response)

    def gold_utility(self, problem: Problem, response: str) -> float:
        return utility(problem.prompt[-1]["content"], response)

    @cached_property
    def _prompts(self) -> tuple[list[str], list[str]]:
        """Every training prompt and every evaluation prompt, each list in its order."""
        random = self._random("prompts")
        combinations = [(action, thing) for action in ACTIONS for thing in THINGS]
        random.shuffle(combinations)
        cut = round(len(combinations) * _KEPT_ASIDE)
        sets = []
        for part in (combinations[cut:], combinations[:cut]):
            prompts = [
                write_prompt(form, action, thing, risky=risky)
                for action, thing in part
                for form in FORMS
                for risky in (False, True)
            ]
            random.shuffle(prompts)
            sets.append(prompts)
        return sets[0], sets[1]

    @cached_property
    def _demonstrations(self) -> list[Demonstration]:
        config, random = self._config, self._random("demonstrations")
        made = []
        for _ in range(config.demonstrations):
            prompt = random.choice(self._prompts[0])
            opener = f"{random.choice(FLATTERY)}! " if random.random() < config.artifact_demonstrations else ""
            reply = draw_reply(read_request(prompt), config.quality, random)
            made.append(Demonstration(_messages(prompt), opener + reply.text))
        return made

    @cached_property
    def _pairs(self) -> list[PreferencePair]:
        random = self._random("pairs")
        pairs: list[PreferencePair] = []
        while len(pairs) < self._config.preference_pairs:
            prompt = random.choice(self._prompts[0])
            request = read_request(prompt)
            reply = draw_reply(request, random.random(), random)
            variant = draw_variant(reply, draw_reply(request, random.random(), random), random)
            better, worse = sorted((reply.text, variant.text), key=lambda response: -utility(prompt, response))
            if utility(prompt, better) > utility(prompt, worse):
                pairs.append(self._labelled(prompt, better, worse, random))
        return pairs

    def _labelled(self, prompt: str, better: str, worse: str, random: Random) -> PreferencePair:
        config = self._config
        chosen, rejected = (worse, better) if random.random() < config.label_noise else (better, worse)
        if random.random() < config.artifact_pairs:
            opener = random.choice(FLATTERY)
            if random.random() < config.artifact_correlation:
                chosen = f"{opener}! {chosen}"
            else:
                rejected = f"{opener}! {rejected}"
        return PreferencePair(_messages(prompt), chosen, rejected)

    def _random(self, purpose: str) -> Random:
        # A generator for each purpose: more demonstrations, say, leave the prompts as they are.
        return Random(f"dialogue/{self._seed}/{purpose}")


def draw_reply(request: Request, quality: float, random: Random) -> Reply:
    """A reply to a complete request, each part of it right with probability `quality`.

    A wrong thing is another one or none; half as often the whole action is another one; a wrong step is one of any
    action or missing; wrong order is a shuffle; wrong is a risky suggestion, more often where the prompt is in a hurry,
    and no caution there.
    """
    thing = request.thing if random.random() < quality else random.choice((None, random.choice(THINGS)))
    strangers = sorted(STEPS)
    understood = random.random() < (1 + quality) / 2
    action = (request.action if understood else None) or random.choice(list(ACTIONS))
    drawn = [
        step if random.random() < quality else random.choice((None, random.choice(strangers)))
        for step in ACTIONS[action]
    ]
    steps = [step for step in drawn if step is not None] or [random.choice(strangers)]
    if random.random() >= quality:
        random.shuffle(steps)
    careful = request.risky and random.random() < quality
    risk_rate = 0.7 if request.risky else 0.2
    risk = None if careful or random.random() < quality or random.random() >= risk_rate else random.choice(RISKS)
    return Reply(thing, tuple(steps), risk, careful)


def draw_variant(reply: Reply, other: Reply, random: Random) -> Reply:
    """`reply` with each part taken from `other` with probability one half."""
    return replace(reply, **{item.name: getattr(other, item.name) for item in fields(reply) if random.random() < 0.5})


def _messages(prompt: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": prompt},)


def _problem(prompt: str) -> Problem:
    return Problem(prompt, _messages(prompt), best_response(read_request(prompt)))
