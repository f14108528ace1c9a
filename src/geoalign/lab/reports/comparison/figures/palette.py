"""How arms look, the same in every picture, and means with bands over seeds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.table import ArmRow, Curve, LevelTable
from geoalign.lab.analysis.statistics import ema, seed_interval
from geoalign.lab.reports.figures.curves import SMOOTHED_FROM
from geoalign.lab.reports.figures.style import Theme
from geoalign.lab.store.columns import Floats

# More bands than these hide one another: further arms get further pictures, each with the baseline.
PER_PICTURE = 5
_LONGEST_SLUG = 80
_BY_ROLE = {
    "baseline": ("ink", "o", "-"), "primary": ("blue", "s", "-"), "control": ("orange", "D", "--"),
    "oracle": ("green", "^", "-."), "bound": ("soft", "v", ":"),
}  # fmt: skip
_OTHERS = (
    ("purple", "P", "-"), ("blue", "X", "--"), ("orange", "s", "-."), ("green", "D", ":"), ("soft", "^", "-"),
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """Colour (a name of the theme), marker and dash of an arm."""

    colour: str
    marker: str
    dash: str


def palette(rows: Sequence[ArmRow]) -> dict[str, Look]:
    """A look for every arm: baseline, primary arms, control and bounds by their role, further ones in turn."""
    taken: set[str] = set()
    looks = {}
    for row in rows:
        if row.role in _BY_ROLE and row.role not in taken:
            looks[row.arm] = Look(*_BY_ROLE[row.role])
            taken.add(row.role)
    others = [row.arm for row in rows if row.arm not in looks]
    return looks | {arm: Look(*_OTHERS[at % len(_OTHERS)]) for at, arm in enumerate(others)}


def portions(rows: Sequence[ArmRow]) -> list[list[ArmRow]]:
    """The arms in pictures of at most six: the planned parts first, then the others beside the baseline."""
    known = [row for row in rows if row.seeds]
    main = [row for row in known if row.role != "exploratory"]
    others = [row for row in known if row.role == "exploratory"]
    room = max(0, PER_PICTURE + 1 - len(main)) if len(main) + len(others) <= PER_PICTURE + 1 else 0
    main, others = main + others[:room], others[room:]
    baseline = [row for row in known if row.role == "baseline"]
    parts = [others[at : at + PER_PICTURE] for at in range(0, len(others), PER_PICTURE)]
    return [part for part in [main, *(baseline + part for part in parts)] if part]


def slug(level: str) -> str:
    """A level's name as part of a file name and of an address inside the page: names of levels stay as they are.

    A name that is cut or holds other characters ends in eight digits of its hash, so that two stay two.
    """
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "-", level)[:_LONGEST_SLUG]
    if plain == level and level:
        return level
    return f"{plain}-{hashlib.sha256(level.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def heading(level: LevelTable) -> str:
    """What is corrupted at a level, in words."""
    if not level.corruption:
        return "nothing corrupted" if level.rate == 0 else "corruption unknown"
    return ", ".join(f"{kind} {rate:.0%}" for kind, rate in level.corruption.items())


def legend_above(axes: Axes, entries: int) -> None:
    """A legend inside the top of the axes, in room made for it: error bars and bands stay uncovered."""
    columns = min(3, entries)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + (high - low) * (0.04 + 0.085 * -(-entries // columns)))
    axes.legend(loc="upper center", ncols=columns, columnspacing=1.2, handlelength=2.2)


@dataclass(frozen=True, eq=False)
class Band:
    """A mean over seeds with its pointwise 95% interval: `raw` unsmoothed; `low`, `high` NaN with too few seeds."""

    steps: Any
    raw: Floats
    mean: Floats
    low: Floats
    high: Floats


def band(curve: Curve) -> Band:
    """Smooths each seed's curve (from eight points on; s = 0.6 s + 0.4 x), then takes mean and t interval over seeds.

    A step that a seed lacks is left out for that seed.
    """
    smooth = np.full_like(curve.values, np.nan)
    for row, values in enumerate(curve.values):
        known = ~np.isnan(values)
        smooth[row, known] = ema(values[known]) if known.sum() >= SMOOTHED_FROM else values[known]
    intervals = [seed_interval(column) for column in smooth.T]
    raw = np.array([seed_interval(column).estimate for column in curve.values.T])
    return Band(
        steps=curve.steps,
        raw=raw,
        mean=np.array([item.estimate for item in intervals]),
        low=np.array([item.low for item in intervals]),
        high=np.array([item.high for item in intervals]),
    )


def draw_band(axes: Axes, theme: Theme, look: Look, curve: Curve, name: str) -> None:
    """Thick: smoothed mean; band: its interval; thin: unsmoothed mean."""
    mean, colour = band(curve), getattr(theme, look.colour)
    if np.isfinite(mean.low).any():
        axes.fill_between(mean.steps, mean.low, mean.high, color=colour, alpha=0.13, linewidth=0)
    axes.plot(mean.steps, mean.raw, color=colour, linewidth=0.7, alpha=0.5)
    axes.plot(mean.steps, mean.mean, color=colour, linestyle=look.dash, linewidth=2.0, label=name)
    if len(mean.steps) == 1:
        axes.plot(mean.steps, mean.mean, look.marker, color=colour)
