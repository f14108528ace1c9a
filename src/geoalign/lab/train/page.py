"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.console.numbers import number, percent, short
from geoalign.files.columns import Bools
from geoalign.lab.runs.curves import evaluation_panels, policy_panels, projector_panel, reward_panel
from geoalign.lab.runs.decline import REMEDY, last_falls
from geoalign.lab.runs.detection import SCORES, RunDetection, detect, why_no_scores
from geoalign.lab.runs.flagged import FlaggedRollout, flagged_rollouts
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.logged import CURATION_SECONDS, agreement_of, consensus
from geoalign.lab.runs.reading import Evaluation, Run, accuracy_of_evaluation, read_run
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
    files = RunFolder(run.folder)
    gallery = Gallery(files.figures)
    rows = evaluation_rows(run)
    found = detect(run)
    curves = gallery.section("curves", "Accuracy and reward", [*evaluation_panels(run), reward_panel(run)])
    sections = [gallery.section(*part) for part in figure_sections(run)]
    last, *earlier = flagged_by_step(run) or [[]]
    write_page(
        files.report,
        Path(__file__).with_name("report.html.j2"),
        run=run,
        title=_title(run),
        facts=_facts(run),
        headline=headline(run, rows, found),
        verdict=consensus(run),
        accuracies=[row for row in rows if row.binary],
        rewards=[row for row in rows if row.scored],
        accuracy=accuracy_of_evaluation,
        fallen=[visible(str(fall), 300) for fall in last_falls(run.evaluations)],
        remedy=REMEDY,
        old_intervals=any(_interval_unknown(line) for row in rows for line in (row.before, row.after)),
        totals=curator_totals(run),
        detection=found,
        names=SCORES,
        agreement=agreement_of(run),
        curves=curves,
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
        # No share of flipped verdicts is none.
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


def figure_sections(run: Run) -> list[tuple[str, str, list[Drawn]]]:
    """The folded pictures of a run in sections: name, title, and the pictures or why there are none."""
    # Of the first, middle and last step that has some.
    details = {step: read_details(run.details[step]) for step in first_middle_last(list(run.details))}
    return [
        ("ranks", "Scores by rank", [why_no_scores(run) or rank_panel(rank_curves(run.rollouts))]),
        ("projector", "Does the projector generalise?", [projector_panel(run)]),
        ("density", "Density of the score, and its threshold", _densities(run, details)),
        ("cosines", "Directions before and after the projector", _directions(run, details)),
        ("policy", "How far the policy went from the one that sampled", policy_panels(run)),
    ]


def _densities(run: Run, details: dict[int, Details]) -> list[Drawn]:
    rollouts = {step.step: step for step in run.rollouts}
    panels: list[Drawn] = [
        density_panel(step, detail.density, rollouts.get(step))
        for step, detail in details.items()
        if detail.density is not None
    ]
    return panels or ["No density was drawn: too few scores, or all of them equal."]


def _directions(run: Run, details: dict[int, Details]) -> list[Drawn]:
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


@dataclass(frozen=True)
class EvaluationRow:
    """One evaluation set before and after RL (the last evaluation so far), each None where not there."""

    set: str
    before: Evaluation | None
    after: Evaluation | None

    @property
    def gain(self) -> float:
        return self.after.accuracy - self.before.accuracy if self.before and self.after else math.nan

    @property
    def binary(self) -> bool:
        return any(line is not None and line.correct is not None for line in (self.before, self.after))

    @property
    def scored(self) -> bool:
        """Whether reward and accuracy are different things: the reward is not 0 or 1."""
        lines = [line for line in (self.before, self.after) if line is not None]
        return any(line.correct is None and not math.isnan(line.reward) for line in lines)


def evaluation_rows(run: Run) -> list[EvaluationRow]:
    """Each set with its evaluation before RL and after it, or the latest during RL where the run goes on."""
    sets = []
    for name in dict.fromkeys(evaluation.set for evaluation in run.evaluations):
        lines = sorted((line for line in run.evaluations if line.set == name), key=lambda line: line.step)
        latest = {line.stage: line for line in lines}
        before, after, during = (latest.get(stage) for stage in ("before_rl", "after_rl", "rl"))
        sets.append(EvaluationRow(visible(name, 80), before, after or during))
    return sets


def headline(run: Run, rows: Sequence[EvaluationRow], found: RunDetection) -> str:
    """What a run came to on its evaluation sets, the truth first where the reward is only a proxy of it, and what its
    flags were worth; of one seed no claim. Empty without an evaluation after the first."""
    outcomes = [words for row in rows if (words := _outcome_on(row))]
    if not outcomes:
        return ""
    sentences = [f"{words}." for words in outcomes[:_SETS_NAMED]]
    if len(outcomes) > _SETS_NAMED:
        sentences.append(f"{len(outcomes) - _SETS_NAMED} more sets are in the table below.")
    return " ".join([*sentences, *_worth_of_flags(run, found), "One seed, an illustration."])


def _outcome_on(row: EvaluationRow) -> str:
    """Truth and proxy of one set before RL and after it, or so far; empty without either."""
    before, after = row.before, row.after
    if after is None:
        return ""
    gold = not math.isnan(after.gold_utility)
    kinds = [
        ("accuracy", percent, "accuracy"),
        ("gold_utility", short, "the true (gold) reward"),
        ("reward", short, "the proxy reward" if gold else "the reward"),
    ]
    changes = []
    for name, write, words in kinds:
        value = getattr(after, name)
        # The reward of such a task is the accuracy.
        if math.isnan(value) or (name == "reward" and not math.isnan(after.accuracy)):
            continue
        first = math.nan if before is None else getattr(before, name)
        change = f"was {write(value)}" if math.isnan(first) else f"went from {write(first)} to {write(value)}"
        changes.append(f"{words} {change}")
    if not changes:
        return ""
    when = "" if after.stage == "after_rl" else f", so far (step {after.step})"
    return f"On {row.set} {' and '.join(changes)}{when}"


def _worth_of_flags(run: Run, found: RunDetection) -> list[str]:
    """How many rollouts were flagged, and how many of these had wrong rewards where that is known."""
    rollouts = sum(len(step) for step in run.rollouts)
    flagged = sum(int(step.anomalous.sum()) for step in run.rollouts)
    if not flagged:
        return []
    sentences = [f"{visible(run.curator_name, 40)} flagged {number(flagged)} of {number(rollouts)} rollouts."]
    known = sum(int(step.flip_known.sum()) for step in run.rollouts)
    wrong = sum(int((step.flipped & step.flip_known).sum()) for step in run.rollouts)
    if wrong and not math.isnan(found.flags.precision):
        precision = percent(found.flags.precision)
        sentences.append(f"Of the flagged rewards {precision} were wrong, of all rewards {percent(wrong / known)}.")
    return sentences


def curator_totals(run: Run) -> list[Count]:
    """What the curator did, counted in the rollout files, or summed over the logged steps where there are none; without
    what never happened."""
    steps = run.rollouts
    rollouts = sum(len(step) for step in steps)
    totals = []
    if rollouts:
        totals = [
            Count("rollouts", rollouts, 1, "rows of the rollout files"),
            _counted("scored", [step.scored for step in steps], "got a score from the curator"),
            _counted("flagged", [step.anomalous for step in steps], "suspected by the curator"),
            _counted("replaced", [step.replaced for step in steps], "by the content of another rollout"),
        ]
    else:
        logged = (("scored", "scored_rollouts"), ("flagged", "anomalous"), ("replaced", "replaced"))
        totals = [total for name, key in logged for total in _logged(run, name, key, "sum over logged steps")]
    totals += [total for one in _LOGGED for total in _logged(run, *one)]
    totals += _seconds(run)
    return [total for total in totals if total.value]


def flagged_by_step(run: Run) -> list[list[FlaggedRollout]]:
    """The highest-scored flagged rollouts of the last, middle and first step that has some."""
    steps = [step for step in run.rollouts if step.anomalous.any()]
    return [
        flagged_rollouts(step, run.curator, run.metrics, FLAGGED_PER_STEP)
        for step in reversed(first_middle_last(steps))
    ]


def _counted(name: str, masks: Sequence[Bools], note: str) -> Count:
    value, of = sum(int(mask.sum()) for mask in masks), sum(map(len, masks))
    return Count(name, value, value / of if of else math.nan, note)


def _logged(run: Run, name: str, key: str, note: str) -> list[Count]:
    series = run.series(f"geoalign/{key}")
    return [Count(name, float(series.values.sum()), float("nan"), note)] if len(series) else []


def _seconds(run: Run) -> list[Count]:
    logged = [series.values.sum() for key in CURATION_SECONDS if len(series := run.series(key))]
    note = "in the curator and in its pass for hidden states, over logged steps"
    return [Count("seconds", float(sum(logged)), math.nan, note)] if logged else []


def _interval_unknown(evaluation: Evaluation | None) -> bool:
    """Whether there is an accuracy without a known interval: the line is of an earlier version."""
    found = accuracy_of_evaluation(evaluation)
    return found is not None and math.isnan(found.low)
