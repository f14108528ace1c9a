"""How well wrong gold answers are found: made files in which some gold answers were replaced, and it is known which.

    python -m benchmarks.wrong_golds --files 20
    python -m benchmarks.wrong_golds --files 20 --choose    # the seeds on which constants were chosen

A policy answers 2,000 prompts, and of some the gold answer is replaced by a wrong one. The verifier compares answers
with the gold answer, and errs in some of its verdicts besides. Of each ranking the first 20 prompts are looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas

from geoalign.audit.golds import SUSPICIOUS, suspicions

PROMPTS = 2000
# Mean shares of right answers of the policies.
STRENGTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.85)
SHARES = (0.05, 0.1)
# A wrong gold answer is one that the policy might give, or the one that it gives most often beside the right one.
KINDS = ("plausible", "rival")
# Shares of verdicts that err at random.
FLIPS = (0.0, 0.1)
# How various wrong answers are (theta in noise/gold_answers.py), and on what share of the prompts: between what is
# fitted to solutions of GSM8K, whose wrong answers agree less, and of MATH, whose agree more.
VARIETY = {0.1: 0.05, 0.3: 0.1, 1.0: 0.2, 3.0: 0.25, 10.0: 0.25, 30.0: 0.15}
AT = 20
# The ends of the ranges of accepted shares, by which the audit says how far to trust its ranking.
ACCEPTED = (0.0, 0.4, 0.5, 0.6, 1.0)


@dataclass(frozen=True)
class MadeFile:
    """A file: `table` as `suspicions` reads it, gold answers, and which of them are wrong."""

    table: pandas.DataFrame
    golds: list[str]
    wrong: np.ndarray


def made_file(rng: np.random.Generator, *, strength: float, share: float, kind: str, flips: float) -> MadeFile:
    """8 or 16 rollouts a prompt; answer 0 is right.

    How easy a prompt is, and how far wrong answers agree on it, differs from prompt to prompt. On one prompt in twenty
    nearly all wrong answers are one common mistake.
    """
    size = int(rng.choice([8, 16]))
    concentration = rng.uniform(1, 3)
    ease = rng.beta(strength * concentration, (1 - strength) * concentration, PROMPTS)
    variety = rng.choice(list(VARIETY), PROMPTS, p=list(VARIETY.values()))
    rows = []
    golds = []
    wrong = rng.random(PROMPTS) < share
    for prompt in range(PROMPTS):
        # Shares of thirty wrong answers, as sticks are broken.
        broken = rng.beta(1, variety[prompt], 30)
        shares = broken * np.cumprod(np.append(1, 1 - broken[:-1]))
        shares /= shares.sum()
        answers = np.where(rng.random(size) < ease[prompt], 0, 1 + rng.choice(30, size, p=shares))
        gold = 0
        if wrong[prompt]:
            counts = np.bincount(answers, minlength=31)[1:]
            drawn = 1 + rng.choice(30, p=shares)
            gold = int(1 + counts.argmax()) if kind == "rival" and counts.any() else int(drawn)
        accepted = (answers == gold) ^ (rng.random(size) < flips)
        rows += [(prompt, str(answer), float(verdict)) for answer, verdict in zip(answers, accepted, strict=True)]
        golds.append(str(gold))
    return MadeFile(pandas.DataFrame(rows, columns=["problem", "answer", "reward"]), golds, wrong)


# --- rankings: a score for each prompt, the most suspicious the highest -----------------------------------------------

Ranking = Callable[[MadeFile], np.ndarray]


def ours(file: MadeFile) -> np.ndarray:
    """The score of `geoalign audit`."""
    found = suspicions(file.table, file.golds)
    return found.set_index("problem")["score"].reindex(range(PROMPTS)).fillna(-1).to_numpy()


def shares_of(file: MadeFile) -> tuple[np.ndarray, np.ndarray]:
    """Of each prompt the shares of the gold answer and of the most frequent other one."""
    counts = pandas.crosstab(file.table["problem"], file.table["answer"].astype(int)).reindex(columns=range(31))
    shares = counts.fillna(0).to_numpy() / counts.sum(axis=1).to_numpy()[:, None]
    golds = np.array(file.golds, dtype=int)
    gold = shares[np.arange(PROMPTS), golds].copy()
    shares[np.arange(PROMPTS), golds] = 0
    return gold, shares.max(axis=1)


def majority(file: MadeFile) -> np.ndarray:
    """The majority disagrees: the share of the most frequent answer, where it is not the gold answer."""
    gold, other = shares_of(file)
    return np.where(other > gold, other, -1)


def confident_learning(file: MadeFile) -> np.ndarray:
    """Cleanlab's rule, with the shares of the answers for the probabilities of classes.

    The policy has not seen the gold answers, so that these are out of sample. A label is an issue where its probability
    lies below the threshold of its class, and that of another reaches it: the mean probability of the labels, for
    answers are no classes that come again. Issues are ranked by the probability of the label, the lowest first; what
    it leaves equal, and that is much, by that of the other answer.
    """
    gold, other = shares_of(file)
    threshold = gold.mean()
    return np.where((gold < threshold) & (other >= threshold), 2 - gold + other / 1000, -1)


def confident_margin(file: MadeFile) -> np.ndarray:
    """The same issues by cleanlab's normalised margin: the other answer's probability less the label's."""
    gold, other = shares_of(file)
    threshold = gold.mean()
    return np.where((gold < threshold) & (other >= threshold), 2 + other - gold, -1)


RANKINGS: dict[str, Ranking] = {
    "geoalign": ours,
    "majority": majority,
    "cleanlab": confident_learning,
    "cleanlab, margin": confident_margin,
}


def precision(score: np.ndarray, wrong: np.ndarray, rng: np.random.Generator) -> float:
    """The share of wrong gold answers among the first 20; ties in an order of chance."""
    order = np.lexsort((rng.random(len(score)), -score))
    return float(wrong[order[:AT]].mean())


def measured(*, files: int, first: int) -> pandas.DataFrame:
    """A row for each file and ranking: `strength`, `share`, `kind`, `flips`, `accepted` (the share of rollouts, which
    needs no label), `ranking`, `precision`; for ours also `precision_above` and `found_above`, of all prompts above the
    threshold of an export."""
    found = []
    for strength in STRENGTHS:
        for share in SHARES:
            for kind in KINDS:
                for number in range(first, first + files):
                    flips = FLIPS[number % len(FLIPS)]
                    rng = np.random.default_rng([number, int(100 * strength), int(100 * share), len(kind)])
                    file = made_file(rng, strength=strength, share=share, kind=kind, flips=flips)
                    accepted = file.table["reward"].mean()
                    for name, ranking in RANKINGS.items():
                        score = ranking(file)
                        above = score >= SUSPICIOUS
                        row = (strength, share, kind, flips, accepted, name, precision(score, file.wrong, rng))
                        kept = file.wrong[above].mean() if above.any() else np.nan
                        found.append((*row, kept, above[file.wrong].mean()))
    facts = ["strength", "share", "kind", "flips", "accepted"]
    measures = ["ranking", "precision", "precision_above", "found_above"]
    return pandas.DataFrame(found, columns=[*facts, *measures])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=20, help="files of each kind")
    parser.add_argument("--choose", action="store_true", help="the seeds on which constants were chosen")
    options = parser.parse_args()
    table = measured(files=options.files, first=10_000 if options.choose else 0)
    table["accepted"] = pandas.cut(table["accepted"], ACCEPTED, right=False).astype(str)
    with pandas.option_context("display.width", 160):
        for by in (["strength"], ["accepted"], ["share", "kind"], ["flips"], ["strength", "share", "kind"], []):
            rows = table.pivot_table(index=by or None, columns="ranking", values="precision") if by else None
            print(rows.round(3) if rows is not None else table.groupby("ranking")["precision"].mean().round(3))
        own = table[table["ranking"] == "geoalign"]
        print(own.groupby("accepted")["precision"].describe().round(3))
        print(own.groupby("accepted")[["precision_above", "found_above"]].mean().round(3))
        print(own.groupby(["strength", "share"])[["precision_above", "found_above"]].mean().round(3))
        print(own[["precision_above", "found_above"]].mean().round(3))


if __name__ == "__main__":
    main()
