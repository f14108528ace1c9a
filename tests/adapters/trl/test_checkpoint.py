"""The curator and its generator go through the trainer's checkpoints."""

import shutil

import pytest
import torch
from trl_parts import Drawing, Scripted, curation, same_weights, trainer, weights_of

from geoalign.curators.checkpoint import load_state
from geoalign.curators.session import STATE_FILE
from geoalign.errors import InputError

STEPS = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}


@pytest.mark.parametrize("changes", [{}, {"num_iterations": 2}, {"steps_per_generation": 2}])
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


def test_without_the_generators_state_it_would_not(tmp_path):
    """The draws matter: a resume that starts the generator afresh ends elsewhere."""
    straight = trainer(tmp_path, Drawing(), **STEPS)
    straight.train()

    class Forgetful(type(straight)):
        def _load_optimizer_and_scheduler(self, folder):
            super()._load_optimizer_and_scheduler(folder)
            self._session.generator.manual_seed(self.args.seed)

    resumed = trainer(tmp_path, Drawing(), cls=Forgetful, **STEPS)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert not same_weights(weights_of(straight), weights_of(resumed))


def test_the_file_holds_curator_generator_and_count(tmp_path):
    trainer(tmp_path, Drawing(), **STEPS).train()
    state = load_state(tmp_path / "checkpoint-2" / STATE_FILE)
    assert state["curator_class"] == "Drawing"
    assert state["curator"]["calls"] == 2
    assert state["calls"] == 2
    assert state["generator"].dtype == torch.uint8


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
