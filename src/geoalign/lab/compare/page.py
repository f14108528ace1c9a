"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.console.numbers import duration, share
from geoalign.errors import RunFolderError
from geoalign.files.json_files import read_written_text
from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.folder import COMPACT, ComparisonFolder
from geoalign.lab.compare.page_tables import level_sheets
from geoalign.lab.compare.panels import further_panels, leading_panels, robustness_panels
from geoalign.lab.compare.plan import CellKey
from geoalign.lab.compare.results import write_compact
from geoalign.lab.compare.table import PRIMARY, LevelTable, Table, shown_statements
from geoalign.lab.runs.flagged import flagged_rollouts
from geoalign.lab.runs.reading import read_run
from geoalign.pages.documents import Gallery, write_page
from geoalign.settings.yaml_text import read_yaml
from geoalign.text import enumerated, seed_ranges, visible

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400


def build_comparison_report(folder: Path, table: Table | None = None) -> Path:
    """Writes report.html and figures/ into a comparison's folder, from `results/` and `compare.yaml` alone; rollouts
    are shown where the folders of the runs were kept."""
    files = ComparisonFolder(folder)
    table = table or read_table(files.root)
    run = read_yaml(files.config)[0].get("run") or {}
    gallery = Gallery(files.figures)
    # A committed comparison may lack its versions.json.
    versions = read_written_text(files.versions).strip() if files.versions.exists() else "versions.json is not there"
    robustness = robustness_panels(table.levels, table.plan)
    return write_page(
        files.report,
        Path(__file__).with_name("comparison.html.j2"),
        title=_title(table, run),
        facts=_facts(table, files),
        table=table,
        meaning=meaning(table, run),
        more_seeds=len(table.plan.seeds) < _ENOUGH_SEEDS,
        levels=[_level(level, table, gallery) for level in table.levels],
        overview=gallery.section("robustness", "By the share of wrong rewards", robustness),
        examples=_examples(table, files),
        failures=[(item, visible(item.error, ERROR_LIMIT)) for item in table.failures],
        missing=_missing(table),
        config=visible(read_written_text(files.config), CONFIG_LIMIT),
        versions=visible(versions, CONFIG_LIMIT),
        notes=[visible(note) for note in table.notes],
    )


# A title names the arms where they are so few.
_ARMS_NAMED = 4


def _title(table: Table, run: Mapping[str, Any]) -> str:
    """What was compared: the arms, the task, the wrong rewards, the seeds."""
    plan = table.plan
    arms = enumerated(list(plan.arms)) if len(plan.arms) <= _ARMS_NAMED else f"{len(plan.arms)} arms"
    task = (run.get("task") or {}).get("type")
    on_task = f" on {visible(str(task), 40)}" if task else ""
    rewards = f"{len(table.levels)} levels of wrong rewards"
    if len(table.levels) == 1:
        rewards = _heading(table.levels[0])
    seeds = "one seed" if len(plan.seeds) == 1 else f"{len(plan.seeds)} seeds"
    return f"{arms}{on_task}: {rewards}, {seeds}"


def _level(level: LevelTable, table: Table, gallery: Gallery) -> dict[str, Any]:
    """What the template shows of a level."""
    findings, further = shown_statements(level)
    sections = [gallery.section(*part) for part in further_panels(level, table)]
    return {
        "name": level.level,
        "anchor": f"level-{level.level}",
        "heading": _heading(level),
        "headline": level.headline,
        "footnote": level.footnote,
        "leading": gallery.section("leading", "", leading_panels(level, table.plan)),
        "findings": findings,
        "further": further,
        "sheets": level_sheets(level, table.plan),
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


# With fewer seeds an interval is so wide that it hides most differences.
_ENOUGH_SEEDS = 5
_TASKS = {
    "arithmetic": "generated arithmetic problems",
    "math": "mathematics problems",
    "dialogue": "generated dialogues",
    "hh_rlhf": "the dialogues of HH-RLHF",
}


def meaning(table: Table, run: Mapping[str, Any]) -> str:
    """Sentences on how far the findings reach: the model, the task, the errors, the seeds. Empty without results.

    Args:
        run: the base run's settings as they stand in the comparison's file, where any of them may be missing.
    """
    counts = {len(row.seeds) for level in table.levels for row in level.rows}
    most = max(counts, default=0)
    if not most:
        return ""
    seeds = "One seed" if most == 1 else f"{most} seeds"
    if len(counts) > 1 and most > 1:
        seeds = f"Up to {seeds}"
    model = run.get("model") or {}
    toy = model.get("type") == "tiny"
    name = "a tiny model trained from scratch" if toy else visible(str(model.get("path") or "a model"), 80)
    task = _TASKS.get((run.get("task") or {}).get("type", ""))
    on_task = f" on {task}" if task else ""
    injected = any(level.corruption for level in table.levels)
    errors = ", with the errors that the rewards have by themselves"
    if injected:
        errors = ", with errors put into the rewards on purpose"
    elif all(level.rate == 0 for level in table.levels):
        errors = ", without wrong rewards"
    reach = ""
    if toy:
        reach = (
            " This is a toy: it shows how the arms compare here, not what they gain on a model and a verifier of yours."
        )
    elif injected:
        reach = " A verifier's own errors follow other patterns than injected ones: the gains may differ there."
    return f"{seeds} of {name}{on_task}{errors}.{reach}"


def _facts(table: Table, files: ComparisonFolder) -> list[tuple[str, str]]:
    """The few facts under the title, as name and value."""
    planned = sum(len(level.rows) for level in table.levels) * len(table.plan.seeds)
    finished = sum(len(row.seeds) for level in table.levels for row in level.rows)
    facts = [
        ("folder", visible(files.root.resolve().name, 80)),
        ("runs finished", f"{finished} of {planned}"),
    ]
    seconds = _known_seconds(table)
    if not seconds:
        return facts
    return [*facts, ("time of all runs", duration(sum(seconds)))]


def _known_seconds(table: Table) -> list[float]:
    """How long each run took, of those that finished and whose time is known.

    A run that fills the cells of several levels took its time once.
    """
    result_of_run = {
        result.same_run_as or CellKey(result.level, result.arm, result.seed).name: result
        for result in table.results
        if result.finished
    }
    rows = [row for result in result_of_run.values() for row in result.rows]
    seconds = [value for _, _, _, metric, value in rows if metric == "seconds"]
    return [value for value in seconds if not math.isnan(value)]


# Flagged rollouts that are shown.
_EXAMPLES = 6


def _examples(table: Table, files: ComparisonFolder) -> dict[str, Any] | None:
    """Rollouts that an arm flagged in the last generation with flags of a run whose folder was kept, the primary arm
    before others; None without any."""
    for level in table.levels:
        for row in sorted(level.rows, key=lambda row: row.role != PRIMARY):
            for seed in row.seeds:
                folder = files.run(CellKey(level.level, row.arm, seed))
                if not folder.config.is_file():
                    continue
                run = read_run(folder.root)
                flagged = [step for step in run.rollouts if step.anomalous.any()]
                if flagged:
                    whose = f"{row.arm} at {level.level}, seed {seed}"
                    return {"whose": whose, "rollouts": flagged_rollouts(run, flagged[-1], _EXAMPLES)}
    return None


def _missing(table: Table) -> list[str]:
    """Planned runs without a result, by level and seeds."""
    arms_of: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for level in table.levels:
        for row in level.rows:
            if row.missing:
                arms_of.setdefault((row.level, row.missing), []).append(row.arm)
    return [f"{level}, seed {seed_ranges(seeds)}: {', '.join(arms)}" for (level, seeds), arms in arms_of.items()]


def compact_comparison(folder: Path, into: Path) -> Path:
    """Writes the comparison in `folder` to `into`, all results in one file, with the snapshots that the page draws."""
    references = [level.reference for level in read_table(folder).levels]
    drawn = [(row.level, row.arm) for row in references if row is not None]
    into.mkdir(exist_ok=True)
    if into.resolve() == folder.resolve() or ComparisonFolder(into).results.exists():
        raise RunFolderError(f"{into}: expected a folder without results, got one with results of a comparison")
    source = ComparisonFolder(folder)
    for path in (source.config, source.versions, source.table_csv):
        if path.is_file():
            shutil.copyfile(path, into / path.name)
    write_compact(folder, into / COMPACT, drawn)
    return into / COMPACT
