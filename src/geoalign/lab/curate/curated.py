"""The curated dump in the format of its input: every row is the rollout that stands there afterwards."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.errors import InputError
from geoalign.lab.curate.steps import CuratedStep
from geoalign.lab.dumps.formats import Layout
from geoalign.lab.dumps.reading import Dump
from geoalign.lab.tasks.json_rows import RawRow
from geoalign.lab.tasks.rows import dump_rows, is_array, is_parquet
from geoalign.method.advantages import group_advantages
from geoalign.shown import brief

# Rows that are written at a time.
PARQUET_BATCH = 1024
SOURCE, WEIGHT, ADVANTAGE = "geoalign_source", "geoalign_weight", "geoalign_advantage"
TRUSTED = "geoalign_trusted"


@dataclass(frozen=True, slots=True)
class Slot:
    """What replaces one rollout, or the rollout itself.

    Attributes:
        source: the rollout whose content it is, by its index among the file's rollouts; -1: left out.
        reward: its reward, NaN where it has none; `changed`: the curator made it another than the source's own.
        advantage: the curator's own, in all rows of a file or in none; None where it gives none.
        trusted: whether its reward is a label, in all rows of a file or in none; None where the file has no label.
        score, anomalous: of the rollout that stood here.
    """

    source: int
    reward: float
    changed: bool
    weight: float
    advantage: float | None
    trusted: bool | None
    score: float
    anomalous: bool


def slots_of(dump: Dump, steps: Sequence[CuratedStep]) -> list[Slot]:
    """The slot of each rollout of a file, in their order."""
    slots: list[Slot | None] = [None] * len(dump.rows)
    labelled = any(row.label is not None for row in dump.rows)
    own_advantages = any(step.placement.advantages is not None for step in steps)
    for step in steps:
        placement, curation = step.placement, step.curation
        members = np.asarray(step.members)
        source = np.where(placement.kept.numpy(), members[placement.source.numpy()], -1)
        advantages = _advantages(step).tolist() if own_advantages else None
        columns = zip(
            step.members,
            source.tolist(),
            placement.rewards.double().tolist(),
            placement.weights.tolist(),
            curation.scores.double().tolist(),
            curation.anomalous.tolist(),
            strict=True,
        )
        for row, (member, origin, reward, weight, score, anomalous) in enumerate(columns):
            own = dump.rows[origin].reward if origin >= 0 else math.nan
            changed = origin >= 0 and not (reward == own or (math.isnan(reward) and math.isnan(own)))
            advantage = None if advantages is None else advantages[row]
            trusted = dump.rows[max(origin, 0)].label is not None if labelled else None
            slots[member] = Slot(origin, reward, changed, weight, advantage, trusted, score, anomalous)
    return cast(list[Slot], slots)


def _advantages(step: CuratedStep) -> Float[Tensor, " b"]:
    """The curator's advantages; of a step for which it gives none, GRPO's of the rewards that stand there."""
    placement = step.placement
    if placement.advantages is not None:
        return placement.advantages
    return group_advantages(placement.rewards, torch.tensor(list(step.groups), device=placement.rewards.device))


def write_curated(path: Path, dump: Dump, slots: Sequence[Slot], first: int) -> int:
    """Writes the curated dump and returns its number of rollouts.

    A row keeps its identity (`Layout.identity`) and takes everything else from the rollout that stands there.
    Rows that were left out are not written. Every row has two more fields: `geoalign_source`, the number in
    `scores.parquet` of the rollout that stands there, and `geoalign_weight`, the factor on its advantage (in rollouts
    of GeoAlign runs `source` and `weight`, the source by its row in the step); `geoalign_advantage` where the curator
    gives advantages, `geoalign_trusted` where the file has labels. Texts come back as they were, lone surrogates in
    JSON too.

    Args:
        first: the number of the file's first rollout in `scores.parquet`.

    Raises:
        InputError: the file changed since it was read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_parquet(dump.path):
        try:
            return _write_parquet(path, dump, slots, first)
        except (pyarrow.ArrowException, OverflowError) as error:
            got = f"{type(error).__name__}: {brief(error)}"
            raise InputError(f"{dump.path}: expected columns that can be written again, got {got}") from error
    with path.open("wb") as raw:
        if path.name.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
                return _write_lines(cast(IO[bytes], packed), dump, slots, first)
        return _write_lines(raw, dump, slots, first)


def _write_lines(file: IO[bytes], dump: Dump, slots: Sequence[Slot], first: int) -> int:
    written = 0
    write = _listed_rows if dump.layout.format.lists else _single_rows
    array = is_array(dump.path)
    file.write(b"[" if array else b"")
    for line, count in write(dump, slots, first):
        file.write((b",\n" if written else b"\n") + line if array else line + b"\n")
        written += count
    file.write(b"\n]\n" if array else b"")
    return written


def _line(value: Mapping[str, Any]) -> bytes:
    # Only surrogates fail to encode, and Python's backslash form of one is its JSON escape.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", errors="backslashreplace")


def _extended(raw: RawRow, marks: Mapping[str, Any]) -> bytes:
    """The row's own bytes with more fields at its end: numbers, blanks and escapes stay as they were written."""
    assert raw.value is not None
    data = raw.data.strip()
    if set(marks) & set(raw.value) or not data.endswith(b"}"):
        return _line({**raw.value, **marks})
    return data[:-1].rstrip() + (b", " if raw.value else b"") + _line(marks)[1:]


def _single_rows(dump: Dump, slots: Sequence[Slot], first: int) -> Iterator[tuple[bytes, int]]:
    by_row = {row.row: index for index, row in enumerate(dump.rows)}
    donors = {slot.source for index, slot in enumerate(slots) if slot.source not in (-1, index)}
    wanted = {dump.rows[donor].row for donor in donors}
    contents = {by_row[raw.number]: value for raw, value in _values(dump) if raw.number in wanted}
    for raw, value in _values(dump):
        index = by_row[raw.number]
        slot = slots[index]
        if slot.source < 0:
            continue
        if slot.source == index and not slot.changed:
            yield _extended(raw, _marks(slot, first)), 1
            continue
        made = dict(value)
        if slot.source != index:
            donor = contents[slot.source]
            kept = [name for name in dump.layout.identity() if name in value]
            made = {**donor, **{name: value[name] for name in kept}}
        if slot.changed:
            _set_reward(made, dump.layout, slot.reward)
        yield _line({**made, **_marks(slot, first)}), 1


def _listed_rows(dump: Dump, slots: Sequence[Slot], first: int) -> Iterator[tuple[bytes, int]]:
    members: dict[int, list[int]] = {}
    for index, row in enumerate(dump.rows):
        members.setdefault(row.row, []).append(index)
    lists = [name for name in dump.list_fields if name not in (SOURCE, WEIGHT, ADVANTAGE, TRUSTED)]
    for raw, value in _values(dump):
        indices = members[raw.number]
        kept = [index for index in indices if slots[index].source >= 0]
        if not kept:
            continue
        marks = [_marks(slots[index], first) for index in kept]
        listed = {name: [mark[name] for mark in marks] for name in marks[0]}
        if all(slots[index].source == index and not slots[index].changed for index in indices):
            yield _extended(raw, listed), len(kept)
            continue
        chosen = [dump.rows[slots[index].source].sample for index in kept]
        made = dict(value)
        for name in lists:
            made[name] = [value[name][sample] for sample in chosen]
        _set_listed_rewards(made, dump.layout, [slots[index] for index in kept], chosen)
        yield _line({**made, **listed}), len(kept)


def _values(dump: Dump) -> Iterator[tuple[RawRow, dict[str, Any]]]:
    """The rows of the file that hold rollouts, and their fields."""
    numbers = {row.row for row in dump.rows}
    seen = 0
    for raw in dump_rows(dump.path):
        if raw.number in numbers:
            if raw.value is None:
                raise changed(dump.path)
            seen += 1
            yield raw, raw.value
    if seen != len(numbers):
        raise changed(dump.path)


def changed(path: Path) -> InputError:
    """The error for a file that is not what it was."""
    return InputError(f"{path}: expected the file that was read a moment ago, got another one: is it still written to?")


def _marks(slot: Slot, first: int) -> dict[str, Any]:
    marks: dict[str, Any] = {SOURCE: first + slot.source, WEIGHT: slot.weight}
    if slot.advantage is not None:
        marks[ADVANTAGE] = slot.advantage
    if slot.trusted is not None:
        marks[TRUSTED] = slot.trusted
    return marks


def _set_reward(row: dict[str, Any], layout: Layout, reward: float) -> None:
    """Sets a reward that the curator changed: the whole of it in the first field, 0 in others that add up with it."""
    for number, name in enumerate(layout.rewards):
        holder, last = _holder(row, name)
        holder[last] = (None if math.isnan(reward) else reward) if number == 0 else 0.0


def _set_listed_rewards(row: dict[str, Any], layout: Layout, slots: Sequence[Slot], chosen: Sequence[int]) -> None:
    if not any(slot.changed for slot in slots):
        return
    holder, last = _holder(row, layout.fields["reward"])
    values = list(holder[last])
    for index, slot in enumerate(slots):
        if slot.changed:
            new = None if math.isnan(slot.reward) else slot.reward
            values[index] = [new] if isinstance(values[index], list) else new
    holder[last] = values


def _holder(row: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The object that holds a dotted field, copied on the way so that the row read stays as it is."""
    if name in row or "." not in name:
        return row, name
    holder = row
    *parts, last = name.split(".")
    for part in parts:
        inner = dict(holder[part]) if isinstance(holder.get(part), Mapping) else {}
        holder[part] = inner
        holder = inner
    return holder, last


def _write_parquet(path: Path, dump: Dump, slots: Sequence[Slot], first: int) -> int:
    own = dump.layout.format.own_columns
    by_row = {row.row: index for index, row in enumerate(dump.rows)}
    with pyarrow.parquet.ParquetFile(dump.path) as file:
        if file.metadata.num_rows <= max(by_row):
            raise changed(dump.path)
        schema = _movable(file.schema_arrow)
        donors, donor_rows = _donor_rows(file, dump, slots, by_row, schema)
        writer = None
        written = at = 0
        try:
            for batch in file.iter_batches(batch_size=PARQUET_BATCH):
                numbers = range(at, at + len(batch))
                at += len(batch)
                present = [(offset, by_row[number]) for offset, number in enumerate(numbers) if number in by_row]
                kept = [(offset, index) for offset, index in present if slots[index].source >= 0]
                whole = pyarrow.table(_cast(batch, schema))
                table = _curated_batch(whole, donors, donor_rows, kept, slots, dump.layout)
                table = _like(table, file.schema_arrow)
                table = _marked(table, [slots[index] for _, index in kept], dump, first, own)
                writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table.cast(writer.schema))
                written += len(table)
        finally:
            if writer is not None:
                writer.close()
    return written


def _donor_rows(
    file: pyarrow.parquet.ParquetFile,
    dump: Dump,
    slots: Sequence[Slot],
    by_row: Mapping[int, int],
    schema: pyarrow.Schema,
) -> tuple[pyarrow.Table, dict[int, int]]:
    """The rows that replace others, and the index of each in that table."""
    sources = {slot.source for index, slot in enumerate(slots) if slot.source not in (-1, index)}
    wanted = {dump.rows[source].row for source in sources}
    parts: list[pyarrow.RecordBatch] = []
    donor_rows: dict[int, int] = {}
    at = 0
    for batch in file.iter_batches(batch_size=PARQUET_BATCH):
        offsets = [offset for offset in range(len(batch)) if at + offset in wanted]
        for offset in offsets:
            donor_rows[by_row[at + offset]] = len(donor_rows)
        if offsets:
            parts.append(_cast(batch, schema).take(pyarrow.array(offsets)))
        at += len(batch)
    return pyarrow.Table.from_batches(parts, schema=schema), donor_rows


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    # Where nothing changes nothing is checked either: texts that are no UTF-8 stay what they are.
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _movable(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema with plain texts and bytes instead of views, whose rows Arrow cannot take out of their order."""
    fields = [field.with_type(_plain(field.type)) for field in schema]
    return pyarrow.schema(fields, metadata=schema.metadata)


def _plain(kind: pyarrow.DataType) -> pyarrow.DataType:
    types = pyarrow.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pyarrow.large_string() if types.is_string_view(kind) else pyarrow.large_binary()
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_plain(field.type)) for field in kind])
    makers = {types.is_list: pyarrow.list_, types.is_large_list: pyarrow.large_list}
    for is_kind, make in makers.items():
        if is_kind(kind):
            return make(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _like(table: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """The table with the columns' types of a schema; those that were made anew (rewards) keep theirs."""
    for number, field in enumerate(schema):
        if table.schema.field(number).type == _plain(field.type) != field.type:
            table = table.set_column(number, field, table[field.name].cast(field.type))
    return table


def _curated_batch(
    table: pyarrow.Table,
    donors: pyarrow.Table,
    donor_rows: Mapping[int, int],
    kept: Sequence[tuple[int, int]],
    slots: Sequence[Slot],
    layout: Layout,
) -> pyarrow.Table:
    """The kept rows of a batch, contents of donors in their slots."""
    own = pyarrow.array([offset for offset, _ in kept], pyarrow.int64())
    taken = pyarrow.array(
        [
            offset if slots[index].source == index else len(table) + donor_rows[slots[index].source]
            for offset, index in kept
        ],
        pyarrow.int64(),
    )
    both = pyarrow.concat_tables([table, donors.cast(table.schema)])
    columns = {}
    for name in table.column_names:
        columns[name] = table[name].take(own) if name in layout.identity() else both[name].take(taken)
    made = pyarrow.table(columns, schema=table.schema)
    changes = [(at, slots[index].reward) for at, (_, index) in enumerate(kept) if slots[index].changed]
    return _with_rewards(made, changes, layout) if any(slot.changed for slot in slots) else made


def _with_rewards(table: pyarrow.Table, changes: Sequence[tuple[int, float]], layout: Layout) -> pyarrow.Table:
    for number, name in enumerate(layout.rewards):
        if name not in table.column_names:
            raise InputError(f"reward: expected a column of its own for rewards that a curator changes, got {name!r}")
        values = table[name].cast(pyarrow.float64()).to_pylist()
        for at, reward in changes:
            values[at] = (None if math.isnan(reward) else reward) if number == 0 else 0.0
        column = pyarrow.array(values, pyarrow.float64())
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _marked(table: pyarrow.Table, slots: Sequence[Slot], dump: Dump, first: int, own: bool) -> pyarrow.Table:
    source = [dump.rows[slot.source].row if own else first + slot.source for slot in slots]
    marks: dict[str, pyarrow.Array] = {
        "source" if own else SOURCE: pyarrow.array(source, pyarrow.int64()),
        "weight" if own else WEIGHT: pyarrow.array([slot.weight for slot in slots], pyarrow.float64()),
    }
    if own:
        scores = [None if math.isnan(slot.score) else slot.score for slot in slots]
        marks |= {
            "score": pyarrow.array(scores, pyarrow.float64()),
            "anomalous": pyarrow.array([slot.anomalous for slot in slots], pyarrow.bool_()),
        }
    if slots and all(slot.advantage is not None for slot in slots):
        marks[ADVANTAGE] = pyarrow.array([slot.advantage for slot in slots], pyarrow.float64())
    if slots and slots[0].trusted is not None:
        marks[TRUSTED] = pyarrow.array([slot.trusted for slot in slots], pyarrow.bool_())
    for name, column in marks.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, column)
        else:
            table = table.append_column(name, column)
    return table
