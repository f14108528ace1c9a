"""A curator that changes nothing gives plain GRPO's weights, bit for bit, under every option."""

import pandas as pd
import pytest
from monitored import METRICS
from trl import GRPOTrainer
from trl_parts import (
    OPEN,
    Scripted,
    curation,
    digits,
    gaps,
    has_digit,
    length,
    model,
    same_weights,
    trainer,
    weights_of,
)

from geoalign import GRPO, PODS, Denoise
from geoalign.errors import ConfigError

EVERYTHING = ("hidden", "lengths", "logprobs", "ids", "advantages")
OPTIONS = {
    "defaults": {},
    "micro-batches, rewards normalised one by one": {
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": 4,
        "reward": [digits, length],
        "multi_objective_aggregation": "normalize_then_sum",
    },
    "two updates, dropout, rows without a reward": {
        "num_iterations": 2,
        "dropout": 0.1,
        "reward": [gaps],
        "scale_rewards": "batch",
    },
    "masked, weighted, a reference": {
        "mask_truncated_completions": True,
        "max_completion_length": 12,
        "reward": [digits, length],
        "reward_weights": [0.5, 2.0],
        "beta": 0.1,
    },
    "log-probability pass": {"num_iterations": 2},
}
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


@pytest.mark.parametrize(("curator", "passes"), [(GRPO(), 0), (None, 0), (Scripted(curation, ("hidden",)), 2)])
def test_no_pass_without_need(tmp_path, plain, curator, passes):
    weights, count = run(tmp_path, curator)
    assert same_weights(plain[0], weights)
    # One pass for the states in each of the two steps.
    assert count == plain[1] + passes


@pytest.mark.parametrize("curator", [Denoise(**OPEN), PODS()], ids=["denoise", "pods"])
def test_a_curator_that_watches_changes_nothing_and_says_what_it_saw(tmp_path, curator):
    changes = {"reward": has_digit, "per_device_train_batch_size": 16, "num_generations": 8, "log_completions": True}
    plain, watched = (tmp_path / name for name in ("plain", "watched"))
    first = trainer(plain, cls=GRPOTrainer, **changes)
    first.train()
    fields = {"answers": lambda rows: [row["completion"][:1] or None for row in rows]}
    second = trainer(watched, curator, extra={"monitor": True, "rollout_fields": fields}, **changes)
    second.train()
    assert same_weights(weights_of(first), weights_of(second))
    assert all(set(log) >= METRICS for log in second.state.log_history[:2])
    one, other = (pd.read_parquet(each / "completions" / "completions_00002.parquet") for each in (plain, watched))
    assert other[one.columns].equals(one)
    assert other["source"].tolist() == list(range(16))
    assert other["score"].notna().any() == isinstance(curator, Denoise)
    with pytest.raises(ConfigError, match="monitor: expected with a curator"):
        trainer(tmp_path, extra={"monitor": True})


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain"), cls=GRPOTrainer)
