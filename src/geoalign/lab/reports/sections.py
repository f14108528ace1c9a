"""The pictures of each section of a run's page, and why a section has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from geoalign.lab.analysis.run_detection import Detection, why_no_scores
from geoalign.lab.reports.figures.curves import accuracy_panel, proxy_panels, reward_panel
from geoalign.lab.reports.figures.details import cosine_panels, density_panel, plane_panels
from geoalign.lab.reports.figures.ranks import RankCurve, pooled_panel, rank_curve, step_panel, tenths_panel
from geoalign.lab.reports.figures.style import Panel
from geoalign.lab.reports.figures.training import actions_panel, areas_panel, clip_panel, kl_panel, projector_panel
from geoalign.lab.store.rollouts import Details
from geoalign.lab.store.run import Run

Item = TypeVar("Item")
# A picture, or the sentence that says why there is none.
Drawn = Panel | str


def first_middle_last(items: Sequence[Item]) -> list[Item]:
    """The first, middle and last item, each once: fewer than three where there are fewer."""
    return [items[index] for index in sorted({0, (len(items) - 1) // 2, len(items) - 1})] if items else []


@dataclass(frozen=True)
class Section:
    """A heading with pictures under it, and sentences that say why others are missing."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    reasons: tuple[str, ...]


def figure_sections(run: Run, details: dict[int, Details], detection: Detection) -> dict[str, Section]:
    """All sections with pictures, by name."""
    sections = (
        section("curves", "Reward and accuracy", [reward_panel(run), accuracy_panel(run), *proxy_panels(run)]),
        section("projector", "Does the projector generalise?", [projector_panel(run)]),
        section("ranks", "GDI by rank", _ranks(run, detection)),
        section("density", "GDI density and threshold", _densities(run, details)),
        section("cosines", "Directions before and after the projector", _directions(run, details)),
        section("policy", "How far the policy moved", [kl_panel(run), clip_panel(run)]),
    )
    return {section.name: section for section in sections}


def _ranks(run: Run, detection: Detection) -> list[Drawn]:
    missing = why_no_scores(run)
    if missing:
        return [missing]
    curves = [rank_curve(step) for step in run.rollouts if step.scored.any()]
    pictures: list[Drawn] = [pooled_panel(curves)]
    if detection.undefined:
        pictures.append(f"No flipped rewards are marked. {detection.undefined}")
    else:
        pictures.extend([tenths_panel(curves), areas_panel(detection)])
    pictures.extend(step_panel(curve) for curve in _first_middle_last_with_flips(curves))
    return [*pictures, actions_panel(run)]


def _first_middle_last_with_flips(curves: list[RankCurve]) -> list[RankCurve]:
    """Of the steps that show a flip; of all steps where none does."""
    return first_middle_last([curve for curve in curves if curve.flipped.any()] or curves)


def _densities(run: Run, details: dict[int, Details]) -> list[Drawn]:
    if not details:
        return [_why_no_details(run)]
    rollouts = {step.step: step for step in run.rollouts}
    panels: list[Drawn] = [
        density_panel(step, detail.density, rollouts.get(step))
        for step, detail in details.items()
        if detail.density is not None
    ]
    return panels or ["No density was drawn: too few scores, or all of them equal."]


def _directions(run: Run, details: dict[int, Details]) -> list[Drawn]:
    with_pairs = [detail for detail in details.values() if len(detail.raw_cosine)]
    if not with_pairs:
        return [_why_no_details(run) if not details else "The saved steps hold no pair."]
    last = with_pairs[-1]
    planes: list[Drawn] = list(plane_panels(last)) if len(last.plane_pairs) else ["No directions were sampled."]
    return [*cosine_panels(last), *planes]


def _why_no_details(run: Run) -> str:
    if run.details:
        return "The details of this run could not be read; see the notes at the end."
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) has no pairs, directions or density."
    return "No details were saved in this run (yet): pairs, directions and density are kept for chosen steps only."


def section(name: str, title: str, pictures: Sequence[Drawn]) -> Section:
    """Sorts what was drawn from the reasons why something was not."""
    return Section(
        name=name,
        title=title,
        panels=tuple(picture for picture in pictures if isinstance(picture, Panel)),
        reasons=tuple(picture for picture in pictures if isinstance(picture, str)),
    )
