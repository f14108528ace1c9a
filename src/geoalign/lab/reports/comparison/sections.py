"""What the page shows of each level: pictures by section, the tables of ablations, and why something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geoalign.lab.analysis.comparison.groups import ALPHA, DEPTH, Sweep, Variant, reference, sweep, variants
from geoalign.lab.analysis.comparison.recovery import footnote, recovery
from geoalign.lab.analysis.comparison.recovery import headline as what_was_recovered
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Statement, Table
from geoalign.lab.reports.comparison.figures.curves import evaluation_panels, proxy_and_gold_panels, seeds_panels
from geoalign.lab.reports.comparison.figures.palette import heading, slug
from geoalign.lab.reports.comparison.figures.recovered import recovered_panel
from geoalign.lab.reports.comparison.figures.scores import alpha_panel, differences_panel, robustness_panels
from geoalign.lab.reports.comparison.figures.snapshots import distribution_panels, rank_panels
from geoalign.lab.reports.comparison.figures.training_dynamics import (
    detection_panel,
    logged_panels,
    pass_at_k_panel,
    projector_panel,
)
from geoalign.lab.reports.sections import Drawn, Section, section
from geoalign.lab.store.comparison_plan import Plan
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.text import inert


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
        opening: what the page begins with; None where the level has no arm without wrong rewards.
        heading: what is corrupted.
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
    alpha: Sweep | None
    depth: Sweep | None
    variants: tuple[Variant, ...]
    sections: tuple[Section, ...]
    undrawn: tuple[str, ...]


def overview_section(table: Table, plan: Plan) -> Section:
    """Pictures over all levels: robustness against the corruption rate."""
    return section("robustness", "Robustness against the corruption rate", robustness_panels(table.levels, plan))


def level_page(level: LevelTable, cells: Sequence[Cell], plan: Plan) -> LevelPage:
    """Everything about one level."""
    like = reference(level.rows, plan)
    alpha = sweep(level.rows, ALPHA, like) if like else None
    drawn = [section(name, title, panels) for name, title, panels in _sections(level, like, alpha, cells, plan)]
    headroom, *others = level.statements
    return LevelPage(
        table=level,
        anchor=f"level-{slug(level.level)}",
        heading=heading(level),
        opening=_opening(level, cells, plan),
        headroom=headroom,
        leading=tuple(item for item in others if item.kind == "primary"),
        further=tuple(item for item in others if item.kind != "primary"),
        reference=like,
        alpha=alpha,
        depth=sweep(level.rows, DEPTH, like) if like else None,
        variants=tuple(variants(level.rows, like)) if like else (),
        sections=tuple(item for item in drawn if item.panels),
        undrawn=tuple(reason for item in drawn if not item.panels for reason in item.reasons),
    )


def _opening(level: LevelTable, cells: Sequence[Cell], plan: Plan) -> Opening | None:
    found = recovery(level, plan)
    if found is None:
        return None
    here = [cell for cell in cells if cell.level == level.level and cell.finished]
    drawn = section("recovered", "", [recovered_panel(level, found, here, plan)])
    return Opening(what_was_recovered(found, plan), footnote(found), drawn)


def _sections(
    level: LevelTable, like: ArmRow | None, alpha: Sweep | None, cells: Sequence[Cell], plan: Plan
) -> list[tuple[str, str, list[Drawn]]]:
    def cells_of(row: ArmRow) -> list[Cell]:
        return [cell for cell in cells if cell.level == level.level and cell.arm == row.arm and cell.finished]

    none = f"No GeoAlign arm has a finished run at {inert(level.level, 40)}"
    no_sweep = f"No two arms at {inert(level.level, 40)} differ in alpha alone."
    mine = cells_of(like) if like else []
    ranks: list[Drawn] = [f"{none}: no ranking by GDI."]
    distributions: list[Drawn] = [f"{none}: no distribution of its scores."]
    if like is not None:
        ranks = [*rank_panels(level, like.arm, mine), detection_panel(level, like)]
        distributions = distribution_panels(level, like.arm, mine)
    return [
        ("scores", "Final scores", [differences_panel(level, plan)]),
        ("curves", "Evaluation curves", evaluation_panels(level, plan.metric)),
        ("hacking", "Proxy reward against gold utility", _hacking(level, plan)),
        ("ranks", "Where corrupted rewards stand in the ranking", ranks),
        ("distributions", "Cumulative against mean scores", distributions),
        ("alpha", "Sensitivity to alpha", [alpha_panel(level, alpha, plan) if alpha else no_sweep]),
        ("projector", "Does the projector generalise?", [projector_panel(level, like, mine) if like else f"{none}."]),
        (
            "seeds",
            "Seed by seed, and training",
            [
                *seeds_panels(level, plan.metric),
                *logged_panels(level, cells_of, ("reward", "true_reward", "mean_abs_advantage"), plan),
            ],
        ),
        ("policy", "How far the policy moved", logged_panels(level, cells_of, ("ppo_kl", "clip_fraction"), plan)),
        ("diversity", "pass@k", [pass_at_k_panel(level)]),
    ]


def _hacking(level: LevelTable, plan: Plan) -> list[Drawn]:
    panels = proxy_and_gold_panels(level, plan.metric)
    return panels or [f"No gold utility is known at {inert(level.level, 40)}, so reward hacking cannot be seen."]
