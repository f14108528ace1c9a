"""The task `hh_rlhf`: dialogues with a preferred and a rejected reply, from the user's own files or the hub."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from geoalign.errors import InputError
from geoalign.lab.config.hh_rlhf import HHRLHFConfig
from geoalign.lab.tasks.base import Demonstration, PreferencePair, Problem, Task
from geoalign.lab.tasks.decontaminate import (
    count_shared,
    duplicates_note,
    exact,
    find_duplicates,
    fingerprint,
    keep,
    kept_note,
)
from geoalign.lab.tasks.hh_files import DialogueFile, DialogueReading, Item, different_prompts, read_files

# Appendix, "Experimental Tasks and Datasets"; the split itself is not published.
_PAPER_SIZES = "the paper's split: 144,716 for SFT, 17,226 for RL"


class HHRLHFTask(Task):
    """Preference pairs in the format of HH-RLHF, read from their sources in order.

    The chosen replies of `train` are the demonstrations, the pairs are for the reward model, and the different prompts,
    each once in the order of its first appearance, are for RL. Rows that are no usable pair or prompt are skipped and
    counted (`on_bad_row: error`: refused), see `read_pair` and `read_prompt`; `notes()` says how many, and what
    `decontaminate` found or dropped. With `gold_share`, pairs whose dialogues begin alike go to one of the two reward
    models together, whatever else the files hold. Shortcut and final answers are unknown, gold utility is the gold
    model's score.
    """

    name = "hh_rlhf"

    def __init__(self, config: HHRLHFConfig) -> None:
        self._config = config
        self.held_out_share = config.held_out
        self._reading = DialogueReading(config.max_characters, config.limit, config.on_bad_row)

    def train_problems(self) -> Sequence[Problem]:
        return self._training.prompts

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return self._evaluation

    def demonstrations(self) -> Sequence[Demonstration]:
        return [Demonstration(pair.prompt, pair.chosen) for pair in self._training.sft]

    def preference_pairs(self) -> Sequence[PreferencePair]:
        return self._training.pairs

    def gold_pairs(self) -> Sequence[PreferencePair]:
        return self._training.gold_pairs

    def notes(self) -> Sequence[str]:
        training = self._training
        lines = [note for file in (*training.files, *self._evaluation_files) if (note := file.note())]
        lines += training.notes
        if self._config.decontaminate == "report":
            lines += self._overlap_notes()
        gold = f"{len(training.gold_pairs)} for a gold model, " if training.gold_pairs else ""
        lines.append(
            f"{len(training.sft)} replies for SFT, {len(training.pairs)} pairs for a reward model, {gold}"
            f"{len(training.prompts)} prompts for RL ({_PAPER_SIZES})"
        )
        return lines

    def _overlap_notes(self) -> list[str]:
        training = self._training
        prompts = [pair.prompt for pair in (*training.sft, *training.pairs, *training.gold_pairs)]
        prompts += [problem.prompt for problem in training.prompts]
        trained_on = {fingerprint(prompt) for prompt in prompts}
        lines = []
        for name, problems in self._evaluation.items():
            shared = count_shared([fingerprint(problem.prompt) for problem in problems], trained_on)
            if shared:
                lines.append(f"evaluation set {name}: {shared} of {len(problems)} begin like a training prompt")
        return lines

    @cached_property
    def _sets(self) -> dict[str, list[DialogueFile]]:
        given = self._config.evaluation.items()
        return {name: read_files(sources, self._reading, prompts=True) for name, sources in given}

    @property
    def _evaluation_files(self) -> list[DialogueFile]:
        return [file for files in self._sets.values() for file in files]

    @cached_property
    def _evaluation(self) -> dict[str, list[Problem]]:
        return {name: different_prompts(_items(files)) for name, files in self._sets.items()}

    @cached_property
    def _training(self) -> _Training:
        config = self._config
        sft_files = read_files(config.train, self._reading, prompts=False)
        pair_files = None if config.pairs is None else read_files(config.pairs, self._reading, prompts=False)
        rl_files = None if config.rl is None else read_files(config.rl, self._reading, prompts=True)
        sft, notes = self._cleaned("train", _items(sft_files))
        if rl_files is not None:
            asked, more = self._cleaned("rl", _items(rl_files))
            prompts = different_prompts(asked)
            notes += more
        elif config.rl_prompts is not None:
            sft, prompts = _parted(sft, config.rl_prompts)
        else:
            prompts = different_prompts(sft)
        pairs = _pairs(sft)
        if pair_files is not None:
            items, more = self._cleaned("pairs", _items(pair_files))
            pairs, notes = _pairs(items), notes + more
        files = [*sft_files, *(pair_files or ()), *(rl_files or ())]
        pairs, gold_pairs = _shared_out(pairs, config.gold_share)
        return _Training(files, _pairs(sft), pairs, gold_pairs, prompts, notes)

    def _cleaned(self, what: str, items: list[Item]) -> tuple[list[Item], list[str]]:
        """The rows to use of one part of training, and what `decontaminate` has to say on it."""
        mode = self._config.decontaminate
        if mode == "off":
            return items, []
        # A pair the other way round is in conflict; prompts alone may stand twice, each is used once anyway.
        keys = [number if item.pair is None else _pair_key(item.pair) for number, item in enumerate(items)]
        answers = ["" if item.pair is None else item.pair.chosen for item in items]
        duplicates = find_duplicates(keys, answers, agree=str.__eq__)
        if mode == "report":
            return items, duplicates_note(what, len(items), duplicates, "pairs")
        evaluated = {fingerprint(problem.prompt) for problems in self._evaluation.values() for problem in problems}
        kept = keep(duplicates, [fingerprint(item.prompt) for item in items], evaluated)
        if not kept.rows:
            raise InputError(f"{what}: expected rows to be left by decontaminate: drop, got none")
        return [items[row] for row in kept.rows], kept_note(what, len(items), kept, "rows")


@dataclass(frozen=True)
class _Training:
    """The parts of training, and notes on them."""

    files: list[DialogueFile]
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
    kept = prompts[-count:]
    for_rl = {exact(problem.prompt) for problem in kept}
    return [item for item in items if exact(item.prompt) not in for_rl], kept


def _shared_out(pairs: list[PreferencePair], share: float | None) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """The pairs of the reward model and those of the gold model; dialogues that begin alike stay together.

    A pair's side follows from its first turn alone, so it is the same whatever other rows there are.
    """
    if share is None:
        return pairs, []
    gold = [_fraction(pair) < share for pair in pairs]
    sides = [[pair for pair, side in zip(pairs, gold, strict=True) if side is which] for which in (False, True)]
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


def _items(files: Sequence[DialogueFile]) -> list[Item]:
    return [item for file in files for item in file.items]


def _pairs(items: Sequence[Item]) -> list[PreferencePair]:
    return [item.pair for item in items if item.pair is not None]


def _pair_key(pair: PreferencePair) -> Hashable:
    return exact(pair.prompt), frozenset((pair.chosen, pair.rejected))
