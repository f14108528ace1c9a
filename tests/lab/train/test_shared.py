import io
from typing import Any

import pytest
from rich.console import Console
from run_files import lines, same_weights

from geoalign.errors import RunFolderError
from geoalign.lab.runs.folder import RunFolder, mark_complete
from geoalign.lab.train import train as train_module
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.start import take_shared


@pytest.fixture(scope="module")
def alone(tiny, train_here, tmp_path_factory):
    """A run whose warm start was made first, by `prepare`, and the rest afterwards."""
    root = tmp_path_factory.mktemp("alone") / "run"
    train_module.prepare(parse_run_config(tiny()), root, console=Console(file=io.StringIO()))
    assert RunFolder(root).warm_started.is_dir()
    train_here(tiny(), root, resume=True)
    return root


def test_a_run_starts_from_the_shared_warm_start_and_ends_as_one_with_its_own(alone, tiny, train_here, tmp_path):
    train_here(tiny(), tmp_path / "run", shared=alone)
    train_here({**tiny(), "seed": 1}, tmp_path / "other_seed", shared=alone, resume=True)
    for name in ("run", "other_seed"):
        assert same_weights(tmp_path / name, alone, "warm_start")
        assert {line["stage"] for line in lines(tmp_path / name)} == {"rl"}
    assert same_weights(tmp_path / "run", alone)
    assert not same_weights(tmp_path / "run", tmp_path / "other_seed")


def test_a_run_killed_before_it_took_the_warm_start_over_remembers_where_it_lies(
    alone, tiny, train_here, tmp_path, monkeypatch
):
    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    root = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "take_shared", die)
        with pytest.raises(KeyboardInterrupt):
            train_here(tiny(), root, shared=alone)
    assert not RunFolder(root).warm_started.exists()
    (root / "checkpoints" / "warm_start.tmp").mkdir(parents=True)  # as a kill within the copying leaves it
    (root / "checkpoints" / "warm_start.tmp" / "model.safetensors").write_bytes(b"half")
    train_here(tiny(), root, resume=True)
    assert {line["stage"] for line in lines(root)} == {"rl"}
    assert same_weights(root, alone, "warm_start")


def test_a_run_without_a_warm_start_is_no_shared_start(tiny, train_here, tmp_path):
    with pytest.raises(RunFolderError, match="expected a run folder with a finished warm start, got none there"):
        train_here(tiny(), tmp_path / "run", shared=tmp_path / "nothing")
    assert not RunFolder(tmp_path / "run").started()


def test_the_reward_model_goes_along_and_what_is_there_stays(tmp_path):
    shared, folder = RunFolder(tmp_path / "shared"), RunFolder(tmp_path / "run")
    for place in (shared.warm_started, shared.reward_model):
        place.mkdir(parents=True)
        (place / "model.safetensors").write_bytes(place.name.encode())
        mark_complete(place)
    folder.warm_started.mkdir(parents=True)
    take_shared(shared, folder)
    assert (folder.reward_model / "model.safetensors").read_bytes() == b"reward_model"
    assert list(folder.warm_started.iterdir()) == []
