"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geoalign.lab.analysis.consensus import agreement_of, consensus
from geoalign.lab.analysis.run_detection import Detection, detect, why_no_scores
from geoalign.lab.reports.documents import (
    Drawn,
    Section,
    environment,
    first_middle_last,
    make_folder,
    picture,
    section,
    write,
)
from geoalign.lab.reports.figures.curves import (
    accuracy_panel,
    actions_panel,
    areas_panel,
    clip_panel,
    kl_panel,
    projector_panel,
    proxy_panels,
    reward_panel,
)
from geoalign.lab.reports.figures.details import cosine_panels, density_panel, plane_panels
from geoalign.lab.reports.figures.scores import pooled_panel, rank_curve, step_panel, tenths_panel
from geoalign.lab.reports.tables import accuracy_rows, curator_totals, flagged_rows, reward_rows, wilson
from geoalign.lab.store.rollouts import Details, read_details
from geoalign.lab.store.run import Run, read_run
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.text import inert

CONFIG_LIMIT = 20_000


def build_run_report(run_folder: Path, say: Callable[[str], None] = lambda note: None) -> Path:
    """Writes report.html and figures/*.svg into the run folder, from what the folder holds now, and returns the page.

    What was left out on reading is on the page, and `say` is given it.

    Works on a run in progress or cut off; the page says which quantities are undefined. Files are replaced
    in one piece, so that a reader never sees half of one.
    """
    run = read_run(run_folder)
    # Of the first, middle and last step that has some.
    details = {step: read_details(run.details[step]) for step in first_middle_last(list(run.details))}
    notes = [inert(note) for note in run.notes]
    detection = detect(run, details)
    sections = figure_sections(run, details, detection)
    flagged, flagged_total = flagged_rows(run)
    files = RunFolder(run.folder)
    figures = files.figures
    make_folder(figures)
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            title=inert(run.folder.resolve().name, 80),
            facts=_facts(run),
            verdict=consensus(run),
            accuracies=accuracy_rows(run),
            rewards=reward_rows(run),
            wilson=wilson,
            repeated=(_setting(run, "evaluation", "samples") or 1) != 1,
            totals=curator_totals(run),
            detection=detection,
            agreement=agreement_of(run),
            sections=sections,
            pictures={name: [picture(panel, figures) for panel in item.panels] for name, item in sections.items()},
            flagged=flagged,
            flagged_total=flagged_total,
            config=inert(run.config_text, CONFIG_LIMIT),
            versions=inert(json.dumps(dict(run.versions), indent=2, ensure_ascii=False), CONFIG_LIMIT),
            notes=notes,
        )
    )
    _remove_outdated(figures, {f"{panel.name}.svg" for item in sections.values() for panel in item.panels})
    write(files.report, page.encode("utf-8"))
    for note in notes:
        say(note)
    return files.report


def _remove_outdated(folder: Path, current: set[str]) -> None:
    """Removes pictures of single steps that an earlier report of a shorter run chose and this one does not."""
    for path in folder.glob("gdi-*-step-*.svg"):
        if path.name not in current:
            path.unlink()


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


def figure_sections(run: Run, details: dict[int, Details], detection: Detection) -> dict[str, Section]:
    """All sections with pictures, by name."""
    sections = (
        section("curves", "Reward and accuracy", [reward_panel(run), accuracy_panel(run), *proxy_panels(run)]),
        section("projector", "Does the projector generalise?", [projector_panel(run)]),
        section("ranks", "GDI by rank", _ranks(run, detection)),
        section("density", "GDI density and threshold", _densities(run, details)),
        section("cosines", "Directions before and after the projector", _directions(run, details)),
        section("policy", "How far the policy moved", [kl_panel(run), clip_panel(run)]),
    )
    return {section.name: section for section in sections}


def _ranks(run: Run, detection: Detection) -> list[Drawn]:
    missing = why_no_scores(run)
    if missing:
        return [missing]
    curves = [rank_curve(step) for step in run.rollouts if step.scored.any()]
    pictures: list[Drawn] = [pooled_panel(curves)]
    if detection.undefined:
        pictures.append(f"No flipped rewards are marked. {detection.undefined}")
    else:
        pictures.extend([tenths_panel(curves), areas_panel(detection)])
    # Of the steps that show a flip; of all steps where none does.
    shown = first_middle_last([curve for curve in curves if curve.flipped.any()] or curves)
    return [*pictures, *map(step_panel, shown), actions_panel(run)]


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
    planes: list[Drawn] = list(plane_panels(last)) if len(last.plane_pairs) else ["No directions were sampled."]
    return [*cosine_panels(last), *planes]


def _why_no_details(run: Run) -> str:
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) has no pairs, directions or density."
    return "No details were saved in this run (yet): pairs, directions and density are kept for chosen steps only."
