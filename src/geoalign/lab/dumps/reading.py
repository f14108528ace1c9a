"""From the rows of a dump to rollouts: every value checked, bad rows refused by name or skipped and listed."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from geoalign.errors import InputError
from geoalign.lab.dumps.formats import Layout
from geoalign.lab.dumps.rows import Row, RowReader
from geoalign.lab.dumps.values import BadValueError
from geoalign.lab.tasks.json_rows import RawRow
from geoalign.lab.tasks.rows import dump_rows, field_of, row_name


@dataclass(frozen=True)
class Skipped:
    """A row that was left out under `--skip-bad`: where, which field (None: the row itself), and why."""

    file: str
    line: int
    field: str | None
    reason: str


@dataclass(frozen=True)
class Dump:
    """What was read from one file.

    Attributes:
        path: the file.
        layout: how it was read.
        rows: its rollouts, in order.
        skipped: the rows left out.
        positions: rollouts in the file, those left out included; None where their number is not known.
    """

    path: Path
    layout: Layout
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()
    positions: int | None = None
    batches: tuple[tuple[int | None, tuple[int, ...]], ...] = ()


def read_dump(path: Path, layout: Layout, *, skip_bad: bool = False, mixed_groups: bool = False) -> Dump:
    """Reads a file of rollouts.

    Args:
        skip_bad: leave bad rows out and list them; groups may then differ in size.
        mixed_groups: accept groups of different sizes.

    Raises:
        InputError: a row that is none, a field that is missing or of another kind, an id twice in one step, lists of
            different lengths, groups of different sizes, or no rollout at all; the message has file, line and field.
    """
    reader = _Reader(path, layout, skip_bad)
    for raw in dump_rows(path):
        reader.add(raw)
    rows = tuple(reader.rows)
    if not rows:
        first = reader.skipped[0]
        name = f"{first.field}: " if first.field else ""
        raise InputError(
            f"{path}: expected at least one rollout, got none among {len(reader.skipped)} bad rows; the first: "
            f"{row_name(path, first.line)}: {name}{first.reason}"
        )
    batches = _batches(rows)
    if not (skip_bad or mixed_groups):
        _check_group_sizes(path, rows, batches)
    return Dump(path, layout, rows, tuple(reader.skipped), reader.position, batches)


def group_sizes(rows: tuple[Row, ...], batches: tuple[tuple[int | None, tuple[int, ...]], ...]) -> dict[int, int]:
    """How many groups there are of each size."""
    sizes = Counter(
        size for _, members in batches for size in Counter(rows[member].group for member in members).values()
    )
    return dict(sorted(sizes.items()))


class _Reader:
    """Collects the rollouts of one file."""

    def __init__(self, path: Path, layout: Layout, skip_bad: bool) -> None:
        self.path, self.layout, self.skip_bad = path, layout, skip_bad
        self.rows: list[Row] = []
        self.skipped: list[Skipped] = []
        self.position: int | None = 0
        self._ids: dict[tuple[int | None, str], int] = {}
        self._group_rows: Counter[tuple[int | None, str]] = Counter()
        self._row_reader = RowReader(layout)

    def add(self, raw: RawRow) -> None:
        """Takes one row of the file, or lists it as skipped."""
        problem: BadValueError | str | None = raw.problem
        rollouts: list[Row] = []
        if raw.value is not None:
            try:
                rollouts = self._row_reader.rollouts(raw, raw.value, self.position or 0)
                self._check_ids(rollouts)
            except BadValueError as error:
                rollouts, problem = [], error
        if problem is not None:
            self._refuse(raw, problem)
        if rollouts and not self.layout.format.lists:
            rollouts = [self._with_sample(rollouts[0])]
        for row in rollouts:
            self._ids[row.step, row.id] = row.line
        self.rows += rollouts
        self._advance(raw, len(rollouts))

    def _with_sample(self, row: Row) -> Row:
        """The row with its number among the responses to its prompt."""
        sample = self._group_rows[row.step, row.group]
        self._group_rows[row.step, row.group] += 1
        return replace(row, sample=sample)

    def _advance(self, raw: RawRow, count: int) -> None:
        if self.position is None:
            return
        if raw.rest_lost:
            self.position = None
        elif not self.layout.format.lists:
            self.position += 1
        elif count:
            self.position += count
        else:
            # How many responses a bad row has is only known where its list could be read.
            given = field_of(raw.value, self.layout.fields["response"]) if raw.value is not None else None
            self.position = self.position + len(given) if isinstance(given, list) else None

    def _refuse(self, raw: RawRow, problem: BadValueError | str) -> None:
        if not self.skip_bad:
            raise InputError(f"{row_name(self.path, raw.line)}: {problem}")
        name = problem.field if isinstance(problem, BadValueError) else None
        reason = f"expected {problem.expected}, got {problem.got}" if isinstance(problem, BadValueError) else problem
        if raw.rest_lost:
            reason += "; nothing behind it was read"
        self.skipped.append(Skipped(str(self.path), raw.line, name, reason))

    def _check_ids(self, rollouts: list[Row]) -> None:
        if "id" not in self.layout.fields:
            return
        for row in rollouts:
            if (row.step, row.id) in self._ids:
                line = self._ids[row.step, row.id]
                raise BadValueError(
                    self.layout.fields["id"], "an id of its own", f"the id of {row_name(self.path, line)}"
                )


def _batches(rows: tuple[Row, ...]) -> tuple[tuple[int | None, tuple[int, ...]], ...]:
    """The rows of each step, steps as they first appear."""
    batches: dict[int | None, list[int]] = {}
    for number, row in enumerate(rows):
        batches.setdefault(row.step, []).append(number)
    return tuple((step, tuple(members)) for step, members in batches.items())


def _check_group_sizes(
    path: Path, rows: tuple[Row, ...], batches: tuple[tuple[int | None, tuple[int, ...]], ...]
) -> None:
    for _, members in batches:
        sizes = Counter(rows[member].group for member in members)
        usual = Counter(sizes.values()).most_common(1)[0][0]
        for member in members:
            size = sizes[rows[member].group]
            if size != usual:
                raise InputError(
                    f"{row_name(path, rows[member].line)}: group: expected {usual} rollouts of its prompt as most "
                    f"prompts have, got {size}; rows may be missing: --mixed-groups accepts groups of any size"
                )


class Repeats:
    """Knows the dumps of one call by their prompts, responses and rewards, in their order.

    Only of formats whose writer is known to repeat itself (`Format.repeats`); whatever else is given twice stays.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, Path] = {}

    def earlier(self, dump: Dump) -> Path | None:
        """The dump of this call that held the same rollouts; None where it is the first of them."""
        if not dump.layout.format.repeats:
            return None
        digest = hashlib.sha256()
        for row in dump.rows:
            for text in (row.prompt, row.response, repr(row.reward)):
                data = text.encode("utf-8", errors="surrogatepass")
                digest.update(len(data).to_bytes(8, "big") + data)
        first = self._seen.setdefault(digest.digest(), dump.path)
        return None if first == dump.path else first
