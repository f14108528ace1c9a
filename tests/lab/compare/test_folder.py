import copy
import json

import pytest
import yaml

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import planned_runs
from geoalign.lab.compare.read_settings import parse_compare_config

DATA = {
    "arms": {"grpo": None, "geoalign": None, "clean": None},
    "levels": {"a": {"reward": {"flip": 0.1}}, "b": {"reward": {"flip": 0.2}}},
    "seeds": [0],
}
DONE = {"status": "finished", "error": None}


def planned(name, data=None):
    plan = planned_runs(parse_compare_config(data or DATA))
    return next(run for run in plan if name in [cell.name for cell in run.cells])


def changed(**run):
    return {**copy.deepcopy(DATA), "run": run}


def test_a_result_fills_all_cells_of_its_run(tmp_path):
    folder = ComparisonFolder(tmp_path)
    clean = planned("b/clean/seed-0")
    assert not folder.finished(clean)
    folder.write_result(clean, DONE)
    assert folder.finished(clean)
    cell_of_a, cell_of_b = clean.cells
    first = folder.read_result(cell_of_a)
    second = folder.read_result(cell_of_b)
    assert (first["level"], first["arm"], first["seed"]) == ("a", "clean", 0)
    assert (second["level"], second["same_run_as"]) == ("b", "a/clean/seed-0")
    assert first["run"] == clean.settings
    assert (first["curator"], first["settings"]) == ("grpo", {})
    folder.result(cell_of_b).unlink()
    assert folder.finished(clean)  # a level that was added later
    assert folder.read_result(cell_of_b) == second
    folder.result(cell_of_a).unlink()
    assert folder.finished(clean)
    assert folder.read_result(cell_of_a) == first


def test_a_result_of_other_settings_is_refused_by_file_and_key(tmp_path):
    folder = ComparisonFolder(tmp_path)
    folder.write_result(planned("a/grpo/seed-0"), DONE)
    with pytest.raises(ConfigError, match=r"grpo\.learning_rate: .*results/a/grpo/seed-0\.json .* got 0\.1"):
        folder.finished(planned("a/grpo/seed-0", changed(grpo={"learning_rate": 0.1})))
    seeded = {**DATA, "run": {"task": {"seed": 0}}}
    folder.write_result(planned("a/grpo/seed-0", seeded), DONE)
    with pytest.raises(ConfigError, match="warm start"):
        folder.finished(planned("a/grpo/seed-0", {**DATA, "run": {"seed": 9, "task": {"seed": 0}}}))


def test_a_run_begun_with_other_settings_is_refused_unless_it_failed(tmp_path):
    folder = ComparisonFolder(tmp_path)
    run = planned("a/geoalign/seed-0")
    folder.run(run.cell).initialise({**run.settings, "output": {"rollouts": True}}, threads=1)
    folder.check_unfinished(run)
    other = planned("a/geoalign/seed-0", changed(grpo={"learning_rate": 0.1}))
    with pytest.raises(ConfigError, match=r"grpo\.learning_rate"):
        folder.check_unfinished(other)
    assert folder.run(run.cell).started()
    folder.write_result(run, {"status": "failed", "error": "no"})
    folder.check_unfinished(run)
    assert folder.run(run.cell).started()  # the same settings: it goes on from its checkpoint
    folder.check_unfinished(other)
    assert not folder.run(run.cell).root.exists()


def test_a_run_folder_that_is_half_removed_never_stands_under_its_own_name(tmp_path, monkeypatch):
    folder = ComparisonFolder(tmp_path)
    run = planned("a/geoalign/seed-0")
    folder.run(run.cell).initialise(run.settings, threads=1)

    def killed(path):
        (path / "versions.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("geoalign.files.durable.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.discard(run)
    assert not folder.run(run.cell).root.exists()
    folder.discard(run)
    assert not list((tmp_path / "runs").rglob("*seed-0*"))


def test_where_a_comparison_may_start_or_go_on(tmp_path):
    folder = ComparisonFolder(tmp_path / "x")
    folder.check_vacant(resume=False)
    folder.check_vacant(resume=True)
    folder.root.mkdir()
    for name in (".lock", "shared.log", "checked.json", "compare.yaml.tmp", "shared-3"):
        (folder.root / name).touch()
    folder.check_vacant(resume=False)  # killed before it had begun
    config = parse_compare_config(DATA)
    folder.initialise(config)
    folder.config.unlink()
    folder.check_vacant(resume=False)  # killed between its two files
    folder.initialise(config)
    with pytest.raises(RunFolderError, match="resume it with --resume"):
        folder.check_vacant(resume=False)
    folder.check_vacant(resume=True)
    assert folder.read_config() == config
    other = ComparisonFolder(tmp_path / "y")
    other.root.mkdir()
    (other.root / "thesis.tex").touch()
    for resume in (True, False):
        with pytest.raises(RunFolderError, match=r"got one with thesis\.tex"):
            other.check_vacant(resume=resume)
    with pytest.raises(RunFolderError, match="expected a folder, got a file"):
        ComparisonFolder(other.root / "thesis.tex").check_vacant(resume=True)
    with pytest.raises(RunFolderError, match=r"got no compare\.yaml"):
        other.read_config()


def test_versions_of_a_later_start_are_added(tmp_path):
    folder = ComparisonFolder(tmp_path)
    config = parse_compare_config(DATA)
    folder.initialise(config)
    first = json.loads(folder.versions.read_text())
    folder.initialise(config)
    assert json.loads(folder.versions.read_text()) == first
    folder.versions.write_text(json.dumps({**first, "torch": "0.1"}))
    for _ in range(2):
        folder.initialise(config)
    versions = json.loads(folder.versions.read_text())
    assert (versions["torch"], [item["torch"] for item in versions["later"]]) == ("0.1", [first["torch"]])
    assert "type" in yaml.safe_load(folder.config.read_text())["run"]["curator"]
