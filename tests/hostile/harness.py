"""Runs one command on hostile input and holds it to the promises: no traceback, no hang, no flood, no raw escapes."""

import contextlib
import io
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from geoalign.cli import main

SECONDS = 10.0
MEGABYTES = 1000.0
# Colours are rich's own; every other control character in what is printed came from the input.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LONGEST_ERROR = 4000


class Hung(BaseException):
    """Took too long; a BaseException so that no handler of errors swallows it."""


@dataclass(frozen=True)
class Outcome:
    """What one command did: exit code (None: an exception left `main`), output, seconds, and memory that it added."""

    code: int | None
    out: str
    err: str
    seconds: float
    megabytes: float
    raised: str = ""

    def broken(self) -> list[str]:
        """The promises that this outcome does not keep; none: all are kept."""
        found = []
        if self.raised:
            found.append(f"raised: {self.raised.strip().splitlines()[-1]}")
        elif self.code not in (0, 1, 2):
            found.append(f"exit code {self.code}")
        if "Traceback" in self.out + self.err:
            found.append("printed a traceback")
        if self.code and self.err.strip() in ("", "Aborted.", "Aborted!"):
            found.append(f"failed and said only {self.err.strip()!r}")
        if len(self.err) > _LONGEST_ERROR:
            found.append(f"an error of {len(self.err)} characters")
        if _CONTROL.search(_COLOURS.sub("", self.out + self.err).replace("\r\n", "\n")):
            found.append("raw control characters reached the terminal")
        if self.seconds > SECONDS:
            found.append(f"took {self.seconds:.1f} s")
        if self.megabytes > MEGABYTES:
            found.append(f"took {self.megabytes:.0f} MB")
        return found


def run(*arguments: str | Path) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    before, argv, stdin = _peak(reset=True), sys.argv, sys.stdin
    started = time.perf_counter()
    code: int | None = 0
    raised = ""
    sys.argv, sys.stdin = ["geoalign", *map(str, arguments)], io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _deadline():
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        code, raised = None, traceback.format_exc()
    finally:
        sys.argv, sys.stdin = argv, stdin
    seconds = time.perf_counter() - started
    return Outcome(code, out.getvalue(), err.getvalue(), seconds, _peak() - before, raised)


def refused(outcome: Outcome, *parts: str) -> list[str]:
    """What is wrong with the refusal of a command; none: one line that keeps every promise and names every part."""
    found = outcome.broken()
    said = " ".join(outcome.err.split())
    if outcome.code != 2:
        found.append(f"exit code {outcome.code}: {outcome.out[-200:]}")
    if not outcome.err.startswith("Error: ") or outcome.err.count("\n") != 1:
        found.append("not one line")
    return found + [f"{part!r} is not in {said[:400]!r}" for part in parts if part not in said]


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise Hung(f"longer than {SECONDS:.0f} s")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _peak(reset: bool = False) -> float:
    """Megabytes that this process held at most since the last reset (Linux; elsewhere 0)."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
