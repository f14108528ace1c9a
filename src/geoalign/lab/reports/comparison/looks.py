"""How arms and levels look, the same in every picture: colours, names, and which arms share a picture."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable
from geoalign.lab.reports.figures.style import Look

# More bands than these hide one another: further arms get further pictures, each with the baseline.
PER_PICTURE = 5
_LONGEST_SLUG = 80
_BY_ROLE = {
    "baseline": Look("ink", "o", "-"), "primary": Look("blue", "s", "-"), "control": Look("orange", "D", "--"),
    "oracle": Look("green", "^", "-."), "bound": Look("soft", "v", ":"),
}  # fmt: skip
_OTHERS = (
    Look("purple", "P", "-"), Look("blue", "X", "--"), Look("orange", "s", "-."), Look("green", "D", ":"),
    Look("soft", "^", "-"),
)  # fmt: skip


def palette(rows: Sequence[ArmRow]) -> dict[str, Look]:
    """A look for every arm: baseline, primary arms, control and bounds by their role, further ones in turn."""
    first = {row.role: row.arm for row in reversed(rows) if row.role in _BY_ROLE}
    others = [row.arm for row in rows if row.arm not in first.values()]
    return {arm: _BY_ROLE[role] for role, arm in first.items()} | {
        arm: _OTHERS[at % len(_OTHERS)] for at, arm in enumerate(others)
    }


def portions(rows: Sequence[ArmRow]) -> list[list[ArmRow]]:
    """The arms in pictures of at most six: the planned parts first, then the others beside the baseline."""
    known = [row for row in rows if row.seeds]
    main = [row for row in known if row.role != "exploratory"]
    others = [row for row in known if row.role == "exploratory"]
    if len(known) <= PER_PICTURE + 1:
        return [main + others] if known else []
    baseline = [row for row in known if row.role == "baseline"]
    parts = [baseline + others[at : at + PER_PICTURE] for at in range(0, len(others), PER_PICTURE)]
    return [part for part in [main, *parts] if part]


def slug(level: str) -> str:
    """A level's name as part of a file name and of an address inside the page: names of levels stay as they are.

    A name that is cut or holds other characters ends in eight digits of its hash, so that two stay two.
    """
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "-", level)[:_LONGEST_SLUG]
    if plain == level and level:
        return level
    return f"{plain}-{hashlib.sha256(level.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def numbered(name: str, number: int) -> str:
    """The name of the first, second, ... picture of a kind."""
    return name if number == 1 else f"{name}-{number}"


def heading(level: LevelTable) -> str:
    """What is corrupted at a level, in words."""
    if not level.corruption:
        return "nothing corrupted" if level.rate == 0 else "corruption unknown"
    return ", ".join(f"{kind} {rate:.0%}" for kind, rate in level.corruption.items())
