"""A curator that changes nothing gives plain GRPO's weights, bit for bit, under every option."""

import pytest
from trl import GRPOTrainer
from trl_parts import Scripted, curation, digits, gaps, length, model, same_weights, trainer, weights_of

from geoalign.curators.baselines.reshaped_advantages import GRPO

EVERYTHING = ("hidden", "lengths", "logprobs", "ids", "advantages")
OPTIONS = {
    "defaults": {},
    "micro-batches, rewards normalised one by one": {
        "steps_per_generation": 4, "gradient_accumulation_steps": 2, "max_steps": 4, "reward": [digits, length],
        "multi_objective_aggregation": "normalize_then_sum",
    },
    "two updates, dropout, rows without a reward": {
        "num_iterations": 2, "dropout": 0.1, "reward": [gaps], "scale_rewards": "batch",
    },
    "masked, weighted, a reference": {
        "mask_truncated_completions": True, "max_completion_length": 12, "reward": [digits, length],
        "reward_weights": [0.5, 2.0], "beta": 0.1,
    },
    "log-probability pass": {"num_iterations": 2},
}  # fmt: skip
# TRL's pass for the old log-probabilities serves: nothing runs twice.
TAPPED = ("micro-batches, rewards normalised one by one", "log-probability pass")


def run(folder, curator=None, *, cls=None, dropout=0.0, **changes):
    """The weights after a training, and how often the backbone ran."""
    policy, calls = model(dropout=dropout), []
    if "beta" in changes:
        # The reference model is loaded again by path.
        policy.save_pretrained(folder / "model")
        policy, changes["model_init_kwargs"] = str(folder / "model"), {"dtype": "float32"}
    made = trainer(folder, curator, policy=policy, **({"cls": cls} if cls else {}), **changes)
    made.model.model.register_forward_hook(lambda *_: calls.append(1))
    made.train()
    assert ("beta" in changes) == any(log.get("kl", 0) > 0 for log in made.state.log_history)
    return weights_of(made), len(calls)


@pytest.mark.parametrize("name", OPTIONS)
def test_identity_is_bit_identical(tmp_path, name):
    plain, passes = run(tmp_path / "plain", cls=GRPOTrainer, **OPTIONS[name])
    watcher = Scripted(curation, requires=EVERYTHING)
    curated, more = run(tmp_path / "curated", watcher, **OPTIONS[name])
    assert watcher.seen[0].hidden.shape == (len(watcher.seen[0]), 32)
    assert same_weights(plain, curated)
    assert not same_weights(plain, dict(model().named_parameters()))
    assert (more == passes) == (name in TAPPED)


@pytest.mark.parametrize(
    ("curator", "passes"),
    [
        (GRPO(), 0),
        (None, 0),
        (Scripted(curation, ("hidden",)), 2),
    ],
)
def test_no_pass_without_need(tmp_path, plain, curator, passes):
    weights, count = run(tmp_path, curator)
    assert same_weights(plain[0], weights)
    # One pass for the states in each of the two steps.
    assert count == plain[1] + passes


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain"), cls=GRPOTrainer)
