"""The symptoms of a verifier that does not judge, each a function that returns a `Symptom`, or None without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float, Int, Shaped

from geoalign.audit.degenerate.chance import (
    others_follow_by_chance,
    prompts_come_together,
    verdicts_fit_by_chance,
)
from geoalign.audit.two_verdicts import verdict_values

# Fewer scored rollouts say nothing of a verifier.
LEAST_ROWS = 20
# From this share on missing rewards are named, if they are as many as this.
UNSCORED_SHARE = 0.05
LEAST_UNSCORED = 10
# In a part of the file they stand out from so many times the share elsewhere on.
TIMES_AS_OFTEN = 3
# So many prompts with different answers must be tied, all of them.
LEAST_TIED = 20
# A verdict goes with the length if at most this share of the rollouts is judged otherwise.
MOST_EXCEPTIONS = 0.01


@dataclass(frozen=True)
class Symptom:
    """One symptom of a verifier that does not judge.

    Attributes:
        kind: "one_value", "unscored", "tied", "length" or "truncation".
        where: the part of the file, as "`env` gsm8k"; empty for all of it.
        rows: how many rollouts it is about.
        parts: what the sentence says, by name; numbers and truth values only.
    """

    kind: str
    where: str
    rows: int
    parts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class WholeFile:
    """The N rollouts of the file of which a part is looked at.

    Attributes:
        reward: [N] NaN where there is none.
        group: [N]
        is_part: [N] which of them are the part.
        parts: how many parts of the file are looked at.
    """

    reward: Float[np.ndarray, " N"]
    group: Int[np.ndarray, " N"]
    is_part: Bool[np.ndarray, " N"]
    parts: int


@dataclass(frozen=True, eq=False)
class LookedAt:
    """The n rollouts in which symptoms are looked for: a file, or a part of it.

    Attributes:
        reward: [n] NaN where there is none.
        group: [n] the prompt.
        answer: [n] equal texts for equal answers to a prompt; None where there is none.
        gives_gold: [n] whether the answer is the gold answer, as far as texts tell.
        lengths: by the name of the unit [n] the length of each response, NaN where it is not known; `characters` is
            among them.
        truncated: [n] whether the response was cut off; None where it is not known.
        exclusive: [n] whether at most one answer to the prompt is right.
        where: the name of the part, as "`env` gsm8k"; empty for a file.
        file: the file, of a part.
    """

    reward: Float[np.ndarray, " n"]
    group: Int[np.ndarray, " n"]
    answer: Shaped[np.ndarray, " n"]
    gives_gold: Bool[np.ndarray, " n"]
    lengths: Mapping[str, Float[np.ndarray, " n"]]
    truncated: Shaped[np.ndarray, " n"]
    exclusive: Bool[np.ndarray, " n"]
    where: str = ""
    file: WholeFile | None = None

    @property
    def places(self) -> int:
        """How many parts are looked at; 1 for a file."""
        return 1 if self.file is None else self.file.parts

    def verdicts(self, known: Bool[np.ndarray, " n"]) -> Bool[np.ndarray, " k"] | None:
        """[k] which of the k rows that are known got the higher of two rewards.

        None where rewards take more or fewer values, a row has none, or too few rows are known.
        """
        values = np.unique(self.reward)
        if known.sum() < LEAST_ROWS or len(values) != 2 or np.isnan(values).any():
            return None
        verdicts: np.ndarray = self.reward[known] == values[1]
        return verdicts

    def symptom(self, kind: str, rows: int, **parts: Any) -> Symptom:
        return Symptom(kind=kind, where=self.where, rows=rows, parts=parts)


def one_value(at: LookedAt) -> Symptom | None:
    """All rewards are equal.

    In a part of a file whose rewards differ, chance must not bring so many prompts with this one reward together.
    `accepts` says what the reward means as a verdict, and is None where it is none. `differing` counts the prompts
    with different answers, where one is right at most.
    """
    scored = ~np.isnan(at.reward)
    values = np.unique(at.reward[scored])
    if len(values) != 1 or scored.sum() < LEAST_ROWS:
        return None
    if at.file is not None and _is_no_fault_of_the_part(at.file, values[0]):
        return None
    rewards_of_file = at.reward if at.file is None else at.file.reward
    verdicts = verdict_values(np.unique(rewards_of_file[~np.isnan(rewards_of_file)]).tolist())
    counted = scored & at.exclusive
    answers = pandas.Series(at.answer[counted]).groupby(at.group[counted]).nunique()
    return at.symptom(
        "one_value",
        int(scored.sum()),
        value=float(values[0]),
        accepts=None if verdicts is None else bool(values[0] == verdicts[1]),
        give_gold=int((at.gives_gold & scored).sum()),
        differing=int((answers > 1).sum()),
    )


def _is_no_fault_of_the_part(file: WholeFile, value: float) -> bool:
    """Whether all rewards of the file are this value, or chance brings so many prompts of this one reward together."""
    scored = ~np.isnan(file.reward)
    if len(np.unique(file.reward[scored])) == 1:
        return True
    rows = pandas.DataFrame({"group": file.group, "same": file.reward == value, "part": file.is_part})[scored]
    prompts = rows.groupby("group").agg(same=("same", "all"), part=("part", "any"))
    chosen = int(prompts["part"].sum())
    such = int(prompts["same"].sum())
    return prompts_come_together(found=chosen, such=such, chosen=chosen, prompts=len(prompts), tests=file.parts)


def unscored(at: LookedAt) -> Symptom | None:
    """Many rollouts have no reward.

    In a part of a file these must be far more than elsewhere, and on more prompts than chance brings together.
    """
    size = len(at.reward)
    missing = int(np.isnan(at.reward).sum())
    if missing < LEAST_UNSCORED or missing < UNSCORED_SHARE * size:
        return None
    if at.file is None:
        return at.symptom("unscored", missing, of=size, elsewhere=None)
    file = at.file
    is_missing = np.isnan(file.reward)
    elsewhere = float(is_missing[~file.is_part].mean()) if size < len(file.reward) else 0.0
    if missing < TIMES_AS_OFTEN * elsewhere * size:
        return None
    rows = pandas.DataFrame({"group": file.group, "missing": is_missing, "part": file.is_part})
    prompts = rows.groupby("group").any()
    both = int((prompts["missing"] & prompts["part"]).sum())
    such = int(prompts["missing"].sum())
    chosen = int(prompts["part"].sum())
    if prompts_come_together(found=both, such=such, chosen=chosen, prompts=len(prompts), tests=file.parts):
        return None
    return at.symptom("unscored", missing, of=size, elsewhere=elsewhere)


def tied(at: LookedAt) -> Symptom | None:
    """The reward never differs within a prompt although responses do, and differs between prompts.

    A prompt counts if its rollouts give different answers. Where no answers are read, one counts whose responses have
    different lengths. Prompts with different rewards must be there, and one reward for a whole prompt must not be
    chance:

    - Of different answers to a prompt one is right at most. Leave that one out, or any where none is right: the others
      are wrong, and a verifier that judges answers takes each of them for right with the same chance, on whatever
      prompt it comes. So their rewards can be shuffled over the file, however hard its prompts are. Which answer is
      left out does not matter, for all of a prompt have one reward.
    - Responses without an answer, and answers of which several may be right, are shuffled over the file as if all
      prompts were equally hard. A policy that solves a prompt always or never looks the same: `at_most_one_right` is
      false, and the sentence says so.
    """
    rows = pandas.DataFrame({
        "group": at.group, "reward": at.reward, "answer": at.answer, "length": at.lengths["characters"],
    })  # fmt: skip
    rows = rows[rows["reward"].notna()]
    by_prompt = rows.groupby("group").agg(
        values=("reward", "nunique"), answers=("answer", "nunique"), lengths=("length", "nunique"),
        value=("reward", "first"), rows=("reward", "size"),
    )  # fmt: skip
    if (by_prompt["values"] > 1).any():
        return None
    has_answers = bool(rows["answer"].notna().any())
    differing = by_prompt[by_prompt["answers" if has_answers else "lengths"] > 1]
    if len(differing) < LEAST_TIED or differing["value"].nunique() < 2:
        return None
    judged = rows
    if has_answers:
        judged = rows[rows["answer"].notna()].drop_duplicates(["group", "answer"])
    if others_follow_by_chance(judged["reward"].to_numpy(), judged["group"].to_numpy(), tests=at.places):
        return None
    return at.symptom(
        "tied",
        int(differing["rows"].sum()),
        prompts=len(differing),
        at_most_one_right=has_answers and bool(at.exclusive.all()),
    )


def length_alone(at: LookedAt) -> Symptom | None:
    """One length parts accepted from refused responses, but for a hundredth of them; of several units the clearest."""
    found = [_length_alone(at, unit) for unit in at.lengths]
    symptoms = [symptom for symptom in found if symptom is not None]
    return min(symptoms, key=lambda symptom: symptom.parts["exceptions"], default=None)


def _length_alone(at: LookedAt, unit: str) -> Symptom | None:
    """`length_alone` by one unit."""
    length = at.lengths[unit]
    known = ~np.isnan(length)
    verdicts = at.verdicts(known)
    if verdicts is None or answers_explain(verdicts, at.group[known], at.answer[known]):
        return None
    order = np.argsort(length[known], kind="stable")
    sorted_lengths = length[known][order]
    accepted = verdicts[order]
    # A threshold lies behind a row whose successor is longer.
    ends = np.flatnonzero(np.diff(sorted_lengths) > 0)
    if not len(ends):
        return None
    accepted_up_to = np.cumsum(accepted)[ends]
    refused_up_to = ends + 1 - accepted_up_to
    # The exceptions of each threshold, if it accepts what is short, and if it accepts what is long.
    if_short = refused_up_to + accepted.sum() - accepted_up_to
    if_long = len(accepted) - if_short
    fewest = np.minimum(if_short, if_long)
    best = int(fewest.argmin())
    exceptions = int(fewest[best])
    tests = 2 * len(ends) * at.places * len(at.lengths)
    if _is_no_rule(verdicts, at.group[known], exceptions=exceptions, tests=tests):
        return None
    return at.symptom(
        "length",
        len(accepted),
        unit=unit,
        at_most=float(sorted_lengths[ends[best]]),
        short_accepted=bool(if_short[best] == exceptions),
        exceptions=exceptions,
    )


def truncation_alone(at: LookedAt) -> Symptom | None:
    """Truncated responses are refused and all others accepted, or the other way round, but for a hundredth of them."""
    known = ~pandas.isna(at.truncated)
    verdicts = at.verdicts(known)
    if verdicts is None or answers_explain(verdicts, at.group[known], at.answer[known]):
        return None
    cut = at.truncated[known].astype(bool)
    if cut.all() or not cut.any():
        return None
    if_refused = int((verdicts == cut).sum())
    if_accepted = len(verdicts) - if_refused
    exceptions = min(if_refused, if_accepted)
    if _is_no_rule(verdicts, at.group[known], exceptions=exceptions, tests=2 * at.places):
        return None
    return at.symptom(
        "truncation",
        len(verdicts),
        truncated=int(cut.sum()),
        truncated_refused=if_refused <= if_accepted,
        exceptions=exceptions,
    )


def _is_no_rule(accepted: Bool[np.ndarray, " n"], group: Int[np.ndarray, " n"], *, exceptions: int, tests: int) -> bool:
    """Whether a rule has too many exceptions, or verdicts fit it by chance."""
    if exceptions > MOST_EXCEPTIONS * len(accepted):
        return True
    return verdicts_fit_by_chance(accepted, group, exceptions=exceptions, tests=tests)


def answers_explain(
    accepted: Bool[np.ndarray, " n"], group: Int[np.ndarray, " n"], answer: Shaped[np.ndarray, " n"]
) -> bool:
    """Whether the answers say as well why responses were accepted: one answer a prompt was, each time it was given.

    Responses of a good policy that are wrong only where they were cut off look like this, and no verifier is to blame.
    """
    table = pandas.DataFrame({"group": group, "accepted": accepted, "answer": answer})
    answered = table[table["answer"].notna()]
    if table["accepted"].sum() == 0 or answered["accepted"].sum() < table["accepted"].sum() / 2:
        return False
    both_ways = answered.groupby(["group", "answer"])["accepted"].nunique() > 1
    several = answered[answered["accepted"]].groupby("group")["answer"].nunique() > 1
    return not both_ways.any() and not several.any()
