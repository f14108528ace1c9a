"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.lab.analysis.consensus import CURATION_SECONDS, agreement_of, consensus
from geoalign.lab.analysis.decline import REMEDY, last_falls
from geoalign.lab.analysis.detection import SCORES, detect, why_no_scores
from geoalign.lab.analysis.statistics import accuracy_of_evaluation
from geoalign.lab.numbers import percent, short
from geoalign.lab.reports.documents import Count, Drawn, Gallery, first_middle_last, write_page
from geoalign.lab.reports.figures.curves import evaluation_panels, policy_panels, projector_panel, reward_panel
from geoalign.lab.reports.figures.scores import cosine_panel, density_panel, rank_curves, rank_panel
from geoalign.lab.store.columns import Bools
from geoalign.lab.store.read_run import Evaluation, Run, read_run
from geoalign.lab.store.rollouts import Details, RolloutStep, read_details, read_texts
from geoalign.lab.store.run_folder import RunFolder
from geoalign.text import visible

CONFIG_LIMIT = 20_000


def build_run_report(run_folder: Path) -> Path:
    """Writes report.html and figures/ into a run folder, finished or not."""
    run = read_run(run_folder)
    files = RunFolder(run.folder)
    gallery = Gallery(files.figures)
    flagged, flagged_total = flagged_rows(run)
    rows = evaluation_rows(run)
    write_page(
        files.report,
        "report.html.j2",
        run=run,
        title=visible(run.folder.resolve().name, 80),
        facts=_facts(run),
        headline=headline(rows),
        verdict=consensus(run),
        accuracies=[row for row in rows if row.binary],
        rewards=[row for row in rows if row.scored],
        accuracy=accuracy_of_evaluation,
        fallen=[visible(str(fall), 300) for fall in last_falls(run.evaluations)],
        remedy=REMEDY,
        old_intervals=any(_interval_unknown(line) for row in rows for line in (row.before, row.after)),
        totals=curator_totals(run),
        detection=detect(run),
        names=SCORES,
        agreement=agreement_of(run),
        sections={name: gallery.section(name, title, drawn) for name, title, drawn in figure_sections(run)},
        flagged=flagged,
        flagged_total=flagged_total,
        config=visible(run.config_text, CONFIG_LIMIT),
        versions=visible(json.dumps(dict(run.versions), indent=2, ensure_ascii=False), CONFIG_LIMIT),
    )
    return files.report


_FACTS = {
    "curator": ("curator", "type"), "task": ("task", "type"), "model": ("model", "type"), "from": ("model", "path"),
    "flipped rewards": ("reward", "flip"), "seed": ("seed",),
}  # fmt: skip


def _facts(run: Run) -> list[tuple[str, str]]:
    """The few settings in which runs differ, as name and value; those that are not in the config are left out."""
    values = {name: _setting(run, *path) for name, path in _FACTS.items()}
    facts = [
        (name, visible(str(value), 80))
        for name, value in values.items()
        if value is not None and not isinstance(value, dict | list)
    ]
    steps = [row.step for row in run.metrics if row.stage == "rl"]
    facts.append(("RL steps logged", str(max(steps)) if steps else "none yet"))
    return [*facts, ("state", "finished" if run.finished else "in progress or cut off")]


def _setting(run: Run, *path: str) -> Any:
    value: Any = run.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def figure_sections(run: Run) -> list[tuple[str, str, list[Drawn]]]:
    # Of the first, middle and last step that has some.
    details = {step: read_details(run.details[step]) for step in first_middle_last(list(run.details))}
    return [
        ("curves", "Reward and accuracy", [reward_panel(run), *evaluation_panels(run)]),
        ("projector", "Does the projector generalise?", [projector_panel(run)]),
        ("ranks", "Scores by rank", [why_no_scores(run) or rank_panel(rank_curves(run.rollouts))]),
        ("density", "GDI density and threshold", _densities(run, details)),
        ("cosines", "Directions before and after the projector", _directions(run, details)),
        ("policy", "How far the policy moved", policy_panels(run)),
    ]


def _densities(run: Run, details: dict[int, Details]) -> list[Drawn]:
    if not details:
        return [_why_no_details(run)]
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
        return [_why_no_details(run) if not details else "The saved steps hold no pair."]
    last = with_pairs[-1]
    return [cosine_panel(last.step, last.raw_cosine, last.projected_cosine)]


def _why_no_details(run: Run) -> str:
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) has no pairs, directions or density."
    return "No details were saved in this run (yet): pairs, directions and density are kept for chosen steps only."


# --- tables -----------------------------------------------------------------------------------------------------------

FLAGGED_PER_STEP = 8
# Name in the table, metric, note; the first two are shown where they are 0 too.
_LOGGED = (
    ("pairs", "pairs", "with different rewards, over logged steps"),
    ("groups without a donor", "groups_without_donor", "no stable rollout to replace them: left unchanged"),
    ("zero displacements", "zero_displacements", "pairs of identical hidden states: left out"),
    ("unscored rewards", "unscored_rewards", "rollouts without a reward: weight 0"),
    ("calls with too few scores", "too_few_scores", "nothing was flagged in them"),
    ("calls without spread", "zero_spread", "all scores equal: nothing was flagged in them"),
    ("calls that only observed", "observed_only", "scored, nothing changed"),
)
# With more evaluation sets the headline counts the others.
_SETS_NAMED = 3
_MISSING = ("(not in the file)", "(not in the file)")


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


def headline(rows: Sequence[EvaluationRow]) -> str:
    """What a run came to on its evaluation sets, the truth first where the reward is only a proxy of it; of one seed
    no claim. Empty without an evaluation after the first."""
    parts = [words for row in rows if (words := _outcome_on(row))]
    shown = ". ".join(parts[:_SETS_NAMED])
    more = f" ({len(parts) - _SETS_NAMED} more sets below)" if len(parts) > _SETS_NAMED else ""
    return f"One seed: an illustration. {shown}{more}." if parts else ""


def _outcome_on(row: EvaluationRow) -> str:
    """Truth and proxy of one set before RL and after it, or so far; empty without either."""
    before, after = row.before, row.after
    if after is None:
        return ""
    when = "" if after.stage == "after_rl" else f" so far, to step {after.step}"
    gold = not math.isnan(after.gold_utility)
    kinds = [
        ("accuracy", percent, "accuracy"),
        ("gold_utility", short, "the true utility (gold utility)"),
        ("reward", short, "the reward, its proxy," if gold else "the reward"),
    ]
    said = []
    for name, write, words in kinds:
        value = getattr(after, name)
        if math.isnan(value) or (name == "reward" and not math.isnan(after.accuracy)):
            continue
        first = math.nan if before is None else getattr(before, name)
        way = f"came to {write(value)}" if math.isnan(first) else f"went from {write(first)} to {write(value)}"
        said.append(f"{words} {way}")
    return f"On {row.set}, {'; '.join(said)}{when}" if said else ""


def curator_totals(run: Run) -> list[Count]:
    """What the curator did, counted in the rollout files, or summed over the logged steps where there are none."""
    steps = run.rollouts
    rollouts = sum(len(step) for step in steps)
    totals = [
        Count("rollouts", rollouts, 1, "rows of the rollout files"),
        _counted("scored", [step.scored for step in steps], "in at least one pair"),
        _counted("flagged", [step.anomalous for step in steps], "suspected by the curator"),
        _counted("replaced", [step.replaced for step in steps], "the content of another rollout instead"),
    ]
    if not rollouts:
        logged = (("scored", "scored_rollouts"), ("flagged", "anomalous"), ("replaced", "replaced"))
        totals = [total for name, key in logged for total in _logged(run, name, key, "sum over logged steps")]
    totals += [total for name, key, note in _LOGGED[:2] for total in _logged(run, name, key, note)]
    totals += _seconds(run)
    return totals + [total for one in _LOGGED[2:] for total in _logged(run, *one) if total.value]


def flagged_rows(run: Run) -> tuple[list[dict[str, Any]], int]:
    """The highest-scored flagged rollouts of the first, middle and last step that has some, and the number of all."""
    steps = [step for step in run.rollouts if step.anomalous.any()]
    total = sum(int(step.anomalous.sum()) for step in steps)
    shown = [row for step in reversed(first_middle_last(steps)) for row in _flagged_of(step, run.curator)]
    return shown, total


def _flagged_of(rollouts: RolloutStep, curator: Mapping[str, object]) -> list[dict[str, Any]]:
    score = np.where(rollouts.scored, rollouts.score, -np.inf)
    order = [at for at in np.argsort(-score, kind="stable") if rollouts.anomalous[at]][:FLAGGED_PER_STEP]
    index = {row: at for at, row in enumerate(rollouts.row.tolist())}
    donors = [int(rollouts.source[at]) for at in order]
    texts = read_texts(rollouts, [*(int(rollouts.row[at]) for at in order), *donors])
    rows = []
    for at, source in zip(order, donors, strict=True):
        row = int(rollouts.row[at])
        prompt, response = texts.get(row, _MISSING)
        donor = source if source not in (row, -1) else None
        rows.append(
            {
                "step": rollouts.step,
                "row": row,
                "prompt": visible(prompt),
                "response": visible(response),
                "reward": float(rollouts.reward[at]),
                "true_reward": float(rollouts.true_reward[at]),
                "flipped": bool(rollouts.flipped[at] and rollouts.flip_known[at]),
                "score": float(rollouts.score[at]),
                "rank": int((score > score[at]).sum()) + 1,
                "scored": int(rollouts.scored.sum()),
                "outcome": _outcome(rollouts, int(at), curator),
                "donor_row": donor,
                "donor_response": "" if donor is None else visible(texts.get(donor, _MISSING)[1]),
                "donor_reward": float(rollouts.reward[index[donor]]) if donor in index else float("nan"),
            }
        )
    return rows


def _outcome(rollouts: RolloutStep, at: int, curator: Mapping[str, object]) -> str:
    source, row = int(rollouts.source[at]), int(rollouts.row[at])
    if source == -1:
        return "left out of the batch"
    if source != row:
        return f"replaced by row {source}"
    if rollouts.weight[at] == 0:
        return "weight 0"
    copies = int((rollouts.source == row).sum()) - 1
    if copies > 0:
        return f"amplified: copied over {copies} other row(s)"
    if str(curator.get("type")).startswith("geoalign"):
        return "unchanged: no stable donor in its group, or before start_step"
    return "unchanged: the curator only watches" if curator.get("type") == "monitor" else "kept in its place"


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
    """Whether there is an accuracy whose interval cannot be told: the line is of an earlier version."""
    found = accuracy_of_evaluation(evaluation)
    return found is not None and math.isnan(found.low)
