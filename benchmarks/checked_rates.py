"""How often an interval from a few checked rows holds, and how short it is beside the labels alone.

    python -m benchmarks.checked_rates --data FOLDER --draws 500

`FOLDER` holds real verdicts with known truth; what is not there is left out:

| in FOLDER | where it is from |
|---|---|
| `gsm8k_solutions.jsonl`, `math_cot_100.jsonl` | as `benchmarks.verifier_rates` says |
| `rewardmath` | `results` of github.com/kimsh0507/RewardMATH_official at cde06ab: reward models and judges |
| `llmbar` | `Dataset/LLMBar` of github.com/princeton-nlp/LLMBar at 900616b: judges of pairs |
| `humaneval_codegen16b.jsonl` | 16 programs of CodeGen-16B to each of 99 problems, with the asserts they pass (CodeT) |

Every verifier of a table is judged in turn, with the other verdicts and the answer's share of its group as features. A
draw picks rows uniformly, reads their labels, and computes both rates.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas

from benchmarks.verifier_rates import judged_solutions
from geoalign.checks.anytime import anytime_intervals
from geoalign.checks.prediction import cross_predictions
from geoalign.checks.rates import CheckedRate, modified_wilson, rates_from_prediction

CHECKS = (25, 50, 100, 200)
# Verdicts on a scale from 1 to 10 or 5 accept from here on; a reward model accepts its highest fifth.
_ACCEPTED_SCORE = 0.8


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that several verifiers judged, with the truth.

    Attributes:
        verdicts: [N, K] by verifier.
        right: [N] the truth.
        features: [N, F] what else tells right from wrong without a label.
        right_share: a guess of the share of right rows from the answers alone; None without answers.
    """

    name: str
    verdicts: pandas.DataFrame
    right: np.ndarray
    features: np.ndarray
    right_share: float | None


def with_answers(name: str, table: pandas.DataFrame, verdicts: dict[str, np.ndarray]) -> Table:
    """A table whose rows have a group and a final answer: the share of the answer in its group is a feature."""
    counts = table.groupby(["group", "final_answer"])["right"].transform("size").fillna(0)
    shares = counts / table.groupby("group")["right"].transform("size")
    most_frequent = counts.groupby(table["group"]).max().sum() / len(table)
    right = table["right"].to_numpy(dtype=bool)
    return Table(name, pandas.DataFrame(verdicts), right, shares.to_numpy()[:, None], float(most_frequent))


def without_answers(name: str, rows: pandas.DataFrame, right: np.ndarray) -> Table:
    """A table of verdicts alone; rows that some verifier did not judge are left out."""
    judged = rows.notna().all(axis=1).to_numpy()
    verdicts = rows[judged].astype(bool).reset_index(drop=True)
    return Table(name, verdicts, right[judged], np.zeros((int(judged.sum()), 0)), None)


def answer_tables(data: Path) -> Iterator[Table]:
    for name, table, verdicts in judged_solutions(data):
        yield with_answers(name, table, verdicts)


def rewardmath_tables(data: Path) -> Iterator[Table]:
    """Ten solutions of a problem, of which the first is right, by reward models and by judges; RewardBench's pairs."""
    folder = data / "rewardmath"
    scores: dict[str, dict[str, pandas.Series]] = {"models": {}, "judges": {}, "pairs": {}}
    for path in sorted(folder.glob("*/*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = {}
        for row in rows:
            for place, score in enumerate(row.get("score", [])):
                found[row["problem"], place] = score if isinstance(score, (int, float)) else np.nan
        series = pandas.Series(found, dtype=float)
        whole = bool((series.dropna() == series.dropna().round()).all())
        kind = "pairs" if path.parent.name == "Rewardbench" else "judges" if whole else "models"
        scores[kind][path.stem] = series
    for kind, columns in scores.items():
        if not columns:
            continue
        frame = pandas.DataFrame(columns)
        frame = frame.loc[:, frame.notna().mean() > 0.9]
        quantile = 0.5 if kind == "pairs" else _ACCEPTED_SCORE
        accepted = (frame > frame.quantile(quantile)).where(frame.notna())
        right = frame.index.get_level_values(1).to_numpy() == 0
        yield without_answers(f"RewardMATH, {kind}", accepted, right)


def llmbar_table(data: Path) -> Iterator[Table]:
    """Judges that say which of two responses is better: each response of a pair is a row, right if people prefer it."""
    columns: dict[str, dict[tuple[str, int, str], bool]] = {}
    labels: dict[tuple[str, int, str], bool] = {}
    for path in sorted((data / "llmbar").glob("**/Vanilla/result.json")):
        for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            for side in ("1", "2"):
                place = (path.parts[-5], number, side)
                labels[place] = str(row["label"]) == side
                winner = row["results"][0]["swap = False"]["winner"]
                columns.setdefault(path.parts[-3], {})[place] = str(winner) == side
    if columns:
        frame = pandas.DataFrame({judge: pandas.Series(found) for judge, found in columns.items()}).astype(object)
        right = pandas.Series(labels).reindex(frame.index).to_numpy(dtype=bool)
        yield without_answers("LLMBar", frame, right)


def codet_table(data: Path) -> Iterator[Table]:
    """Programs with ten asserts that the model wrote itself. Each assert is a verifier, and each share too."""
    path = data / "humaneval_codegen16b.jsonl"
    if not path.is_file():
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if len(row["passed"]) == 10]
    passed = np.array([[mark == "1" for mark in row["passed"]] for row in rows])
    verdicts = {f"assert {number}": passed[:, number] for number in range(5)}
    verdicts |= {f"{share} of ten": passed.sum(axis=1) >= share for share in (3, 6, 9)}
    table = pandas.DataFrame(
        {
            "group": [row["group"] for row in rows],
            "final_answer": [row["response"] for row in rows],
            "right": [row["correct"] for row in rows],
        }
    )
    yield with_answers("HumanEval", table, verdicts)


def tables(data: Path) -> Iterator[Table]:
    yield from answer_tables(data)
    yield from rewardmath_tables(data)
    yield from llmbar_table(data)
    yield from codet_table(data)


def predictions(
    table: Table, verifier: str, checked: np.ndarray, *, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """[N] P(right) by the features, by chance, and the reverse of what the features say."""
    others = table.verdicts.drop(columns=verifier).to_numpy(dtype=float)
    features = np.column_stack([table.verdicts[verifier].to_numpy(dtype=float), others, table.features])
    by_features = cross_predictions(features, checked, table.right[checked], generator=generator)
    return {"features": by_features, "random": generator.random(len(table.right)), "inverted": 1 - by_features}


def holds(rate: CheckedRate, truth: float) -> bool:
    return rate.low - 1e-9 <= truth <= rate.high + 1e-9


def measured(table: Table, *, draws: int) -> pandas.DataFrame:
    """One row a verifier, rate, prediction and number of checks: coverage, and width beside labels alone."""
    guesses = table.verdicts.mean().tolist() + ([] if table.right_share is None else [table.right_share])
    found = []
    for verifier in table.verdicts:
        accepted = table.verdicts[verifier].to_numpy(dtype=bool)
        truths = {"FPR": accepted[~table.right].mean(), "FNR": (~accepted)[table.right].mean()}
        for count in CHECKS:
            for draw in range(draws):
                generator = np.random.default_rng([draw, count])
                checked = generator.choice(len(table.right), count, replace=False)
                for kind, chance in predictions(table, verifier, checked, generator=generator).items():
                    rates = rates_from_prediction(accepted, checked, table.right[checked], chance, right_shares=guesses)
                    both = {"FPR": rates.false_positive_rate, "FNR": rates.false_negative_rate}
                    for name, rate in both.items():
                        low, high = modified_wilson(rate.errors, rate.checked)
                        found.append((
                            table.name, verifier, name, kind, count, holds(rate, truths[name]), rate.high - rate.low,
                            high - low, rate.method,
                        ))  # fmt: skip
    names = ["table", "verifier", "rate", "prediction", "checks", "holds", "width", "labels_alone", "method"]
    frame = pandas.DataFrame(found, columns=names)
    by = names[:5]
    summed = frame.groupby(by, sort=False).agg(
        holds=("holds", "mean"), width=("width", "mean"), labels_alone=("labels_alone", "mean"),
        powered=("method", lambda methods: (methods == "prediction-powered").mean()),
    )  # fmt: skip
    return summed.assign(ratio=summed["width"] / summed["labels_alone"]).reset_index()


def anytime_coverage(table: Table, *, draws: int) -> float:
    """The share of draws of 200 checks in which every interval of the way holds, over verifiers and both rates."""
    held = []
    for verifier in table.verdicts:
        accepted = table.verdicts[verifier].to_numpy(dtype=bool)
        for in_class, error in ((~table.right, accepted), (table.right, ~accepted)):
            truth = error[in_class].mean()
            for draw in range(draws):
                checked = np.random.default_rng([draw, 1]).choice(len(table.right), CHECKS[-1], replace=False)
                ends = anytime_intervals(in_class[checked], error[checked], rows=len(table.right))
                # The ends lie on a grid of rates.
                held.append(bool(((ends[:, 0] <= truth + 5e-4) & (truth - 5e-4 <= ends[:, 1])).all()))
    return float(np.mean(held))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of verdicts with known truth")
    parser.add_argument("--draws", type=int, default=500, help="draws of checked rows for each verifier")
    parser.add_argument("--anytime", type=int, default=10, help="draws for the intervals that always hold")
    parser.add_argument("--output", type=Path, help="CSV with a row for every verifier, rate, prediction and number")
    options = parser.parse_args()
    parts = []
    for table in tables(options.data):
        part = measured(table, draws=options.draws)
        parts.append(part)
        for (kind, count), rows in part.groupby(["prediction", "checks"], sort=False):
            shown = []
            for rate, ratio in rows.groupby("rate")["ratio"]:
                shown.append(f"{rate} {ratio.mean():.2f} (at most {ratio.max():.2f})")
            print(
                f"{table.name}, {kind}, {count} checks: holds {rows['holds'].mean():.1%} "
                f"(worst {rows['holds'].min():.1%}); width beside labels alone: {', '.join(shown)}",
                flush=True,
            )
        if options.anytime:
            print(f"{table.name}, at every moment: {anytime_coverage(table, draws=options.anytime):.1%}", flush=True)
    if options.output:
        pandas.concat(parts).round(4).to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
