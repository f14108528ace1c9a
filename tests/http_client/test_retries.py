import random
from email.utils import formatdate

import pytest

from geoalign.lab.http_client.retries import Retries, retry_after

NOW = 1_700_000_000.0


class Lowest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return a


def test_pauses_double_up_to_the_longest() -> None:
    retries = Retries(patience=60, first_pause=1.0, longest_pause=15.0)
    # 1, 2, 4, 8, 16 -> 15 seconds, less a half.
    assert [retries.pause(failures, None, Lowest()) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 4.0, 7.5]
    assert retries.pause(10_000, None, Lowest()) == 7.5


def test_what_the_server_asks_for_is_heeded_within_reason() -> None:
    retries = Retries(patience=60, first_pause=1.0)
    assert retries.pause(1, 7.0, Lowest()) == 7.0
    assert retries.pause(1, 0.0, Lowest()) == 0.5  # "at once" is no reason for a busy loop
    assert retries.pause(1, 1e9, Lowest()) == 120.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("3.5", 3.5),
        ("-3", 0.0),
        (formatdate(NOW + 30, usegmt=True), 30.0),
        (formatdate(NOW - 30, usegmt=True), 0.0),
        ("315360000", 315360000.0),
        *((nonsense, None) for nonsense in ("", "soon", "nan", "inf", "Mon, 99 Foo 2023", "9" * 400, "\x1b[31m")),
    ],
)
def test_the_headers_of_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=NOW) == seconds
