"""From a folder of `geoalign audit` to one self-contained page that opens from disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geoalign.lab.reports.documents import Drawn, Gallery, Inline, first_middle_last, inline, write_page
from geoalign.lab.reports.figures.scores import cosine_panel, density_panel, flag_panels, rank_curves, rank_panel
from geoalign.lab.reports.inspection.bundle import Bundle, bundle
from geoalign.lab.reports.inspection.overview import counts, facts, repeated, skipped, steps_of, verdict, verifier
from geoalign.lab.store.curation import FIGURES, REPORT_FILE, Inspection, read_inspection
from geoalign.lab.store.json_files import float_or_nan
from geoalign.lab.store.rollouts import Density, RolloutStep
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
    gallery = Gallery(inspection.folder / FIGURES)
    packed = bundle(inspection)
    lines, total = skipped(inspection)
    return write_page(
        inspection.folder / REPORT_FILE,
        "inspection.html.j2",
        title=inert(inspection.folder.resolve().name, 80),
        facts=facts(inspection),
        sheets=["report.css", "inspection.css"],
        scripts=scripts(),
        verdict=verdict(inspection),
        counts=counts(inspection.scored),
        verifier=verifier(inspection),
        sections=[gallery.section(name, title, drawn) for name, title, drawn in inspection_sections(inspection)],
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


def inspection_sections(inspection: Inspection) -> list[tuple[str, str, list[Drawn]]]:
    """The figures in their order; a section without a picture says why."""
    steps = steps_of(inspection)
    curves = rank_curves(steps)
    flips = [rank_panel(curves)] if any(curve.flipped.any() for curve in curves) else []
    suspects = [*flag_panels(steps, score_name(inspection)), *flips, *_densities(inspection, steps)]
    return [
        ("scores", "Who is suspected, and where the threshold lies", suspects),
        ("directions", "Directions before and after the projector", _directions(inspection)),
    ]


def score_name(inspection: Inspection) -> str:
    """What the curator's score is called."""
    kind = inspection.curator.get("type")
    return "GDI" if kind in GEOMETRIC else "log-odds" if kind == "denoise" else "score"


def _densities(inspection: Inspection, steps: Sequence[RolloutStep]) -> list[Drawn]:
    table = inspection.densities
    if table is None or not len(table):
        return ["No density was drawn: this curator has none, or there were too few scores, or all of them were equal."]
    alpha = float_or_nan(inspection.curator.get("alpha"))
    rollouts = {step.step: step for step in steps}
    panels: list[Drawn] = []
    for step in first_middle_last(np.unique(table["step"]).tolist()):
        rows = table[table["step"] == step]
        grid, heights = rows["score"].to_numpy(), rows["density"].to_numpy()
        density = Density(
            grid=grid,
            density=heights,
            peak=float(rows["peak"].iloc[0]),
            mode=float(grid[np.argmax(heights)]),
            alpha=alpha,
            threshold=float(rows["threshold"].iloc[0]),
        )
        panels.append(density_panel(step, density, rollouts.get(step)))
    return panels


def _directions(inspection: Inspection) -> list[Drawn]:
    pairs = inspection.pairs
    if pairs is None or not len(pairs):
        return ["This curator compares no pairs, or no group had two different rewards."]
    step = int(pairs["step"].max())
    raw, projected = (pairs.loc[pairs["step"] == step, name].to_numpy() for name in ("raw_cosine", "projected_cosine"))
    if not (np.isfinite(raw).all() and np.isfinite(projected).all()):
        return ["The curator kept no cosines of its pairs."]
    return [cosine_panel(step, raw, projected)]
