"""A uniform sample of rows that come in parts, and whose number is known only at the end."""

from __future__ import annotations

import numpy as np
import pandas

# Beside the seed: no other draw of an audit has these random numbers.
_STREAM = 1


class UniformSample:
    """The rows with the smallest of random numbers that all rows are given in their order.

    Every row gets the next 64 bits of a PCG64 generator, whose stream numpy never changes. So the same rows and seed
    give the same sample on any machine, a smaller sample is the beginning of a larger one, and every beginning of it is
    a uniform sample, too.

    Attributes:
        seen: how many rows there were.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.seen = 0
        self._size = size
        self._bits = np.random.PCG64([seed, _STREAM])
        self._numbers = np.zeros(0, dtype=np.uint64)
        self._parts: list[pandas.DataFrame] = []

    def add(self, rows: pandas.DataFrame) -> None:
        """Takes the next rows; of all of them only those that may be in the sample are kept."""
        self.seen += len(rows)
        # The first part is kept without rows, too: it has the columns.
        if not self._size or (rows.empty and self._parts):
            return
        numbers = self._bits.random_raw(len(rows))
        places = np.argsort(numbers, kind="stable")[: self._size]
        self._numbers = np.concatenate([self._numbers, numbers[places]])
        self._parts.append(rows.iloc[places])
        if len(self._numbers) > 2 * self._size:
            self._parts = [self.drawn()]
            self._numbers = np.sort(self._numbers)[: self._size]

    def drawn(self) -> pandas.DataFrame:
        """The sample so far, in the order of drawing."""
        order = np.argsort(self._numbers, kind="stable")[: self._size]
        return pandas.concat(self._parts).iloc[order]
