"""A curator that changes nothing gives plain GRPO's weights, bit for bit, under every option."""

import pytest
from trl import GRPOTrainer
from trl_parts import Scripted, curation, data, digits, length, model, same_weights, trainer, weights_of

from geoalign.curators.baselines.advantages import GRPO

EVERYTHING = ("hidden", "lengths", "logprobs", "ids", "advantages")


def gaps(completions, **columns):
    return [None if "1" in text else value for text, value in zip(completions, digits(completions), strict=True)]


OPTIONS = {
    "defaults": {},
    "steps_per_generation": {"steps_per_generation": 4, "gradient_accumulation_steps": 2, "max_steps": 4},
    "num_iterations": {"num_iterations": 2},
    "scale_batch": {"scale_rewards": "batch"},
    "masked": {"mask_truncated_completions": True, "max_completion_length": 12},
    "two_rewards": {"reward_weights": [0.5, 2.0], "rewards": [digits, length]},
    "normalize_then_sum": {"multi_objective_aggregation": "normalize_then_sum", "rewards": [digits, length]},
    "unscorable": {"rewards": [gaps]},
    "dropout": {"dropout": 0.1},
}


def run(folder, curator, cls=None, **changes):
    changes = dict(changes)
    policy = model(dropout=changes.pop("dropout", 0.0))
    keywords = {"reward": changes.pop("rewards", digits), "policy": policy}
    if cls is not None:
        keywords["cls"] = cls
    made = trainer(folder, curator, extra=changes.pop("extra", None), **keywords, **changes)
    made.train()
    return weights_of(made)


@pytest.mark.parametrize("name", OPTIONS)
def test_identity_is_bit_identical(tmp_path, name):
    plain = run(tmp_path / "plain", None, cls=GRPOTrainer, **OPTIONS[name])
    watcher = Scripted(curation, requires=EVERYTHING)
    curated = run(tmp_path / "curated", watcher, **OPTIONS[name])
    assert watcher.seen
    assert watcher.seen[0].hidden.shape == (len(watcher.seen[0]), 32)
    assert same_weights(plain, curated)
    assert not same_weights(plain, dict(model().named_parameters()))


def test_identity_with_a_reference_model(tmp_path):
    # The reference model is loaded again by path.
    model().save_pretrained(tmp_path / "model")
    options = {"beta": 0.1, "policy": str(tmp_path / "model")}
    options["model_init_kwargs"] = {"dtype": "float32"}
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer, **options)
    plain.train()
    curated = trainer(tmp_path / "curated", Scripted(curation, requires=EVERYTHING), **options)
    curated.train()
    assert same_weights(weights_of(plain), weights_of(curated))
    assert curated.state.log_history[1]["kl"] > 0


def test_identity_on_the_log_probability_pass(tmp_path):
    plain = run(tmp_path / "plain", None, cls=GRPOTrainer, **OPTIONS["num_iterations"])
    extra = {"hidden_source": "logprob_pass"}
    watcher = Scripted(curation, requires=EVERYTHING)
    curated = run(tmp_path / "curated", watcher, extra=extra, **OPTIONS["num_iterations"])
    assert same_weights(plain, curated)


def test_shipped_identity_curator_and_none(tmp_path):
    plain = run(tmp_path / "plain", None, cls=GRPOTrainer)
    for index, curator in enumerate([GRPO(), None]):
        assert same_weights(plain, run(tmp_path / str(index), curator))


def test_no_hidden_pass_without_need(tmp_path):
    made = trainer(tmp_path, Scripted(curation))
    calls = []
    made.model.model.register_forward_hook(lambda *_: calls.append(1))
    made.train()
    plain = trainer(tmp_path, cls=GRPOTrainer)
    plain_calls = []
    plain.model.model.register_forward_hook(lambda *_: plain_calls.append(1))
    plain.train()
    assert len(calls) == len(plain_calls) > 0
    watcher = Scripted(curation, requires=("hidden",))
    needy = trainer(tmp_path, watcher, dataset=data())
    needy_calls = []
    needy.model.model.register_forward_hook(lambda *_: needy_calls.append(1))
    needy.train()
    # One pass more in each of the two steps; nothing but what was asked for.
    assert len(needy_calls) == len(calls) + 2
    assert watcher.seen[0].logprobs is None
