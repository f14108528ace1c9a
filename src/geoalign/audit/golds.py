"""Gold answers that look wrong: prompts on which answers agree with each other, are refused, and differ from the gold.

`noise/gold_answers.py` has the score, `words/golds.py` the sentences, `gold_files.py` golds.csv and the export.
Rollouts of one problem count together, in whichever step they were generated. Where the file has no gold answer, the
one with which the verifier compared looks wrong.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from geoalign.answers import Equivalence, answers_by_class
from geoalign.audit.several_verifiers.judged_rows import further_verdicts
from geoalign.audit.two_verdicts import verdict_values
from geoalign.dumps.field_names import IDS, PROBLEM_IDS
from geoalign.noise.gold_answers import AnswerCounts, chance_of_wrong_gold

# A proposed answer has at least so many copies, and more than the gold answer.
LEAST_COPIES = 3
# By how much the odds of a wrong gold answer grow with each other verifier that accepts the proposed answer.
# One that refuses it may have compared with the same gold answer, and changes nothing.
ODDS_OF_A_VOTE = 4.0
# From this score on a gold answer is called suspicious.
SUSPICIOUS = 0.5
# With fewer accepted answers the ranking is not to be trusted (benchmarks/wrong_golds.md).
LEAST_ACCEPTED = 0.6
# Prompts that summary.json lists.
LISTED = 100


@dataclass(frozen=True)
class JudgedProblem:
    """A problem as the data set has it.

    Attributes:
        prompt: a text, or chat messages where the file has them.
        gold: its gold answer, or several as a JSON list; None without one.
        golds: each of its gold answers.
        origin: by field its source and id, where the file has them.
        group, index, step: of its first rollout.
    """

    prompt: Any
    gold: str | None
    golds: tuple[str, ...]
    origin: Mapping[str, str]
    group: int
    index: int
    step: int

    @property
    def name(self) -> str:
        """The id that the file gives it; else the number of its group."""
        names = [self.origin[field] for field in (*PROBLEM_IDS, *IDS) if field in self.origin]
        return names[0] if names else f"group {self.group}"


@dataclass(frozen=True, eq=False)
class RankedGolds:
    """The prompts on which a refused answer rivals the gold answer.

    Attributes:
        prompts: the columns of `suspicions`, with `problem` for the place in `GoldAnswers.problems`.
        accepted: the share of accepted ones among all answers that were judged; NaN where none was.
    """

    prompts: pandas.DataFrame
    accepted: float

    @property
    def is_trusted(self) -> bool:
        """Whether so many answers were accepted that wrong gold answers stand first in the ranking."""
        return self.accepted >= LEAST_ACCEPTED

    def suspicious(self, least_score: float = SUSPICIOUS) -> pandas.DataFrame:
        """The prompts with at least this score."""
        return self.prompts[self.prompts["score"] >= least_score]


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
                    golds=row.gold_answers,
                    origin=row.origin or {},
                    group=int(row.group),
                    index=int(row.Index),
                    step=int(row.step),
                )
                self.problems.append(problem)
            self._of_group[row.group] = self._known[key]

    def ranked(self, rows: pandas.DataFrame, equal: Equivalence | None = None) -> RankedGolds:
        """The prompts whose gold answer another answer rivals, the most suspicious first.

        Args:
            rows: all rollouts, without their texts: `group`, `reward`, `compared_answer`, `correct`, and columns
                `verdict.NAME` of other verifiers.
            equal: decides whether a proposed answer equals the gold answer where no text decides.
        """
        table = self._judged_answers(rows)
        judged = table["answer"].notna() & table["reward"].notna()
        golds = [problem.golds for problem in self.problems]
        return RankedGolds(
            prompts=suspicions(table, golds, equal),
            accepted=float(table["reward"][judged].mean()) if judged.any() else math.nan,
        )

    def _judged_answers(self, rows: pandas.DataFrame) -> pandas.DataFrame:
        """The rollouts as `suspicions` reads them; rewards that are no verdicts accept nothing and refuse nothing."""
        verdicts = verdict_values(rows["reward"].dropna().unique().tolist())
        accepted = math.nan if verdicts is None else (rows["reward"] == verdicts[1]).astype(float)
        table = pandas.DataFrame({
            "problem": rows["group"].map(self._of_group).astype("int64"),
            "answer": rows["compared_answer"],
            "reward": accepted,
        })  # fmt: skip
        table["reward"] = table["reward"].mask(rows["reward"].isna())
        # Of other verifiers what they accept: their numbers may be others than 0 and 1, or scores, which say nothing.
        for name, accepts in further_verdicts(rows).items():
            table[str(name)] = accepts
        if rows["correct"].notna().any():
            table["correct"] = rows["correct"].astype(float)
        return table

    def summary(self, ranked: RankedGolds, *, redact: bool) -> dict[str, Any] | None:
        """`suspicious_golds` of `summary.json`; None where no answer was judged."""
        if math.isnan(ranked.accepted):
            return None
        return {
            "problems": len(self.problems),
            "rivalled": len(ranked.prompts),
            "suspicious": len(ranked.suspicious()),
            "least_score": SUSPICIOUS,
            "accepted": ranked.accepted,
            "trusted": ranked.is_trusted,
            "top": [self._entry(row, redact=redact) for row in ranked.prompts.head(LISTED).to_dict("records")],
        }

    def _entry(self, row: Mapping[Any, Any], *, redact: bool) -> dict[str, Any]:
        """One prompt of the summary: where it stands, both answers, and how often each was given."""
        problem = self.problems[row["problem"]]
        place = {"problem": problem.name, "group": problem.group, "index": problem.index, "step": problem.step}
        texts = {"gold": None, "proposed": None}
        if not redact:
            texts = {"gold": problem.gold, "proposed": row["proposed"]}
        facts = {name: row[name] for name in ("copies", "rollouts", "share", "gold_copies", "votes", "score")}
        return {**place, **texts, **facts}


def suspicions(
    table: pandas.DataFrame, golds: Sequence[Sequence[str]], equal: Equivalence | None = None
) -> pandas.DataFrame:
    """The prompts whose gold answer a refused answer rivals, the most suspicious first.

    Args:
        table: a row for each rollout: `problem` (a number), `answer` (a text, None without one), `reward` (1 accepted,
            0 refused, NaN), and a column by the name of each other verifier.
        golds: by number of the problem its gold answers, each of which is right; none where the file has none.
        equal: decides whether a proposed answer equals the gold answer where no text decides.

    Returns:
        `problem`, `proposed` (the answer), `copies`, `gold_copies`, `rollouts` with an answer, `share`, `score`, and
        `votes`: by verifier how many copies of the proposed answer it accepted, and how many it judged.
    """
    answers = _answers_of_problems(table, golds, equal)
    problems = [_Problem.of(part) for part in _by_problem(answers)]
    # The model learns from every problem; those without a rival have the score 0.
    chance = chance_of_wrong_gold([problem.counts for problem in problems])
    rows = []
    for problem, score in zip(problems, chance, strict=True):
        if problem.proposed is not None:
            rows.append({**problem.facts, "score": _with_votes(float(score), problem.facts["votes"])})
    names = ["problem", "proposed", "copies", "gold_copies", "rollouts", "share", "votes", "score"]
    found = pandas.DataFrame(rows, columns=names)
    return found.sort_values(["score", "problem"], ascending=[False, True], kind="stable").reset_index(drop=True)


def _answers_of_problems(
    table: pandas.DataFrame, golds: Sequence[Sequence[str]], equal: Equivalence | None
) -> pandas.DataFrame:
    """A row for each answer that was given to a problem and judged.

    Where no answer is a gold answer by its text, one that is accepted more often than not is taken for it.

    Returns:
        `problem`, `answer`, `judged` (copies with a verdict), `is_gold`, `is_rival` (the most frequent answer to the
        problem, if it is mostly refused, has enough copies and is surely no gold answer) and `votes` (by verifier how
        many copies it accepted and how many it judged).
    """
    verifiers = [str(name) for name in table.columns if name not in ("problem", "answer")]
    given = table[table["answer"].notna() & table["reward"].notna()]
    by_answer = given.groupby(["problem", "answer"], sort=False)[verifiers].agg(["sum", "count"])
    answers = by_answer.index.to_frame(index=False)
    answers["judged"] = by_answer["reward", "count"].to_numpy()
    numbers = by_answer.to_numpy().astype(int).reshape(len(answers), len(verifiers), 2).tolist()
    votes = [dict(zip(verifiers, pairs, strict=True)) for pairs in numbers]
    answers["votes"] = pandas.Series(votes, dtype=object)
    of_problem = [golds[problem] for problem in answers["problem"]]
    is_gold = pandas.Series(_are_equal(answers["answer"].tolist(), of_problem), index=answers.index, dtype=bool)
    rewarded = by_answer["reward", "sum"].reset_index(drop=True)
    is_accepted = 2 * rewarded > answers["judged"]
    is_refused = 2 * rewarded < answers["judged"]
    has_gold = is_gold.groupby(answers["problem"]).transform("any")
    is_gold |= is_accepted & ~has_gold
    most_frequent = answers.sort_values("judged", ascending=False, kind="stable").drop_duplicates("problem").index
    rivals = most_frequent[~is_gold[most_frequent] & (answers["judged"][most_frequent] >= LEAST_COPIES)]
    if equal is not None:
        pairs = [(rival, gold) for rival in rivals for gold in of_problem[rival]]
        verdicts = equal.equal([(answers["answer"][rival], gold) for rival, gold in pairs])
        for (rival, _), verdict in zip(pairs, verdicts, strict=True):
            if verdict:
                is_gold[rival] = True
            elif verdict is None:
                # It may be the gold answer.
                rivals = rivals.drop(rival, errors="ignore")
    answers["is_gold"] = is_gold
    answers["is_rival"] = answers.index.isin(rivals) & ~is_gold & is_refused
    return answers


@dataclass(frozen=True)
class _Problem:
    """One problem: what its answers tell the model, and the answer that rivals the gold answer (None without one)."""

    counts: AnswerCounts
    proposed: str | None
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, answers: Sequence[Any]) -> _Problem:
        """Of the rows of `_answers_of_problems` of one problem, the most frequent answer first."""
        gold_copies = sum(answer.judged for answer in answers if answer.is_gold)
        others = [answer for answer in answers if not answer.is_gold]
        copies = [answer.judged for answer in others]
        if not others or not others[0].is_rival or copies[0] <= gold_copies:
            return cls(AnswerCounts(gold=gold_copies, proposed=0, others=tuple(copies)), proposed=None, facts={})
        rival = others[0]
        rollouts = gold_copies + sum(copies)
        facts = {
            "problem": rival.problem,
            "proposed": rival.answer,
            "copies": rival.judged,
            "gold_copies": gold_copies,
            "rollouts": rollouts,
            "share": rival.judged / rollouts,
            "votes": rival.votes,
        }
        counts = AnswerCounts(gold=gold_copies, proposed=rival.judged, others=tuple(copies[1:]))
        return cls(counts, proposed=rival.answer, facts=facts)


def _by_problem(answers: pandas.DataFrame) -> Collection[Sequence[Any]]:
    """The rows of each problem as tuples, the most frequent answer first.

    One pass over the rows: cutting a frame for each of many thousand problems takes longer than the audit itself.
    """
    by_problem: dict[int, list[Any]] = {problem: [] for problem in answers["problem"].unique().tolist()}
    row: Any
    for row in answers.sort_values("judged", ascending=False, kind="stable").itertuples(index=False):
        by_problem[row.problem].append(row)
    return by_problem.values()


def _are_equal(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> list[bool]:
    """Whether each answer is one of its gold answers, as far as their texts tell; False where there is none."""
    places = [place for place, several in enumerate(golds) for _ in several]
    spelled = [text for place, several in enumerate(golds) for gold in several for text in (answers[place], gold)]
    # Each answer is compared with one gold answer at a time: the two are a group of answers.
    classes = answers_by_class(spelled, [number for number in range(len(places)) for _ in range(2)])
    same = [False] * len(answers)
    for number, place in enumerate(places):
        same[place] |= classes[2 * number] == classes[2 * number + 1] is not None
    return same


def _with_votes(chance: float, votes: Mapping[str, Sequence[int]]) -> float:
    """The probability with the votes of the other verifiers, each of which counts once."""
    others = [counts for name, counts in votes.items() if name != "reward"]
    accepting = sum(2 * accepted > judged for accepted, judged in others)
    odds = chance * ODDS_OF_A_VOTE**accepting
    return odds / (odds + 1 - chance)
