import pytest
import torch
from trl_parts import BATCH, LABELLED, OPEN, SMALL, Drawing, Recording, same_weights, trainer, weights_of

from geoalign import GeoAlign
from geoalign.curators.denoise import Denoise
from geoalign.curators.session import STATE_FILE
from geoalign.errors import InputError

SAVING = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
FIELDS = ("source", "scores")
CASES = {
    "drawing": (Drawing, {}, {}),
    # Checkpoints at generation boundaries, every 2 steps here.
    "two updates": (Drawing, {}, {"num_iterations": 2, "max_steps": 4, "save_steps": 2}),
    "geoalign": (lambda: GeoAlign(**SMALL), {}, BATCH),
    "denoise": (lambda: Denoise(**OPEN), {"labelled_rollouts": LABELLED}, BATCH),
}


@pytest.mark.parametrize("name", CASES)
def test_resume_reaches_the_weights_of_an_undisturbed_run(tmp_path, name):
    make, extra, changes = CASES[name]
    changes = {**SAVING, **changes}

    def new_trainer():
        return trainer(tmp_path, make(), cls=Recording, extra=extra, **changes)

    straight = new_trainer()
    resumed = new_trainer()
    forgetful = new_trainer()
    straight.train()
    folder = tmp_path / f"checkpoint-{changes['save_steps']}"
    # Before the checkpoint's last file: then it is pushed.
    assert (folder / STATE_FILE).stat().st_mtime_ns < (folder / "trainer_state.json").stat().st_mtime_ns
    resumed.train(resume_from_checkpoint=str(folder))
    assert same_weights(weights_of(straight), weights_of(resumed))
    assert resumed._session.calls == straight._session.calls == 2
    expected = straight.steps[-1].curation
    found = resumed.steps[0].curation
    for field in FIELDS:
        torch.testing.assert_close(getattr(expected, field), getattr(found, field), equal_nan=True, atol=0, rtol=0)
    # What it had learnt came along: a curator without it decides otherwise.
    forgetful.curator.load_state_dict = lambda state: None
    forgetful.train(resume_from_checkpoint=str(folder))
    without_memory = forgetful.steps[0].curation
    same = [
        torch.equal(getattr(without_memory, field).nan_to_num(-9), getattr(found, field).nan_to_num(-9))
        for field in FIELDS
    ]
    assert not all(same)


def test_no_curator_no_file_and_no_resume_without_it(tmp_path):
    trainer(tmp_path, None, **SAVING).train()
    folder = tmp_path / "checkpoint-1"
    assert folder.is_dir()
    assert not (folder / STATE_FILE).exists()
    with pytest.raises(InputError, match=r"expected geoalign_state\.safetensors in .*, got none; to start curating"):
        trainer(tmp_path, Drawing(), **SAVING).train(resume_from_checkpoint=str(folder))
