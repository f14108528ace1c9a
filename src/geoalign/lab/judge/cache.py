"""The judge's answers on disk, so that nothing is asked twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import sync_folder


class MemoryAnswers:
    """Answers kept for one call only, for a judge that costs nothing."""

    def __init__(self) -> None:
        self._answers: dict[str, list[str]] = {}

    def answers(self, key: str) -> tuple[str, ...]:
        """As `AnswerCache.answers`."""
        return tuple(self._answers.get(key, ()))

    def add(self, key: str, answer: str) -> None:
        """As `AnswerCache.add`, but not durable."""
        self._answers.setdefault(key, []).append(answer)


class AnswerCache:
    """Answers by the hash of what was asked, in a JSONL file that only grows.

    Each answer is one line, on the disk before `add` returns. A kill leaves whole lines and at most one cut one, which
    is cut away when the file is next opened; so is nothing else: any other line that cannot be read is an error.

    Raises:
        RunFolderError: a whole line is no answer; the message has its number. Or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, list[str]] = {}
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise RunFolderError(f"{path}: expected a file to keep answers in, got {error}") from error
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            self._read()
            sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> AnswerCache:
        """The file is open until the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the file."""
        self._file.close()

    def answers(self, key: str) -> tuple[str, ...]:
        """The answers to what `key` stands for, in the order in which they came."""
        return tuple(self._answers.get(key, ()))

    def add(self, key: str, answer: str) -> None:
        """Appends an answer, durably.

        Raises:
            RunFolderError: the file cannot be written, for instance because the disk is full.
        """
        # ASCII: whatever a model answered, lone surrogates too, comes back as it was.
        line = json.dumps({"key": key, "answer": answer}).encode("ascii") + b"\n"
        try:
            written = self._file.write(line)
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunFolderError(f"{self._path}: expected to append an answer, got {error}") from error
        if written != len(line):
            raise RunFolderError(f"{self._path}: expected to append {len(line)} bytes, got {written}: disk full?")
        self._answers.setdefault(key, []).append(answer)

    def _read(self) -> None:
        data = self._file.readall() or b""
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            value = self._line(line, number)
            self._answers.setdefault(value["key"], []).append(value["answer"])
        if whole < len(data):
            self._file.truncate(whole)

    def _line(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("key", "answer")):
            raise RunFolderError(
                f"{self._path}, line {number}: expected an object of key and answer, got {line[:80]!r}"
            )
        return value
