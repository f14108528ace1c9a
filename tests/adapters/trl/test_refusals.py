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


@pytest.mark.parametrize(
    ("by", "version", "message"),
    [
        ("FSDP", 1, "FSDP1"),
        ("FSDP", 2, None),
        ("ZeRO", 3, None),
    ],
)
def test_sharded_weights(tmp_path, by, version, message):
    made = trainer(tmp_path, Scripted(curation, requires=("hidden",)))
    plugin = SimpleNamespace(zero_stage=version, fsdp_version=version)
    made.accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin, fsdp_plugin=plugin))
    made.is_fsdp_enabled = by == "FSDP"
    made.is_deepspeed_enabled = by == "ZeRO"
    with nullcontext() if message is None else pytest.raises(UnsupportedError, match=message):
        check(made)


@pytest.mark.parametrize(
    ("curator", "changes", "words"),
    [
        ("pods", {"loss_type": "bnpo"}, "dropping rows with loss_type='bnpo'"),
        ({"type": "chain", "members": ["grpo", "pods"]}, {"loss_type": "bnpo"}, "dropping rows with loss_type='bnpo'"),
        (
            "denoise",
            {"multi_objective_aggregation": "normalize_then_sum"},
            "Denoise shapes rewards under .*normalize_then",
        ),
    ],
)
def test_what_a_curator_declares_to_do_is_refused_at_the_start(tmp_path, curator, changes, words):
    trainer(tmp_path, curator, extra={"monitor": True}, **changes)
    with pytest.raises(UnsupportedError, match=words):
        trainer(tmp_path, curator, **changes)


def test_drops_under_a_loss_of_its_own_are_refused_at_the_start(tmp_path):
    class Behind(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            return super()._compute_loss(model, inputs)

    class Mine(GeoAlignMixin, Behind):
        pass

    with pytest.raises(UnsupportedError, match="PODS drops rows, and Behind has a _compute_loss of its own"):
        trainer(tmp_path, cls=Mine, extra={"curator": "pods"})


def test_a_batch_too_small_names_the_setting_that_enlarges_it(tmp_path, caplog):
    made = trainer(tmp_path, {"type": "geoalign", "min_scores": 32, "projector": "none"}, gradient_accumulation_steps=1)
    curated_batch(made)
    said = "GeoAlign could not act on the first batch: nothing is flagged: 8 rollouts < min_scores = 32"
    assert f"{said}: raise gradient_accumulation_steps to 4" in caplog.text
