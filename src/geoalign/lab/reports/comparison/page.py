"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.analysis.comparison.analysis import analyse, planned_cells
from geoalign.lab.analysis.comparison.table import Table
from geoalign.lab.reports.comparison.sections import level_page, overview_section
from geoalign.lab.reports.documents import make_folder, picture, write
from geoalign.lab.reports.formats import environment
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.comparison_plan import METRICS, Plan, read_plan
from geoalign.lab.store.comparison_results import Cell, read_results
from geoalign.lab.store.json_files import read_json, read_text
from geoalign.lab.text import inert
from geoalign.settings.masking import masked_yaml

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400


def build_comparison_report(folder: Path) -> Path:
    """Writes report.html and figures/*.svg into a comparison's folder and returns the page.

    Needs `results/` and `compare.yaml` alone, so that the page can be built again from what was committed; the page
    lists cells that are missing or failed. Files are replaced in one piece.

    Raises:
        RunFolderError: the plan or a result cannot be read; the message names it.
    """
    folder = Path(folder)
    files = ComparisonFolder(folder)
    plan = read_plan(folder)
    cells = read_results(folder)
    table = analyse(cells, plan)
    kept = planned_cells(cells, plan)
    levels = [level_page(level, kept, plan) for level in table.levels]
    overview = overview_section(table, plan)
    figures = files.figures
    make_folder(figures)
    drawn = {
        panel.name: picture(panel, figures)
        for section in (
            overview,
            *(level.opening.section for level in levels if level.opening),
            *(item for level in levels for item in level.sections),
        )
        for panel in section.panels
    }
    page = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            title=inert(folder.resolve().name, 80),
            facts=_facts(kept, table, plan),
            table=table,
            plan=plan,
            metric=METRICS[plan.metric],
            levels=levels,
            overview=overview,
            pictures=drawn,
            failures=[(item, inert(item.error, ERROR_LIMIT)) for item in table.failures],
            missing=_missing(table),
            config=inert(masked_yaml(read_text(files.config)), CONFIG_LIMIT),
            versions=inert(_versions(folder), CONFIG_LIMIT),
            notes=[inert(note) for note in table.notes],
        )
    )
    report = files.report
    write(report, page.encode("utf-8"))
    return report


def _facts(cells: Sequence[Cell], table: Table, plan: Plan) -> list[tuple[str, str]]:
    finished = sum(cell.finished for cell in cells)
    planned = len(plan.seeds) * sum(plan.planned(arm, level) for arm in plan.arms for level in plan.levels)
    hours = sum(cell.seconds for cell in cells if not math.isnan(cell.seconds)) / 3600
    updates = plan.updates_per_generation
    return [
        ("compared", METRICS[plan.metric]),
        ("arms", str(len(plan.arms))),
        ("levels", str(len(table.levels))),
        ("seeds", str(len(plan.seeds))),
        ("runs finished", f"{finished} of {planned}"),
        ("time of all runs", f"{hours:.1f} h"),
        ("updates per generation", "unknown" if updates is None else f"{updates:g}"),
    ]


def _missing(table: Table) -> list[str]:
    """Planned cells without a result, by level and seeds."""
    arms_of: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for level in table.levels:
        for row in level.rows:
            if row.missing:
                arms_of.setdefault((level.level, row.missing), []).append(inert(row.arm, 60))
    return [
        f"{inert(level, 60)}, seed {', '.join(map(str, seeds))}: {', '.join(arms)}"
        for (level, seeds), arms in arms_of.items()
    ]


def _versions(folder: Path) -> str:
    """The versions beside the results; they may have been left out of what was committed."""
    path = ComparisonFolder(folder).versions
    if not path.exists():
        return "versions.json is not there"
    try:
        return json.dumps(read_json(path), indent=2, ensure_ascii=False)
    except RunFolderError as error:
        return f"versions.json could not be read: {error}"
