"""Gold answers that look wrong: prompts on which answers agree with each other, are refused, and differ from the gold.

`noise/gold_answers.py` has the score. Rollouts of one problem count together, in whichever step they were generated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from geoalign.answers import Equivalence, answers_by_class
from geoalign.dumps.field_names import IDS, PROBLEM_IDS
from geoalign.noise.gold_answers import AnswerCounts, chance_of_wrong_gold

# A proposed answer has at least so many copies, and more than the gold answer.
LEAST_COPIES = 3
# By how much the odds of a wrong gold answer grow with each other verifier that accepts the proposed answer.
# One that refuses it may have compared with the same gold answer, and changes nothing.
ODDS_OF_A_VOTE = 4.0
# From this score on a gold answer is called suspicious.
SUSPICIOUS = 0.5
# Prompts that summary.json lists.
LISTED = 100
# Columns of other verifiers' verdicts begin so.
VERDICT = "verdict."


@dataclass(frozen=True)
class JudgedProblem:
    """A problem as the data set has it.

    Attributes:
        prompt: a text, or chat messages where the file has them.
        gold: its gold answer; None without one.
        origin: by field its source and id, where the file has them.
        group, index, step: of its first rollout.
    """

    prompt: Any
    gold: str | None
    origin: Mapping[str, str]
    group: int
    index: int
    step: int

    @property
    def name(self) -> str:
        """The id that the file gives it; else the number of its group."""
        names = [self.origin[field] for field in (*PROBLEM_IDS, *IDS) if field in self.origin]
        return names[0] if names else f"group {self.group}"


class GoldAnswers:
    """Collects the problems of all files, then ranks their gold answers by how wrong they look."""

    def __init__(self) -> None:
        self.problems: list[JudgedProblem] = []
        self._known: dict[tuple[str, str | None], int] = {}
        self._of_group: dict[int, int] = {}

    def add(self, rows: pandas.DataFrame) -> None:
        """Takes the rollouts of a file with their texts; groups unique over files, the index that of the output."""
        row: Any
        for row in rows.drop_duplicates("group").itertuples():
            gold = row.answer if isinstance(row.answer, str) else None
            # Without a text of the problem, each group is one.
            key = (row.problem or f"group {row.group}", gold)
            if key not in self._known:
                self._known[key] = len(self.problems)
                problem = JudgedProblem(
                    prompt=list(row.messages) if row.messages is not None else row.prompt,
                    gold=gold,
                    origin=row.origin or {},
                    group=int(row.group),
                    index=int(row.Index),
                    step=int(row.step),
                )
                self.problems.append(problem)
            self._of_group[row.group] = self._known[key]

    def ranked(self, rows: pandas.DataFrame, equal: Equivalence | None = None) -> pandas.DataFrame:
        """The prompts whose gold answer another answer rivals, the most suspicious first.

        Args:
            rows: all rollouts, without their texts: `group`, `reward`, `compared_answer`, `correct`, and columns
                `verdict.NAME` of other verifiers.
            equal: decides whether a proposed answer equals the gold answer where no text decides.

        Returns:
            The columns of `suspicions`, with `problem` for the place in `problems`.
        """
        values = np.unique(rows["reward"].dropna())
        accepted = (rows["reward"] == values[-1]).astype(float) if len(values) == 2 else math.nan
        table = pandas.DataFrame({
            "problem": rows["group"].map(self._of_group).astype("int64"),
            "answer": rows["compared_answer"],
            "reward": accepted,
        })  # fmt: skip
        table["reward"] = table["reward"].mask(rows["reward"].isna())
        for column in rows.columns:
            if column.startswith(VERDICT):
                table[column.removeprefix(VERDICT)] = rows[column].astype(float)
        if rows["correct"].notna().any():
            table["correct"] = rows["correct"].astype(float)
        return suspicions(table, [problem.gold for problem in self.problems], equal)

    def summary(self, ranked: pandas.DataFrame, *, redact: bool) -> dict[str, Any] | None:
        """`suspicious_golds` of `summary.json`; None where no problem has a gold answer."""
        with_gold = sum(problem.gold is not None for problem in self.problems)
        if not with_gold:
            return None
        top = []
        for row in ranked.head(LISTED).to_dict("records"):
            problem = self.problems[row["problem"]]
            place = {"problem": problem.name, "group": problem.group, "index": problem.index, "step": problem.step}
            texts = {"gold": None, "proposed": None}
            if not redact:
                texts = {"gold": problem.gold, "proposed": row["proposed"]}
            facts = {name: row[name] for name in ("copies", "rollouts", "share", "gold_copies", "votes", "score")}
            top.append({**place, **texts, **facts})
        return {
            "problems": with_gold,
            "rivalled": len(ranked),
            "suspicious": int((ranked["score"] >= SUSPICIOUS).sum()),
            "least_score": SUSPICIOUS,
            "top": top,
        }


def suspicions(
    table: pandas.DataFrame, golds: Sequence[str | None], equal: Equivalence | None = None
) -> pandas.DataFrame:
    """The prompts whose gold answer a refused answer rivals, the most suspicious first.

    Args:
        table: a row for each rollout: `problem` (a number), `answer` (a text, None without one), `reward` (1 accepted,
            0 refused, NaN), and a column by the name of each other verifier.
        golds: by number of the problem its gold answer.
        equal: decides whether a proposed answer equals the gold answer where no text decides.

    Returns:
        `problem`, `proposed` (the answer), `copies`, `gold_copies`, `rollouts` with an answer, `share`, `score`, and
        `votes`: by verifier how many copies of the proposed answer it accepted, and how many it judged.
    """
    rivals = []
    counts = []
    for rival, count in _rivals(table, golds, equal):
        rivals.append(rival)
        counts.append(count)
    chance = chance_of_wrong_gold(counts)
    names = ["problem", "proposed", "copies", "gold_copies", "rollouts", "share", "votes"]
    found = pandas.DataFrame(rivals, columns=names)
    scores = [_with_votes(score, votes) for score, votes in zip(chance, found["votes"], strict=True)]
    found["score"] = np.array(scores, dtype=float)
    found = found[found["proposed"].notna()]
    return found.sort_values(["score", "problem"], ascending=[False, True], kind="stable").reset_index(drop=True)


def _rivals(
    table: pandas.DataFrame, golds: Sequence[str | None], equal: Equivalence | None
) -> Iterator[tuple[dict[str, Any], AnswerCounts]]:
    """Of each problem with a gold answer and judged answers: the answer that rivals it, and how often each was given.

    Where no answer is the gold answer by its text, one that is accepted more often than not is taken for it.
    """
    verifiers = [name for name in table.columns if name not in ("problem", "answer")]
    given = table[table["answer"].notna() & table["reward"].notna()]
    by_answer = given.groupby(["problem", "answer"], sort=False)[verifiers].agg(["count", "sum"])
    answers = by_answer.index.to_frame(index=False)
    answers["judged"] = by_answer["reward", "count"].to_numpy()
    answers["accepted"] = by_answer["reward", "sum"].to_numpy()
    answers["gold"] = [golds[problem] for problem in answers["problem"]]
    answers = answers[answers["gold"].notna()]
    is_gold = _are_equal(answers["answer"], answers["gold"])
    is_accepted = answers["accepted"] > answers["judged"] / 2
    has_gold = is_gold.groupby(answers["problem"]).transform("any")
    is_gold |= is_accepted & ~has_gold
    by_copies = answers.sort_values("judged", ascending=False, kind="stable")
    top = by_copies.drop_duplicates("problem")
    top = top[~is_gold[top.index] & (top["judged"] >= LEAST_COPIES)]
    if equal is not None and len(top):
        pairs = list(zip(top["answer"], top["gold"], strict=True))
        is_gold[top.index[equal.equal(pairs)]] = True
    is_rival = pandas.Series(answers.index.isin(top.index), index=answers.index) & ~is_gold & ~is_accepted
    for problem, part in answers.groupby("problem", sort=False):
        gold_copies = int(part["judged"][is_gold[part.index]].sum())
        others = part[~is_gold[part.index]].sort_values("judged", ascending=False, kind="stable")
        copies = others["judged"].tolist()
        rivals = bool(copies) and bool(is_rival[others.index[0]]) and copies[0] > gold_copies
        votes = {}
        proposed = None
        if rivals:
            proposed = others["answer"].iloc[0]
            row = by_answer.iloc[others.index[0]]
            votes = {name: [int(row[name, "sum"]), int(row[name, "count"])] for name in verifiers}
        rival = {
            "problem": problem, "proposed": proposed, "copies": copies[0] if rivals else 0,
            "gold_copies": gold_copies, "rollouts": gold_copies + sum(copies), "votes": votes,
        }  # fmt: skip
        rival["share"] = rival["copies"] / rival["rollouts"]
        proposed_copies = copies.pop(0) if rivals else 0
        yield rival, AnswerCounts(gold=gold_copies, proposed=proposed_copies, others=tuple(copies))


def _are_equal(answers: pandas.Series, golds: pandas.Series) -> pandas.Series:
    """Whether each answer is the gold answer, as far as their texts tell."""
    spelled = [text for pair in zip(answers, golds, strict=True) for text in pair]
    pairs = [place for place in range(len(answers)) for _ in range(2)]
    classes = answers_by_class(spelled, pairs)
    same = [classes[2 * place] == classes[2 * place + 1] is not None for place in range(len(answers))]
    return pandas.Series(same, index=answers.index, dtype=bool)


def _with_votes(chance: float, votes: Mapping[str, Sequence[int]]) -> float:
    """The probability with the votes of the other verifiers, each of which counts once."""
    others = [counts for name, counts in votes.items() if name != "reward"]
    accepting = sum(2 * accepted > judged for accepted, judged in others)
    odds = chance * ODDS_OF_A_VOTE**accepting
    return odds / (odds + 1 - chance)
