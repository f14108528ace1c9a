"""From a folder of `geoalign curate` to one self-contained page that opens from disk."""

from __future__ import annotations

import json
from pathlib import Path

from geoalign.lab.reports.documents import Inline, environment, inline, make_folder, picture, write
from geoalign.lab.reports.inspection.bundle import Bundle, bundle
from geoalign.lab.reports.inspection.overview import as_run, counts, facts, repeated, skipped, verdict, verifier
from geoalign.lab.reports.inspection.sections import inspection_sections, score_name
from geoalign.lab.store.curation import FIGURES, REPORT_FILE
from geoalign.lab.store.inspection import Inspection, read_inspection
from geoalign.lab.text import inert

ASSETS = Path(__file__).parent / "assets"
# In the order in which they build on one another; one program, so that none of their names is a global one.
PROGRAM = ("dom", "store", "diff", "formulas", "model", "search", "list", "texts", "detail", "main")
SUMMARY_LIMIT = 20_000


def build_inspection(folder: Path) -> Path:
    """Writes report.html and figures/*.svg into a folder of `geoalign curate`, from its tables alone; returns the page.

    Files are replaced in one piece, so that a reader never sees half of one.

    Raises:
        RunFolderError: a table or the summary cannot be read; the message names it.
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
