"""Why single rewards are flagged, in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas

from geoalign.audit.spellings import IS_GOLD, counted_verdicts
from geoalign.audit.two_verdicts import verdict_values
from geoalign.audit.words.evidence import steps_by_states
from geoalign.console.numbers import counted, short
from geoalign.dumps.row_names import counted_in
from geoalign.text import shortened

# What an answer may take of a reason.
_ANSWER = 24


def flag_reasons(rows: pandas.DataFrame, summary: Mapping[str, Any], *, compares_states: bool) -> dict[int, str]:
    """Why each flagged rollout is flagged, by its index: what contradicts its reward, or else by what it stands out.

    Args:
        rows: the columns of `scores.parquet`; in the place of a response may stand a number, the same for identical
            ones alone.
        compares_states: the curator compared pairs of hidden states.
    """
    flagged = rows[rows["anomalous"]]
    each: list[Any] = list(flagged.itertuples())
    by_states = steps_by_states(summary)
    verdicts = verdict_values(rows["reward"].dropna().unique().tolist())
    if verdicts is None:
        reasons_by_score = {}
        for row in each:
            checked = _by_check(row, summary)
            reasons_by_score[row.Index] = checked or _by_score(row, by_states, compares_states=compares_states)
        return reasons_by_score
    groups = rows.drop(columns="response", errors="ignore")
    groups = groups[groups["group"].isin(flagged["group"]) & groups["reward"].notna()]
    reasons = _Reasons(
        groups,
        _lines_of_responses(rows, flagged),
        summary,
        refused=verdicts[0],
        rewarded=verdicts[1],
        by_states=by_states,
        compares_states=compares_states,
    )
    return {row.Index: reasons.of(row) for row in each}


class _Reasons:
    """Finds the reason for flags on verdicts, in the groups in which something is flagged."""

    def __init__(
        self,
        groups: pandas.DataFrame,
        lines: Mapping[tuple[int, str, float], list[int]],
        summary: Mapping[str, Any],
        *,
        refused: float,
        rewarded: float,
        by_states: Collection[int],
        compares_states: bool,
    ) -> None:
        """Counts the answers and verdicts of the groups.

        Args:
            by_states: the steps in which hidden states spoke.
        """
        self._refused = refused
        self._rewarded = rewarded
        self._compares_states = compares_states
        self._goes_by_verdicts = summary["curator"]["type"] == "denoise"
        self._summary = summary
        self._by_states = by_states
        self._exclusive = summary["verifier"].get("answers") != "shared"
        self._prompts = _prompts(groups, rewarded)
        self._identical = lines

    def of(self, row: Any) -> str:
        """The reason for one flagged row, a tuple of `itertuples`."""
        checked = _by_check(row, self._summary)
        if checked:
            return checked
        contradiction = self._contradiction(row) if self._goes_by_verdicts else ""
        is_estimated = row.probability_wrong == row.probability_wrong
        if not is_estimated:
            return contradiction or _by_score(row, self._by_states, compares_states=self._compares_states)
        # An identical response tells most of one whose answer is not known.
        has_answer = isinstance(row.compared_answer, str) or isinstance(row.by_spelling, str)
        if contradiction and has_answer:
            return contradiction
        return self._identical_response(row) or contradiction or self._other_rewards(row)

    def _contradiction(self, row: Any) -> str:
        """What in its group contradicts a verdict; empty where nothing does."""
        prompt = self._prompts.get(row.group, _Prompt())
        rewarded = row.reward == self._rewarded
        if isinstance(row.by_spelling, str):
            return _by_spelling(row, prompt, rewarded=rewarded)
        answer = row.compared_answer
        favourite = prompt.favourite()
        exclusive = self._exclusive and row.exclusive is not False
        if not isinstance(answer, str):
            stands_alone = rewarded and exclusive and favourite is not None
            return "rewarded without a final answer" if stands_alone else ""
        otherwise = prompt.refused[answer] if rewarded else prompt.rewarded[answer]
        if otherwise:
            return f"the same answer was {_other_verdict(rewarded)} {_times(otherwise)}"
        if not exclusive:
            return ""
        other = prompt.other_rewarded(answer)
        if rewarded and other is not None:
            return f"another answer, {shortened(other, _ANSWER)}, was rewarded {_times(prompt.rewarded[other])}"
        if favourite is None:
            return ""
        share = f"{prompt.given[favourite]} of {prompt.given.total()} responses"
        if not rewarded and favourite == answer:
            return f"{share} give this answer"
        if rewarded and favourite != answer:
            return f"{share} answer {shortened(favourite, _ANSWER)}"
        return ""

    def _identical_response(self, row: Any) -> str:
        """That identical responses to the prompt got the other verdict; empty where none did, or texts are missing."""
        rewarded = row.reward == self._rewarded
        other = self._refused if rewarded else self._rewarded
        lines = self._identical.get((row.group, getattr(row, "response", ""), other))
        if not lines or row.reward != row.reward:
            return ""
        place = f"{counted_in(Path(row.file))} {lines[0]:,}"
        if len(lines) == 1:
            return f"an identical response ({place}) was {_other_verdict(rewarded)}"
        return f"{len(lines):,} identical responses (as {place}) were {_other_verdict(rewarded)}"

    def _other_rewards(self, row: Any) -> str:
        """What speaks against a verdict that nothing contradicts: states of a model, or the other rewards."""
        if row.step in self._by_states:
            return "its hidden state, compared with those of the others, makes this reward unlikely"
        prompt = self._prompts.get(row.group, _Prompt())
        rewarded = row.reward == self._rewarded
        otherwise = prompt.refused if rewarded else prompt.rewarded
        others = prompt.given.total() - 1
        if not otherwise or not others:
            return "the rewards of the other prompts make this reward unlikely"
        return f"{otherwise.total():,} of the {others:,} other responses to its prompt were {_other_verdict(rewarded)}"


@dataclass
class _Prompt:
    """How often each answer to a prompt was given, rewarded and refused; None stands for no answer.

    `spellings` has, of answers that were judged by their spelling, how often each spelling was rewarded and refused,
    the most frequent one first.
    """

    given: Counter[str | None] = field(default_factory=Counter)
    rewarded: Counter[str | None] = field(default_factory=Counter)
    refused: Counter[str | None] = field(default_factory=Counter)
    spellings: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def add(self, answer: str | None, *, rewarded: bool) -> None:
        """Counts one rollout that has a reward."""
        self.given[answer] += 1
        if rewarded:
            self.rewarded[answer] += 1
        else:
            self.refused[answer] += 1

    def other_rewarded(self, answer: str) -> str | None:
        """The other answer that was rewarded most often; None where none was."""
        return next((other for other, _ in self.rewarded.most_common() if other not in (None, answer)), None)

    def favourite(self) -> str | None:
        """The answer that most rollouts give; None where none gives one."""
        return next((answer for answer, _ in self.given.most_common() if answer is not None), None)


def _prompts(rows: pandas.DataFrame, rewarded: float) -> Mapping[int, _Prompt]:
    """The counts of each group, from rows that all have a reward.

    One pass over the columns: cutting a frame for each of many thousand groups takes longer than the audit itself.
    """
    prompts: defaultdict[int, _Prompt] = defaultdict(_Prompt)
    for number, given, reward in zip(rows["group"], rows["compared_answer"], rows["reward"], strict=True):
        name = given if isinstance(given, str) else None
        prompts[number].add(name, rewarded=reward == rewarded)
    spelled = rows[rows["by_spelling"].notna() & rows["compared_answer"].notna()]
    group: Any
    answer: Any
    for (group, answer), same in spelled.groupby(["group", "compared_answer"]):
        verdicts = counted_verdicts(same["final_answer"].str.strip(), same["reward"] == rewarded)
        prompts[group].spellings[answer] = verdicts
    return prompts


def _lines_of_responses(
    rows: pandas.DataFrame, flagged: pandas.DataFrame
) -> Mapping[tuple[int, str, float], list[int]]:
    """Where each response of a flagged rollout stands in its group: the lines by group, response and reward.

    Empty where the dump or the folder has no texts.
    """
    lines: defaultdict[tuple[int, str, float], list[int]] = defaultdict(list)
    if "response" not in rows or not flagged["characters"].any():
        return lines
    flagged_responses = set(zip(flagged["group"], flagged["response"], strict=True))
    columns = rows[["group", "response", "reward", "line"]]
    row: Any
    for row in columns[rows["group"].isin(flagged["group"]) & rows["reward"].notna()].itertuples(index=False):
        if (row.group, row.response) in flagged_responses:
            lines[row.group, row.response, row.reward].append(row.line)
    return lines


def _by_spelling(row: Any, prompt: _Prompt, *, rewarded: bool) -> str:
    """How the spelling of a flagged row was judged, and how the most frequent one with the other verdict."""
    meaning = "it is the gold answer" if row.by_spelling == IS_GOLD else "one of the two is wrong"
    verdicts = prompt.spellings.get(row.compared_answer)
    if verdicts is None:
        # A redacted folder has no answers.
        return f"the same answer was {_other_verdict(rewarded)} in another spelling, and {meaning}"
    own = row.final_answer.strip()
    other = next(spelling for spelling, (yes, _) in verdicts.items() if (yes > 0) != rewarded)
    return f"judged by its spelling: {_judged(own, verdicts[own])}, {_judged(other, verdicts[other])}; {meaning}"


def _judged(spelling: str, verdicts: tuple[int, int]) -> str:
    """How one spelling of an answer was judged, as in "17.5 rewarded 0 of 6 times"."""
    rewarded, refused = verdicts
    return f"{shortened(spelling, _ANSWER)} rewarded {rewarded:,} of {counted(rewarded + refused, 'time')}"


def _by_check(row: Any, summary: Mapping[str, Any]) -> str:
    """That a second verifier found another reward; empty where it was not asked, or of another curator's flag."""
    if summary["curator"]["type"] != "denoise" or row.trusted is not True:
        return ""
    return f"a check found that its true reward is {short(row.new_reward)}"


def _by_score(row: Any, by_states: Collection[int], *, compares_states: bool) -> str:
    """By what a reward stands out that no verdict contradicts.

    Args:
        by_states: the steps in which hidden states spoke.
        compares_states: the curator compared pairs of hidden states.
    """
    if row.probability_wrong == row.probability_wrong:
        if row.step in by_states:
            return "its hidden state and the other rewards of its prompt make this reward unlikely"
        return "the other rewards make this reward unlikely"
    if compares_states and row.score == row.score:
        return f"its hidden state does not fit its reward (score {short(row.score)})"
    return f"it stands out among the rewards (score {short(row.score)})"


def _other_verdict(rewarded: bool) -> str:
    return "refused" if rewarded else "rewarded"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
