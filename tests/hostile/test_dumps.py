"""Hostile dumps and files of states: refused in a line, or their bad rows counted and the others as they were."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import damaged_dumps as dumps
import damaged_states as states
import harness
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from geoalign.errors import GeoAlignError
from geoalign.lab.config.curate import load_curate_config
from geoalign.lab.config.requests import CurateRequest
from geoalign.lab.curate.command import curate


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Leaves out what takes most of a call and reads no dump: the page, the bootstrap, the disk, other packages."""

    def blank(folder):
        (folder / "report.html").write_text("")
        return folder / "report.html"

    monkeypatch.setattr("geoalign.lab.curate.command.build_inspection", blank)
    monkeypatch.setattr("geoalign.curators.registry.entry_points", lambda group: ())
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def direct() -> None:
    """The command without its options, which take longer to read than a dump: `main` for dumps alone."""
    _, _, path, _, output, *options = sys.argv
    given = {"skip_bad": "--skip-bad" in options, "mixed_groups": True}
    try:
        curate(load_curate_config("grpo", ()), CurateRequest([path], Path(output), **given), console=Console())
    except GeoAlignError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


@pytest.fixture
def _direct(monkeypatch):
    monkeypatch.setattr(harness, "main", direct)


def curated(path: Path, output: Path, *options: str) -> harness.Outcome:
    return harness.run("curate", path, "--output", output, "--curator", "grpo", "--mixed-groups", *options)


def broken_rows(case: dumps.Case, output: Path) -> list[str]:
    """What is wrong with the rows that came out: one that is neither there nor counted."""
    summary = json.loads((output / "summary.json").read_bytes())
    skipped = {one["line"] for one in summary["skipped"]}
    if not all(one["reason"].startswith("expected") and len(one["reason"]) < 500 for one in summary["skipped"]):
        return [f"skipped: {summary['skipped']}"]
    if case.rows is None:
        return []
    if summary["skipped"] and summary["skipped"][-1]["reason"].endswith("nothing behind it was read"):
        skipped |= set(range(max(skipped), len(case.rows) + 1))
    kept = set(pq.read_table(output / "scores.parquet", columns=["line"])["line"].to_pylist())
    return [] if kept == set(range(1, len(case.rows) + 1)) - skipped else ["a row is lost, or there in spite of all"]


def check(cases: Iterable[dumps.Case], folder: Path, *, strict: int = 1) -> int:
    """Runs every case with bad rows skipped, and each `strict`-th also without; returns how many there were."""
    seen, wrong = 0, []
    for seen, case in enumerate(cases, start=1):
        place = folder / str(seen)
        place.mkdir()
        path = dumps.write(case, place)
        outcome = curated(path, place / "out", "--skip-bad")
        found = outcome.broken()
        if outcome.code == 0:
            found += broken_rows(case, place / "out")
        elif case.rows is not None:
            found.append(f"good rows refused: {outcome.err[:200]}")
        if seen % strict == 0:
            refused = curated(path, place / "strict")
            found += refused.broken()
            if refused.code == 0 and json.loads((place / "strict" / "summary.json").read_bytes())["skipped"]:
                found.append("skipped a row unasked")
            if refused.code and (place / "strict" / "summary.json").exists():
                found.append("a summary beside an error")
        wrong += [f"{case.name}: {one}" for one in found]
    assert not wrong, f"{len(wrong)} broken promises:\n" + "\n".join(wrong[:40])
    return seen


@pytest.mark.usefixtures("_direct")
def test_damaged_fields(tmp_path):
    assert check(list(dumps.field_cases())[::7], tmp_path, strict=4) > 100


@pytest.mark.usefixtures("_direct")
def test_damaged_lines(tmp_path):
    assert check(dumps.line_cases(), tmp_path, strict=5) > 50


@pytest.mark.usefixtures("_direct")
def test_damaged_bytes(tmp_path):
    assert check(dumps.byte_cases(100), tmp_path, strict=5) == 100


@pytest.mark.usefixtures("_direct")
def test_parquet(tmp_path):
    cases = [*dumps.parquet_cases(), *dumps.broken_parquet_cases(10)]
    assert check(cases, tmp_path, strict=7) > 200


FILES = states.bad_files()
QUICK = ("--curator", "geoalign", "--set", "curator.projector.steps=1", "--set", "consensus_check=false")


@pytest.mark.parametrize("name", FILES)
def test_states_are_refused_in_a_line(name, tmp_path):
    rows = [row for _ in range(8) for row in dumps.verl()]
    rows = [{**row, "uid": f'"u{place // 2}_{place % 2}_0"'} for place, row in enumerate(rows)]
    (tmp_path / "dump.jsonl").write_bytes(dumps.packed([dumps.rendered(row) for row in rows], "jsonl"))
    (tmp_path / name).write_bytes(FILES[name])
    given = ("curate", tmp_path / "dump.jsonl", "--output", tmp_path / "out", "--hidden", tmp_path / name)
    outcome = harness.run(*given, *QUICK)
    assert outcome.code == 2
    assert not outcome.broken()
    assert name in outcome.err.replace("\n", "")
