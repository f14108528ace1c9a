"""Why single rewards are flagged, in words, and which of them to look at first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas

from geoalign.audit.results import AuditResults
from geoalign.audit.spellings import IS_GOLD, IS_NOT_GOLD, NO_GOLD, counted_verdicts
from geoalign.console.numbers import short
from geoalign.dumps.row_names import counted_in
from geoalign.text import visible

# What an answer may take of a reason.
_ANSWER = 24


def by_suspicion(scored: pandas.DataFrame) -> pandas.DataFrame:
    """The flagged rollouts, the most suspicious first: those that a check found wrong, then refusals of the gold answer
    for its spelling, then by their scores; those that a curator flags without a score come last."""
    flagged = scored[scored["anomalous"]]
    flagged = flagged.assign(checked=flagged["trusted"].eq(True), gold=flagged["by_spelling"].eq(IS_GOLD))
    return flagged.sort_values(["checked", "gold", "score"], ascending=False, kind="stable")


def to_look_at_first(scored: pandas.DataFrame, most: int) -> pandas.DataFrame:
    """The flagged rollouts that show most: the most suspicious of each group, then the others."""
    flagged = by_suspicion(scored)
    again = flagged["group"].duplicated()
    return pandas.concat([flagged[~again], flagged[again]]).head(most)


@dataclass
class _Group:
    """How often each answer to a prompt was given, rewarded and refused; None stands for no answer.

    `spellings` has the verdicts on each spelling of an answer.
    """

    given: Counter[str | None] = field(default_factory=Counter)
    rewarded: Counter[str | None] = field(default_factory=Counter)
    refused: Counter[str | None] = field(default_factory=Counter)
    spellings: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def other_rewarded(self, answer: str) -> str | None:
        """The other answer that was rewarded most often."""
        others = [(other, count) for other, count in self.rewarded.most_common() if other not in (None, answer)]
        return others[0][0] if others else None

    def favourite(self) -> str | None:
        """The answer that most rollouts give."""
        answers = [answer for answer, _ in self.given.most_common() if answer is not None]
        return answers[0] if answers else None


def flag_reasons(audit: AuditResults) -> dict[int, str]:
    """Why each flagged rollout is flagged, by its index: what contradicts its reward, or else by what it stands out."""
    scored = audit.scored
    flagged = scored[scored["anomalous"]]
    verdicts = _verdicts(scored["reward"])
    if verdicts is None:
        return {row.Index: _by_score(row, audit) for row in _rows(flagged)}
    high = verdicts[1]
    exclusive = (audit.summary.get("verifier") or {}).get("answers") != "shared"
    compares_answers = audit.curator.get("type") == "denoise"
    groups = dict(_groups(scored[scored["group"].isin(flagged["group"])], high))
    checked = set(flagged.index[flagged["trusted"].eq(True)]) if compares_answers else set()
    reasons = {}
    for row in _rows(flagged):
        if row.Index in checked:
            reasons[row.Index] = f"a check found that its true reward is {short(row.new_reward)}"
        elif compares_answers:
            reasons[row.Index] = _contradiction(
                row, groups[row.group], rewarded=row.reward == high, exclusive=exclusive
            )
        else:
            reasons[row.Index] = ""
    # An identical response tells most of one whose answer is not known.
    no_answer = flagged["compared_answer"].isna() & flagged["by_spelling"].isna() & flagged["probability_wrong"].notna()
    unexplained = {row for row in flagged.index if row not in checked and (no_answer[row] or not reasons[row])}
    identical = _identical_otherwise_judged(audit, flagged[flagged.index.isin(unexplained)])
    for row in _rows(flagged[flagged.index.isin(unexplained)]):
        is_estimated = row.probability_wrong == row.probability_wrong
        if is_estimated and row.Index in identical:
            reasons[row.Index] = identical[row.Index]
        elif is_estimated and not reasons[row.Index]:
            reasons[row.Index] = _by_rewards(row, groups[row.group], audit, rewarded=row.reward == high)
        elif not reasons[row.Index]:
            reasons[row.Index] = _by_score(row, audit)
    return reasons


def _identical_otherwise_judged(audit: AuditResults, rows: pandas.DataFrame) -> dict[int, str]:
    """Of flagged rows the identical responses to their prompt with the other verdict, in words, by the row's index.

    Rows without one are left out, and all rows where the texts were, or where the dump has none.
    """
    low, high = audit.scored["reward"].min(), audit.scored["reward"].max()
    known = audit.scored[audit.scored["group"].isin(rows["group"]) & audit.scored["reward"].notna()]
    texts = audit.texts(known.index.tolist())
    if not any(response for _, response in texts.values()):
        return {}
    places: defaultdict[tuple[int, str, float], list[int]] = defaultdict(list)
    for row in _rows(known):
        places[row.group, texts[row.Index][1], row.reward].append(row.line)
    found = {}
    for row in _rows(rows[rows["reward"].notna()]):
        rewarded = row.reward == high
        lines = places.get((row.group, texts[row.Index][1], low if rewarded else high))
        if lines:
            verdict = "refused" if rewarded else "rewarded"
            place = f"{counted_in(Path(row.file))} {lines[0]:,}"
            if len(lines) == 1:
                found[row.Index] = f"an identical response ({place}) was {verdict}"
            else:
                found[row.Index] = f"{len(lines):,} identical responses (as {place}) were {verdict}"
    return found


def _by_rewards(row: Any, group: _Group, audit: AuditResults, *, rewarded: bool) -> str:
    """What speaks against a verdict that nothing contradicts: states of a model, or the other rewards of its prompt."""
    if audit.summary["hidden"].get("from") not in (None, "none"):
        return "its hidden state, compared with those of the others, makes this reward unlikely"
    otherwise = group.refused if rewarded else group.rewarded
    others = group.given.total() - 1
    if not otherwise or not others:
        return "the rewards of the other prompts make this reward unlikely"
    verdict = "refused" if rewarded else "rewarded"
    return f"{otherwise.total():,} of the {others:,} other responses to its prompt were {verdict}"


def _rows(frame: pandas.DataFrame) -> Iterator[Any]:
    """The rows of a frame, with its columns as attributes."""
    yield from frame.itertuples()


def _verdicts(rewards: pandas.Series) -> tuple[float, float] | None:
    """The two values that rewards take; None where they take more or fewer."""
    values = sorted(rewards.dropna().unique().tolist())
    return (values[0], values[1]) if len(values) == 2 else None


def _groups(scored: pandas.DataFrame, high: float) -> Iterator[tuple[int, _Group]]:
    known = scored[scored["reward"].notna()]
    number: Any
    for number, rows in known.groupby("group"):
        group = _Group()
        for answer, reward in zip(rows["compared_answer"], rows["reward"], strict=True):
            name = answer if isinstance(answer, str) else None
            group.given[name] += 1
            counts = group.rewarded if reward == high else group.refused
            counts[name] += 1
        of_spellings = rows[rows["by_spelling"].notna() & rows["compared_answer"].notna()]
        for answer, same in of_spellings.groupby("compared_answer"):
            group.spellings[str(answer)] = counted_verdicts(same["final_answer"].str.strip(), same["reward"] == high)
        yield int(number), group


def _contradiction(row: Any, group: _Group, *, rewarded: bool, exclusive: bool) -> str:
    """What in its group contradicts a verdict; empty where nothing does."""
    if isinstance(row.by_spelling, str):
        return _judged_by_spelling(row, group, rewarded=rewarded)
    answer = row.compared_answer
    if not isinstance(answer, str):
        return "rewarded without a final answer" if rewarded and exclusive and group.favourite() is not None else ""
    if rewarded and group.refused[answer]:
        return f"the same answer was refused {_times(group.refused[answer])}"
    if not rewarded and group.rewarded[answer]:
        return f"the same answer was rewarded {_times(group.rewarded[answer])}"
    if not exclusive:
        return ""
    other = group.other_rewarded(answer)
    if rewarded and other is not None:
        return f"another answer, {_short(other)}, was rewarded {_times(group.rewarded[other])}"
    favourite = group.favourite()
    if favourite is None:
        return ""
    share = f"{group.given[favourite]} of {group.given.total()} responses"
    if not rewarded and favourite == answer:
        return f"{share} give this answer"
    if rewarded and favourite != answer:
        return f"{share} answer {_short(favourite)}"
    return ""


# What follows where an answer was judged by its spelling, by whether it is the gold answer.
_SPELLING_MEANS = {
    IS_GOLD: "it is the gold answer",
    IS_NOT_GOLD: "one of the two is wrong",
    NO_GOLD: "one of the two is wrong",
}


def _judged_by_spelling(row: Any, group: _Group, *, rewarded: bool) -> str:
    """How the spelling of a flagged row was judged, and how the most frequent one with the other verdict."""
    verdicts = group.spellings.get(row.compared_answer) if isinstance(row.compared_answer, str) else None
    meaning = _SPELLING_MEANS[row.by_spelling]
    if verdicts is None:
        # A redacted folder has no answers.
        return f"the same answer was {'refused' if rewarded else 'rewarded'} in another spelling, and {meaning}"
    own = row.final_answer.strip()
    other = next(spelling for spelling, (yes, _) in verdicts.items() if (yes > 0) != rewarded)
    told = ", ".join(spelling_counts(spelling, *verdicts[spelling]) for spelling in (own, other))
    return f"judged by its spelling: {told}; {meaning}"


def spelling_counts(spelling: str, rewarded: int, refused: int) -> str:
    """How one spelling of an answer was judged, as in "17.5 rewarded 0 of 6 times"."""
    total = rewarded + refused
    return f"{_short(spelling)} rewarded {rewarded:,} of {total:,} {'time' if total == 1 else 'times'}"


def _by_score(row: Any, audit: AuditResults) -> str:
    if row.probability_wrong == row.probability_wrong:
        return "its hidden state and the other rewards of its prompt make this reward unlikely"
    if audit.pairs is not None and row.score == row.score:
        return f"its hidden state does not fit its reward (score {short(row.score)})"
    return f"it stands out among the rewards (score {short(row.score)})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _short(answer: str) -> str:
    line = " ".join(visible(answer, 200).split())
    return line if len(line) <= _ANSWER else f"{line[: _ANSWER - 1]}…"
