"""The task `hh_rlhf`: dialogues with a preferred and a rejected reply, from the user's own files or the hub."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

from geoalign.answers.messages import Messages, read_messages
from geoalign.errors import InputError
from geoalign.lab.data.decontaminate import decontaminate, exact, fingerprint, fingerprints, overlap_notes
from geoalign.lab.data.settings import HHRLHFConfig
from geoalign.lab.data.sources import LeftOutError, read_sources
from geoalign.lab.data.task import Demonstration, PreferencePair, Problem, Task

# Appendix, "Experimental Tasks and Datasets"; the split itself is not published.
_PAPER_SIZES = "the paper's split: 144,716 for SFT, 17,226 for RL"

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def read_dialogue(text: object) -> Messages | None:
    """The turns of a text that begins `\\n\\nHuman:` and ends with the assistant's, as chat messages without outer
    spaces; None where it does not, or an earlier turn has no text.
    """
    before, *parts = _TURN.split(text) if isinstance(text, str) else ("",)
    turns = tuple(
        {"role": _ROLES[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    )
    if before or not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "assistant":
        return None
    return turns if all(turn["content"] for turn in turns[:-1]) else None


def read_pair(row: Mapping[str, Any]) -> PreferencePair:
    """The pair of a row; LeftOutError for one that is none.

    "malformed": `chosen` or `rejected` is absent or no dialogue (`read_dialogue`); "identical": both say the same;
    "empty": a final reply without text; "different history": they part before the last turn; "repeated turn": one
    speaker twice in a row, which chat templates refuse.
    """
    one, two = (read_dialogue(row.get(name)) for name in ("chosen", "rejected"))
    if one is None or two is None:
        raise LeftOutError("malformed")
    (*history, chosen), (*other, rejected) = one, two
    if one == two:
        raise LeftOutError("identical")
    if not chosen["content"] or not rejected["content"]:
        raise LeftOutError("empty")
    if history != other:
        raise LeftOutError("different history")
    _check_turns(one)
    return PreferencePair(tuple(history), chosen["content"], rejected["content"])


def read_prompt(row: Mapping[str, Any]) -> Messages:
    """The prompt of a row (`prompt`: chat messages, or a text that begins `\\n\\nHuman:`); LeftOutError without one.

    "malformed": no such prompt, or one that begins with the assistant; "repeated turn": one speaker twice in a row. A
    text in the format of HH-RLHF ends `\\n\\nAssistant:`; any other text is one turn of the user.
    """
    value = row.get("prompt")
    if isinstance(value, str) and _TURN.match(value):
        dialogue = read_dialogue(value)
        prompt = None if dialogue is None or dialogue[-1]["content"] else dialogue[:-1]
    else:
        prompt = read_messages(value)
    turns = prompt[1:] if prompt and prompt[0]["role"] == "system" else prompt
    if not prompt or not turns or turns[0]["role"] != "user" or any(turn["role"] == "system" for turn in turns):
        raise LeftOutError("malformed")
    _check_turns(turns)
    return prompt


def _check_turns(turns: Messages) -> None:
    if any(turn["role"] == following["role"] for turn, following in pairwise(turns)):
        raise LeftOutError("repeated turn")


# A usable row: its prompt with what is known of an answer, and the pair where it is one.
Item = tuple[Problem, PreferencePair | None]


def read_files(
    sources: str | Sequence[str], *, prompts: bool, max_characters: int | None = None, limit: int | None = None
) -> tuple[list[Item], list[str]]:
    """The usable rows of local files or hub ids, pairs or (`prompts`) prompts alone, and a line on what was left out of
    each.
    """

    def read(where: str, row: Mapping[str, Any]) -> Item:
        item: Item
        if prompts and "prompt" in row and "chosen" not in row and "rejected" not in row:
            answer = row.get("answer")
            item = Problem(where, read_prompt(row), answer if isinstance(answer, str) else ""), None
        else:
            pair = read_pair(row)
            item = Problem(where, pair.prompt, pair.chosen), pair
        if max_characters is not None and _length(item) > max_characters:
            raise LeftOutError("too long")
        return item

    wanted = "usable pair of dialogues" + (" or prompt" if prompts else "")
    return read_sources(sources, lambda source, head: read, wanted=wanted, limit=limit)


def _length(item: Item) -> int:
    problem, pair = item
    replies = () if pair is None else (pair.chosen, pair.rejected)
    return sum(len(turn["content"]) for turn in problem.prompt) + max(map(len, replies), default=0)


def different_prompts(items: Sequence[Item]) -> list[Problem]:
    """One problem for each different prompt, in the order of first appearance, named by the row that is."""
    problems: dict[object, Problem] = {}
    for problem, _ in items:
        problems.setdefault(exact(problem.prompt), problem)
    return list(problems.values())


def hh_rlhf_task(config: HHRLHFConfig) -> Task:
    """The chosen replies of `train` are demonstrations, the pairs are for the reward model, the different prompts for
    RL.

    Shortcut and final answers are unknown, gold utility is the gold model's score (`gold_share`).
    """
    read = partial(read_files, max_characters=config.max_characters, limit=config.limit)
    evaluation: dict[str, list[Problem]] = {}
    notes: list[str] = []
    for name, sources in config.evaluation.items():
        items, lines = read(sources, prompts=True)
        evaluation[name] = different_prompts(items)
        notes += lines

    def cleaned(what: str, sources: str | Sequence[str], *, prompts: bool = False) -> list[Item]:
        items, lines = read(sources, prompts=prompts)
        rows, more = decontaminate(
            config.decontaminate,
            what,
            # A pair the other way round is in conflict; prompts alone may stand twice, each is used once anyway.
            [number if pair is None else _pair_key(pair) for number, (_, pair) in enumerate(items)],
            ["" if pair is None else pair.chosen for _, pair in items],
            [problem.prompt for problem, _ in items],
            chain.from_iterable(evaluation.values()),
        )
        if not rows:
            raise InputError(f"{what}: expected rows to be left by decontaminate: drop, got none")
        notes.extend((*lines, *more))
        return [items[row] for row in rows]

    items = cleaned("train", config.train)
    if config.rl_prompts is not None:
        items, prompts = _parted(items, config.rl_prompts)
    else:
        prompts = different_prompts(items if config.rl is None else cleaned("rl", config.rl, prompts=True))
    sft = _pairs(items)
    pairs, gold = _shared_out(
        sft if config.pairs is None else _pairs(cleaned("pairs", config.pairs)), config.gold_share
    )
    if config.decontaminate == "report":
        trained_on = [pair.prompt for pair in (*sft, *pairs, *gold)] + [problem.prompt for problem in prompts]
        notes += overlap_notes(evaluation, fingerprints(trained_on))
    of_gold = f"{len(gold)} for a gold model, " if gold else ""
    notes.append(
        f"{len(sft)} replies for SFT, {len(pairs)} pairs for a reward model, {of_gold}{len(prompts)} prompts for RL "
        f"({_PAPER_SIZES})"
    )
    return Task(
        name="hh_rlhf",
        train_problems=prompts,
        evaluation_problems=evaluation,
        demonstrations=[Demonstration(pair.prompt, pair.chosen) for pair in sft],
        preference_pairs=pairs,
        gold_pairs=gold,
        held_out_share=config.held_out,
        notes=notes,
    )


def _parted(items: list[Item], count: int) -> tuple[list[Item], list[Problem]]:
    """The rows for SFT and the last `count` different prompts for RL; no row of such a prompt is left for SFT."""
    prompts = different_prompts(items)
    if count >= len(prompts):
        raise InputError(
            f"task.rl_prompts: expected less than the {len(prompts)} different prompts of `train`, got {count}"
        )
    for_rl = {exact(problem.prompt) for problem in prompts[-count:]}
    return [item for item in items if exact(item[0].prompt) not in for_rl], prompts[-count:]


def _shared_out(pairs: list[PreferencePair], share: float | None) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """The pairs of the reward and of the gold model; a pair's side follows from its first turn alone, whatever the
    others.
    """
    if share is None:
        return pairs, []
    sides = [[pair for pair in pairs if (_fraction(pair) < share) is gold] for gold in (False, True)]
    for side, what in zip(sides, ("reward", "gold"), strict=True):
        if len({_fraction(pair) for pair in side}) < 2:
            raise InputError(
                f"task.gold_share: expected a share that leaves the {what} model pairs of two or more dialogues, got "
                f"{share} of {len(pairs)} pairs: {len(side)}"
            )
    return sides[0], sides[1]


def _fraction(pair: PreferencePair) -> float:
    """A number in [0, 1) of the first turn of a pair's prompt, even over different turns."""
    digest = sha256(fingerprint(pair.prompt[:1]).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6]) / 2**48


def _pairs(items: Sequence[Item]) -> list[PreferencePair]:
    return [pair for _, pair in items if pair is not None]


def _pair_key(pair: PreferencePair) -> Hashable:
    return exact(pair.prompt), frozenset((pair.chosen, pair.rejected))
