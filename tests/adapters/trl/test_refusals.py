"""What the adapter cannot carry out is refused by name."""

from types import SimpleNamespace

import pytest
import torch
import trl
from packaging.version import Version
from trl import GRPOTrainer
from trl_parts import Scripted, curation, model, tokenizer, trainer

from geoalign.adapters.trl import GeoAlignGRPOTrainer, GeoAlignMixin
from geoalign.adapters.trl.refusals import check_trainer
from geoalign.adapters.trl.rows import check_keys
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError


def check(made):
    check_trainer(made, CurationSession(Scripted(curation), seed=0), made._curation_options)


def known():
    return {
        "prompt_ids": torch.zeros(2, 3),
        "completion_ids": torch.zeros(2, 3),
        "advantages": torch.zeros(2),
        "num_items_in_batch": torch.tensor(6),
        "old_per_token_logps": None,
    }


def test_known_keys_pass():
    check_keys(known())
    check_keys({**known(), "tool_mask": torch.ones(2, 3)})
    check_keys({**known(), "some_number": 3, "some_scalar": torch.tensor(1.0)})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("pixel_values", torch.zeros(2, 3, 4, 4), "'pixel_values' .images, or a per-row key that this version"),
        ("num_images", [1, 1], "'num_images'"),
        ("list_of_tomorrow", ["a", "b"], "list_of_tomorrow"),
    ],
)
def test_unknown_per_row_keys(key, value, words):
    with pytest.raises(UnsupportedError, match=words):
        check_keys({**known(), key: value})


def test_unknown_key_of_a_new_trl_stops_the_training(tmp_path):
    class NewTRL(GeoAlignGRPOTrainer.__mro__[2]):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            return {**batch, "routing_of_tomorrow": batch["completion_ids"]}

    class New(GeoAlignGRPOTrainer.__mro__[1], NewTRL):
        pass

    made = New(
        model(),
        lambda completions, **_: [0.0] * len(completions),
        args=trainer(tmp_path).args,
        train_dataset=trainer(tmp_path).train_dataset,
        processing_class=tokenizer(),
        curator=Scripted(curation),
    )
    with pytest.raises(UnsupportedError, match="routing_of_tomorrow"):
        made.train()


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


@pytest.mark.parametrize("stage", [2, 3])
def test_zero_3(tmp_path, stage):
    made = trainer(tmp_path, Scripted(curation))
    plugin = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=SimpleNamespace(zero_stage=stage)))
    made.accelerator, made.is_deepspeed_enabled = plugin, True
    if stage == 3:
        with pytest.raises(UnsupportedError, match="ZeRO-3"):
            check(made)
    else:
        check(made)


def test_fsdp(tmp_path):
    made = trainer(tmp_path, Scripted(curation))
    made.is_fsdp_enabled = True
    with pytest.raises(UnsupportedError, match="FSDP"):
        check(made)


def test_sources_across_groups(tmp_path):
    source = torch.tensor([4, 1, 2, 3, 4, 5, 6, 7])
    made = trainer(tmp_path, Scripted(lambda rollouts: curation(rollouts, source=source)))
    with pytest.raises(UnsupportedError, match="across groups: slot 0"):
        made.train()
