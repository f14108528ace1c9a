import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.json_files import append_lines, read_lines, write_json
from geoalign.lab.runs.folder import MARK, SCHEMA_VERSION, RunFolder, models_by_stage, stage_checkpoints
from geoalign.lab.runs.resuming import check_same_settings
from geoalign.lab.train.read_settings import load_run_config
from geoalign.lab.train.start import check_vacant, rewind
from geoalign.settings.loading import plain_settings


def started(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.initialise(plain_settings(load_run_config().config), threads=1)
    return folder


def test_a_started_run_has_its_settings_and_versions_and_a_newer_schema_is_refused(tmp_path):
    assert not RunFolder(tmp_path / "run").started()
    folder = started(tmp_path)
    assert folder.started()
    assert not folder.finished()
    versions = folder.read_versions()
    assert versions["schema_version"] == SCHEMA_VERSION == 1
    assert {"geoalign", "python", "torch", "trl", "transformers", "threads"} <= versions.keys()
    assert folder.read_config() == plain_settings(load_run_config().config)
    folder.versions.write_text(json.dumps({"schema_version": 2}))
    for resume in (True, False):
        with pytest.raises(RunFolderError, match="expected 1, got 2"):
            check_vacant(folder, resume=resume)


def test_where_a_run_may_start_or_go_on(tmp_path):
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


def test_a_folder_of_other_files_is_never_touched(tmp_path):
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
        ("curator.type=grpo", r"curator\.answers: expected 'exclusive', .* got nothing"),
        ("curator.window=7", r"curator\.window: expected 10, .* got 7"),
        ("sft=null", r"sft: expected nothing, .* got None"),
    ],
)
def test_a_changed_setting_is_named(tmp_path, override, message):
    then = yaml.safe_load(yaml.safe_dump(plain_settings(load_run_config().config)))
    check_same_settings(plain_settings(load_run_config().config), then, tmp_path)
    with pytest.raises(ConfigError, match=message):
        check_same_settings(plain_settings(load_run_config(None, [override]).config), then, tmp_path)


def fill(folder: RunFolder, noted: tuple[str, int] | None, **checkpoints: int) -> None:
    """A run killed somewhere: every file that it could have, each stage with a complete checkpoint and half of one."""
    for log, stages in ((folder.metrics, ("sft", "rl")), (folder.evaluation, ("before_rl", "rl"))):
        append_lines(log, [{"stage": stage, "step": 1} for stage in stages])
    append_lines(folder.metrics, [{"stage": "rl", "step": step} for step in (2, 3, 4)])
    # Where the two logs ended as a checkpoint was saved: a line of metrics has 29 bytes, one of an evaluation 36.
    ends = {
        0: {"metrics": 29, "evaluation": 0},
        1: {"metrics": 2 * 29, "evaluation": 36},
        2: {"metrics": 3 * 29, "evaluation": 36},
    }
    for step in (0, 2, 4):
        for place, suffix in ((folder.rollouts, ".parquet"), (folder.details, ".safetensors")):
            place.mkdir(exist_ok=True)
            (place / f"step-{step:06d}{suffix}").touch()
    for name in ("step-000006.parquet.tmp", "step-000004.csv", "keep.tmp"):
        (folder.rollouts / name).touch()
    for stage, step in checkpoints.items():
        place = stage_checkpoints(folder)[stage]
        half = place / f"checkpoint-{step + 2}"
        half.mkdir(parents=True)
        whole = place / f"checkpoint-{step}"
        whole.mkdir()
        write_json(whole / MARK, {"step": step, "run": {"stage": stage, "step": step, **ends[step]}})
    for model in (*models_by_stage(folder).values(), folder.checkpoints / "final.tmp"):
        model.mkdir(parents=True)
    if noted is not None:
        write_json(folder.records, {"stage": noted[0], "step": noted[1], "metrics": 29, "evaluation": 0})


START: tuple[int, int, list[str], list[int]] = (0, 0, [], [])


@pytest.mark.parametrize(
    ("noted", "checkpoints", "left"),
    [
        (None, {}, START),
        (None, {"sft": 2}, (3, 1, [], [])),
        (("rl", 0), {"sft": 2}, (1, 0, ["warm_start", "reward_model", "gold_model"], [])),
        # The generation of step 2 was made after the checkpoint of step 2: it is made again.
        (("rl", 0), {"sft": 1, "rl": 2}, (3, 1, ["warm_start", "reward_model", "gold_model"], [0])),
        (("gold_model", 0), {"sft": 1}, (1, 0, ["warm_start", "reward_model"], [])),
        (("done", 4), {"rl": 2}, (1, 0, ["warm_start", "reward_model", "gold_model", "final"], [0, 2, 4])),
    ],
    ids=["the start", "within the warm start", "the start of RL", "within RL", "before a gold model", "after RL"],
)
def test_a_run_goes_back_to_its_newest_moment(tmp_path, noted, checkpoints, left):
    metrics, evaluations, models, steps = left
    folder = started(tmp_path)
    fill(folder, noted, **checkpoints)
    rewind(folder, Console(file=io.StringIO()))
    assert len(read_lines(folder.metrics)) == metrics
    assert len(read_lines(folder.evaluation)) == evaluations
    assert [path.name for path in models_by_stage(folder).values() if path.is_dir()] == models
    for place, suffix in ((folder.rollouts, "parquet"), (folder.details, "safetensors")):
        found = sorted(path.name for path in place.glob(f"*.{suffix}"))
        assert found == [f"step-{step:06d}.{suffix}" for step in steps]
    assert {path.name for path in folder.rollouts.iterdir()} >= {"step-000004.csv", "keep.tmp"}  # the user's
    assert not [*folder.rollouts.glob("*.parquet.tmp"), *folder.checkpoints.glob("*.tmp")]
    kept = sorted(path.name for path in folder.checkpoints.glob("*/checkpoint-*"))
    assert kept == sorted(f"checkpoint-{step}" for step in checkpoints.values())
