import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.config.loading import load_run_config
from geoalign.lab.store.json_files import append_lines, read_lines
from geoalign.lab.store.run_folder import SCHEMA_VERSION, RunFolder, check_same_settings
from geoalign.lab.store.seals import MARK
from geoalign.lab.train.evaluations import drop_evaluation, evaluated
from geoalign.lab.train.resume import check_vacant, cut_back, go_back
from geoalign.settings.loading import plain_settings


def started(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.initialise(plain_settings(load_run_config().config), threads=1)
    return folder


def test_a_started_run_has_its_settings_and_versions(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not folder.started()
    folder = started(tmp_path)
    assert folder.started()
    assert not folder.finished()
    versions = folder.read_versions()
    assert versions["schema_version"] == SCHEMA_VERSION == 1
    assert {"geoalign", "python", "torch", "trl", "transformers", "threads"} <= versions.keys()
    assert folder.read_config() == plain_settings(load_run_config().config)


@pytest.mark.parametrize(
    ("schema", "message"),
    [(2, "at most 1, got 2"), ("1", "whole number"), (None, "got None"), (True, "True"), (0, "0")],
)
def test_another_schema_is_refused(tmp_path: Path, schema: object, message: str) -> None:
    folder = started(tmp_path)
    folder.versions.write_text(json.dumps({"schema_version": schema}))
    for resume in (True, False):
        with pytest.raises(RunFolderError, match=message):
            check_vacant(folder, resume=resume)


def test_where_a_run_may_start_or_go_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    check_vacant(folder, resume=False)
    folder.root.mkdir()
    check_vacant(folder, resume=False)
    for name in (".lock", "versions.json", "config.yaml.tmp"):  # killed before it had begun
        (folder.root / name).touch()
    check_vacant(folder, resume=False)
    check_vacant(folder, resume=True)
    folder = started(tmp_path)
    check_vacant(folder, resume=True)
    with pytest.raises(RunFolderError, match="unfinished run: resume it with --resume"):
        check_vacant(folder, resume=False)
    folder.summary.write_text("{}")
    check_vacant(folder, resume=False)
    check_vacant(folder, resume=True)


def test_a_folder_of_other_files_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    for resume in (True, False):
        with pytest.raises(RunFolderError, match=r"thesis\.tex and no run"):
            check_vacant(RunFolder(tmp_path), resume=resume)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").touch()
    with pytest.raises(RunFolderError, match=r"config\.yaml and no run"):
        check_vacant(RunFolder(tmp_path / "mine"), resume=False)
    with pytest.raises(RunFolderError, match="expected a folder, got a file"):
        check_vacant(RunFolder(tmp_path / "thesis.tex"), resume=False)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grpo.learning_rate=0.5", r"grpo\.learning_rate: expected nothing, .* got 0\.5"),
        ("seed=4", r"seed: expected 0, .* got 4"),
        ("curator.type=grpo", r"curator\.aggregation: expected 'sum', .* got nothing"),
        ("curator.projector.steps=7", r"curator\.projector\.steps: expected 50, .* got 7"),
        ("sft=null", r"sft: expected nothing, .* got None"),
    ],
)
def test_a_changed_setting_is_named(tmp_path: Path, override: str, message: str) -> None:
    then = yaml.safe_load(yaml.safe_dump(plain_settings(load_run_config().config)))
    check_same_settings(plain_settings(load_run_config().config), then, tmp_path)
    with pytest.raises(ConfigError, match=message):
        check_same_settings(plain_settings(load_run_config(None, [override]).config), then, tmp_path)


def test_what_is_kept_may_change(tmp_path: Path) -> None:
    then = plain_settings(load_run_config().config)
    check_same_settings(plain_settings(load_run_config(None, ["output.keep_checkpoints=7"]).config), then, tmp_path)


def fill(folder: RunFolder, *, sft: int, rl: int) -> None:
    """A run killed somewhere: lines of every stage, files of every generation, a complete checkpoint of each stage."""
    append_lines(folder.metrics, [{"stage": "sft", "step": step} for step in (1, 2, 3)])
    append_lines(folder.metrics, [{"stage": "rl", "step": step} for step in (1, 2, 3, 4)])
    append_lines(
        folder.evaluation,
        [{"stage": stage, "step": step, "set": "a"} for stage, step in (("before_rl", 0), ("rl", 2), ("rl", 3))],
    )
    append_lines(folder.evaluation, [{"stage": "after_rl", "step": 4, "set": "a"}])
    for step in (0, 2, 4):
        for place, suffix in ((folder.rollouts, ".parquet"), (folder.details, ".safetensors")):
            place.mkdir(exist_ok=True)
            (place / f"step-{step:06d}{suffix}").touch()
    (folder.rollouts / "step-000006.parquet.tmp").touch()
    for stage, step in ((folder.sft_checkpoints, sft), (folder.rl_checkpoints, rl)):
        for number, complete in ((step, True), (step + 2, False)):
            path = stage / f"checkpoint-{number}"
            path.mkdir(parents=True)
            if complete and number:
                (path / MARK).touch()
    (folder.checkpoints / "final.tmp").mkdir()


def left(folder: RunFolder) -> tuple[list[tuple[str, int]], list[tuple[str, int]], list[str]]:
    metrics = [(line["stage"], line["step"]) for line in read_lines(folder.metrics)]
    evaluations = [(line["stage"], line["step"]) for line in read_lines(folder.evaluation)]
    return metrics, evaluations, sorted(path.name for path in folder.rollouts.glob("*"))


def test_cut_back_into_the_warm_start(tmp_path: Path) -> None:
    folder = started(tmp_path)
    fill(folder, sft=2, rl=2)
    cut_back(folder)
    assert left(folder) == ([("sft", 1), ("sft", 2)], [], [])
    assert sorted(path.name for path in folder.sft_checkpoints.iterdir()) == ["checkpoint-2"]
    assert not (folder.checkpoints / "final.tmp").exists()


def test_cut_back_into_rl(tmp_path: Path) -> None:
    folder = started(tmp_path)
    fill(folder, sft=2, rl=2)
    folder.warm_started.mkdir()
    cut_back(folder)
    metrics, evaluations, rollouts = left(folder)
    assert metrics == [("sft", 1), ("sft", 2), ("sft", 3), ("rl", 1), ("rl", 2)]
    assert evaluations == [("before_rl", 0), ("rl", 2)]
    # The generation of step 2 was made after the checkpoint of step 2: it will be made again.
    assert rollouts == ["step-000000.parquet"]
    assert sorted(path.name for path in folder.details.iterdir()) == ["step-000000.safetensors"]


def test_cut_back_to_the_start_of_rl(tmp_path: Path) -> None:
    folder = started(tmp_path)
    fill(folder, sft=2, rl=0)
    folder.warm_started.mkdir()
    cut_back(folder)
    assert left(folder) == ([("sft", 1), ("sft", 2), ("sft", 3)], [("before_rl", 0)], [])


def test_a_finished_training_loses_nothing_but_half_written_files(tmp_path: Path) -> None:
    folder = started(tmp_path)
    fill(folder, sft=2, rl=4)
    folder.warm_started.mkdir()
    folder.final.mkdir()
    cut_back(folder)
    metrics, evaluations, rollouts = left(folder)
    assert (len(metrics), len(evaluations)) == (7, 4)
    assert rollouts == [f"step-{step:06d}.parquet" for step in (0, 2, 4)]


def test_an_evaluation_counts_only_with_all_its_sets(tmp_path: Path) -> None:
    folder = started(tmp_path)
    append_lines(folder.evaluation, [{"stage": "before_rl", "step": 0, "set": "a"}])
    assert evaluated(folder, "before_rl", 1)
    assert not evaluated(folder, "before_rl", 2)
    drop_evaluation(folder, "before_rl")
    assert read_lines(folder.evaluation) == []


def test_a_run_of_a_version_without_digests_is_gone_on_with_after_a_note(tmp_path: Path) -> None:
    folder = started(tmp_path)
    fill(folder, sft=2, rl=2)
    folder.warm_started.mkdir()
    versions = json.loads(folder.versions.read_text())
    folder.versions.write_text(json.dumps({name: versions[name] for name in versions.keys() - {"sha256", "config"}}))
    said = io.StringIO()
    go_back(folder, Console(file=said, width=500))
    assert f"was started by geoalign {versions['geoalign']}, which kept no digests" in said.getvalue()
    assert left(folder)[2] == ["step-000000.parquet"]


@pytest.mark.parametrize("name", ["config.yaml", "versions.json"])
def test_settings_that_have_changed_since_the_start_are_refused(tmp_path: Path, name: str) -> None:
    folder = started(tmp_path)
    path = folder.root / name
    assert folder.check_start()
    path.write_text(path.read_text().replace("1", "2", 1) if name == "versions.json" else path.read_text()[:40])
    with pytest.raises(RunFolderError, match=rf"{name}: .*expected"):
        folder.check_start()
