import json
from pathlib import Path

import pytest
import yaml

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.config.loading import load_run_config
from geoalign.lab.store.json_files import append_lines
from geoalign.lab.store.run_folder import SCHEMA_VERSION, RunFolder, check_same_settings
from geoalign.lab.train.resume import check_vacant
from geoalign.lab.train.stages.evaluations import evaluated
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


def test_an_evaluation_counts_only_with_all_its_sets(tmp_path: Path) -> None:
    folder = started(tmp_path)
    append_lines(folder.evaluation, [{"stage": "before_rl", "step": 0, "set": "a"}])
    assert evaluated(folder, "before_rl", 1)
    assert not evaluated(folder, "before_rl", 2)
