"""The folders of prime-rl: in which files a run keeps its rollouts, and which of them it trained on.

Until August 2026 (github.com/PrimeIntellect-ai/prime-rl at 559b447, src/prime_rl/monitors/file.py) a run wrote
`rollouts/step_N/train/all/traces.jsonl`, and beside it in `effective` what was trained on.

Since then (src/prime_rl/monitors/file/monitor.py at 048a6e2, traces/chunks.py at 551bfc3, traces/index.py at 13e96a1,
traces/update.py at 65a1858, orchestrator/annotations.py at 96e0cf4) every episode is written once, as it arrives:

    monitors/file/traces/stream/00000.jsonl.zst     chunks that are full, and all of a finished run, packed by zstd
    monitors/file/traces/stream/00001.jsonl         the chunk that is being written
    monitors/file/traces/stream.index.jsonl         one short line for each episode: its id, kind and traces
    monitors/file/traces/annotations/orchestrator/  chunks again: which trace was shipped to the trainer, at which step

For a few days in between, `stream` and `orchestrator` were single files `stream.jsonl` and `orchestrator.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoalign.dumps.json_rows import json_lines
from geoalign.dumps.raw_rows import RawRow

_CHUNK = re.compile(r"(\d{5,18})\.jsonl(\.zst)?")
# From the folder that a user names down to the traces: of a run, its monitors, the file monitor, or the traces.
_WAYS = ("monitors/file/traces", "file/traces", "traces", ".")


def is_stream(path: Path) -> bool:
    """Whether a path is the folder of a stream: of episodes, or of annotations."""
    return path.is_dir() and any(_CHUNK.fullmatch(item.name) for item in path.iterdir())


def is_stream_file(path: Path) -> bool:
    """Whether a path is a stream that is one file."""
    return path.name == "stream.jsonl" and path.resolve().parent.name == "traces"


def find_stream(folder: Path) -> Path | None:
    """The stream of episodes of a run, named by any folder above it or by itself; None where there is none."""
    if folder.parent.name == "traces" and folder.name == "stream" and is_stream(folder):
        return folder
    for way in _WAYS:
        traces = (folder / way).resolve()
        if traces.name == "traces":
            for name in ("stream", "stream.jsonl"):
                found = folder / way / name
                if is_stream(found) or found.is_file():
                    return found
    return None


def stream_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a stream, a folder of chunks or one file, counted over all chunks, as `zstd -dcf stream/*` counts.

    In a stream of a training the episodes of its evaluations are passed over.
    """
    evaluations = _evaluations(path)
    lines_before = 0
    for chunk in _chunks(path):
        line = 0
        for raw in json_lines(chunk):
            line = raw.line
            problem = None if raw.problem is None else f"{raw.problem} ({chunk.name}, line {line})"
            if raw.value is None or raw.value.get("id") not in evaluations:
                yield RawRow(lines_before + line - 1, lines_before + line, raw.value, problem, raw.rest_lost)
            if raw.rest_lost:
                return
        lines_before += line


def passed_over(path: Path) -> int:
    """How many episodes of evaluations `stream_rows` passes over; none of a path that is no stream."""
    return len(_evaluations(path)) if path.is_dir() or is_stream_file(path) else 0


def annotations_of(stream: Path) -> Path | None:
    """What the orchestrator noted of the traces of a stream; None where it noted nothing, or this is no stream."""
    for name in ("orchestrator", "orchestrator.jsonl"):
        found = stream.parent / "annotations" / name
        if stream.name.removesuffix(".jsonl") == "stream" and (is_stream(found) or found.is_file()):
            return found
    return None


def episodes_trained_on(annotations: Path) -> set[Any]:
    """The ids of the episodes of which a trace was shipped to the trainer."""
    traces = {
        raw.value.get("trace_id")
        for chunk in _chunks(annotations)
        for raw in json_lines(chunk)
        if raw.value is not None and (raw.value.get("info") or {}).get("effective")
    }
    # A run that was just started has a stream of either form.
    folder = annotations.parent.parent
    stream = folder / "stream" if is_stream(folder / "stream") else folder / "stream.jsonl"
    return {entry["id"] for entry in _index(stream) if traces.intersection(entry["trace_ids"])}


def _chunks(path: Path) -> list[Path]:
    """The chunks of a stream in order; of one that is being packed the plain file."""
    if path.is_file():
        return [path]
    chunks: dict[int, Path] = {}
    for item in sorted(path.iterdir()):
        match = _CHUNK.fullmatch(item.name)
        # "00000.jsonl" comes before "00000.jsonl.zst".
        if match:
            chunks.setdefault(int(match[1]), item)
    return [chunks[number] for number in sorted(chunks)]


def _evaluations(stream: Path) -> set[Any]:
    """The ids of the episodes of evaluations in the stream of a training; none in that of an evaluation alone."""
    kinds = {entry["id"]: entry["kind"] for entry in _index(stream)}
    if "train" not in kinds.values():
        return set()
    return {identifier for identifier, kind in kinds.items() if kind == "eval"}


def _index(stream: Path) -> Iterator[dict[str, Any]]:
    """For each episode of a stream its `id`, `kind` and `trace_ids`, from the index beside it, or else from itself."""
    index = stream.parent / "stream.index.jsonl"
    if index.is_file():
        for raw in json_lines(index):
            entry = raw.value or {}
            yield {"id": entry.get("id"), "kind": entry.get("kind"), "trace_ids": entry.get("trace_ids") or []}
        return
    for chunk in _chunks(stream):
        for raw in json_lines(chunk):
            episode = raw.value or {}
            traces = [trace for trace in episode.get("traces") or [] if isinstance(trace, dict)]
            ids = [trace.get("id") for trace in traces]
            yield {"id": episode.get("id"), "kind": _kind(episode, traces), "trace_ids": ids}


def _kind(episode: dict[str, Any], traces: list[dict[str, Any]]) -> Any:
    """Whether an episode was work of a training or of an evaluation, after `episode_kind` of the index."""
    for trace in traces:
        kind = (trace.get("info") or {}).get("kind")
        if kind in ("train", "eval"):
            return kind
    run = episode.get("run") or {}
    return (run.get("work") or {}).get("type") or run.get("type") or "eval"
