"""The streams of prime-rl's file monitor, by chunks, with an index and annotations beside them."""

import json

import pyarrow as pa
import pytest
from dumps import GROUPS, SIZE, all_responses, all_rewards, verifiers, write_lines
from written import read

from geoalign.dumps.prime_rl import annotations_of, episodes_trained_on, find_stream, passed_over
from geoalign.errors import InputError

# The seek table behind the frames of a sealed chunk is a frame that readers skip.
SEEK_TABLE = (0x184D2A5E).to_bytes(4, "little") + (9).to_bytes(4, "little") + bytes(9)


def seal(path):
    """A chunk as prime-rl seals it: zstd in several frames, with a seek table behind them."""
    lines = path.read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    frames = [pa.compress(b"".join(part), codec="zstd", asbytes=True) for part in (lines[:half], lines[half:])]
    path.with_name(path.name + ".zst").write_bytes(b"".join(frames) + SEEK_TABLE)
    path.unlink()


def episodes(step=3):
    """Each with its first trace alone, whose id is the episode's behind a "t"."""
    rows = verifiers(step)
    for row in rows:
        first = row["traces"][0]
        row["traces"] = [{**first, "id": f"t{row['id']}"}]
    return rows


def evaluation():
    row = episodes()[0]
    trace = row["traces"][0]
    return {
        **row,
        "id": "evaluated",
        "run": {**row["run"], "work": {"type": "eval", "step": 3}},
        "traces": [{**trace, "id": "x", "info": {"kind": "eval"}}],
    }


def write_run(folder, rows, *, index=True, shipped=20):
    """A run whose first chunk is sealed; of its second, which is still written, a line is an evaluation's."""
    traces = folder / "monitors" / "file" / "traces"
    (traces / "stream").mkdir(parents=True)
    (traces / "annotations" / "orchestrator").mkdir(parents=True)
    seal(write_lines(traces / "stream" / "00000.jsonl", rows[:30]))
    write_lines(traces / "stream" / "00001.jsonl", [evaluation(), *rows[30:]])
    if index:
        entries = [{"id": row["id"], "kind": "train", "trace_ids": [f"t{row['id']}"]} for row in rows]
        evaluated = {"id": "evaluated", "kind": "eval", "trace_ids": ["x"]}
        write_lines(traces / "stream.index.jsonl", [*entries[:30], evaluated, *entries[30:]])
    updates = [{"trace_id": "t", "info": {}, "version": 1}]
    for row in rows[:shipped]:
        info = {"effective": True, "ship": {"step": 4}}
        updates.append({"version": 1, "trace_id": f"t{row['id']}", "info": info})
    write_lines(traces / "annotations" / "orchestrator" / "00000.jsonl", updates)
    return traces / "stream"


@pytest.mark.parametrize("index", [True, False])
def test_chunks_are_one_dump_without_evaluations(index, tmp_path):
    stream = write_run(tmp_path, episodes(), index=index)
    layout, rows = read(stream)
    assert layout.format.name == "verifiers"
    assert [row.response for row in rows] == all_responses()
    assert [row.reward for row in rows] == all_rewards()
    # The evaluation is line 31.
    assert [row.line for row in rows[28:32]] == [29, 30, 32, 33]
    assert passed_over(stream) == 1
    assert rows[0].step == 3


@pytest.mark.parametrize(
    "way", [".", "monitors", "monitors/file", "monitors/file/traces", "monitors/file/traces/stream"]
)
def test_any_folder_of_a_run_names_its_stream(way, tmp_path):
    stream = write_run(tmp_path, episodes())
    assert find_stream(tmp_path / way).resolve() == stream


def test_annotations_say_what_was_trained_on(tmp_path):
    rows = episodes()
    stream = write_run(tmp_path, rows)
    assert episodes_trained_on(annotations_of(stream)) == {row["id"] for row in rows[:20]}


def test_a_stream_of_one_file(tmp_path):
    """As prime-rl wrote it for some days."""
    rows = episodes()
    traces = tmp_path / "monitors" / "file" / "traces"
    (traces / "annotations").mkdir(parents=True)
    stream = write_lines(traces / "stream.jsonl", [evaluation(), *rows])
    write_lines(traces / "annotations" / "orchestrator.jsonl", [{"trace_id": "t0-0", "info": {"effective": True}}])
    assert find_stream(tmp_path) == stream
    assert episodes_trained_on(annotations_of(stream)) == {"0-0"}
    _, found = read(stream)
    assert len(found) == GROUPS * SIZE


def test_a_run_of_evaluations_is_audited_as_it_is(tmp_path):
    stream = tmp_path / "traces" / "stream"
    stream.mkdir(parents=True)
    rows = [{**row, "run": {"type": "eval", "id": "x"}} for row in episodes()]
    write_lines(stream / "00000.jsonl", rows)
    _, found = read(stream, fields={"step": ""})
    assert len(found) == GROUPS * SIZE
    assert annotations_of(stream) is None


def test_a_chunk_that_is_just_being_sealed_counts_once(tmp_path):
    stream = write_run(tmp_path, episodes())
    (stream / "00001.jsonl.zst").write_bytes(b"half")
    (stream / "00001.jsonl.zst.tmp").write_bytes(b"half")
    _, found = read(stream)
    assert len(found) == GROUPS * SIZE


def test_a_torn_line_is_named_with_its_chunk(tmp_path):
    stream = write_run(tmp_path, episodes())
    with (stream / "00001.jsonl").open("ab") as file:
        file.write(json.dumps(episodes()[0]).encode()[:50])
    with pytest.raises(InputError, match=r"stream, line 50: .*is it still being written\? \(00001\.jsonl, line 20\)"):
        read(stream)


def test_truncation_by_a_limit_or_by_the_last_call(tmp_path):
    rows = episodes()
    rows[0]["traces"][0]["stop_condition"] = "max_turns"
    rows[1]["traces"][0]["calls"] = [{"finish_reason": "stop"}, {"finish_reason": "length"}]
    failed = {"finish_reason": "length", "error": {"type": "x"}}
    rows[2]["traces"][0]["calls"] = [{"finish_reason": "stop"}, failed]
    _, found = read(write_lines(tmp_path / "traces.jsonl", rows))
    assert [row.truncated for row in found[:4]] == [True, True, False, None]
