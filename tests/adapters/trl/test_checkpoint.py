"""The curator and its generator go through the trainer's checkpoints."""

import shutil

import pytest
import torch
from trl_parts import Drawing, Scripted, curation, same_weights, trainer, weights_of

from geoalign.curators.session import STATE_FILE
from geoalign.errors import InputError

STEPS = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}


@pytest.mark.parametrize("changes", [{}, {"num_iterations": 2}])
def test_resume_reaches_the_weights_of_an_undisturbed_run(tmp_path, changes):
    """With checkpoints at generation boundaries (every 2 steps here) a resumed run ends bit for bit the same."""
    whole = Drawing()
    straight = trainer(tmp_path / "straight", whole, **STEPS, **changes)
    straight.train()
    rest = Drawing()
    resumed = trainer(tmp_path / "straight", rest, **STEPS, **changes)
    resumed.train(resume_from_checkpoint=str(tmp_path / "straight" / "checkpoint-2"))
    assert rest.calls == whole.calls == (2 if changes else 4)
    assert torch.equal(rest.memory, whole.memory)
    assert same_weights(weights_of(straight), weights_of(resumed))
    assert resumed._session.calls == straight._session.calls > 0


def test_no_curator_no_file(tmp_path):
    trainer(tmp_path, None, **STEPS).train()
    assert (tmp_path / "checkpoint-2").is_dir()
    assert not (tmp_path / "checkpoint-2" / STATE_FILE).exists()


def test_resume_refuses_what_is_not_its_own(tmp_path):
    trainer(tmp_path, Drawing(), **STEPS).train()
    folder = tmp_path / "checkpoint-2"
    with pytest.raises(InputError, match="expected the state of Scripted, got that of Drawing"):
        trainer(tmp_path, Scripted(curation), **STEPS).train(resume_from_checkpoint=str(folder))
    copy = tmp_path / "plain" / "checkpoint-2"
    shutil.copytree(folder, copy)
    (copy / STATE_FILE).unlink()
    with pytest.raises(InputError, match=r"expected geoalign_state\.safetensors in .*, got none"):
        trainer(tmp_path, Drawing(), **STEPS).train(resume_from_checkpoint=str(copy))
