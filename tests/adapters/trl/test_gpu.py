"""A generation batch of TRL's own trainer, from generation to loss, where its device is a GPU (`pretend_gpu`)."""

import pytest
import torch
from accelerate import Accelerator
from pretend_gpu import PRETENDED, pretend_gpu
from transformers import TrainingArguments
from trl_parts import LABELLED, OPEN, SMALL, Recording, curated_batch, trainer

from geoalign import CURATORS

FIELDS = {"answers": lambda rows: ["a" for _ in rows], "reference_rewards": lambda rows: [[0.1, None] for _ in rows]}
# What moves rows, drops, weighs and shapes them, and every source of states and log-probabilities.
CASES = {
    "replaced": ("geoalign", SMALL, {"hidden_source": "logprob_pass"}, {"num_iterations": 2}),
    "dropped": ("geoalign", {**SMALL, "strategy": "drop"}, {"hidden_position": "answer_start"}, {"loss_type": "grpo"}),
    "labelled_rollouts": (
        "denoise",
        OPEN,
        {"labelled_rollouts": LABELLED, "hidden_position": "mean"},
        {"mask_truncated_completions": True},
    ),
    "weighed": ("seed_grpo", {"clusters": "hidden", "threshold": 0.9}, {}, {}),
    "given": ("mc_grpo", {}, {}, {"scale_rewards": "batch"}),
    "shaped": ("par", {}, {"rollout_fields": FIELDS}, {}),
}


def batch_and_loss(folder, case):
    name, settings, extra, changes = CASES[case]
    changes = {"per_device_train_batch_size": 16, **changes}
    made = trainer(folder, CURATORS[name](**settings), cls=Recording, extra=extra, **changes)
    batch = curated_batch(made)
    return made, batch, made.compute_loss(made.model, batch)


@PRETENDED  # a GPU draws other responses
@pytest.mark.parametrize("case", CASES)
def test_it_decides_as_on_the_cpu(tmp_path, monkeypatch, case):
    _, here, loss = batch_and_loss(tmp_path / "cpu", case)
    device = TrainingArguments.device.fget
    with pretend_gpu() as gpu:
        monkeypatch.setattr(Accelerator, "device", gpu)
        monkeypatch.setattr(TrainingArguments, "device", property(lambda args: device(args) and gpu))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "pretended")
        made, there, again = batch_and_loss(tmp_path / "gpu", case)
        assert made.model.get_input_embeddings().weight.device == gpu
        assert here.keys() == there.keys()
        for key, value in there.items():
            if isinstance(value, torch.Tensor):
                assert value.device == gpu, key
                torch.testing.assert_close(value.cpu(), here[key])
        torch.testing.assert_close(again.cpu(), loss)
        assert made.steps[0].rollouts.rewards.device == gpu
