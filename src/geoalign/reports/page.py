"""From a run folder to one self-contained page: report.html, with its pictures also under figures/."""

from __future__ import annotations

import base64
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from geoalign.errors import RunFolderError
from geoalign.reports.choose import first_middle_last
from geoalign.reports.detection import detect
from geoalign.reports.figures.style import DARK, LIGHT, Panel, recoloured, render
from geoalign.reports.reader import read_details, read_run
from geoalign.reports.run import Details, Run
from geoalign.reports.sections import figure_sections
from geoalign.reports.tables import accuracy_rows, curator_totals, flagged_rows
from geoalign.reports.text import inert
from geoalign.reports.verdict import consensus
from geoalign.statistics import Interval

CONFIG_LIMIT = 20_000


@dataclass(frozen=True)
class Picture:
    """A panel as the template embeds it: words, and data addresses for light and dark pages."""

    name: str
    title: str
    alt: str
    caption: str
    light: str
    dark: str


def build_report(run_folder: Path) -> Path:
    """Writes report.html and figures/*.svg into the run folder, from what stands there now, and returns the page.

    Works on a run in progress or cut off; a quantity that is undefined is said to be so on the page. Files are replaced
    in one piece, so that a reader never sees half of one.

    Raises:
        RunFolderError: the folder cannot be read as a run folder.
    """
    run = read_run(run_folder)
    details, notes = _chosen_details(run)
    detection = detect(run, details)
    sections = figure_sections(run, details, detection)
    flagged, flagged_total = flagged_rows(run)
    figures = run.folder / "figures"
    figures.mkdir(exist_ok=True)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            title=inert(run.folder.resolve().name, 80),
            facts=_facts(run),
            verdict=consensus(run),
            accuracies=accuracy_rows(run),
            repeated=(_setting(run, "evaluation", "samples") or 1) != 1,
            totals=curator_totals(run),
            detection=detection,
            sections=sections,
            pictures={name: [_picture(panel, figures) for panel in item.panels] for name, item in sections.items()},
            flagged=flagged,
            flagged_total=flagged_total,
            config=inert(run.config_text, CONFIG_LIMIT),
            versions=inert(json.dumps(dict(run.versions), indent=2, ensure_ascii=False), CONFIG_LIMIT),
            notes=[inert(note) for note in (*run.notes, *notes)],
        )
    )
    _remove_outdated(figures, {f"{panel.name}.svg" for item in sections.values() for panel in item.panels})
    report = run.folder / "report.html"
    _write(report, page.encode("utf-8"))
    return report


def _chosen_details(run: Run) -> tuple[dict[int, Details], list[str]]:
    """Details of the first, middle and last step that has a readable file; unreadable ones are noted."""
    found: dict[int, Details] = {}
    notes = []
    readable = dict(run.details)
    while readable:
        chosen = first_middle_last(list(readable))
        broken = []
        for step in chosen:
            try:
                found.setdefault(step, read_details(readable[step]))
            except RunFolderError as error:
                notes.append(str(error))
                broken.append(step)
        if not broken:
            return {step: found[step] for step in chosen}, notes
        for step in broken:
            del readable[step]
    return {}, notes


def _picture(panel: Panel, folder: Path) -> Picture:
    light = render(panel, LIGHT)
    dark = recoloured(light, LIGHT, DARK)
    _write(folder / f"{panel.name}.svg", light)
    return Picture(panel.name, panel.title, panel.alt, panel.caption, _address(light), _address(dark))


def _remove_outdated(folder: Path, current: set[str]) -> None:
    """Removes pictures of single steps that an earlier report of a shorter run chose and this one does not."""
    for path in folder.glob("gdi-*-step-*.svg"):
        if path.name not in current:
            path.unlink()


def _address(svg: bytes) -> str:
    # As an image a drawing can run no script and load nothing, whatever stands in it.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _facts(run: Run) -> list[tuple[str, str]]:
    """The few settings that tell runs apart, as name and value; those that are not in the config are left out."""
    paths = (
        ("curator", ("curator", "type")),
        ("task", ("task", "type")),
        ("model", ("model", "type")),
        ("from", ("model", "path")),
        ("flipped rewards", ("reward", "flip")),
        ("seed", ("seed",)),
    )
    found = []
    for name, path in paths:
        value = _setting(run, *path)
        if value is not None and not isinstance(value, dict | list):
            found.append((name, inert(str(value), 80)))
    steps = [row.step for row in run.metrics if row.stage == "rl"]
    found.append(("RL steps logged", str(max(steps)) if steps else "none yet"))
    found.append(("state", "finished" if run.finished else "in progress or cut off"))
    return found


def _setting(run: Run, *path: str) -> Any:
    """The value at a path of the config; None where there is none."""
    value: Any = run.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent, points=points, interval=interval, span=span, gain=gain)
    return environment


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.1%}"


def points(value: float) -> str:
    """A difference of two shares in percentage points; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:+.1f} points"


def span(value: Any) -> str:
    """The two ends of an interval of a share, as percentages; a dash where they are undefined."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return "–"
    return f"{value.low:.1%} to {value.high:.1%}"


def gain(difference: Interval) -> str:
    """What GDI has above the pair count, in words, by the interval of their difference in AUROC."""
    if math.isnan(difference.low):
        return "Too few steps to tell GDI from the pair count alone"
    if difference.low > 0:
        return "GDI ranks the flips better than the pair count alone: the hidden states add something"
    if difference.high < 0:
        return "The pair count alone ranks the flips better than GDI: here the hidden states take away"
    return "GDI and the pair count alone cannot be told apart: no sign that the hidden states add anything"


def interval(value: Any, digits: int = 3) -> str:
    """The two ends of an interval; a dash where they are undefined."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return "–"
    return f"{value.low:.{digits}f} to {value.high:.{digits}f}"
