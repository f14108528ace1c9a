"""Rewards that no working verifier gives: all one value, missing, the same for a whole prompt, or of the length alone.

Each symptom has a function on plain columns that returns a `Symptom`, or None. What could be so by chance is tested
exactly: the rewards of a prompt, or the prompts of a file, are thought to be shuffled, and the share of all orders that
look as bad must be at most `LEVEL`, after a correction for the number of places that were looked at.
`benchmarks/degenerate.md` has how often files without a fault are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas
from scipy.special import gammaln, logsumexp

from geoalign.answers import normal_form
from geoalign.dumps.field_names import ENVIRONMENTS

# What is named must be as rare as this among shuffled rewards.
LEVEL = 0.001
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
# More environments than these are names of problems.
MOST_ENVIRONMENTS = 100


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


def degenerate_findings(rows: pandas.DataFrame) -> list[dict[str, Any]]:
    """`degenerate` of `summary.json`: every symptom of the file, or else of the environments that it names.

    Args:
        rows: has `reward`, `group`, `characters`, `tokens`, `truncated`, `compared_answer`, `final_answer`, `answer`
            and `origin`.
    """
    found = _symptoms(rows, where="", places=1)
    # Where rewards are missing is worth to be known, though many are missing in the whole file.
    kinds = {finding.kind for finding in found} - {"unscored"}
    environments = list(_environments(rows))
    for where, part in environments:
        found += [
            finding
            for finding in _symptoms(part, where=where, places=len(environments), of=rows)
            if finding.kind not in kinds
        ]
    return [asdict(finding) for finding in found]


def _environments(rows: pandas.DataFrame) -> Iterator[tuple[str, pandas.DataFrame]]:
    """The parts of the rows by environment or data source, the first of the fields that parts them."""
    origins = rows["origin"]
    for field in ENVIRONMENTS:
        names = pandas.Series([origin.get(field) if origin else None for origin in origins], index=rows.index)
        if 2 <= names.nunique() <= MOST_ENVIRONMENTS:
            for name, part in rows.groupby(names, sort=True):
                yield f"`{field}` {name}", part
            return


def _symptoms(rows: pandas.DataFrame, *, where: str, places: int, of: pandas.DataFrame | None = None) -> list[Symptom]:
    """The symptoms of some rows.

    Args:
        places: how many parts of the file are looked at.
        of: all rows of the file, where these are a part of it.
    """
    reward = rows["reward"].to_numpy(dtype=float)
    group = rows["group"].to_numpy()
    found: list[Symptom | None] = []
    if of is None:
        found.append(one_value(reward, _gives_gold(rows)))
        found.append(unscored(reward))
    else:
        is_part = of.index.isin(rows.index)
        all_rewards = of["reward"].to_numpy(dtype=float)
        all_groups = of["group"].to_numpy()
        found.append(one_value_of_part(all_rewards, all_groups, is_part, _gives_gold(rows), where=where, places=places))
        found.append(unscored_of_part(all_rewards, all_groups, is_part, where=where, places=places))
    answer = rows["compared_answer"].to_numpy(dtype=object)
    found.append(tied(reward, group, answer, rows["characters"].to_numpy(), where=where))
    truncated = rows["truncated"].to_numpy(dtype=object)
    by_truncation = truncation_alone(reward, group, truncated, answer, where=where, places=places)
    found.append(by_truncation)
    if by_truncation is None:
        lengths = {"characters": rows["characters"], "tokens": rows["tokens"]}
        columns = {name: column.to_numpy(dtype=float) for name, column in lengths.items()}
        found.append(length_alone(reward, group, columns, answer, where=where, places=places))
    return [finding for finding in found if finding is not None]


# --- the symptoms -----------------------------------------------------------------------------------------------------


def one_value(reward: np.ndarray, gives_gold: np.ndarray) -> Symptom | None:
    """All rewards of a file are equal.

    Args:
        reward: [n] NaN where there is none.
        gives_gold: [n] whether the response's answer is the gold answer, as far as texts tell.
    """
    scored = ~np.isnan(reward)
    values = np.unique(reward[scored])
    if len(values) != 1 or scored.sum() < LEAST_ROWS:
        return None
    return _one_value(values[0], scored, gives_gold, where="")


def one_value_of_part(
    reward: np.ndarray, group: np.ndarray, is_part: np.ndarray, gives_gold: np.ndarray, *, where: str, places: int
) -> Symptom | None:
    """All rewards of a part are equal, and so many prompts with this one reward alone do not come together by chance.

    Args:
        reward: [n] of all rows; NaN where there is none.
        group: [n]
        is_part: [n] which rows are the part.
        gives_gold: of the rows of the part whether the answer is the gold answer.
    """
    scored = ~np.isnan(reward)
    values = np.unique(reward[scored & is_part])
    if len(values) != 1 or (scored & is_part).sum() < LEAST_ROWS or len(np.unique(reward[scored])) == 1:
        return None
    prompts = pandas.DataFrame({"group": group, "same": reward == values[0], "part": is_part})[scored]
    prompts = prompts.groupby("group").agg(same=("same", "all"), part=("part", "any"))
    marked = int(prompts["same"].sum())
    size = int(prompts["part"].sum())
    chance = _chance_of_at_least(size, prompts=len(prompts), marked=marked, drawn=size)
    if chance * places > LEVEL:
        return None
    return _one_value(values[0], scored[is_part], gives_gold, where=where)


def _one_value(value: float, scored: np.ndarray, gives_gold: np.ndarray, *, where: str) -> Symptom:
    parts = {"value": float(value), "give_gold": int((gives_gold & scored).sum())}
    return Symptom(kind="one_value", where=where, rows=int(scored.sum()), parts=parts)


def unscored(reward: np.ndarray) -> Symptom | None:
    """Many rollouts of a file have no reward."""
    missing = int(np.isnan(reward).sum())
    if missing < LEAST_UNSCORED or missing < UNSCORED_SHARE * len(reward):
        return None
    return Symptom(kind="unscored", where="", rows=missing, parts={"of": len(reward), "elsewhere": None})


def unscored_of_part(
    reward: np.ndarray, group: np.ndarray, is_part: np.ndarray, *, where: str, places: int
) -> Symptom | None:
    """Many rollouts of a part have no reward, far more than elsewhere, and on more prompts than chance brings together.

    Args:
        reward: [n] of all rows.
        group: [n]
        is_part: [n] which rows are the part.
    """
    missing = np.isnan(reward)
    count = int((missing & is_part).sum())
    size = int(is_part.sum())
    elsewhere = float(missing[~is_part].mean()) if size < len(reward) else 0.0
    if count < LEAST_UNSCORED or count < UNSCORED_SHARE * size or count < TIMES_AS_OFTEN * elsewhere * size:
        return None
    prompts = pandas.DataFrame({"group": group, "missing": missing, "part": is_part}).groupby("group").any()
    hit = int((prompts["missing"] & prompts["part"]).sum())
    marked = int(prompts["missing"].sum())
    drawn = int(prompts["part"].sum())
    chance = _chance_of_at_least(hit, prompts=len(prompts), marked=marked, drawn=drawn)
    if chance * places > LEVEL:
        return None
    return Symptom(kind="unscored", where=where, rows=count, parts={"of": size, "elsewhere": elsewhere})


def _chance_of_at_least(found: int, *, prompts: int, marked: int, drawn: int) -> float:
    """The chance that of so many drawn prompts at least `found` are marked, if they were drawn at random from all."""
    # Takes a third of a second to import, and few files have parts to compare.
    from scipy.stats import hypergeom

    return float(hypergeom.sf(found - 1, prompts, marked, drawn))


def tied(
    reward: np.ndarray, group: np.ndarray, answer: np.ndarray, length: np.ndarray, *, where: str = ""
) -> Symptom | None:
    """The reward never differs within a prompt although responses do, and differs between prompts.

    A prompt counts if its rollouts give different answers. Where no answers are read, one counts whose responses have
    different lengths. Prompts of both kinds must be there: refused as a whole, and accepted as a whole.

    Args:
        reward: [n] NaN where there is none.
        group: [n]
        answer: [n] equal texts for equal answers to a prompt; None where there is none.
        length: [n] of the response.
    """
    table = pandas.DataFrame({"group": group, "reward": reward, "answer": answer, "length": length})
    table = table[table["reward"].notna()]
    by_prompt = table.groupby("group").agg(
        values=("reward", "nunique"), answers=("answer", "nunique"), lengths=("length", "nunique"),
        value=("reward", "first"), rows=("reward", "size"),
    )  # fmt: skip
    if (by_prompt["values"] > 1).any():
        return None
    differing = by_prompt[by_prompt["answers" if table["answer"].notna().any() else "lengths"] > 1]
    if len(differing) < LEAST_TIED or differing["value"].nunique() < 2:
        return None
    return Symptom(kind="tied", where=where, rows=int(differing["rows"].sum()), parts={"prompts": len(differing)})


def length_alone(
    reward: np.ndarray,
    group: np.ndarray,
    lengths: Mapping[str, np.ndarray],
    answer: np.ndarray,
    *,
    where: str = "",
    places: int = 1,
) -> Symptom | None:
    """One length parts accepted from refused responses, but for a hundredth of them.

    Args:
        reward: [n] NaN where there is none.
        group: [n]
        lengths: by the name of the unit [n] lengths, NaN where one is not known.
        answer: [n] equal texts for equal answers to a prompt; None where there is none.
    """
    best: Symptom | None = None
    for unit, length in lengths.items():
        known = ~np.isnan(length)
        verdicts = _verdicts(reward, known)
        if verdicts is None or _answers_explain(verdicts, group[known], answer[known]):
            continue
        order = np.argsort(length[known], kind="stable")
        sorted_lengths = length[known][order]
        accepted = verdicts[order]
        # A threshold lies behind a row whose successor is longer.
        ends = np.flatnonzero(np.diff(sorted_lengths) > 0)
        if not len(ends):
            continue
        accepted_up_to = np.cumsum(accepted)[ends]
        refused_up_to = ends + 1 - accepted_up_to
        short_accepted = refused_up_to + accepted.sum() - accepted_up_to
        exceptions = np.minimum(short_accepted, len(accepted) - short_accepted)
        place = int(exceptions.argmin())
        tests = 2 * len(ends) * places * len(lengths)
        if not _beyond_chance(verdicts, group[known], int(exceptions[place]), tests):
            continue
        if best is None or exceptions[place] < best.parts["exceptions"]:
            parts: dict[str, Any] = {
                "unit": unit,
                "at_most": float(sorted_lengths[ends[place]]),
                "short_accepted": bool(short_accepted[place] == exceptions[place]),
                "exceptions": int(exceptions[place]),
            }
            best = Symptom(kind="length", where=where, rows=len(accepted), parts=parts)
    return best


def truncation_alone(
    reward: np.ndarray,
    group: np.ndarray,
    truncated: np.ndarray,
    answer: np.ndarray,
    *,
    where: str = "",
    places: int = 1,
) -> Symptom | None:
    """Truncated responses are refused and all others accepted, or the other way round, but for a hundredth of them.

    Args:
        reward: [n] NaN where there is none.
        group: [n]
        truncated: [n] None where it is not known.
        answer: [n] equal texts for equal answers to a prompt; None where there is none.
    """
    known = ~pandas.isna(truncated)
    verdicts = _verdicts(reward, known)
    if verdicts is None or _answers_explain(verdicts, group[known], answer[known]):
        return None
    cut = truncated[known].astype(bool)
    if cut.all() or not cut.any():
        return None
    exceptions = int((verdicts == cut).sum())
    refused = exceptions <= len(verdicts) - exceptions
    exceptions = min(exceptions, len(verdicts) - exceptions)
    if not _beyond_chance(verdicts, group[known], exceptions, 2 * places):
        return None
    parts = {"truncated": int(cut.sum()), "truncated_refused": refused, "exceptions": exceptions}
    return Symptom(kind="truncation", where=where, rows=len(verdicts), parts=parts)


# --- what could be chance ---------------------------------------------------------------------------------------------


def _verdicts(reward: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Which rows that are known got the higher of two rewards; None where there are more values, or rows without."""
    values = np.unique(reward)
    if known.sum() < LEAST_ROWS or len(values) != 2 or np.isnan(values).any():
        return None
    return reward[known] == values[1]


def _answers_explain(accepted: np.ndarray, group: np.ndarray, answer: np.ndarray) -> bool:
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


def _beyond_chance(accepted: np.ndarray, group: np.ndarray, exceptions: int, tests: int) -> bool:
    """Whether verdicts that are shuffled within their prompts fit a rule as well in at most `LEVEL` of all orders.

    A rule that says the verdict of every row fits one order without exceptions, and at most sum_{j <= e} C(N, j) with
    e of them, of prod_g C(n_g, k_g) orders: n_g rows of the prompt, k_g of them accepted, N rows of prompts with both
    verdicts. Several rules share the level.
    """
    if exceptions > MOST_EXCEPTIONS * len(accepted):
        return False
    table = pandas.DataFrame({"group": group, "accepted": accepted}).groupby("group")["accepted"].agg(["size", "sum"])
    mixed = table[(table["sum"] > 0) & (table["sum"] < table["size"])]
    if not len(mixed):
        return False
    orders = _log_choose(mixed["size"].to_numpy(), mixed["sum"].to_numpy()).sum()
    fitting = logsumexp(_log_choose(mixed["size"].sum(), np.arange(min(exceptions, mixed["size"].sum()) + 1)))
    return bool(np.log(tests) + fitting - orders <= np.log(LEVEL))


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _gives_gold(rows: pandas.DataFrame) -> np.ndarray:
    """[n] whether the answer's normal form is that of the gold answer."""
    forms: dict[Any, str] = {}

    def form(text: Any) -> str | None:
        if not isinstance(text, str):
            return None
        if text not in forms:
            forms[text] = normal_form(text)
        return forms[text]

    pairs = zip(rows["final_answer"], rows["answer"], strict=True)
    return np.array([form(answer) == form(gold) and isinstance(gold, str) for answer, gold in pairs], dtype=bool)
