"""The process that compares answers with math-verify: `python -m geoalign.lab.rewards.worker`, started by `workers.py`.

It reads one JSON object a line ({"gold": ..., "answer": ...}) and writes one a line ({"correct": true} or
{"error": "..."}), after a first line {"ready": true}. Who waits for it kills it at the time limit; it has no limit of
its own but the guard below.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from functools import lru_cache
from typing import IO, Any

from geoalign.lab.rewards.notation import values

# An answer such as 9^{9^{9^9}} asks for more memory than there is; then a MemoryError is better than a dead machine.
_MEMORY_BYTES = 4 * 2**30


def main(seconds: float) -> None:
    """Serves until its input ends. `seconds` is the guard: no line takes longer, even with no parent left to kill."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    # What a library prints must not stand between the replies, nor fill a file that nobody reads.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    _set_signals()
    _limit_memory()
    compare = _comparison()
    # The first comparison loads grammars and much of sympy; no answer's time limit should pay for that.
    compare("\\sqrt{x+4}", "\\frac{x}{2}+1.5")
    os.dup2(nowhere, 2)
    _say(replies, {"ready": True})
    for line in sys.stdin:
        _guard(seconds)
        try:
            request = json.loads(line)
            reply: dict[str, Any] = {"correct": compare(request["gold"], request["answer"])}
        except Exception as error:  # whatever a parser makes of hostile text, no memory included; counted by the caller
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        _guard(0)
        _say(replies, reply)


def _comparison() -> Any:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    from geoalign.lab.rewards.numeric import surely_different

    # It warns that no time limit of its own is set, which is meant: its limit cannot interrupt one long C call.
    logging.disable(logging.WARNING)
    targets = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())

    def parsed(text: str) -> Any:
        return parse(f"\\boxed{{{text}}}", targets, parsing_timeout=None, raise_on_error=True)

    # Parsing is most of the work, and a gold answer comes once for every different response to its prompt.
    parsed_gold = lru_cache(maxsize=1024)(parsed)

    def compare(gold: str, answer: str) -> bool:
        if equal(gold, answer):
            return True
        named = values(gold, answer)
        return named is not None and equal(*named)

    def equal(gold: str, answer: str) -> bool:
        expected, given = parsed_gold(gold), parsed(answer)
        if surely_different(expected, given):
            return False
        try:
            return bool(verify(expected, given, timeout_seconds=None, raise_on_error=True))
        except Exception:
            # One of several readings could not be compared; if another one is equal, that counts.
            if verify(expected, given, timeout_seconds=None):
                return True
            raise

    return compare


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _set_signals() -> None:
    # An interrupt at the keyboard is the parent's affair, which ends this process by ending its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _guard(seconds: float) -> None:
    """Has the system end this process after so many seconds, whatever Python is doing; 0 calls it off."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _say(replies: IO[str], message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
