"""Carrying runs out with processes that are not there: order, failures, how far they are."""

from pathlib import Path
from typing import ClassVar

import pytest
from rich.console import Console

from geoalign.lab.compare import pool
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import CellKey, PlannedRun, planned_runs
from geoalign.lab.compare.read_settings import parse_compare_config


class FakeProcess:
    """Ends after three looks, with its cell's exit code of `codes`; 99 for one that ends well and leaves nothing."""

    codes: ClassVar = {}

    def __init__(self, job, *, log, threads):
        self.job = job
        self.left = 3
        self.seconds = 1.0
        self.name = CellKey(**job["cells"][0]).name
        self.started.append(self.name)
        self.alive.append(self)
        self.at_once.append(len(self.alive))

    def exit_code(self):
        self.left -= 1
        if self.left > 0:
            return None
        code = self.codes.get(self.name, 0)
        if self in self.alive:
            self.alive.remove(self)
            if code == 0:
                self._finish()
        return 0 if code == 99 else code

    def _finish(self):
        cells = tuple(CellKey(**cell) for cell in self.job["cells"])
        planned = PlannedRun(cells, self.job["settings"], self.job["warm_start_seed"], self.job["key"])
        folder = ComparisonFolder(Path(self.job["folder"]))
        folder.run(planned.cell).rollouts.mkdir(parents=True)
        folder.write_result(planned, {"status": "finished", "error": None})

    def error(self):
        return f"{self.name} broke"

    def stop(self):
        self.alive.remove(self)


@pytest.fixture
def fake(monkeypatch):
    kind = type("Fake", (FakeProcess,), {"alive": [], "started": [], "at_once": []})
    monkeypatch.setattr(pool, "WorkerProcess", kind)
    monkeypatch.setattr(pool, "_LOOK_SECONDS", 0.0)
    return kind


@pytest.fixture
def plan():
    data = {
        "arms": {"grpo": None, "geoalign": None, "clean": None},
        "levels": {"a": {"reward": {"flip": 0.1}}, "b": {"reward": {"flip": 0.2}}},
        "seeds": [0, 1],
    }
    return planned_runs(parse_compare_config(data))


def carry_out(tmp_path, plan, *, workers=2):
    shapes = {run.key: {"max_steps": 4, "updates_per_generation": 2} for run in plan}
    return pool.run_all(
        ComparisonFolder(tmp_path), plan, Console(quiet=True), output={}, shapes=shapes, base_seed=0,
        workers=workers, threads=1, keep_runs=False,
    )  # fmt: skip


def test_every_run_is_carried_out_in_order_and_no_more_than_allowed_at_once(tmp_path, fake, plan):
    assert carry_out(tmp_path, plan, workers=3) == {}
    assert fake.started == [run.cell.name for run in plan]
    assert max(fake.at_once) == 3
    assert all(ComparisonFolder(tmp_path).finished(run) for run in plan)
    assert not list((tmp_path / "runs").rglob("seed-*"))


@pytest.mark.parametrize("code", [1, 2, -9, 99])
def test_a_failure_is_recorded_in_all_its_cells_and_stops_no_other(tmp_path, fake, plan, code):
    fake.codes = {"a/clean/seed-0": code}
    failed = carry_out(tmp_path, plan)
    assert failed == {"a/clean/seed-0": "a/clean/seed-0 broke"}
    assert fake.started == [run.cell.name for run in plan]
    folder = ComparisonFolder(tmp_path)
    for level in ("a", "b"):
        result = folder.read_result(CellKey(level, "clean", 0))
        assert (result["status"], result["error"], result["curator"]) == ("failed", "a/clean/seed-0 broke", "grpo")
    assert [run.cell.name for run in plan if not folder.finished(run)] == ["a/clean/seed-0"]


def test_no_process_is_left_however_it_ends(tmp_path, fake, plan, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(pool.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(tmp_path, plan)
    assert len(fake.started) == 2
    assert fake.alive == []
