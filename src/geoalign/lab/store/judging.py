"""The folder of a judging: what was judged by whom, the judge's answers on disk, and the result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import sync_folder, write_atomically
from geoalign.lab.store.identity import SETTINGS, begin
from geoalign.lab.store.json_files import write_json
from geoalign.lab.store.strict_json import strict_json

SCHEMA_VERSION = 1


class JudgeFolder:
    """Names the files; one folder holds one judging of two files by one judge."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / SETTINGS
        self.cache = root / "cache.jsonl"
        self.judgments = root / "judgments.jsonl"
        self.result = root / "judge.json"

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Makes the folder that of a judging, or checks that it is of this one; answers may have been brought along.

        Raises:
            RunFolderError, ConfigError: as `geoalign.lab.store.identity.begin`.
        """
        begin(self.root, {"schema_version": SCHEMA_VERSION, **identity}, kind="judging", brought=self.cache.name)

    def write(
        self, identity: Mapping[str, Any], judgments: Iterable[Mapping[str, Any]], result: Mapping[str, Any]
    ) -> None:
        """Writes a line for each judgment, then the result beside what it depends on; each file atomic."""
        # ASCII: the judge's text is written as it came, lone surrogates too.
        write_atomically(self.judgments, "".join(json.dumps(line) + "\n" for line in judgments))
        write_json(self.result, {"schema_version": SCHEMA_VERSION, **identity, **result})


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
            value = self._answer(line, number)
            self._answers.setdefault(value["key"], []).append(value["answer"])
        if whole < len(data):
            self._file.truncate(whole)

    def _answer(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            value = strict_json(line)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in ("key", "answer")):
            raise RunFolderError(
                f"{self._path}, line {number}: expected an object of key and answer, got {line[:80]!r}"
            )
        return value
