"""The task `hh_rlhf`: dialogues with a preferred and a rejected reply, from the user's own files or the hub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any

from geoalign.errors import InputError
from geoalign.lab.config.tasks import HHRLHFConfig
from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.chat import Messages, read_messages
from geoalign.lab.tasks.decontaminate import decontaminate, exact, fingerprint, fingerprints, overlap_notes
from geoalign.lab.tasks.rows import rows_of
from geoalign.shown import listed

# Appendix, "Experimental Tasks and Datasets"; the split itself is not published.
_PAPER_SIZES = "the paper's split: 144,716 for SFT, 17,226 for RL"

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def read_dialogue(text: object) -> Messages | None:
    """The turns of a text that begins `\\n\\nHuman:`, as chat messages without outer spaces; None where it does not.

    The last turn has to be the assistant's; an earlier turn without text is None too.
    """
    before, *parts = _TURN.split(text) if isinstance(text, str) else ("",)
    turns = tuple(
        {"role": _ROLES[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    )
    if before or not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "assistant":
        return None
    return turns if all(turn["content"] for turn in turns[:-1]) else None


def read_pair(row: Mapping[str, Any]) -> tuple[PreferencePair | None, str]:
    """The pair of a row, and "" or why it is none.

    "malformed": `chosen` or `rejected` is absent or no dialogue (`read_dialogue`); "identical": both say the same;
    "empty": a final reply without text; "different history": they part before the last turn; "repeated turn": one
    speaker twice in a row, which chat templates refuse.
    """
    one, two = (read_dialogue(row.get(name)) for name in ("chosen", "rejected"))
    if one is None or two is None:
        return None, "malformed"
    (*history, chosen), (*other, rejected) = one, two
    if one == two:
        return None, "identical"
    if not chosen["content"] or not rejected["content"]:
        return None, "empty"
    if history != other:
        return None, "different history"
    if _repeats_a_turn(one):
        return None, "repeated turn"
    return PreferencePair(tuple(history), chosen["content"], rejected["content"]), ""


def read_prompt(row: Mapping[str, Any]) -> tuple[Messages | None, str]:
    """The prompt of a row (`prompt`: chat messages, or a text that begins `\\n\\nHuman:`), and "" or why it is none.

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
    if not turns or turns[0]["role"] != "user" or any(turn["role"] == "system" for turn in turns):
        return None, "malformed"
    return (None, "repeated turn") if _repeats_a_turn(turns) else (prompt, "")


def _repeats_a_turn(turns: Messages) -> bool:
    return any(turn["role"] == following["role"] for turn, following in pairwise(turns))


# A usable row: its prompt with what is known of an answer, and the pair where it is one.
Item = tuple[Problem, PreferencePair | None]


def read_files(
    sources: str | Sequence[str], *, prompts: bool, max_characters: int | None = None, limit: int | None = None
) -> tuple[list[Item], list[str]]:
    """The usable rows of local files or hub ids, at most `limit` of each, and a line on what was left out of each.

    `prompts`: rows that are prompts alone are taken beside pairs. Rows are named by their number in the source, and, of
    several sources, by the source's number.
    """
    given = (sources,) if isinstance(sources, str) else tuple(sources)
    items: list[Item] = []
    notes = []
    for number, source in enumerate(given, start=1):
        skipped: Counter[str] = Counter()
        row: dict[str, Any] = {}
        start, count = len(items), 0
        for where, row in rows_of(source):
            if len(items) - start == limit:
                break
            count += 1
            item, reason = _item(where if len(given) == 1 else f"file {number}, {where}", row, prompts=prompts)
            if item is not None and max_characters is not None and _length(item) > max_characters:
                item, reason = None, "too long"
            if item is None:
                skipped[reason] += 1
            else:
                items.append(item)
        if len(items) == start:
            wanted = "a usable pair of dialogues" + (" or prompt" if prompts else "")
            columns = f" with the columns {listed(row)}" if row else ""
            raise InputError(f"{source}: expected at least one row that is {wanted}, got none in {count} rows{columns}")
        if skipped:
            parts = ", ".join(f"{number} {reason}" for reason, number in sorted(skipped.items()))
            notes.append(f"{source}: {skipped.total()} of {count} rows left out: {parts}")
    return items, notes


def _item(where: str, row: Mapping[str, Any], *, prompts: bool) -> tuple[Item | None, str]:
    if prompts and "prompt" in row and "chosen" not in row and "rejected" not in row:
        prompt, reason = read_prompt(row)
        answer = row.get("answer")
        known = answer if isinstance(answer, str) else ""
        return (None, reason) if prompt is None else ((Problem(where, prompt, known), None), "")
    pair, reason = read_pair(row)
    return (None, reason) if pair is None else ((Problem(where, pair.prompt, pair.chosen), pair), "")


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


class HHRLHFTask(Task):
    """Preference pairs in the format of HH-RLHF, read from their sources in order.

    The chosen replies of `train` are the demonstrations, the pairs are for the reward model, and the different prompts,
    each once in the order of its first appearance, are for RL. Rows that are no usable pair or prompt are skipped and
    counted, see `read_pair` and `read_prompt`; `notes()` says how many, and what `decontaminate` found or dropped. With
    `gold_share`, pairs whose dialogues begin alike go to one of the two reward models together, whatever else the files
    hold. Shortcut and final answers are unknown, gold utility is the gold model's score.
    """

    name = "hh_rlhf"

    def __init__(self, config: HHRLHFConfig) -> None:
        self._config = config
        self.held_out_share = config.held_out

    def train_problems(self) -> Sequence[Problem]:
        return self._training.prompts

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {name: problems for name, (problems, _) in self._evaluation.items()}

    def demonstrations(self) -> Sequence[Demonstration]:
        return [Demonstration(pair.prompt, pair.chosen) for pair in self._training.sft]

    def preference_pairs(self) -> Sequence[PreferencePair]:
        return self._training.pairs

    def gold_pairs(self) -> Sequence[PreferencePair]:
        return self._training.gold_pairs

    def notes(self) -> Sequence[str]:
        training = self._training
        lines = [*training.notes, *(note for _, notes in self._evaluation.values() for note in notes)]
        if self._config.decontaminate == "report":
            pairs = (*training.sft, *training.pairs, *training.gold_pairs)
            prompts = [pair.prompt for pair in pairs] + [problem.prompt for problem in training.prompts]
            lines += overlap_notes(self.evaluation_problems(), fingerprints(prompts))
        gold = f"{len(training.gold_pairs)} for a gold model, " if training.gold_pairs else ""
        lines.append(
            f"{len(training.sft)} replies for SFT, {len(training.pairs)} pairs for a reward model, {gold}"
            f"{len(training.prompts)} prompts for RL ({_PAPER_SIZES})"
        )
        return lines

    @cached_property
    def _evaluation(self) -> dict[str, tuple[list[Problem], list[str]]]:
        read = {name: self._read(sources, prompts=True) for name, sources in self._config.evaluation.items()}
        return {name: (different_prompts(items), notes) for name, (items, notes) in read.items()}

    def _read(self, sources: str | Sequence[str], *, prompts: bool) -> tuple[list[Item], list[str]]:
        config = self._config
        return read_files(sources, prompts=prompts, max_characters=config.max_characters, limit=config.limit)

    @cached_property
    def _training(self) -> _Training:
        config = self._config
        items, notes = self._cleaned("train", config.train, prompts=False)
        if config.rl is not None:
            asked, more = self._cleaned("rl", config.rl, prompts=True)
            prompts = different_prompts(asked)
            notes += more
        elif config.rl_prompts is not None:
            items, prompts = _parted(items, config.rl_prompts)
        else:
            prompts = different_prompts(items)
        pairs = sft = _pairs(items)
        if config.pairs is not None:
            given, more = self._cleaned("pairs", config.pairs, prompts=False)
            pairs, notes = _pairs(given), notes + more
        return _Training(sft, *_shared_out(pairs, config.gold_share), prompts, notes)

    def _cleaned(self, what: str, sources: str | Sequence[str], *, prompts: bool) -> tuple[list[Item], list[str]]:
        """The rows to use of one part of training, and what there is to say on it."""
        items, notes = self._read(sources, prompts=prompts)
        rows, more = decontaminate(
            self._config.decontaminate,
            what,
            # A pair the other way round is in conflict; prompts alone may stand twice, each is used once anyway.
            [number if pair is None else _pair_key(pair) for number, (_, pair) in enumerate(items)],
            ["" if pair is None else pair.chosen for _, pair in items],
            [problem.prompt for problem, _ in items],
            lambda: [problem for problems in self.evaluation_problems().values() for problem in problems],
        )
        if not rows:
            raise InputError(f"{what}: expected rows to be left by decontaminate: drop, got none")
        return [items[row] for row in rows], notes + more


@dataclass(frozen=True)
class _Training:
    """The parts of training, and notes on them."""

    sft: list[PreferencePair]
    pairs: list[PreferencePair]
    gold_pairs: list[PreferencePair]
    prompts: list[Problem]
    notes: list[str]


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
    """The pairs of the reward model and those of the gold model; dialogues that begin alike stay together.

    A pair's side follows from its first turn alone, so it is the same whatever other rows there are.
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
