"""How often what an audit claims of a verifier's error rates holds: real verifiers, and made ones whose errors repeat.

    python -m benchmarks.verifier_rates --worlds 20 --data FOLDER --claims evidence/verifier_rates.json

`FOLDER` holds `gsm8k_solutions.jsonl` (`example_model_solutions.jsonl` of github.com/openai/grade-school-math) and
`math_cot_100.jsonl` (of `evaluation/data/eval_rm_maj_example` in github.com/QwenLM/Qwen2.5-Math); what is not there is
left out. `--claims` keeps every claim with the truth, from which verifier_rates.md and the pages on evidence count.

    python -m benchmarks.verifier_rates --coins 40

simulates so many coins in each of 36 settings, and counts how many pass the test against chance.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas
import torch
from tools.evidence.audit import Claim

from geoalign import Rollouts
from geoalign.answers.boxed import boxed_answer
from geoalign.audit.verdicts import VerdictAudit
from geoalign.method.groups import canonical_order
from geoalign.noise.error_rates import LEAST_GAIN_OF_RATES, patterns_in
from geoalign.noise.rows import noisy_rows

RATES = ("false_positive_rate", "false_negative_rate")
RECIPE = Path(__file__).parents[1] / "recipes" / "rollouts" / "substring_reward.jsonl"
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


# --- what is claimed, and the truth -----------------------------------------------------------------------------------


def claims(kind: str, name: str, frame: pandas.DataFrame) -> list[Claim]:
    """Of a table with columns `group`, `response`, `final_answer`, `reward` and `right`, the truth."""
    audit = VerdictAudit()
    audit.add(frame.assign(step=0, answer=""))
    rates = audit.summary().get("rates") or {}
    right, rewarded = frame["right"].to_numpy(dtype=bool), frame["reward"].to_numpy() > 0
    truths = {RATES[0]: rewarded[~right], RATES[1]: ~rewarded[right]}
    found = []
    for rate, errors in truths.items():
        if rate in rates and rates[rate]["low"] is not None:
            truth = float(errors.mean()) if len(errors) else None
            claimed = rates[rate]
            found.append(
                Claim(
                    table=kind,
                    name=name,
                    rate=rate,
                    truth=truth,
                    low=claimed["low"],
                    high=claimed["high"],
                    by=claimed["by"],
                )
            )
    return found


# --- real solutions, judged by real verifiers -------------------------------------------------------------------------


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    return [float(found.replace(",", "").rstrip(".")) for found in _NUMBER.findall(text)]


def last_number(text: str) -> float:
    """The last number in a text; NaN without one."""
    return (numbers(text) or [math.nan])[-1]


def gsm8k(path: Path) -> pandas.DataFrame:
    """Four solutions of each of 1,319 problems, right where the number behind `A:` is the gold one."""
    rows = []
    for group, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        problem = json.loads(line)
        gold = last_number(problem["ground_truth"].split("A:")[-1])
        for model in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"):
            response = problem[model]["solution"]
            raw = response.split("A:")[-1].strip() if "A:" in response else ""
            value = last_number(raw)
            answer = None if math.isnan(value) else repr(value)
            rows.append((group, response, raw, answer, f"{gold:g}", value == gold))
    return pandas.DataFrame(rows, columns=["group", "response", "raw", "final_answer", "gold", "right"])


def maths(path: Path) -> pandas.DataFrame:
    """Eight solutions of each of 100 problems of MATH, with a reward model's scores; right as their authors graded."""
    rows = []
    for group, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        problem = json.loads(line)
        solutions = zip(problem["response"], problem["pred"], problem["score"], problem["pred_score"], strict=True)
        for response, answer, right, score in solutions:
            rows.append((group, response, boxed_answer(response) or "", answer or None, problem["gt"], right, score[0]))
    names = ["group", "response", "raw", "final_answer", "gold", "right", "score"]
    return pandas.DataFrame(rows, columns=names)


def recipe() -> pandas.DataFrame:
    """The example of recipes/rollouts, with its own verdicts."""
    rows = [json.loads(line) for line in RECIPE.read_text(encoding="utf-8").splitlines()]
    groups = pandas.factorize(pandas.Series([row["prompt"] for row in rows]))[0]
    table = pandas.DataFrame(rows).assign(group=groups).rename(columns={"correct": "right"})
    answers = [boxed_answer(response) for response in table["response"]]
    return table.assign(final_answer=pandas.Series(answers, dtype=object), reward=table["reward"].astype(float))


def normal(text: str) -> str:
    """A spelling without spaces, `\\dfrac` and units in `\\text`."""
    return re.sub(r"\\text\{[^}]*\}|\s|\$", "", text.replace("dfrac", "frac"))


Verifier = Callable[[pandas.Series], bool]
VERIFIERS: dict[str, Verifier] = {
    "string": lambda row: row["raw"] == row["gold"],
    "normal form": lambda row: normal(row["raw"]) == normal(row["gold"]),
    "last number": lambda row: last_number(row["response"]) == last_number(row["gold"]),
    "substring": lambda row: row["gold"] in row["response"],
    "any number": lambda row: last_number(row["gold"]) in numbers(row["response"]),
    "within 10%": lambda row: _near(last_number(row["raw"]), last_number(row["gold"]), 0.1),
    "rounded to tens": lambda row: _tens(last_number(row["raw"])) == _tens(last_number(row["gold"])),
    "first digit": lambda row: row["raw"] != "" and row["raw"][:1] == row["gold"][:1],
}


def _near(value: float, gold: float, share: float) -> bool:
    return abs(value - gold) <= share * abs(gold)


def _tens(value: float) -> float:
    return math.nan if math.isnan(value) else round(value / 10)


def real_tables(data: Path | None) -> Iterator[tuple[str, str, pandas.DataFrame]]:
    """(source, verifier, table), each verifier alone and with 5% and 15% of its verdicts flipped on top."""
    yield "example", "substring", recipe()
    readers = {"gsm8k_solutions.jsonl": gsm8k, "math_cot_100.jsonl": maths}
    for file, read in readers.items():
        if data is None or not (data / file).is_file():
            continue
        table, source = read(data / file), file.split("_")[0]
        verdicts = {name: table.apply(verifier, axis=1).to_numpy(dtype=bool) for name, verifier in VERIFIERS.items()}
        if "score" in table:
            for share in (0.2, 0.35, 0.5):
                verdicts[f"reward model above {share:.0%}"] = (
                    table["score"] > table["score"].quantile(share)
                ).to_numpy()
        for name, verdict in verdicts.items():
            for flipped in (0.0, 0.05, 0.15):
                flips = np.random.default_rng(len(name)).random(len(table)) < flipped
                kind = source if not flipped else f"{source}, {flipped:.0%} of the verdicts flipped"
                yield kind, name, table.assign(reward=(verdict ^ flips).astype(float))


def judged_solutions(data: Path) -> Iterator[tuple[str, pandas.DataFrame, dict[str, np.ndarray]]]:
    """GSM8K and MATH, as far as they are in the folder: name, table, and the verdicts of every rule by its name.

    MATH has those of a reward model, too, which accepts the upper 65% of its scores.
    """
    for name, file, read in (("GSM8K", "gsm8k_solutions.jsonl", gsm8k), ("MATH", "math_cot_100.jsonl", maths)):
        if not (data / file).is_file():
            continue
        table = read(data / file)
        verdicts = {verifier: table.apply(judge, axis=1).to_numpy(dtype=bool) for verifier, judge in VERIFIERS.items()}
        if "score" in table:
            verdicts["reward model"] = (table["score"] > table["score"].quantile(0.35)).to_numpy()
        yield name, table, verdicts


# --- made verifiers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Policy:
    """What a policy answered: right answers are 0, wrong ones from 1 on."""

    group: np.ndarray
    answer: np.ndarray
    answered: np.ndarray

    @classmethod
    def drawn(cls, rng: np.random.Generator, *, hard: bool) -> Policy:
        """4 to 64 rollouts a prompt, 1 to 200 wrong answers a prompt; hard: most are wrong, and agree."""
        size = int(rng.choice([4, 8, 16, 32, 64]))
        prompts = max(20, min(round(np.exp(rng.uniform(np.log(50), np.log(1500)))), 30_000 // size))
        ease = rng.uniform(0.1, 0.3) if hard else rng.uniform(0.15, 0.85)
        rivals = int(rng.choice([1, 2, 3] if hard else [2, 3, 5, 20, 200]))
        concentration, rows = rng.uniform(0.5, 4), prompts * size
        group = np.repeat(np.arange(prompts), size)
        chance = rng.beta(ease * concentration, (1 - ease) * concentration, prompts)
        right = rng.random(rows) < chance[group]
        shares = rng.dirichlet(np.full(rivals, 0.5), prompts).cumsum(axis=1)
        wrong = 1 + np.minimum((rng.random((rows, 1)) > shares[group]).sum(axis=1), rivals - 1)
        answered = rng.random(rows) < rng.choice([1.0, rng.uniform(0.5, 1)])
        return cls(group, np.where(right, 0, wrong), answered)

    @property
    def right(self) -> np.ndarray:
        return self.answer == 0

    @property
    def unit(self) -> np.ndarray:
        """Equal for equal answers to a prompt."""
        return np.unique(self.group * 1000 + self.answer, return_inverse=True)[1]

    def table(self, verdict: np.ndarray) -> pandas.DataFrame:
        answers = [str(answer) if there else None for answer, there in zip(self.answer, self.answered, strict=True)]
        responses = [f"response {row}" for row in range(len(answers))]
        return pandas.DataFrame({
            "group": self.group, "response": responses, "reward": verdict.astype(float), "right": self.right,
            "final_answer": pandas.Series(answers, dtype=object),
        })  # fmt: skip


Made = Callable[[Policy, np.random.Generator], np.ndarray]


def flips(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """Every verdict errs alone, at two rates up to 30%."""
    positive, negative = rng.uniform(0, 0.3, 2)
    return policy.right ^ (rng.random(len(policy.right)) < np.where(policy.right, negative, positive))


def repeated(share: float) -> Made:
    """Flips of which a share of the answers gets one for all copies."""

    def judged(policy: Policy, rng: np.random.Generator) -> np.ndarray:
        positive, negative = rng.uniform(0, 0.3, 2)
        unit, rows = policy.unit, len(policy.right)
        alike = (rng.random(unit.max() + 1) < share)[unit]
        draw = np.where(alike, rng.random(unit.max() + 1)[unit], rng.random(rows))
        return policy.right ^ (draw < np.where(policy.right, negative, positive))

    return judged


def of_the_answer(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """A function of the answer: some wrong answers always pass, some right ones never."""
    positive, negative = rng.uniform(0, 0.3, 2)
    unit = policy.unit
    draw = rng.random(unit.max() + 1)[unit]
    return policy.right ^ (draw < np.where(policy.right, negative, positive))


def score(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """A noisy score above a threshold, with an offset of each prompt, so that whole prompts pass or fail."""
    offset = rng.normal(0, rng.uniform(0.3, 2), policy.group.max() + 1)[policy.group]
    value = rng.uniform(1, 4) * policy.right + offset + rng.normal(0, rng.uniform(0.1, 1), len(policy.right))
    return value > np.quantile(value, rng.uniform(0.3, 0.7))


def strict_prompts(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """Flips, and up to 30% of the prompts on which right answers fare as wrong ones."""
    positive, negative = rng.uniform(0, 0.3, 2)
    strict = (rng.random(policy.group.max() + 1) < rng.uniform(0, 0.3))[policy.group]
    chance = np.where(policy.right & ~strict, 1 - negative, positive)
    return rng.random(len(chance)) < chance


def lenient_prompts(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """Flips, and up to 30% of the prompts on which wrong answers fare as right ones."""
    positive, negative = rng.uniform(0, 0.3, 2)
    lenient = (rng.random(policy.group.max() + 1) < rng.uniform(0, 0.3))[policy.group]
    chance = np.where(policy.right | lenient, 1 - negative, positive)
    return rng.random(len(chance)) < chance


def wrong_gold(policy: Policy, rng: np.random.Generator) -> np.ndarray:
    """Up to 20% of the gold answers are a wrong one, and few verdicts flip."""
    bad = (rng.random(policy.group.max() + 1) < rng.uniform(0.02, 0.2))[policy.group]
    return np.where(bad, policy.answer == 1, policy.right) ^ (rng.random(len(bad)) < rng.uniform(0, 0.15))


def coin(better_by: float) -> Made:
    """Right answers are accepted more often than wrong ones by so much, and wrong ones at a rate of 20% or more."""

    def judged(policy: Policy, rng: np.random.Generator) -> np.ndarray:
        positive = rng.uniform(0.2, 0.8 - better_by)
        return rng.random(len(policy.right)) < np.where(policy.right, positive + better_by, positive)

    return judged


# Name, whether the policy's majority is mostly wrong, and how verdicts are made.
MADE: dict[str, tuple[bool, Made]] = {
    "every verdict errs alone": (False, flips),
    "the same, majority mostly wrong": (True, flips),
    "a quarter of the errors repeat": (False, repeated(0.25)),
    "half of the errors repeat": (False, repeated(0.5)),
    "three quarters repeat": (False, repeated(0.75)),
    "a function of the answer": (False, of_the_answer),
    "a score with offsets of prompts": (False, score),
    "strict prompts": (False, strict_prompts),
    "lenient prompts": (False, lenient_prompts),
    "wrong gold answers": (False, wrong_gold),
    "a coin": (False, coin(0.0)),
    "hardly better than a coin": (False, coin(0.1)),
}


def made_tables(worlds: int) -> Iterator[tuple[str, str, pandas.DataFrame]]:
    for number, (kind, (hard, judged)) in enumerate(MADE.items()):
        for world in range(worlds):
            rng = np.random.default_rng([number, world])
            policy = Policy.drawn(rng, hard=hard)
            yield kind, str(world), policy.table(judged(policy, rng))


def respelt_tables(worlds: int) -> Iterator[tuple[str, str, pandas.DataFrame]]:
    """Flips where 2% or 5% of the right answers are spelt otherwise: two answers are right, against the assumption."""
    for world in range(worlds):
        rng = np.random.default_rng([99, world])
        policy = Policy.drawn(rng, hard=False)
        table = policy.table(flips(policy, rng))
        other = policy.right & policy.answered & (rng.random(len(policy.right)) < rng.choice([0.02, 0.05]))
        yield (
            "right answers in two spellings",
            str(world),
            table.assign(final_answer=table["final_answer"].mask(other, "other spelling")),
        )


# --- the test against chance ------------------------------------------------------------------------------------------


def coin_rollouts(rng: np.random.Generator, *, prompts: int, size: int, share_right: float, rivals: int) -> Rollouts:
    """Rollouts whose verdicts are a coin's, which accepts 20% to 80% of them, right or wrong alike.

    Args:
        prompts: groups of `size` rollouts each.
        share_right: of all rollouts; prompts differ in how hard they are.
        rivals: wrong answers that there are to a prompt.
    """
    group = np.repeat(np.arange(prompts), size)
    chance = rng.beta(2 * share_right, 2 * (1 - share_right), prompts)
    right = rng.random(len(group)) < chance[group]
    shares = rng.dirichlet(np.full(rivals, 0.5), prompts).cumsum(axis=1)
    wrong = 1 + np.minimum((rng.random((len(group), 1)) > shares[group]).sum(axis=1), rivals - 1)
    draws = rng.random(len(group))
    accepted = draws < rng.uniform(0.2, 0.8)
    return Rollouts(
        rewards=torch.from_numpy(accepted.astype(np.float32)),
        groups=torch.from_numpy(group),
        answers=[str(answer) for answer in np.where(right, 0, wrong)],
    )


# Prompts, responses to each, the share of right ones, and wrong answers that there are to a prompt.
COIN_SETTINGS = tuple(itertools.product((50, 100, 400), (8, 16), (0.15, 0.5, 0.8), (2, 20)))


def coins_that_pass(each: int, settings: Iterable[tuple[int, int, float, int]] = COIN_SETTINGS) -> tuple[int, int]:
    """How many coins pass `LEAST_GAIN_OF_RATES`, and how many were simulated: `each` in every setting."""
    passed = 0
    simulated = 0
    for prompts, size, share_right, rivals in settings:
        for seed in range(each):
            rng = np.random.default_rng([seed, prompts, size, int(share_right * 100), rivals])
            rollouts = coin_rollouts(rng, prompts=prompts, size=size, share_right=share_right, rivals=rivals)
            rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
            patterns = patterns_in(rows)
            assert patterns is not None
            fit = patterns.units.fit({}, rounds=1000)
            passed += patterns.units.log_likelihood_gain(fit) >= LEAST_GAIN_OF_RATES
            simulated += 1
    return passed, simulated


def write(path: Path, found: list[Claim]) -> None:
    """Every claim as one line of a JSON list; a truth of no rows is null."""
    lines = [json.dumps(asdict(claim)) for claim in found]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of real solutions")
    parser.add_argument("--worlds", type=int, default=0, help="made tables of each kind")
    parser.add_argument("--claims", type=Path, help="JSON file that every claim is written to")
    parser.add_argument("--coins", type=int, default=0, help="simulated coins of each of 36 settings, and nothing else")
    parser.add_argument("--each", action="store_true", help="print every claim")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.coins:
        passed, simulated = coins_that_pass(options.coins)
        print(f"{passed} of {simulated:,} simulated coins pass the test against chance ({passed / simulated:.1%}).")
        return
    found = defaultdict(list)
    for tables in (real_tables(options.data), made_tables(options.worlds), respelt_tables(options.worlds)):
        for kind, name, frame in tables:
            found[kind] += claims(kind, name, frame)
    if options.claims:
        write(options.claims, [claim for all_of in found.values() for claim in all_of])
    print("Intervals that hold, of those that say something, and claims of 0 to 100%:")
    for kind, all_of in found.items():
        saying = [claim for claim in all_of if claim.says_something]
        parts = {by: [claim for claim in saying if claim.by == by] for by in ("bounds", "model")}
        held = [f"{by} {sum(claim.holds for claim in part)} of {len(part)}" for by, part in parts.items()]
        print(f"{kind}: {', '.join(held)}, not known {len(all_of) - len(saying)}")
        if options.each:
            for claim in all_of:
                print(claim)


if __name__ == "__main__":
    main()
