"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.analysis.comparison.analysis import read_table
from geoalign.lab.analysis.comparison.table import LevelTable, Table
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import duration, share
from geoalign.lab.reports.comparison.panels import level_panels, robustness_panels, slug
from geoalign.lab.reports.documents import Gallery, write_page
from geoalign.lab.store.comparison import COMPACT, ComparisonFolder, write_compact
from geoalign.lab.store.json_files import read_text
from geoalign.text import visible

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400


def build_comparison_report(folder: Path, table: Table | None = None) -> Path:
    """Writes report.html and figures/ into a comparison's folder, from `results/` and `compare.yaml` alone."""
    files = ComparisonFolder(folder)
    table = table or read_table(files.root)
    plan, gallery = table.plan, Gallery(files.figures)
    # The versions may have been left out of what was committed.
    versions = read_text(files.versions).strip() if files.versions.exists() else "versions.json is not there"
    return write_page(
        files.report,
        "comparison.html.j2",
        title=visible(files.root.resolve().name, 80),
        facts=_facts(table),
        table=table,
        plan=plan,
        metric=METRICS[plan.metric],
        levels=[_level(level, table.plan, gallery) for level in table.levels],
        overview=gallery.section(
            "robustness", "Robustness against the corruption rate", robustness_panels(table.levels, plan)
        ),
        failures=[(item, visible(item.error, ERROR_LIMIT)) for item in table.failures],
        missing=_missing(table),
        config=visible(read_text(files.config), CONFIG_LIMIT),
        versions=visible(versions, CONFIG_LIMIT),
        notes=[visible(note) for note in table.notes],
    )


def _level(level: LevelTable, plan: CompareConfig, gallery: Gallery) -> dict[str, Any]:
    recovered, *drawn = [gallery.section(name, title, panels) for name, title, panels in level_panels(level, plan)]
    found, sentences = level.recovery, level.statements[1:]
    return {
        "table": level,
        "anchor": f"level-{slug(level.level)}",
        "heading": _heading(level),
        "opening": None if found is None else (found.headline, found.footnote, recovered),
        "headroom": level.statements[0],
        "leading": [item for item in sentences if item.kind == "primary"],
        "further": [item for item in sentences if item.kind != "primary"],
        "sections": [item for item in drawn if item.pictures],
        "undrawn": [reason for item in drawn if not item.pictures for reason in item.reasons],
    }


def _heading(level: LevelTable) -> str:
    if not level.corruption:
        return "nothing corrupted" if level.rate == 0 else "corruption unknown"
    return ", ".join(f"{kind} {share(rate)}" for kind, rate in level.corruption.items())


def _facts(table: Table) -> list[tuple[str, str]]:
    plan, rows = table.plan, [row for level in table.levels for row in level.rows]
    seconds = [cell.seconds for row in rows for cell in (*row.cells, *row.failures) if not math.isnan(cell.seconds)]
    updates = sorted({number for row in rows for number in row.updates})
    return [
        ("compared", METRICS[plan.metric]),
        ("arms", str(len(plan.arms))),
        ("levels", str(len(table.levels))),
        ("seeds", str(len(plan.seeds))),
        ("runs finished", f"{sum(len(row.cells) for row in rows)} of {len(plan.seeds) * len(rows)}"),
        ("time of all runs", duration(sum(seconds))),
        ("updates per generation", ", ".join(f"{number:g}" for number in updates) or "unknown"),
    ]


def _missing(table: Table) -> list[str]:
    """Planned cells without a result, by level and seeds."""
    arms_of: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for row in (row for level in table.levels for row in level.rows if row.missing):
        arms_of.setdefault((row.level, row.missing), []).append(visible(row.arm, 60))
    return [
        f"{visible(level, 60)}, seed {', '.join(map(str, seeds))}: {', '.join(arms)}"
        for (level, seeds), arms in arms_of.items()
    ]


def compact_comparison(folder: Path, into: Path) -> Path:
    """Writes the comparison in `folder` to `into`, all results in one file, with the snapshots that the page draws."""
    folder, into = Path(folder), Path(into)
    arms = [(level.level, row.arm) for level in read_table(folder).levels if (row := level.reference) is not None]
    into.mkdir(exist_ok=True)
    if into.resolve() == folder.resolve() or ComparisonFolder(into).results.exists():
        raise RunFolderError(f"{into}: expected a folder without results, got one with results of a comparison")
    beside = ComparisonFolder(folder)
    for path in (beside.config, beside.versions, beside.table_csv):
        if path.is_file():
            shutil.copyfile(path, into / path.name)
    write_compact(folder, into / COMPACT, arms)
    return into / COMPACT
