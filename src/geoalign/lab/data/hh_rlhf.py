"""The task `hh_rlhf`: dialogues with a preferred and a rejected reply, from the user's own files or the hub."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

from geoalign.answers.messages import Messages, read_messages
from geoalign.errors import InputError
from geoalign.lab.data.decontaminate import (
    decontaminate,
    exact_key,
    overlap_notes,
    prompt_fingerprint,
    prompt_fingerprints,
)
from geoalign.lab.data.settings import HHRLHFConfig
from geoalign.lab.data.sources import LeftOutError, open_sources, usable_rows
from geoalign.lab.data.task import Demonstration, PreferencePair, Problem, Task

# Appendix, "Experimental Tasks and Datasets"; the split itself is not published.
_PAPER_SIZES = "the paper's split: 144,716 for SFT, 17,226 for RL"

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialogue:
    """A usable row: its prompt with what is known of an answer, and the pair where it is one (None: a prompt alone)."""

    problem: Problem
    pair: PreferencePair | None


def read_dialogue(text: object) -> Messages | None:
    """The turns of a text that begins `\\n\\nHuman:` and ends with the assistant's, as chat messages without outer
    spaces; None where it does not, or an earlier turn has no text.
    """
    if not isinstance(text, str):
        return None
    before, *parts = _TURN.split(text)
    turns = tuple(
        {"role": _ROLES[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    )
    if before or not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "assistant":
        return None
    return turns if all(turn["content"] for turn in turns[:-1]) else None


def read_pair(row: Mapping[str, Any]) -> PreferencePair:
    """The pair of a row; LeftOutError for a row that holds no pair.

    "malformed": `chosen` or `rejected` is absent or no dialogue (`read_dialogue`); "identical": both say the same;
    "empty": a final reply without text; "different history": they part before the last turn; "repeated turn": one
    speaker twice in a row, which chat templates refuse.
    """
    chosen = read_dialogue(row.get("chosen"))
    rejected = read_dialogue(row.get("rejected"))
    if chosen is None or rejected is None:
        raise LeftOutError("malformed")
    if chosen == rejected:
        raise LeftOutError("identical")
    if not chosen[-1]["content"] or not rejected[-1]["content"]:
        raise LeftOutError("empty")
    if chosen[:-1] != rejected[:-1]:
        raise LeftOutError("different history")
    _check_turns(chosen)
    return PreferencePair(chosen[:-1], chosen[-1]["content"], rejected[-1]["content"])


def read_prompt(row: Mapping[str, Any]) -> Messages:
    """The prompt of a row (`prompt`: chat messages, or a text that begins `\\n\\nHuman:`); LeftOutError without one.

    "malformed": no such prompt, or one that begins with the assistant; "repeated turn": one speaker twice in a row. A
    text in the format of HH-RLHF ends `\\n\\nAssistant:`; any other text is one turn of the user.
    """
    value = row.get("prompt")
    if isinstance(value, str) and _TURN.match(value):
        dialogue = read_dialogue(value)
        if dialogue is None or dialogue[-1]["content"]:
            raise LeftOutError("malformed")
        prompt = dialogue[:-1]
    else:
        prompt = read_messages(value) or ()
    turns = prompt[1:] if prompt and prompt[0]["role"] == "system" else prompt
    if not turns or turns[0]["role"] != "user" or any(turn["role"] == "system" for turn in turns):
        raise LeftOutError("malformed")
    _check_turns(turns)
    return prompt


def _check_turns(turns: Messages) -> None:
    if any(turn["role"] == following["role"] for turn, following in pairwise(turns)):
        raise LeftOutError("repeated turn")


def read_row(where: str, row: Mapping[str, Any], *, prompts: bool, max_characters: int | None) -> Dialogue:
    """Reads a row: a pair, or where `prompts` is set also a prompt alone; LeftOutError where it is not usable."""
    if prompts and "prompt" in row and "chosen" not in row and "rejected" not in row:
        answer = row.get("answer")
        problem = Problem(where, read_prompt(row), answer if isinstance(answer, str) else "")
        pair = None
        longest_reply = 0
    else:
        pair = read_pair(row)
        problem = Problem(where, pair.prompt, pair.chosen)
        longest_reply = max(len(pair.chosen), len(pair.rejected))
    length = sum(len(turn["content"]) for turn in problem.prompt) + longest_reply
    if max_characters is not None and length > max_characters:
        raise LeftOutError("too long")
    return Dialogue(problem, pair)


def load_dialogues(
    sources: str | Sequence[str], *, prompts: bool, max_characters: int | None = None, limit: int | None = None
) -> tuple[list[Dialogue], list[str]]:
    """The usable rows of local files or hub ids, and a line on what was left out of each.

    Args:
        prompts: rows with a prompt alone are usable, too.
        max_characters: longer dialogues, prompt and reply together, are left out.
        limit: the most usable rows to take of each source, from the first on.
    """
    read = partial(read_row, prompts=prompts, max_characters=max_characters)
    wanted = "usable pair of dialogues or prompt" if prompts else "usable pair of dialogues"
    dialogues: list[Dialogue] = []
    notes: list[str] = []
    for source, rows in open_sources(sources):
        found, left_out = usable_rows(source, rows, read, wanted=wanted, limit=limit)
        dialogues += found
        notes += left_out
    return dialogues, notes


def different_prompts(dialogues: Iterable[Dialogue]) -> list[Problem]:
    """One problem for each different prompt, in the order of first appearance, named by the row that is."""
    problems: dict[Hashable, Problem] = {}
    for dialogue in dialogues:
        problems.setdefault(exact_key(dialogue.problem.prompt), dialogue.problem)
    return list(problems.values())


# --- the task ---------------------------------------------------------------------------------------------------------


def hh_rlhf_task(config: HHRLHFConfig) -> Task:
    """The chosen replies of `train` are demonstrations, the pairs are for the reward model, the different prompts for
    RL.

    Shortcut and final answers are unknown, gold utility is the gold model's score (`gold_share`).
    """
    evaluation: dict[str, list[Problem]] = {}
    notes: list[str] = []
    for name, sources in config.evaluation.items():
        dialogues, lines = load_dialogues(
            sources, prompts=True, max_characters=config.max_characters, limit=config.limit
        )
        evaluation[name] = different_prompts(dialogues)
        notes += lines

    train, lines = _clean_dialogues("train", config.train, config, evaluation)
    notes += lines
    if config.rl_prompts is not None:
        train, prompts = _split_by_prompt(train, config.rl_prompts)
    elif config.rl is not None:
        dialogues, lines = _clean_dialogues("rl", config.rl, config, evaluation, prompts=True)
        notes += lines
        prompts = different_prompts(dialogues)
    else:
        prompts = different_prompts(train)

    sft_pairs = _pairs_of(train)
    reward_pairs = sft_pairs
    if config.pairs is not None:
        dialogues, lines = _clean_dialogues("pairs", config.pairs, config, evaluation)
        notes += lines
        reward_pairs = _pairs_of(dialogues)
    gold_pairs: list[PreferencePair] = []
    if config.gold_share is not None:
        reward_pairs, gold_pairs = _split_for_gold_model(reward_pairs, config.gold_share)

    if config.decontaminate == "report":
        trained_on = [pair.prompt for pair in (*sft_pairs, *reward_pairs, *gold_pairs)]
        trained_on += [problem.prompt for problem in prompts]
        notes += overlap_notes(evaluation, prompt_fingerprints(trained_on))
    for_gold_model = f"{len(gold_pairs)} for a gold model, " if gold_pairs else ""
    notes.append(
        f"{len(sft_pairs)} replies for SFT, {len(reward_pairs)} pairs for a reward model, {for_gold_model}"
        f"{len(prompts)} prompts for RL ({_PAPER_SIZES})"
    )
    return Task(
        name="hh_rlhf",
        train_problems=prompts,
        evaluation_problems=evaluation,
        demonstrations=[Demonstration(pair.prompt, pair.chosen) for pair in sft_pairs],
        preference_pairs=reward_pairs,
        gold_pairs=gold_pairs,
        held_out_share=config.held_out,
        notes=notes,
    )


def _clean_dialogues(
    name: str,
    sources: str | Sequence[str],
    config: HHRLHFConfig,
    evaluation: Mapping[str, Sequence[Problem]],
    *,
    prompts: bool = False,
) -> tuple[list[Dialogue], list[str]]:
    """The usable rows of the setting `name` after decontamination, and lines on what was left out and dropped.

    Two pairs conflict where they are the same the other way round. Prompts alone may stand twice: each is used once
    anyway.
    """
    dialogues, notes = load_dialogues(
        sources, prompts=prompts, max_characters=config.max_characters, limit=config.limit
    )
    keys: list[Hashable] = []
    chosen = []
    for number, dialogue in enumerate(dialogues):
        pair = dialogue.pair
        if pair is None:
            keys.append(number)
            chosen.append("")
        else:
            keys.append((exact_key(pair.prompt), frozenset((pair.chosen, pair.rejected))))
            chosen.append(pair.chosen)
    rows, lines = decontaminate(
        config.decontaminate,
        name,
        keys=keys,
        answers=chosen,
        prompts=[dialogue.problem.prompt for dialogue in dialogues],
        evaluated=chain.from_iterable(evaluation.values()),
    )
    if not rows:
        raise InputError(f"{name}: expected rows to be left by decontaminate: drop, got none")
    return [dialogues[row] for row in rows], [*notes, *lines]


def _pairs_of(dialogues: Iterable[Dialogue]) -> list[PreferencePair]:
    return [dialogue.pair for dialogue in dialogues if dialogue.pair is not None]


def _split_by_prompt(dialogues: list[Dialogue], count: int) -> tuple[list[Dialogue], list[Problem]]:
    """The rows for SFT and the last `count` different prompts for RL; no row of such a prompt is left for SFT."""
    prompts = different_prompts(dialogues)
    if count >= len(prompts):
        raise InputError(
            f"task.rl_prompts: expected less than the {len(prompts)} different prompts of `train`, got {count}"
        )
    for_rl = prompts[-count:]
    keys = {exact_key(problem.prompt) for problem in for_rl}
    return [dialogue for dialogue in dialogues if exact_key(dialogue.problem.prompt) not in keys], for_rl


def _split_for_gold_model(
    pairs: list[PreferencePair], share: float
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """The pairs of the reward model and those of the gold model.

    A pair's side follows from its first turn alone, whatever the others are: from a hash that is even over [0, 1).
    """
    places = [_place_of(pair) for pair in pairs]
    sides = {
        "reward": [pair for pair, place in zip(pairs, places, strict=True) if place >= share],
        "gold": [pair for pair, place in zip(pairs, places, strict=True) if place < share],
    }
    for model, side in sides.items():
        if len({_place_of(pair) for pair in side}) < 2:
            raise InputError(
                f"task.gold_share: expected a share that leaves the {model} model pairs of two or more dialogues, got "
                f"{share} of {len(pairs)} pairs: {len(side)}"
            )
    return sides["reward"], sides["gold"]


def _place_of(pair: PreferencePair) -> float:
    """A number in [0, 1) of the first turn of a pair's prompt, even over different turns."""
    digest = sha256(prompt_fingerprint(pair.prompt[:1]).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6]) / 2**48
