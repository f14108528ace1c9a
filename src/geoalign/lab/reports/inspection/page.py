"""From a folder of `geoalign audit` to one self-contained page that opens from disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from geoalign.lab.reports.documents import (
    Inline,
    Section,
    environment,
    first_middle_last,
    inline,
    make_folder,
    picture,
    section,
    write,
)
from geoalign.lab.reports.figures.curves import actions_panel, projector_panel, reward_panel
from geoalign.lab.reports.figures.details import cosine_panels, density_panel
from geoalign.lab.reports.figures.scores import pooled_panel, rank_curve, rank_panel, reward_score_panel, tenths_panel
from geoalign.lab.reports.figures.style import Panel
from geoalign.lab.reports.inspection.bundle import Bundle, bundle
from geoalign.lab.reports.inspection.overview import as_run, counts, facts, repeated, skipped, verdict, verifier
from geoalign.lab.store.curation import FIGURES, REPORT_FILE
from geoalign.lab.store.inspection import Inspection, read_inspection
from geoalign.lab.store.rollouts import Density, Details
from geoalign.lab.store.run import Run
from geoalign.lab.store.values import number
from geoalign.lab.text import inert

ASSETS = Path(__file__).parent / "assets"
# In the order in which they build on one another; one program, so that none of their names is a global one.
PROGRAM = ("dom", "store", "diff", "formulas", "model", "search", "list", "texts", "detail", "main")
SUMMARY_LIMIT = 20_000


def build_inspection(folder: Path) -> Path:
    """Writes report.html and figures/*.svg into a folder of `geoalign audit`, from its tables alone; returns the page.

    Files are replaced in one piece, so that a reader never sees half of one.
    """
    inspection = read_inspection(folder)
    run = as_run(inspection)
    sections = inspection_sections(inspection, run)
    figures = inspection.folder / FIGURES
    make_folder(figures)
    packed = bundle(inspection)
    lines, total = skipped(inspection)
    page = (
        environment()
        .get_template("inspection.html.j2")
        .render(
            title=inert(inspection.folder.resolve().name, 80),
            facts=facts(inspection),
            sheets=["report.css", "inspection.css"],
            scripts=scripts(),
            verdict=verdict(inspection),
            counts=counts(inspection.scored),
            verifier=verifier(inspection),
            sections=[(item, [picture(panel, figures) for panel in item.panels]) for item in sections],
            bundle=packed,
            settings=_settings(inspection, packed),
            has=_known(inspection),
            score=score_name(inspection),
            redacted=inspection.redacted,
            skipped=lines,
            skipped_total=total,
            repeated=repeated(inspection),
            summary=inert(json.dumps(dict(inspection.summary), indent=2, ensure_ascii=False), SUMMARY_LIMIT),
        )
    )
    report = inspection.folder / REPORT_FILE
    write(report, page.encode("utf-8", errors="replace"))
    return report


def scripts() -> list[Inline]:
    """The page's programs: the vendored library with its licence, and our own."""
    temml = ASSETS / "temml"
    licence = (temml / "LICENSE").read_text(encoding="utf-8")
    library = (temml / "temml.min.js").read_text(encoding="utf-8")
    ours = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in PROGRAM)
    return [
        inline(f"/*! Temml 0.13.5, https://temml.org\n{licence}*/\n{library}"),
        inline(f'"use strict";\n(() => {{\n{ours}\n}})();\n'),
    ]


def _settings(inspection: Inspection, packed: Bundle) -> str:
    """What the program must know before it opens a piece; whole numbers and fixed words only."""
    content = {
        "score": score_name(inspection),
        "redacted": inspection.redacted,
        "texts": len(packed.texts),
        "pairs": len(packed.pairs),
        "compares": inspection.pairs is not None,
    }
    return json.dumps(content)


def _known(inspection: Inspection) -> dict[str, bool]:
    """Which filters make sense here."""
    scored = inspection.scored
    columns = {"correct": "correct", "scores": "score", "probabilities": "probability_wrong"}
    known = {name: bool(scored[column].notna().any()) for name, column in columns.items()}
    return known | {"steps": scored["step"].nunique() > 1}


# --- figures ----------------------------------------------------------------------------------------------------------

GEOMETRIC = ("geoalign", "geoalign_released")


def inspection_sections(inspection: Inspection, run: Run) -> list[Section]:
    """The figures in their order; a section without a picture says why."""
    suspects = [*_scores(inspection, run), *_densities(inspection, run)]
    sections = [
        section("scores", "Who is suspected, and where the threshold lies", suspects),
        section("directions", "Directions before and after the projector", _directions(inspection)),
    ]
    if len(run.rollouts) > 1:
        sections.append(section("steps", "From step to step", _steps(run)))
    return sections


def score_name(inspection: Inspection) -> str:
    """What the curator's score is called."""
    kind = inspection.curator.get("type")
    return "GDI" if kind in GEOMETRIC else "log-odds" if kind == "denoise" else "score"


def _scores(inspection: Inspection, run: Run) -> list[Panel | str]:
    kind = score_name(inspection)
    first = rank_panel(run.rollouts, kind)
    if isinstance(first, str):
        return [first]
    curves = [rank_curve(step) for step in run.rollouts if step.scored.any()]
    known = any(curve.flipped.any() for curve in curves)
    flips: list[Panel | str] = [pooled_panel(curves), tenths_panel(curves)] if known else []
    return [first, reward_score_panel(run.rollouts, kind), *flips]


def _densities(inspection: Inspection, run: Run) -> list[Panel | str]:
    table = inspection.densities
    if table is None or not len(table):
        return ["No density was drawn: this curator has none, or there were too few scores, or all of them were equal."]
    alpha = number(inspection.curator.get("alpha"))
    rollouts = {step.step: step for step in run.rollouts}
    panels: list[Panel | str] = []
    for step in first_middle_last(np.unique(table["step"]).tolist()):
        rows = table[table["step"] == step]
        grid, heights = rows["score"].to_numpy(), rows["density"].to_numpy()
        density = Density(
            grid=grid,
            density=heights,
            peak=float(rows["peak"].iloc[0]),
            mode=float(grid[np.argmax(heights)]),
            alpha=float("nan") if alpha is None else alpha,
            threshold=float(rows["threshold"].iloc[0]),
        )
        panels.append(density_panel(step, density, rollouts.get(step)))
    return panels


def _directions(inspection: Inspection) -> list[Panel | str]:
    pairs = inspection.pairs
    if pairs is None or not len(pairs):
        return ["This curator compares no pairs, or no group had two different rewards."]
    step = int(pairs["step"].max())
    last = pairs[pairs["step"] == step]
    none = np.empty((0, 2))
    details = Details(
        step=step,
        winner=last["better"].to_numpy(),
        loser=last["worse"].to_numpy(),
        raw_cosine=last["raw_cosine"].to_numpy(),
        projected_cosine=last["projected_cosine"].to_numpy(),
        density=None,
        plane_pairs=np.empty(0, dtype=np.int64),
        raw_plane=none,
        projected_plane=none,
    )
    names = ("raw_cosine", "projected_cosine")
    drawn = zip(names, cosine_panels(details), strict=True)
    known: list[Panel | str] = [panel for name, panel in drawn if np.isfinite(getattr(details, name)).all()]
    return known or ["The curator kept no cosines of its pairs."]


def _steps(run: Run) -> list[Panel | str]:
    reward = reward_panel(run)
    if isinstance(reward, Panel):
        reward = replace(reward, title="Reward by step")
    scored = any(step.scored.any() for step in run.rollouts)
    return [reward, actions_panel(run) if scored else "No step has scores.", projector_panel(run)]
