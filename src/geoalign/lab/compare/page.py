"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.console.numbers import duration, share
from geoalign.errors import RunFolderError
from geoalign.files.json_files import read_lines, read_text
from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.folder import COMPACT, ComparisonFolder
from geoalign.lab.compare.meaning import meaning, more_seeds
from geoalign.lab.compare.page_tables import level_sheets
from geoalign.lab.compare.panels import further_panels, leading_panels, robustness_panels, slug
from geoalign.lab.compare.plan import CellKey
from geoalign.lab.compare.results import write_compact
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.compare.table import PRIMARY, LevelTable, Table
from geoalign.lab.runs.flagged import FlaggedRollout, flagged_rollouts
from geoalign.lab.runs.folder import ROLLOUTS, RunFolder, step_files
from geoalign.lab.runs.reading import parse_metrics
from geoalign.lab.runs.rollouts import read_rollout_file
from geoalign.pages.documents import Gallery, write_page
from geoalign.settings.yaml_text import read_yaml
from geoalign.text import seed_ranges, visible

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400
HEADLINE_LIMIT = 2000


def build_comparison_report(folder: Path, table: Table | None = None) -> Path:
    """Writes report.html and figures/ into a comparison's folder, from `results/` and `compare.yaml` alone; rollouts
    are shown where the folders of the runs were kept."""
    files = ComparisonFolder(folder)
    table = table or read_table(files.root)
    gallery = Gallery(files.figures)
    # The versions may have been left out of what was committed.
    versions = read_text(files.versions).strip() if files.versions.exists() else "versions.json is not there"
    robustness = robustness_panels(table.levels, table.plan)
    run = read_yaml(files.config)[0].get("run") or {}
    return write_page(
        files.report,
        Path(__file__).with_name("comparison.html.j2"),
        title=_title(table, run),
        facts=_facts(table, files),
        table=table,
        meaning=meaning(table, run),
        more_seeds=more_seeds(table),
        levels=[_level(level, table.plan, gallery) for level in table.levels],
        overview=gallery.section("robustness", "By the share of wrong rewards", robustness),
        examples=_examples(table, files),
        failures=[(item, visible(item.error, ERROR_LIMIT)) for item in table.failures],
        missing=_missing(table),
        config=visible(read_text(files.config), CONFIG_LIMIT),
        versions=visible(versions, CONFIG_LIMIT),
        notes=[visible(note) for note in table.notes],
    )


# So many sentences on comparisons that were not planned stand open where none was.
_MOST_UNPLANNED = 4
# A title names the arms where they are so few.
_ARMS_NAMED = 4


def _title(table: Table, run: Mapping[str, Any]) -> str:
    """What was compared: the arms, the task, the wrong rewards, the seeds."""
    plan = table.plan
    names = [visible(arm, 40) for arm in plan.arms]
    arms = f"{len(names)} arms"
    if len(names) <= _ARMS_NAMED:
        arms = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    task = (run.get("task") or {}).get("type")
    on_task = f" on {visible(str(task), 40)}" if task else ""
    rewards = f"{len(table.levels)} levels of wrong rewards"
    if len(table.levels) == 1:
        rewards = _heading(table.levels[0])
    seeds = "one seed" if len(plan.seeds) == 1 else f"{len(plan.seeds)} seeds"
    return f"{arms}{on_task}: {rewards}, {seeds}"


def _level(level: LevelTable, plan: CompareConfig, gallery: Gallery) -> dict[str, Any]:
    headroom, *others = level.statements
    # Where nothing was planned, a few of the others say what was found.
    shown = [item for item in others if item.kind == PRIMARY] or others[:_MOST_UNPLANNED]
    sections = [gallery.section(*part) for part in further_panels(level, plan)]
    return {
        "name": visible(level.level, 60),
        "anchor": f"level-{slug(level.level)}",
        "heading": _heading(level),
        "headline": visible(level.headline, HEADLINE_LIMIT),
        "footnote": visible(level.footnote, HEADLINE_LIMIT),
        "leading": gallery.section("leading", "", leading_panels(level, plan)),
        "findings": [headroom, *shown],
        "further": [item for item in others if item not in shown],
        "sheets": level_sheets(level, plan),
        "sections": [section for section in sections if section.pictures],
    }


def _heading(level: LevelTable) -> str:
    """The wrong rewards of a level in words."""
    if not level.corruption:
        return "no wrong rewards" if level.rate == 0 else "share of wrong rewards unknown"
    parts = [_KINDS[kind].format(share(rate)) for kind, rate in level.corruption.items()]
    return " and ".join(parts)


_KINDS = {
    "flip": "{} of the verdicts flipped",
    "extremes": "{} of the rewards at the wrong end of their group",
    "shortcut": "a shortcut of {} rewarded",
}


def _facts(table: Table, files: ComparisonFolder) -> list[tuple[str, str]]:
    rows = [row for level in table.levels for row in level.rows]
    seconds = [cell.seconds for row in rows for cell in (*row.cells, *row.failures) if not math.isnan(cell.seconds)]
    facts = [
        ("folder", visible(files.root.resolve().name, 80)),
        ("runs finished", f"{sum(len(row.cells) for row in rows)} of {len(table.plan.seeds) * len(rows)}"),
    ]
    return [*facts, ("time of all runs", duration(sum(seconds)))] if seconds else facts


# Flagged rollouts that are shown.
_EXAMPLES = 6


def _examples(table: Table, files: ComparisonFolder) -> dict[str, Any] | None:
    """Rollouts that an arm flagged in a run whose folder was kept, the primary arm before others; None without any."""
    for level in table.levels:
        for row in sorted(level.rows, key=lambda row: row.role != PRIMARY):
            for cell in row.cells:
                run = files.run(CellKey(cell.level, cell.arm, cell.seed))
                shown = _flagged_in(run) if run.config.is_file() else []
                if shown:
                    whose = f"{visible(cell.arm, 60)} at {visible(cell.level, 60)}, seed {cell.seed}"
                    return {"whose": whose, "rollouts": shown}
    return None


def _flagged_in(run: RunFolder) -> list[FlaggedRollout]:
    """Flagged rollouts of the last generation that has some."""
    curator = run.read_config().get("curator") or {}
    metrics = [parse_metrics(line) for line in read_lines(run.metrics)]
    for step, path in reversed(step_files(run.rollouts, ROLLOUTS)):
        rollouts = read_rollout_file(step, path)
        if rollouts.anomalous.any():
            return flagged_rollouts(rollouts, curator, metrics, _EXAMPLES)
    return []


def _missing(table: Table) -> list[str]:
    """Planned runs without a result, by level and seeds."""
    arms_of: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for level in table.levels:
        for row in level.rows:
            if row.missing:
                arms_of.setdefault((row.level, row.missing), []).append(visible(row.arm, 60))
    return [
        f"{visible(level, 60)}, seed {seed_ranges(seeds)}: {', '.join(arms)}"
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
