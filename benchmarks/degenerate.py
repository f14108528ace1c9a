"""How often `geoalign audit` calls a verifier degenerate that is not, and one that is: made files.

python -m benchmarks.degenerate --files 500
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas

from geoalign.audit.degenerate.findings import degenerate_findings

Judged = Callable[[pandas.DataFrame, np.random.Generator], np.ndarray]


def policy(rng: np.random.Generator, *, answers: bool) -> pandas.DataFrame:
    """Responses of a policy of any strength to 10 to 200 prompts of one to four environments of different ease.

    Wrong responses are longer than right ones, by another factor in each file; those above a limit are cut off, and
    then have no answer and are wrong.
    """
    prompts = int(rng.integers(10, 201))
    size = int(rng.choice([4, 8, 16]))
    group = np.repeat(np.arange(prompts), size)
    environment = rng.integers(0, rng.integers(1, 5), prompts)
    ease = rng.uniform(0.05, 0.95, 4)
    concentration = rng.uniform(0.5, 4)
    chance = rng.beta(ease[environment] * concentration, (1 - ease[environment]) * concentration)
    right = rng.random(len(group)) < chance[group]
    longer = rng.uniform(0, 1.5)
    length = rng.lognormal(5 + longer * ~right + rng.normal(0, 0.5, prompts)[group], rng.uniform(0.2, 0.8)).round()
    limit = np.quantile(length, rng.uniform(0.8, 1.0))
    cut = length >= limit
    right &= ~cut
    answer = np.where(right, "0", rng.integers(1, rng.integers(2, 10), len(group)).astype(str)).astype(object)
    answer[cut] = None
    if not answers:
        answer[:] = None
    return pandas.DataFrame({
        "group": group, "right": right, "compared_answer": answer, "final_answer": answer,
        "gold_answers": [()] * len(group), "exclusive": True,
        "characters": np.minimum(length, limit), "tokens": np.nan, "truncated": cut.astype(object),
        "origin": [{"data_source": str(number)} for number in environment[group]],
    })  # fmt: skip


def exact(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """The truth."""
    return rows["right"].to_numpy(dtype=float)


def noisy(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """The truth, but for up to a fifth of the verdicts; one reward in a hundred is missing."""
    verdict = rows["right"].to_numpy() ^ (rng.random(len(rows)) < rng.uniform(0, 0.2))
    return np.where(rng.random(len(rows)) < 0.01, np.nan, verdict.astype(float))


def by_length(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Accepts what is short."""
    return (rows["characters"] <= rows["characters"].quantile(rng.uniform(0.3, 0.7))).to_numpy(dtype=float)


def by_truncation(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Accepts what is not cut off."""
    return 1.0 - rows["truncated"].to_numpy(dtype=float)


def by_prompt(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Gives all responses to a prompt the verdict on the first."""
    return rows.groupby("group")["right"].transform("first").to_numpy(dtype=float)


def refuses_a_source(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """The truth, but one data source is refused."""
    source = rows["origin"].str["data_source"]
    return np.where(source == source.iloc[0], 0.0, rows["right"])


def fails_on_a_source(rows: pandas.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """The truth, but a third of the rewards of one data source are missing."""
    source = rows["origin"].str["data_source"]
    return np.where((source == source.iloc[0]) & (rng.random(len(rows)) < 0.3), np.nan, rows["right"])


HEALTHY: dict[str, Judged] = {"the truth": exact, "noisy verdicts": noisy}
FAULTS: dict[str, tuple[str, Judged]] = {
    "accepts what is short": ("length", by_length),
    "accepts what is not cut off": ("truncation", by_truncation),
    "one verdict a prompt": ("tied", by_prompt),
    "refuses one data source": ("one_value", refuses_a_source),
    "fails on one data source": ("unscored", fails_on_a_source),
}


def kinds(judged: Judged, *, files: int, answers: bool) -> Counter[str]:
    """In how many files each symptom is named."""
    found: Counter[str] = Counter()
    for number in range(files):
        rng = np.random.default_rng([number, answers])
        rows = policy(rng, answers=answers)
        rows["reward"] = judged(rows, rng)
        found.update({finding["kind"] for finding in degenerate_findings(rows)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=500, help="files of each kind")
    files = parser.parse_args().files
    for answers in (True, False):
        print("with answers" if answers else "without answers")
        for name, judged in HEALTHY.items():
            print(f"  {name}: {dict(kinds(judged, files=files, answers=answers))} of {files}")
        for name, (kind, judged) in FAULTS.items():
            found = kinds(judged, files=files, answers=answers)
            print(f"  {name}: {kind} named in {found[kind]}; all: {dict(found)}", flush=True)


if __name__ == "__main__":
    main()
