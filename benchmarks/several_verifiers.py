"""Which of several verifiers is good, without labels: the model beside a majority and a weighted vote.

    python -m benchmarks.several_verifiers --data FOLDER --seeds 20

Generated tables have five verifiers, of which three share a wrong belief on many answers. Their majority is wrong where
it matters. `FOLDER` holds the real tables of `benchmarks.checked_rates`; those with answers are used, GSM8K and MATH.

Three ways to guess what is right, from which both error rates of each verifier follow:

- the model of `geoalign.noise.several_verifiers`, its best mode;
- a majority of the verifiers on each answer;
- Dawid and Skene (1979): every verifier errs by itself, at rates that are fitted together with the truth.

A ranking is by balanced accuracy; Kendall's tau compares it with the one by the truth. The errors are the mean absolute
differences of the guessed from the true rates over the verifiers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import torch
from scipy.stats import kendalltau

from benchmarks.verifier_rates import judged_solutions
from geoalign.answers import answers_by_class
from geoalign.answers.equivalence import EqualAnswers
from geoalign.audit.several_verifiers.judged_rows import JudgedRows, judged_by_all
from geoalign.audit.several_verifiers.model import told_apart, verdict_units, why_no_model
from geoalign.audit.several_verifiers.ranking import places_of
from geoalign.noise.several_verifiers import VerdictUnits, verifier_modes

_ROUNDS = 200
_DOUBTFUL_GOLD = "4:30p.."


@dataclass(frozen=True, eq=False)
class World:
    """Units with verdicts, and the truth: [U] whether each is right."""

    name: str
    units: VerdictUnits
    right: np.ndarray
    names: list[str]


def colluding(seed: int, *, prompts: int = 200, size: int = 8) -> World:
    """Three verifiers that share a wrong belief on many answers, and two that err each by itself."""
    rng = np.random.default_rng(seed)
    prompt: list[int] = []
    copies: list[int] = []
    truth: list[bool] = []
    for number in range(prompts):
        wrong_answers = 1 + rng.choice(4, size, p=rng.dirichlet(np.full(4, 0.5)))
        answers = np.where(rng.random(size) < rng.beta(1.5, 1.5), 0, wrong_answers)
        for answer, count in zip(*np.unique(answers, return_counts=True), strict=True):
            prompt.append(number)
            copies.append(int(count))
            truth.append(bool(answer == 0))
    right = np.array(truth)
    belief = right ^ (rng.random(len(right)) < np.where(right, 0.15, 0.3))
    verdicts = [belief ^ (rng.random(len(right)) < noise) for noise in (0.02, 0.05, 0.08)]
    verdicts += [right ^ (rng.random(len(right)) < np.where(right, fnr, fpr)) for fpr, fnr in ((0.1, 0.05), (0.2, 0.1))]
    units = VerdictUnits(
        verdicts=torch.tensor(np.stack(verdicts, axis=1), dtype=torch.float64),
        prompts=torch.tensor(prompt),
        copies=torch.tensor(copies),
        sizes=torch.full((len(right),), size),
    )
    names = ["colluding 1", "colluding 2", "colluding 3", "alone 1", "alone 2"]
    return World(f"generated, {prompts} prompts", units, right, names)


def real(data: Path) -> Iterator[World]:
    """GSM8K and MATH, judged by eight rules; MATH also by a reward model."""
    for name, table, verdicts in judged_solutions(data):
        yield world_of(name, table, verdicts)
        if name == "MATH":
            # All eight responses say 4:30, and were graded as wrong beside the gold answer 4:30 p.m.
            kept = (table["gold"] != _DOUBTFUL_GOLD).to_numpy()
            rest = {verifier: column[kept] for verifier, column in verdicts.items()}
            yield world_of("MATH without 4:30", table[kept].reset_index(drop=True), rest)


def world_of(name: str, table: pandas.DataFrame, verdicts: dict[str, np.ndarray]) -> World:
    """The units as the audit makes them, with the share of right rollouts of each, rounded, as the truth."""
    spelt = table["final_answer"].astype(object).where(table["final_answer"].notna(), None)
    with closing(EqualAnswers()) as equal:
        answers = answers_by_class(spelt.tolist(), table["group"].tolist(), equal)
    compared = pandas.Series(answers, index=table.index, dtype=object)
    frame = table.assign(compared_answer=compared, exclusive=True, key=range(len(table)), label=np.nan, reward=np.nan)
    frame = frame.assign(**{f"verdict.{verifier}": column.astype(float) for verifier, column in verdicts.items()})
    judged: JudgedRows = judged_by_all(frame, exclusive=True)
    reason = why_no_model(judged)
    assert reason is None, reason
    units = verdict_units(judged, judged.names, seed=0)
    kept = judged.answered
    right = pandas.Series(table["right"].to_numpy(dtype=float)[kept]).groupby(judged.unit[kept]).mean() > 0.5
    return World(name, units, right.to_numpy(), judged.names)


def rates(units: VerdictUnits, chance_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[K] both error rates of each verifier if units are right with these chances."""
    copies = units.copies.numpy()[:, None]
    verdicts = units.verdicts.numpy()
    right = copies * chance_right[:, None]
    wrong = copies * (1 - chance_right[:, None])
    return (wrong * verdicts).sum(axis=0) / wrong.sum(axis=0), (right * (1 - verdicts)).sum(axis=0) / right.sum(axis=0)


def majority(units: VerdictUnits) -> np.ndarray:
    return (units.verdicts.mean(dim=1).numpy() > 0.5).astype(float)


def dawid_skene(units: VerdictUnits) -> np.ndarray:
    """[U] the chance of being right by expectation maximisation, begun at the share of verifiers that accept."""
    verdicts = units.verdicts.numpy()
    weights = units.copies.numpy().astype(float)
    chance = verdicts.mean(axis=1)
    for _ in range(_ROUNDS):
        logs = []
        for kind in (1 - chance, chance):
            weight = weights * kind
            accepting = np.clip((weight @ verdicts + 0.5) / (weight.sum() + 1), 1e-6, 1 - 1e-6)
            by_verifier = verdicts * np.log(accepting) + (1 - verdicts) * np.log(1 - accepting)
            logs.append(by_verifier.sum(axis=1) + np.log(weight.sum() / weights.sum()))
        chance = 1 / (1 + np.exp(np.clip(logs[0] - logs[1], -500, 500)))
    return chance


def measured(world: World) -> list[dict[str, object]]:
    """A row for each way to guess."""
    true_rates = rates(world.units, world.right.astype(float))
    modes = verifier_modes(world.units)
    guesses = {
        "model": rates(world.units, modes[0].chance_right.detach().numpy()),
        "majority": rates(world.units, majority(world.units)),
        "Dawid-Skene": rates(world.units, dawid_skene(world.units)),
    }
    truth = 1 - (true_rates[0] + true_rates[1]) / 2
    rows: list[dict[str, object]] = []
    for way, guess in guesses.items():
        accuracy = 1 - (guess[0] + guess[1]) / 2
        rows.append(
            {
                "table": world.name,
                "by": way,
                "tau": float(kendalltau(truth, accuracy).statistic),
                "fpr_error": float(np.abs(guess[0] - true_rates[0]).mean()),
                "fnr_error": float(np.abs(guess[1] - true_rates[1]).mean()),
            }
        )
    rows[0]["modes"] = len(modes)
    rows[0] |= _printed_ranking(world, modes, truth)
    return rows


def _printed_ranking(world: World, modes: list, truth: np.ndarray) -> dict[str, object]:
    """Kendall's tau with the ties that are printed, and how many pairs are told apart, and of these rightly."""
    apart = told_apart(world.units, modes)
    accuracy = modes[0].balanced_accuracies.numpy()
    order = sorted(range(len(accuracy)), key=lambda place: -accuracy[place])
    names = [world.names[place] for place in order]
    places = places_of(names, ~apart[np.ix_(order, order)])
    rank = {name: -number for number, tied in enumerate(places) for name in tied}
    ranks = np.array([rank[name] for name in world.names])
    told = 0
    rightly = 0
    for one in range(len(ranks)):
        for other in range(one):
            if ranks[one] != ranks[other]:
                told += 1
                rightly += (ranks[one] > ranks[other]) == (truth[one] > truth[other])
    return {"tau_with_ties": float(kendalltau(truth, ranks).statistic), "told": told, "rightly": rightly}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of verdicts with known truth")
    parser.add_argument("--seeds", type=int, default=20, help="generated tables of each size")
    parser.add_argument("--prompts", type=int, nargs="+", default=[50, 200], help="prompts of a generated table")
    options = parser.parse_args()
    rows = []
    for prompts in options.prompts:
        for seed in range(options.seeds):
            rows += measured(colluding(seed, prompts=prompts))
    if options.data is not None:
        for world in real(options.data):
            rows += measured(world)
    frame = pandas.DataFrame(rows)
    worst = frame.groupby(["table", "by"], sort=False)["tau"].min()
    shown = frame.groupby(["table", "by"], sort=False).mean(numeric_only=True).assign(least_tau=worst)
    with pandas.option_context("display.width", 200, "display.max_columns", 20):
        print(shown.round(3).to_string())


if __name__ == "__main__":
    main()
