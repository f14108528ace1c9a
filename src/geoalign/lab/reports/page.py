"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from geoalign.lab.analysis.consensus import agreement_of, consensus
from geoalign.lab.analysis.detection import SCORES, detect, why_no_scores
from geoalign.lab.reports.documents import Drawn, Gallery, first_middle_last, write_page
from geoalign.lab.reports.figures.curves import (
    evaluation_panels,
    policy_panels,
    projector_panel,
    reward_panel,
)
from geoalign.lab.reports.figures.scores import cosine_panel, density_panel, rank_curves, rank_panel
from geoalign.lab.reports.tables import curator_totals, evaluation_rows, flagged_rows, wilson
from geoalign.lab.store.rollouts import Details, read_details
from geoalign.lab.store.run import Run, read_run
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.text import inert

CONFIG_LIMIT = 20_000


def build_run_report(run_folder: Path) -> Path:
    """Writes report.html and figures/*.svg into the run folder, from what the folder holds now, and returns the page.

    Works on a run in progress or cut off; the page says which quantities are undefined. Files are replaced
    in one piece, so that a reader never sees half of one.
    """
    run = read_run(run_folder)
    files = RunFolder(run.folder)
    gallery = Gallery(files.figures)
    flagged, flagged_total = flagged_rows(run)
    rows = evaluation_rows(run)
    write_page(
        files.report,
        "report.html.j2",
        run=run,
        title=inert(run.folder.resolve().name, 80),
        facts=_facts(run),
        verdict=consensus(run),
        accuracies=[row for row in rows if row.binary],
        rewards=[row for row in rows if row.scored],
        wilson=wilson,
        repeated=(_setting(run, "evaluation", "samples") or 1) != 1,
        totals=curator_totals(run),
        detection=detect(run),
        names=SCORES,
        agreement=agreement_of(run),
        sections={name: gallery.section(name, title, drawn) for name, title, drawn in figure_sections(run)},
        flagged=flagged,
        flagged_total=flagged_total,
        config=inert(run.config_text, CONFIG_LIMIT),
        versions=inert(json.dumps(dict(run.versions), indent=2, ensure_ascii=False), CONFIG_LIMIT),
    )
    gallery.remove_outdated("gdi-*-step-*.svg")
    return files.report


def _facts(run: Run) -> list[tuple[str, str]]:
    """The few settings in which runs differ, as name and value; those that are not in the config are left out."""
    paths = (
        ("curator", ("curator", "type")),
        ("task", ("task", "type")),
        ("model", ("model", "type")),
        ("from", ("model", "path")),
        ("flipped rewards", ("reward", "flip")),
        ("seed", ("seed",)),
    )
    facts = []
    for name, path in paths:
        value = _setting(run, *path)
        if value is not None and not isinstance(value, dict | list):
            facts.append((name, inert(str(value), 80)))
    steps = [row.step for row in run.metrics if row.stage == "rl"]
    facts.append(("RL steps logged", str(max(steps)) if steps else "none yet"))
    facts.append(("state", "finished" if run.finished else "in progress or cut off"))
    return facts


def _setting(run: Run, *path: str) -> Any:
    """The value at a path of the config; None where there is none."""
    value: Any = run.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def figure_sections(run: Run) -> list[tuple[str, str, list[Drawn]]]:
    """All sections with pictures: name, title, what is drawn or why not."""
    # Of the first, middle and last step that has some.
    details = {step: read_details(run.details[step]) for step in first_middle_last(list(run.details))}
    return [
        ("curves", "Reward and accuracy", [reward_panel(run), *evaluation_panels(run)]),
        ("projector", "Does the projector generalise?", [projector_panel(run)]),
        ("ranks", "Scores by rank", _ranks(run)),
        ("density", "GDI density and threshold", _densities(run, details)),
        ("cosines", "Directions before and after the projector", _directions(run, details)),
        ("policy", "How far the policy moved", policy_panels(run)),
    ]


def _ranks(run: Run) -> list[Drawn]:
    missing = why_no_scores(run)
    return [missing] if missing else [rank_panel(rank_curves(run.rollouts))]


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
