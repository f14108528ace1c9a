"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.analysis.comparison.analysis import Compared, read_compared, reference
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Table
from geoalign.lab.analysis.comparison.verdicts import footnote, headline, recovery
from geoalign.lab.config.compare import METRICS
from geoalign.lab.reports.comparison.curves import (
    evaluation_panels,
    hacking_panels,
    logged_panels,
    pass_at_k_panel,
    projector_panel,
    slug,
)
from geoalign.lab.reports.comparison.scores import (
    differences_panel,
    kept_rank_panel,
    recovered_panel,
    robustness_panels,
)
from geoalign.lab.reports.documents import Drawn, Gallery, write_page
from geoalign.lab.store.comparison import COMPACT, Cell, ComparisonFolder, write_compact
from geoalign.lab.store.json_files import read_text
from geoalign.text import visible

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400


def build_comparison_report(folder: Path, compared: Compared | None = None) -> Path:
    """Writes report.html and figures/ into a comparison's folder, from `results/` and `compare.yaml` alone."""
    files = ComparisonFolder(folder)
    compared = compared or read_compared(files.root)
    plan, table = compared.plan, compared.table
    gallery = Gallery(files.figures)
    # The versions may have been left out of what was committed.
    versions = read_text(files.versions).strip() if files.versions.exists() else "versions.json is not there"
    return write_page(
        files.report,
        "comparison.html.j2",
        title=visible(files.root.resolve().name, 80),
        facts=_facts(compared),
        table=table,
        plan=plan,
        metric=METRICS[plan.metric],
        levels=[_level(level, compared, gallery) for level in table.levels],
        overview=gallery.section(
            "robustness", "Robustness against the corruption rate", robustness_panels(table.levels, plan)
        ),
        failures=[(item, visible(item.error, ERROR_LIMIT)) for item in table.failures],
        missing=_missing(table),
        config=visible(read_text(files.config), CONFIG_LIMIT),
        versions=visible(versions, CONFIG_LIMIT),
        notes=[visible(note) for note in table.notes],
    )


def _level(level: LevelTable, compared: Compared, gallery: Gallery) -> dict[str, Any]:
    like = reference(level.rows, compared.plan)
    found = recovery(level, compared.plan)
    drawn = [gallery.section(name, title, panels) for name, title, panels in _sections(level, like, compared)]
    sentences = level.statements[1:]
    opening = None
    if found is not None:
        pictures = gallery.section("recovered", "", [recovered_panel(level, found, compared.plan)])
        opening = (headline(found, compared.plan), footnote(found), pictures)
    return {
        "table": level,
        "anchor": f"level-{slug(level.level)}",
        "heading": _heading(level),
        "opening": opening,
        "headroom": level.statements[0],
        "leading": [item for item in sentences if item.kind == "primary"],
        "further": [item for item in sentences if item.kind != "primary"],
        "sections": [item for item in drawn if item.pictures],
        "undrawn": [reason for item in drawn if not item.pictures for reason in item.reasons],
    }


def _heading(level: LevelTable) -> str:
    if not level.corruption:
        return "nothing corrupted" if level.rate == 0 else "corruption unknown"
    return ", ".join(f"{kind} {rate:.0%}" for kind, rate in level.corruption.items())


def _sections(level: LevelTable, like: ArmRow | None, compared: Compared) -> list[tuple[str, str, list[Drawn]]]:
    plan = compared.plan

    def cells_of(row: ArmRow) -> list[Cell]:
        return compared.finished(level.level, row.arm)

    ranks: list[Drawn] = []
    projector: list[Drawn] = [f"No GeoAlign arm has a finished run at {visible(level.level, 40)}."]
    if like is not None:
        mine = cells_of(like)
        ranks = [kept_rank_panel(level, like.arm, mine)]
        projector = [projector_panel(level, like, mine)]
    return [
        ("scores", "Final scores", [differences_panel(level, plan)]),
        ("curves", "Evaluation curves", evaluation_panels(level, plan.metric)),
        ("hacking", "Proxy reward against gold utility", hacking_panels(level, plan.metric)),
        ("ranks", "Where corrupted rewards stand in the ranking", ranks),
        ("projector", "Does the projector generalise?", projector),
        ("training", "Training", logged_panels(level, cells_of, ("reward", "true_reward"), plan)),
        ("policy", "How far the policy moved", logged_panels(level, cells_of, ("ppo_kl", "clip_fraction"), plan)),
        ("diversity", "pass@k", [pass_at_k_panel(level)]),
    ]


def _facts(compared: Compared) -> list[tuple[str, str]]:
    plan, cells = compared.plan, compared.cells
    planned = len(plan.seeds) * sum(plan.planned(arm, level) for arm in plan.arms for level in plan.levels)
    hours = sum(cell.seconds for cell in cells if not math.isnan(cell.seconds)) / 3600
    updates = plan.updates_per_generation
    return [
        ("compared", METRICS[plan.metric]),
        ("arms", str(len(plan.arms))),
        ("levels", str(len(compared.table.levels))),
        ("seeds", str(len(plan.seeds))),
        ("runs finished", f"{sum(cell.finished for cell in cells)} of {planned}"),
        ("time of all runs", f"{hours:.1f} h"),
        ("updates per generation", "unknown" if updates is None else f"{updates:g}"),
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
    """Writes the comparison in `folder` to `into`, all results in one file, with those snapshots alone that the page
    draws."""
    folder, into = Path(folder), Path(into)
    compared = read_compared(folder)
    references = [(level.level, reference(level.rows, compared.plan)) for level in compared.table.levels]
    arms = [(level, row.arm) for level, row in references if row is not None]
    into.mkdir(exist_ok=True)
    if into.resolve() == folder.resolve() or ComparisonFolder(into).results.exists():
        raise RunFolderError(f"{into}: expected a folder without results, got one with results of a comparison")
    beside = ComparisonFolder(folder)
    for path in (beside.config, beside.versions, beside.table_csv):
        if path.is_file():
            shutil.copyfile(path, into / path.name)
    write_compact(folder, into / COMPACT, arms)
    return into / COMPACT
