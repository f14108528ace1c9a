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
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError


def check(made):
    check_trainer(made, CurationSession(Scripted(curation), seed=0), made._curation_options)


@pytest.mark.parametrize("value", [torch.zeros(8, 3), [1] * 8])
def test_an_unknown_per_row_key_stops_the_training(tmp_path, value):
    class NewTRL(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            return {**batch, "number": 3, "scalar": torch.tensor(1.0), "routing_of_tomorrow": value}

    class New(GeoAlignMixin, NewTRL):
        pass

    made = trainer(tmp_path, cls=New, extra={"curator": Scripted(curation)})
    with pytest.raises(UnsupportedError, match=r"'routing_of_tomorrow' .images, or a per-row key that this version"):
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


def test_processors(tmp_path, monkeypatch):
    made = trainer(tmp_path, Scripted(curation))
    monkeypatch.setattr("geoalign.adapters.trl.refusals.ProcessorMixin", type(made.processing_class))
    with pytest.raises(UnsupportedError, match=r"images .* text alone, give processing_class=AutoTokenizer"):
        check(made)


def test_ligers_loss_is_refused_and_its_layers_are_not(tmp_path):
    made = trainer(tmp_path, Scripted(curation))
    made.args.use_liger_kernel = True
    if Version(trl.__version__) >= Version("1.16"):
        check(made)
    made.compute_liger_loss = print  # the name of older versions
    with pytest.raises(UnsupportedError, match="use_liger_kernel"):
        check(made)


@pytest.mark.parametrize(("by", "version", "message"), [("FSDP", 1, "FSDP1"), ("FSDP", 2, None), ("ZeRO", 3, None)])
def test_sharded_weights(tmp_path, by, version, message):
    made = trainer(tmp_path, Scripted(curation, requires=("hidden",)))
    plugin = SimpleNamespace(zero_stage=version, fsdp_version=version)
    made.accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin, fsdp_plugin=plugin))
    made.is_fsdp_enabled, made.is_deepspeed_enabled = by == "FSDP", by == "ZeRO"
    with nullcontext() if message is None else pytest.raises(UnsupportedError, match=message):
        check(made)
