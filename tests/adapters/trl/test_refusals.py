"""What the adapter cannot carry out is refused by name."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import trl
from packaging.version import Version
from trl import GRPOTrainer
from trl_parts import Scripted, curated_batch, curation, trainer

from geoalign.adapters.trl import GeoAlignMixin
from geoalign.adapters.trl.refusals import check_trainer
from geoalign.adapters.trl.rows import check_keys
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError


def check(made):
    check_trainer(made, CurationSession(Scripted(curation), seed=0), made._curation_options)


KNOWN = {
    "prompt_ids": torch.zeros(2, 3),
    "completion_ids": torch.zeros(2, 3),
    "advantages": torch.zeros(2),
    "num_items_in_batch": torch.tensor(6),
    "old_per_token_logps": None,
    "some_number": 3,
    "some_scalar": torch.tensor(1.0),
}


@pytest.mark.parametrize("key", ["pixel_values", "num_images", "list_of_tomorrow"])
def test_unknown_per_row_keys(key):
    check_keys({**KNOWN, "tool_mask": torch.ones(2, 3)})
    value = torch.zeros(2, 3, 4, 4) if key == "pixel_values" else [1, 1]
    with pytest.raises(UnsupportedError, match=f"'{key}' .images, or a per-row key that this version"):
        check_keys({**KNOWN, key: value})


def test_unknown_key_of_a_new_trl_stops_the_training(tmp_path):
    class NewTRL(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            return {**batch, "routing_of_tomorrow": batch["completion_ids"]}

    class New(GeoAlignMixin, NewTRL):
        pass

    made = trainer(tmp_path, cls=New, extra={"curator": Scripted(curation)})
    with pytest.raises(UnsupportedError, match="routing_of_tomorrow"):
        curated_batch(made)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("trl", "RLOOTrainer", "Mine on RLOOTrainer: expected a subclass of trl.GRPOTrainer"),
        ("trl.experimental.async_grpo", "AsyncGRPOTrainer", "Mine on AsyncGRPOTrainer: .* one group at a time"),
    ],
)
def test_trainers_that_are_not_grpos(module, name, words):
    class Mine(GeoAlignMixin, getattr(pytest.importorskip(module), name)):
        pass

    with pytest.raises(UnsupportedError, match=words):
        Mine("no/model", reward_funcs=print, curator=Scripted(curation))


def test_unsloths_trainer():
    # Unsloth names the class that it writes from TRL's source so, and puts its own in TRL's place.
    written = type("_UnslothGRPOTrainer", (GRPOTrainer,), dict(vars(GRPOTrainer)))

    class Mine(GeoAlignMixin, type("UnslothGRPOTrainer", (written,), {})):
        pass

    with pytest.raises(UnsupportedError, match="Mine on Unsloth's GRPOTrainer: never run"):
        Mine("no/model", reward_funcs=print, curator=Scripted(curation))


def test_vision_models(tmp_path, monkeypatch):
    made = trainer(tmp_path, Scripted(curation))
    monkeypatch.setattr("geoalign.adapters.trl.refusals.ProcessorMixin", type(made.processing_class))
    with pytest.raises(UnsupportedError, match="vision model"):
        check(made)


def test_ligers_loss_is_refused_and_its_layers_are_not(tmp_path):
    made = trainer(tmp_path, Scripted(curation))
    made.args.use_liger_kernel = True
    if Version(trl.__version__) >= Version("1.16"):
        check(made)
    made.compute_liger_loss = print  # the name of older versions
    with pytest.raises(UnsupportedError, match="use_liger_kernel"):
        check(made)


@pytest.mark.parametrize(("stage", "fsdp", "message"), [(2, False, None), (3, False, "ZeRO-3"), (2, True, "FSDP")])
def test_sharded_weights(tmp_path, stage, fsdp, message):
    made = trainer(tmp_path, Scripted(curation))
    plugin = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=SimpleNamespace(zero_stage=stage)))
    made.accelerator, made.is_deepspeed_enabled, made.is_fsdp_enabled = plugin, True, fsdp
    with nullcontext() if message is None else pytest.raises(UnsupportedError, match=message):
        check(made)
