"""verl's batch in TransferQueue, as rows that can be read, written and put under other rows' keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from geoalign.adapters.verl.keys import LENGTH_TAG

# Fields that identify a row. A replaced row keeps its own, so that it is counted in its own group.
NAMES = ("uid", "session_id")


class QueueBatch:
    """One batch of a verl 0.9 trainer: its `KVBatchMeta`, whose tags are kept up to date, and, where rows are written,
    verl's `_compute_advantage` of such metadata."""

    def __init__(self, meta: Any, compute: Callable[[Any], Any] | None = None) -> None:
        self._meta = meta
        self._compute = compute

    @property
    def keys(self) -> list[str]:
        """The rows' keys, `{uid}_{session}_{index}`."""
        return self._meta.keys

    def real_rows(self) -> list[int]:
        """The rows that verl did not add to fill the batch up."""
        return [row for row, tag in enumerate(self._meta.tags) if not tag.get("is_padding", False)]

    @property
    def fields(self) -> list[str]:
        """The fields that the rows have, as far as verl's metadata names them."""
        return list(self._meta.fields or ())

    def lengths(self, rows: Sequence[int]) -> list[int] | None:
        """Tokens of each row's response, from its tag; None where a row has no such tag."""
        tagged = [self._meta.tags[row].get(LENGTH_TAG) for row in rows]
        return None if None in tagged else tagged

    def read(self, rows: Sequence[int], fields: Sequence[str]) -> dict[str, list[Any]]:
        """One value per row of each field."""
        data = tq.kv_batch_get(
            keys=[self.keys[row] for row in rows], partition_id=self._meta.partition_id, select_fields=list(fields)
        )
        columns = {field: data[field] for field in fields}
        return {
            field: [
                getattr(value, "data", value) for value in (column.unbind() if isinstance(column, Tensor) else column)
            ]
            for field, column in columns.items()
        }

    def write(self, rows: Sequence[int], fields: dict[str, list[Tensor]]) -> None:
        """Writes one tensor per row into each field."""
        if not rows:
            return
        jagged = {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in fields.items()}
        tq.kv_batch_put(
            keys=[self.keys[row] for row in rows],
            partition_id=self._meta.partition_id,
            fields=TensorDict(jagged, batch_size=len(rows)),
        )

    def copy(self, donors: Sequence[int], victims: Sequence[int]) -> None:
        """Puts all that row `donors[i]` holds, tags included, under the key of row `victims[i]`.

        Every donor is read before any row is written: a donor may be a victim itself.
        """
        if not victims:
            return
        once = list(dict.fromkeys(donors))
        held = tq.kv_batch_get(keys=[self.keys[row] for row in once], partition_id=self._meta.partition_id)
        index = {donor: number for number, donor in enumerate(once)}
        fields = tu.index_select_tensor_dict(held.exclude(*NAMES), [index[donor] for donor in donors])
        tags = [dict(self._meta.tags[donor]) for donor in donors]
        tq.kv_batch_put(
            keys=[self.keys[row] for row in victims], partition_id=self._meta.partition_id, fields=fields, tags=tags
        )
        for victim, tag in zip(victims, tags, strict=True):
            self._meta.tags[victim] = tag

    def advantages(self) -> Any:
        """verl's advantages of all rows; returns verl's metadata of the batch."""
        assert self._compute is not None
        return self._compute(self._meta)
