"""Carrying runs out with processes that are not there: order, failures, how far they are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from geoalign.lab.compare import pool
from geoalign.lab.compare.pool import Board
from geoalign.lab.config.compare import Place, PlannedRun, make_plan
from geoalign.lab.config.compare_loading import parse_compare_config
from geoalign.lab.store.comparison import ComparisonFolder


class FakeProcess:
    """Ends after it was looked at `looks` times, with the exit code that its cell is given in `codes`."""

    codes: ClassVar[dict[str, int]] = {}
    alive: ClassVar[list[FakeProcess]] = []
    most_at_once = 0
    started: ClassVar[list[str]] = []
    looks = 3

    def __init__(self, job: dict[str, Any], *, log: Path, threads: int) -> None:
        self.job, self.left, self.seconds = job, self.looks, 1.0
        self.name = Place(**job["cells"][0]).name
        FakeProcess.started.append(self.name)
        FakeProcess.alive.append(self)
        FakeProcess.most_at_once = max(FakeProcess.most_at_once, len(FakeProcess.alive))

    def exit_code(self) -> int | None:
        self.left -= 1
        if self.left > 0:
            return None
        if self in FakeProcess.alive:
            FakeProcess.alive.remove(self)
            if self.codes.get(self.name, 0) in (0, 99):
                self._finish()
        code = self.codes.get(self.name, 0)
        return 0 if code == 99 else code

    def _finish(self) -> None:
        if self.codes.get(self.name) == 99:  # ends well and leaves nothing
            return
        job = self.job
        cells = tuple(Place(**cell) for cell in job["cells"])
        planned = PlannedRun(cells, job["settings"], job["warm_start_seed"], job["key"])
        folder = ComparisonFolder(Path(job["folder"]))
        folder.run(planned.cell).rollouts.mkdir(parents=True)
        folder.write_result(planned, {"status": "finished", "error": None})

    def error(self) -> str:
        return f"{self.name} broke"

    def stop(self) -> None:
        FakeProcess.alive.remove(self)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeProcess]:
    monkeypatch.setattr(FakeProcess, "codes", {})
    monkeypatch.setattr(FakeProcess, "alive", [])
    monkeypatch.setattr(FakeProcess, "started", [])
    monkeypatch.setattr(FakeProcess, "most_at_once", 0)
    monkeypatch.setattr(pool, "WorkerProcess", FakeProcess)
    monkeypatch.setattr(pool, "_LOOK_SECONDS", 0.0)
    return FakeProcess


@pytest.fixture
def plan() -> list[PlannedRun]:
    data = {
        "arms": {"grpo": None, "geoalign": None, "clean": None},
        "levels": {"a": {"reward": {"flip": 0.1}}, "b": {"reward": {"flip": 0.2}}},
        "seeds": [0, 1],
    }
    return make_plan(parse_compare_config(data))


def carry_out(tmp_path: Path, plan: list[PlannedRun], *, workers: int = 2, keep_runs: bool = False) -> dict[str, str]:
    folder = ComparisonFolder(tmp_path)
    shapes = {run.key: {"max_steps": 4, "updates_per_generation": 2} for run in plan}
    with Board(Console(quiet=True), folder, total=len(plan), before=0) as board:
        return pool.run_all(
            folder, plan, board, output={}, shapes=shapes, base_seed=0, workers=workers, threads=1, keep_runs=keep_runs
        )


def test_every_run_is_carried_out_in_order_and_no_more_than_allowed_at_once(
    tmp_path: Path, fake: type[FakeProcess], plan: list[PlannedRun]
) -> None:
    assert carry_out(tmp_path, plan, workers=3) == {}
    assert fake.started == [run.cell.name for run in plan]
    assert fake.most_at_once == 3
    assert all(ComparisonFolder(tmp_path).finished(run) for run in plan)
    assert not list((tmp_path / "runs").rglob("seed-*"))


@pytest.mark.parametrize("code", [1, 2, -9, 99])
def test_a_failure_is_recorded_in_all_its_cells_and_stops_no_other(
    tmp_path: Path, fake: type[FakeProcess], plan: list[PlannedRun], code: int
) -> None:
    fake.codes = {"a/clean/seed-0": code}
    failed = carry_out(tmp_path, plan)
    assert failed == {"a/clean/seed-0": "a/clean/seed-0 broke"}
    assert fake.started == [run.cell.name for run in plan]
    folder = ComparisonFolder(tmp_path)
    for level in ("a", "b"):
        result = folder.read_result(Place(level, "clean", 0))
        assert result is not None
        assert (result["status"], result["error"], result["curator"]) == ("failed", "a/clean/seed-0 broke", "grpo")
    assert [run.cell.name for run in plan if not folder.finished(run)] == ["a/clean/seed-0"]


def test_no_process_is_left_however_it_ends(tmp_path: Path, fake: type[FakeProcess], plan: list[PlannedRun]) -> None:
    class Interrupted(Board):
        def refresh(self) -> None:
            raise KeyboardInterrupt

    folder = ComparisonFolder(tmp_path)
    shapes = {run.key: {"max_steps": 4, "updates_per_generation": 2} for run in plan}
    board = Interrupted(Console(quiet=True), folder, total=len(plan), before=0)
    with pytest.raises(KeyboardInterrupt):
        pool.run_all(folder, plan, board, output={}, shapes=shapes, base_seed=0, workers=2, threads=1, keep_runs=False)
    assert len(fake.started) == 2
    assert fake.alive == []


def test_the_board_says_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ComparisonFolder(tmp_path)
    console = Console(width=200, file=io.StringIO(), record=True)
    board = Board(console, folder, total=8, before=2)
    monkeypatch.setattr(board, "_elapsed", lambda: 60.0)
    assert board.remaining() is None
    process: Any = FakeProcess.__new__(FakeProcess)
    process.seconds = 30.0
    one, two, three = (Place("a", "grpo", seed) for seed in range(3))
    for cell in (one, two, three):
        board.starts(cell, process, 40)
    board.ends(one, None)
    board.ends(two, "it broke")
    metrics = folder.run(three).metrics
    metrics.parent.mkdir(parents=True)
    metrics.write_text('{"stage": "rl", "step": 20}\n')
    # One finished, one failed and half of one: 2.5 of 8 in 60 seconds, so 5.5 take 132 seconds.
    assert board.remaining() == pytest.approx(132)
    assert board.headline() == (
        "3 of 10 runs finished, 1 failed, 1 running, 5 waiting, 0:01:00 gone by, about 0:02:12 left"
    )
    said = console.export_text()
    assert "a/grpo/seed-1 failed: it broke" in said
