"""What an audit says of gold answers that look wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.console.numbers import counted, percent

Summary = Mapping[str, Any]

# How many of the first 20 gold answers were wrong in the files of benchmarks/wrong_golds.md, by the share of answers
# that were accepted: below the first number of a pair, the second.
_WRONG_OF_20 = ((0.4, 5), (0.5, 8), (0.6, 13))


def suspicious_golds(summary: Summary) -> str:
    """How many gold answers look wrong, what that rests on, and how far to trust it; empty where none is rivalled."""
    found = summary.get("suspicious_golds")
    if not found or not found["rivalled"]:
        return ""
    prompts = counted(found["problems"], "prompt")
    doubt = doubt_of_ranking(found)
    in_file = files_have_golds(summary)
    if found["suspicious"]:
        seems = "seems" if found["suspicious"] == 1 else "seem"
        fault = "to have a wrong gold answer" if in_file else "to be judged by a wrong gold answer"
        agreed = "another answer, which was refused" if in_file else "an answer that was refused"
        said = (
            f"{found['suspicious']:,} of {prompts} {seems} {fault}: most responses agree on {agreed}. "
            "The score compares how right and wrong answers agree in this file. A mistake that the model makes every "
            "time looks the same, so look at each."
        )
        return f"{said} {doubt}" if doubt else said
    rivalled = found["rivalled"]
    accepted = "the gold answer" if in_file else "any accepted one"
    said = f"On {rivalled:,} of {prompts} a refused answer is given more often than {accepted}."
    if doubt:
        judge = "the gold answer" if in_file else "the verifier"
        return f"{said} Whether {judge} or the model is wrong there cannot be told from the answers. {doubt}"
    return f"{said} By how right and wrong answers agree in this file, the model is rather wrong there."


def files_have_golds(summary: Summary) -> bool:
    """Whether a file of the audit holds gold answers: else only the verifier's own are spoken of; not known is yes."""
    known = summary.get("gold_answers")
    return known is None or known["golds"] > 0


def doubt_of_ranking(found: Mapping[str, Any]) -> str:
    """That wrong gold answers do not stand first in the ranking, where few answers are right; empty where they do.

    Args:
        found: `suspicious_golds` of the summary.
    """
    if found["trusted"]:
        return ""
    wrong = next(wrong for below, wrong in _WRONG_OF_20 if found["accepted"] < below)
    return (
        f"Do not trust the ranking: only {percent(found['accepted'])} of the answers were accepted. In a benchmark on "
        f"files with so few, {wrong} of the first 20 gold answers were wrong."
    )


def golds_table(summary: Summary, *, most: int) -> dict[str, list[str]]:
    """The most suspicious prompts as columns, by what stands above them."""
    rows = listed_golds(summary, most=most)
    table = {"prompt": [str(row["problem"]) for row in rows]}
    if files_have_golds(summary):
        table["gold"] = [row["gold"] or "-" for row in rows]
    table["proposed"] = [row["proposed"] or "-" for row in rows]
    table["agree"] = [f"{row['copies']:,} of {row['rollouts']:,}" for row in rows]
    table["score"] = [f"{row['score']:.2f}" for row in rows]
    if any(len(row["votes"]) > 1 for row in rows):
        table["accepted by"] = [_accepting(row["votes"]) for row in rows]
    return table


def listed_golds(summary: Summary, *, most: int) -> list[Mapping[str, Any]]:
    """The first prompts whose gold answers look wrong, as the summary has them."""
    found = summary.get("suspicious_golds")
    if not found:
        return []
    return [row for row in found["top"] if row["score"] >= found["least_score"]][:most]


def _accepting(votes: Mapping[str, Sequence[int]]) -> str:
    """The other verifiers that accept the proposed answer more often than not."""
    names = [name for name, (accepted, judged) in votes.items() if name != "reward" and 2 * accepted > judged]
    return ", ".join(names) or "none"
