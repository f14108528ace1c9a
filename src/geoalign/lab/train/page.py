"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
from pandas import DataFrame

from geoalign.console.numbers import number, percent, short
from geoalign.intervals import Interval
from geoalign.lab.runs.consensus import consensus
from geoalign.lab.runs.curves import evaluation_panels, policy_panels, projector_panel, reward_panel
from geoalign.lab.runs.decline import REMEDY, last_falls
from geoalign.lab.runs.detection import detect, why_no_scores
from geoalign.lab.runs.flagged import FlaggedRollout, flagged_rollouts
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.generations import SCORES
from geoalign.lab.runs.numbers import (
    AFTER,
    BEFORE,
    CURATION_SECONDS,
    RL,
    agreement_over_run,
    evaluations_of,
    numbers_of,
    series_of,
    totals_of,
)
from geoalign.lab.runs.reading import Run, read_run
from geoalign.lab.runs.rollouts import Details, read_details
from geoalign.pages.documents import Count, Drawn, Gallery, first_middle_last, write_page
from geoalign.pages.score_panels import cosine_panel, density_panel, rank_curves, rank_panel
from geoalign.text import visible

CONFIG_LIMIT = 20_000
# Flagged rollouts of a generation that are shown.
FLAGGED_PER_STEP = 6


def build_run_report(run_folder: Path) -> Path:
    """Writes report.html and figures/ into a run folder, finished or not."""
    run = read_run(run_folder)
    numbers = numbers_of(run)
    files = RunFolder(run.folder)
    gallery = Gallery(files.figures)
    rows = before_and_after_rows(numbers)
    totals = totals_of(numbers)
    curves = [*evaluation_panels(numbers), reward_panel(numbers)]
    sections = [gallery.section(*part) for part in figure_sections(run, numbers)]
    last, *earlier = flagged_by_step(run) or [[]]
    write_page(
        files.report,
        Path(__file__).with_name("report.html.j2"),
        run=run,
        title=_title(run),
        facts=_facts(run),
        headline=run_headline(run, rows, totals),
        verdict=consensus(run, numbers),
        accuracies=[row for row in rows if row.binary],
        rewards=[row for row in rows if row.scored],
        fallen=[visible(str(fall), 300) for fall in last_falls(run.evaluations)],
        remedy=REMEDY,
        old_intervals=any(row.without_interval for row in rows),
        totals=curator_totals(numbers),
        detection=detect(run, numbers),
        names=SCORES,
        agreement=agreement_over_run(numbers),
        curves=gallery.section("curves", "Accuracy and reward", curves),
        sections=[section for section in sections if section.pictures],
        flagged=last,
        earlier=[row for rows_of_step in earlier for row in rows_of_step],
        config=visible(run.config_text, CONFIG_LIMIT),
        versions=visible(json.dumps(dict(run.versions), indent=2, ensure_ascii=False), CONFIG_LIMIT),
    )
    return files.report


def _title(run: Run) -> str:
    """What was trained: the curator, the task, the seed."""
    task = _setting(run, "task", "type")
    seed = _setting(run, "seed")
    title = visible(run.curator_name, 40)
    if task is not None:
        title += f" on {visible(str(task), 40)}"
    return title if seed is None else f"{title}, seed {visible(str(seed), 20)}"


_FACTS = {"model": ("model", "type"), "from": ("model", "path"), "flipped verdicts": ("reward", "flip")}


def _facts(run: Run) -> list[tuple[str, str]]:
    """The few settings in which runs differ, as name and value; those that are not in the config are left out."""
    facts = [("folder", visible(run.folder.resolve().name, 80))]
    for name, path in _FACTS.items():
        value = _setting(run, *path)
        # A share of 0 (no verdict is flipped) is left out.
        if value is not None and not isinstance(value, dict | list) and value != 0:
            facts.append((name, visible(str(value), 80)))
    steps = [row.step for row in run.metrics if row.stage == "rl"]
    facts.append(("RL steps logged", str(max(steps)) if steps else "none yet"))
    return [*facts, ("state", "finished" if run.finished else "in progress or cut off")]


def _setting(run: Run, *path: str) -> Any:
    value: Any = run.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def figure_sections(run: Run, numbers: DataFrame) -> list[tuple[str, str, list[Drawn]]]:
    """The folded pictures of a run in sections: name, title, and the pictures or why there are none."""
    # Of the first, middle and last step that has some.
    details = {step: read_details(run.details[step]) for step in first_middle_last(list(run.details))}
    ranks = why_no_scores(run, totals_of(numbers)) or rank_panel(rank_curves(run.rollouts))
    return [
        ("ranks", "Scores by rank", [ranks]),
        ("projector", "Does the projector generalise?", [projector_panel(run, numbers)]),
        ("density", "Density of the score, and its threshold", _densities(run, details)),
        ("cosines", "Directions before and after the projector", _directions(details)),
        ("policy", "How far the policy went from the one that sampled", policy_panels(numbers)),
    ]


def _densities(run: Run, details: dict[int, Details]) -> list[Drawn]:
    """The density of the scores of each of these steps, with its threshold."""
    rollouts = {step.step: step for step in run.rollouts}
    panels: list[Drawn] = [
        density_panel(step, detail.density, rollouts.get(step))
        for step, detail in details.items()
        if detail.density is not None
    ]
    return panels or ["No density was drawn: too few scores, or all of them equal."]


def _directions(details: dict[int, Details]) -> list[Drawn]:
    """The cosines of the last pairs that were saved, before and after the projector."""
    with_pairs = [detail for detail in details.values() if len(detail.raw_cosine)]
    if not with_pairs:
        return ["No pair was saved in this run (yet): pairs are kept for chosen steps only."]
    last = with_pairs[-1]
    return [cosine_panel(last.step, last.raw_cosine, last.projected_cosine)]


# --- tables -----------------------------------------------------------------------------------------------------------

# Name in the table, metric, note; shown where they are not 0.
_LOGGED = (
    ("pairs", "pairs", "of rollouts with different rewards, over logged steps"),
    ("groups without a donor", "groups_without_donor", "no stable rollout to replace them: left unchanged"),
    ("zero displacements", "zero_displacements", "pairs of identical hidden states: left out"),
    ("rollouts without a reward", "unscored_rewards", "weight 0"),
    ("calls with too few scores", "too_few_scores", "nothing was flagged in them"),
    ("calls without spread", "zero_spread", "all scores equal: nothing was flagged in them"),
    ("calls with a closed gate", "gate_closed", "scored, nothing changed"),
)
# With more evaluation sets the headline counts the others.
_SETS_NAMED = 3


# A number of an evaluation by its metric, with `stage` and `step`.
Evaluated = Mapping[str, Any]


@dataclass(frozen=True)
class EvaluationRow:
    """One evaluation set before RL and after it (the last evaluation so far), each None where not there."""

    set: str
    before: Evaluated | None
    after: Evaluated | None

    @property
    def _lines(self) -> list[Evaluated]:
        return [line for line in (self.before, self.after) if line is not None]

    @property
    def gain(self) -> float:
        """The accuracy after RL minus that before it; NaN without both."""
        if self.before is None or self.after is None:
            return math.nan
        return float(self.after["accuracy"] - self.before["accuracy"])

    @property
    def binary(self) -> bool:
        """Whether an answer is right or wrong, so that there is an accuracy."""
        return any(not math.isnan(line["accuracy"]) for line in self._lines)

    @property
    def scored(self) -> bool:
        """Whether reward and accuracy are different things: the reward is not 0 or 1."""
        return any(math.isnan(line["accuracy"]) and not math.isnan(line["reward"]) for line in self._lines)

    @staticmethod
    def interval(line: Evaluated) -> Interval:
        """The accuracy of one of the two evaluations with its interval over problems."""
        return Interval(line["accuracy"], line["accuracy_low"], line["accuracy_high"])

    @property
    def without_interval(self) -> bool:
        """Whether there is an accuracy without a known interval: the line is of an earlier version."""
        return any(not math.isnan(line["accuracy"]) and math.isnan(line["accuracy_low"]) for line in self._lines)


def before_and_after_rows(numbers: DataFrame) -> list[EvaluationRow]:
    """Each set with its evaluation before RL and after it, or the latest during RL where the run goes on."""
    evaluations = evaluations_of(numbers)
    rows = []
    for name in numbers[numbers.set != ""].set.unique():
        lines = evaluations[evaluations.set == name].to_dict("records")
        latest = {line["stage"]: line for line in lines}
        rows.append(
            EvaluationRow(set=visible(name, 80), before=latest.get(BEFORE), after=latest.get(AFTER) or latest.get(RL))
        )
    return rows


def run_headline(run: Run, rows: Sequence[EvaluationRow], totals: pandas.Series) -> str:
    """What a run came to on its evaluation sets, the truth first where the reward is only a proxy of it, and what its
    flags were worth; of one seed no claim. Empty without an evaluation after the first."""
    outcomes = [_outcome_on(row.set, row.before, row.after) for row in rows if row.after is not None]
    outcomes = [words for words in outcomes if words]
    if not outcomes:
        return ""
    sentences = [f"{words}." for words in outcomes[:_SETS_NAMED]]
    if len(outcomes) > _SETS_NAMED:
        sentences.append(f"{len(outcomes) - _SETS_NAMED} more sets are in the table below.")
    return " ".join([*sentences, *_worth_of_flags(run, totals), "One seed, an illustration."])


def _outcome_on(name: str, before: Evaluated | None, after: Evaluated) -> str:
    """Truth and proxy of one set before RL and after it, or so far; empty without either."""
    proxy = "the reward" if math.isnan(after["gold_utility"]) else "the proxy reward"
    kinds = [
        ("accuracy", percent, "accuracy"),
        ("gold_utility", short, "the true (gold) reward"),
        ("reward", short, proxy),
    ]
    changes = []
    for metric, write, words in kinds:
        value = after[metric]
        # The reward of a set with an accuracy is the accuracy.
        if math.isnan(value) or (metric == "reward" and not math.isnan(after["accuracy"])):
            continue
        first = math.nan if before is None else before[metric]
        change = f"was {write(value)}" if math.isnan(first) else f"went from {write(first)} to {write(value)}"
        changes.append(f"{words} {change}")
    if not changes:
        return ""
    when = "" if after["stage"] == AFTER else f", so far (step {after['step']})"
    return f"On {name} {' and '.join(changes)}{when}"


def _worth_of_flags(run: Run, totals: pandas.Series) -> list[str]:
    """How many rollouts were flagged, and how many of these had wrong rewards where that is known."""
    if not totals.get("flagged", 0):
        return []
    flagged = f"{number(totals['flagged'])} of {number(totals['rollouts'])} rollouts"
    sentences = [f"{visible(run.curator_name, 40)} flagged {flagged}."]
    if totals["wrong"] and totals["flagged_known"]:
        precision = percent(totals["flagged_wrong"] / totals["flagged_known"])
        wrong = percent(totals["wrong"] / totals["known"])
        sentences.append(f"Of the flagged rewards {precision} were wrong, of all rewards {wrong}.")
    return sentences


# Name in the table, number of the generations, number in the log, note; of all rollouts.
_ROLLOUTS = (
    ("scored", "scored", "scored_rollouts", "got a score from the curator"),
    ("flagged", "flagged", "anomalous", "suspected by the curator"),
    ("replaced", "replaced", "replaced", "by the content of another rollout"),
)


def curator_totals(numbers: DataFrame) -> list[Count]:
    """What the curator did, counted in the rollout files, or summed over the logged steps where there are none; without
    what never happened."""
    totals = totals_of(numbers)
    rollouts = totals.get("rollouts", 0)
    counts = []
    if rollouts:
        counts.append(Count("rollouts", rollouts, 1, "rows of the rollout files"))
    for name, counted, logged, note in _ROLLOUTS:
        if rollouts:
            counts.append(Count(name, totals[counted], totals[counted] / rollouts, note))
        else:
            counts.append(Count(name, _logged(numbers, logged), math.nan, "sum over logged steps"))
    counts += [Count(name, _logged(numbers, metric), math.nan, note) for name, metric, note in _LOGGED]
    seconds = sum(_logged(numbers, metric) for metric in CURATION_SECONDS)
    note = "in the curator and in its pass for hidden states, over logged steps"
    counts.append(Count("seconds", seconds, math.nan, note))
    return [count for count in counts if count.value]


def _logged(numbers: DataFrame, metric: str) -> float:
    """The sum of a number over the log; 0 where it was not logged."""
    return float(series_of(numbers, metric).values.sum())


def flagged_by_step(run: Run) -> list[list[FlaggedRollout]]:
    """The highest-scored flagged rollouts of the last, middle and first step that has some."""
    steps = [step for step in run.rollouts if step.anomalous.any()]
    return [flagged_rollouts(run, step, FLAGGED_PER_STEP) for step in reversed(first_middle_last(steps))]
