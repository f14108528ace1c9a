"""From the results of a comparison to one self-contained page: report.html, its pictures also under figures/."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.analysis.comparison.analysis import Compared, read_compared
from geoalign.lab.analysis.comparison.groups import ALPHA, DEPTH, Sweep, Variant, reference, sweep, variants
from geoalign.lab.analysis.comparison.recovery import footnote, recovery
from geoalign.lab.analysis.comparison.recovery import headline as what_was_recovered
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Statement, Table
from geoalign.lab.config.compare import METRICS
from geoalign.lab.reports.comparison.curves import (
    evaluation_panels,
    logged_panels,
    pass_at_k_panel,
    projector_panel,
    proxy_and_gold_panels,
    seeds_panels,
)
from geoalign.lab.reports.comparison.looks import heading, slug
from geoalign.lab.reports.comparison.scores import (
    alpha_panel,
    detection_panel,
    differences_panel,
    distribution_panels,
    rank_panels,
    recovered_panel,
    robustness_panels,
)
from geoalign.lab.reports.documents import Drawn, Section, environment, make_folder, picture, section, write
from geoalign.lab.store.comparison import COMPACT, ComparisonFolder
from geoalign.lab.store.comparison_results import Cell, write_compact
from geoalign.lab.store.json_files import read_text
from geoalign.lab.text import inert

CONFIG_LIMIT = 40_000
ERROR_LIMIT = 400


@dataclass(frozen=True)
class Opening:
    """What a level's wrong rewards cost and what was recovered: a headline, a note, the picture of it."""

    headline: str
    note: str
    section: Section


@dataclass(frozen=True)
class LevelPage:
    """One level as the template shows it.

    Attributes:
        anchor: its address inside the page.
        heading: what is corrupted.
        opening: what the page begins with; None where the level has no arm without wrong rewards.
        leading: sentences on the primary comparisons; `further`: all others but the headroom.
        reference: the arm that variants are variants of; None without GeoAlign.
        sections: those with pictures; `undrawn`: why others have none.
    """

    table: LevelTable
    anchor: str
    heading: str
    opening: Opening | None
    headroom: Statement
    leading: tuple[Statement, ...]
    further: tuple[Statement, ...]
    reference: ArmRow | None
    depth: Sweep | None
    variants: tuple[Variant, ...]
    sections: tuple[Section, ...]
    undrawn: tuple[str, ...]


def build_comparison_report(folder: Path, compared: Compared | None = None) -> Path:
    """Writes report.html and figures/*.svg into a comparison's folder and returns the page.

    Needs `results/` and `compare.yaml` alone, so that the page can be built again from what was committed; the page
    lists cells that are missing or failed. Files are replaced in one piece.

    Args:
        compared: what the folder holds, where it was read before.
    """
    files = ComparisonFolder(folder)
    compared = compared or read_compared(files.root)
    plan, table = compared.plan, compared.table
    levels = [_level_page(level, compared) for level in table.levels]
    overview = section("robustness", "Robustness against the corruption rate", robustness_panels(table.levels, plan))
    openings = [level.opening.section for level in levels if level.opening]
    # The versions may have been left out of what was committed.
    versions = read_text(files.versions).strip() if files.versions.exists() else "versions.json is not there"
    make_folder(files.figures)
    pictures = {
        panel.name: picture(panel, files.figures)
        for part in (overview, *openings, *(item for level in levels for item in level.sections))
        for panel in part.panels
    }
    page = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            title=inert(files.root.resolve().name, 80),
            facts=_facts(compared),
            table=table,
            plan=plan,
            metric=METRICS[plan.metric],
            levels=levels,
            overview=overview,
            pictures=pictures,
            failures=[(item, inert(item.error, ERROR_LIMIT)) for item in table.failures],
            missing=_missing(table),
            config=inert(read_text(files.config), CONFIG_LIMIT),
            versions=inert(versions, CONFIG_LIMIT),
            notes=[inert(note) for note in table.notes],
        )
    )
    write(files.report, page.encode("utf-8"))
    return files.report


def _level_page(level: LevelTable, compared: Compared) -> LevelPage:
    like = reference(level.rows, compared.plan)
    drawn = [section(name, title, panels) for name, title, panels in _sections(level, like, compared)]
    headroom, *others = level.statements
    return LevelPage(
        table=level,
        anchor=f"level-{slug(level.level)}",
        heading=heading(level),
        opening=_opening(level, compared),
        headroom=headroom,
        leading=tuple(item for item in others if item.kind == "primary"),
        further=tuple(item for item in others if item.kind != "primary"),
        reference=like,
        depth=sweep(level.rows, DEPTH, like) if like else None,
        variants=tuple(variants(level.rows, like)) if like else (),
        sections=tuple(item for item in drawn if item.panels),
        undrawn=tuple(reason for item in drawn if not item.panels for reason in item.reasons),
    )


def _opening(level: LevelTable, compared: Compared) -> Opening | None:
    found = recovery(level, compared.plan)
    if found is None:
        return None
    panel = recovered_panel(level, found, compared.finished(level.level), compared.plan)
    return Opening(what_was_recovered(found, compared.plan), footnote(found), section("recovered", "", [panel]))


def _sections(level: LevelTable, like: ArmRow | None, compared: Compared) -> list[tuple[str, str, list[Drawn]]]:
    plan = compared.plan

    def cells_of(row: ArmRow) -> list[Cell]:
        return compared.finished(level.level, row.arm)

    none = f"No GeoAlign arm has a finished run at {inert(level.level, 40)}"
    alpha = sweep(level.rows, ALPHA, like) if like else None
    no_sweep = f"No two arms at {inert(level.level, 40)} differ in alpha alone."
    no_gold = f"No gold utility is known at {inert(level.level, 40)}, so reward hacking cannot be seen."
    ranks: list[Drawn] = [f"{none}: no ranking by GDI."]
    distributions: list[Drawn] = [f"{none}: no distribution of its scores."]
    projector: Drawn = f"{none}."
    if like is not None:
        mine = cells_of(like)
        ranks = [*rank_panels(level, like.arm, mine), detection_panel(level, like)]
        distributions = distribution_panels(level, like.arm, mine)
        projector = projector_panel(level, like, mine)
    training = logged_panels(level, cells_of, ("reward", "true_reward", "mean_abs_advantage"), plan)
    return [
        ("scores", "Final scores", [differences_panel(level, plan)]),
        ("curves", "Evaluation curves", evaluation_panels(level, plan.metric)),
        ("hacking", "Proxy reward against gold utility", proxy_and_gold_panels(level, plan.metric) or [no_gold]),
        ("ranks", "Where corrupted rewards stand in the ranking", ranks),
        ("distributions", "Cumulative against mean scores", distributions),
        ("alpha", "Sensitivity to alpha", [alpha_panel(level, alpha, plan) if alpha else no_sweep]),
        ("projector", "Does the projector generalise?", [projector]),
        ("seeds", "Seed by seed, and training", [*seeds_panels(level, plan.metric), *training]),
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
    for level in table.levels:
        for row in level.rows:
            if row.missing:
                arms_of.setdefault((level.level, row.missing), []).append(inert(row.arm, 60))
    return [
        f"{inert(level, 60)}, seed {', '.join(map(str, seeds))}: {', '.join(arms)}"
        for (level, seeds), arms in arms_of.items()
    ]


def compact_comparison(folder: Path, into: Path) -> Path:
    """Writes the comparison in `folder` to the folder `into`, with all results in one file, and returns that file.

    `geoalign report` makes the same table and page of it. Of the snapshots those alone are kept that the page draws:
    of the arm, at each level, that the others are variants of.
    """
    folder, into = Path(folder), Path(into)
    compared = read_compared(folder)
    references = [(level.level, reference(level.rows, compared.plan)) for level in compared.table.levels]
    arms = [(level, row.arm) for level, row in references if row is not None]
    make_folder(into)
    if into.resolve() == folder.resolve() or ComparisonFolder(into).results.exists():
        raise RunFolderError(f"{into}: expected a folder without results, got one with results of a comparison")
    for path in ComparisonFolder(folder).beside_results():
        if path.is_file():
            shutil.copyfile(path, into / path.name)
    write_compact(folder, into / COMPACT, arms)
    return into / COMPACT
