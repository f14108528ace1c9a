"""The lines for forks of prime-rl and NeMo-RL, on the real functions of their checkouts.

GEOALIGN_PRIME_RL and GEOALIGN_NEMO_RL name the folders of the checkouts; what they do not need of them, and of the
packages below them, is stood in for.
"""

import asyncio
import importlib
import sys
from types import SimpleNamespace

import pytest
import torch
from checkouts import use_checkout

from geoalign import Denoise, Rollouts, group_advantages
from geoalign.errors import UnsupportedError
from geoalign.method.advantages import advantage_cosine
from geoalign.testing import TrainedRows, adapter_checks

SIZE = 4
# Neither can put another row in a row's place, nor ask a second verifier, nor have rows without a reward.
LEFT_OUT = ("a_replaced_row_is_its_donor", "a_second_verifiers_verdict_is_trained_on", "an_unscored_row_has_no_say")
PRIME_RL = ("verifiers", "renderers", "prime_rl.configs", "prime_rl.utils", "prime_rl.transports")
NEMO_RL = tuple(f"nemo_rl.{name}" for name in ("models", "distributed", "data", "utils", "algorithms.loss"))


def checks(train_with):
    return [check for check in adapter_checks(train_with, drops=False) if check.__name__ not in LEFT_OUT]


def recipe(monkeypatch, name):
    """The recipe, imported anew: its engine is that of the checkout."""
    monkeypatch.delitem(sys.modules, f"recipes.forks.{name}", raising=False)
    return importlib.import_module(f"recipes.forks.{name}")


def episode(row, reward):
    """An episode of prime-rl with one trace: two of its three tokens are the policy's own."""
    node = SimpleNamespace(mask=[False, True, True], token_ids=[1, 10 + row, 2], advantages=None)
    trace = SimpleNamespace(
        id=f"t{row}", reward=reward, nodes=[node], has_error=False, agent=SimpleNamespace(trainable=True),
        num_output_tokens=2, last_reply=f"\\boxed{{{row % 3}}}",
    )  # fmt: skip
    return SimpleNamespace(traces=[trace])


def by_prime_rl(algorithm, rewards):
    """The advantages that an algorithm of prime-rl's puts into the nodes of these rollouts, a group at a time."""
    episodes = [episode(row, reward) for row, reward in enumerate(rewards)]
    for first in range(0, len(episodes), SIZE):
        asyncio.run(algorithm.finalize_group(episodes[first : first + SIZE]))
    return [each.traces[0].nodes[0].advantages for each in episodes]


@pytest.fixture
def prime_rl(monkeypatch):
    use_checkout(monkeypatch, "GEOALIGN_PRIME_RL", "prime_rl", below="src", stand_ins=PRIME_RL)
    return recipe(monkeypatch, "prime_rl")


@pytest.mark.parametrize("name", ["grpo", "denoise"])
@pytest.mark.engines
@pytest.mark.filterwarnings("default")
def test_in_prime_rl_what_changes_nothing_is_its_grpo(prime_rl, name):
    rewards = [1.0, 0.25, 0.0, 0.5, 3.0, 2.0, 0.0, 1.0]
    grpo = importlib.import_module("prime_rl.orchestrator.algo").GRPOAlgorithm
    section = {"type": "denoise", "geometry": "none"} if name == "denoise" else name
    ours = prime_rl.GeoAlignAlgorithm(SimpleNamespace(curator=section), policy_pool=None)
    plain = grpo(SimpleNamespace(length_penalty=None), policy_pool=None)
    assert by_prime_rl(ours, rewards) == by_prime_rl(plain, rewards)


@pytest.mark.engines
@pytest.mark.filterwarnings("default")
def test_in_prime_rl_curated_rewards_weights_and_moved_rows(prime_rl):
    from geoalign.testing.adapters import DecidingCurator

    made = prime_rl.GeoAlignAlgorithm(SimpleNamespace(curator="grpo"), policy_pool=None)
    made.session.curator = DecidingCurator(rewards=[1.0, 0.5, 0.0, 0.5], weights=[2.0, 1.0, 1.0, 0.0])
    # The mean of the curated rewards is 1/2.
    assert by_prime_rl(made, [1.0, 0.0, 0.0, 1.0]) == [[1.0, 1.0], [0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    made.session.curator = DecidingCurator(source=[0, 1, 2, 0])
    with pytest.raises(UnsupportedError, match="moves rows"):
        by_prime_rl(made, [1.0, 0.0, 0.0, 1.0])


def by_nemo_rl(estimator, rewards):
    """The advantages [B, T] that an estimator of NeMo-RL's gives to these rollouts."""
    rows = range(len(rewards))
    messages = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": f"\\boxed{{{row % 3}}}"}]
                for row in rows]  # fmt: skip
    return estimator.compute_advantage(
        prompt_ids=torch.tensor([[7, row // SIZE] for row in rows]),
        rewards=torch.tensor(rewards),
        mask=torch.ones(len(rewards), 3),
        repeated_batch={"message_log": messages},
        logprobs_policy=None,
        logprobs_reference=None,
    )


def nemo_configuration(**more):
    given = {"use_leave_one_out_baseline": False, "normalize_rewards": False, "curator": "grpo"}
    return SimpleNamespace(**{**given, **more})


@pytest.fixture
def nemo_rl(monkeypatch):
    use_checkout(monkeypatch, "GEOALIGN_NEMO_RL", "nemo_rl", stand_ins=NEMO_RL)
    return recipe(monkeypatch, "nemo_rl")


def train_in_nemo_rl(curator, rewards):
    patch = pytest.MonkeyPatch()
    with patch.context() as inner:
        use_checkout(inner, "GEOALIGN_NEMO_RL", "nemo_rl", stand_ins=NEMO_RL)
        estimator = recipe(inner, "nemo_rl").GeoAlignAdvantageEstimator(nemo_configuration(), None)
        estimator.session.curator = curator
        found = by_nemo_rl(estimator, list(rewards))
    return TrainedRows(responses=list(range(len(rewards))), advantages=found[:, 0].tolist())


@pytest.mark.parametrize("check", checks(train_in_nemo_rl))
@pytest.mark.engines
@pytest.mark.filterwarnings("default")
def test_the_contract_in_nemo_rl(check):
    check()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.engines
@pytest.mark.filterwarnings("default")
def test_in_nemo_rl_what_changes_nothing_is_its_grpo_bit_for_bit(nemo_rl, normalised):
    rewards = torch.rand(12, generator=torch.Generator().manual_seed(0)).tolist()
    config = nemo_configuration(use_leave_one_out_baseline=True, normalize_rewards=normalised)
    plain = importlib.import_module("nemo_rl.algorithms.advantage_estimator").GRPOAdvantageEstimator(config, None)
    ours = nemo_rl.GeoAlignAdvantageEstimator(config, None)
    assert torch.equal(by_nemo_rl(ours, rewards), by_nemo_rl(plain, rewards))
    assert ours.last_metrics["geoalign/raw_reward"] == pytest.approx(sum(rewards) / len(rewards))


def test_a_group_at_a_time_is_enough_for_denoise_where_its_window_spans_many():
    """What docs/forks.md says of engines that hand over one group at a time."""
    draws = torch.Generator().manual_seed(0)
    prompts = torch.arange(128).repeat_interleave(16)
    correct = torch.rand(len(prompts), generator=draws) < torch.rand(128, generator=draws)[prompts]
    mistakes = torch.randint(3, (len(prompts),), generator=draws).tolist()
    answers = ["7" if right else f"no {kind}" for right, kind in zip(correct.tolist(), mistakes, strict=True)]
    rewards = (correct ^ (torch.rand(len(prompts), generator=draws) < 0.2)).float()
    last = slice(64 * 16, None)

    def cosine(size, window):
        curator, found = Denoise(geometry="none", window=window), []
        for first in range(0, len(prompts), size * 16):
            rows = slice(first, first + size * 16)
            rollouts = Rollouts(rewards=rewards[rows], groups=prompts[rows] - prompts[first], answers=answers[rows])
            advantages = curator.curate(rollouts).advantages
            found.append(group_advantages(rollouts.rewards, rollouts.groups) if advantages is None else advantages)
        judged = torch.cat(found)[last]
        groups = prompts[last] - prompts[last][0]
        return float(advantage_cosine(judged, torch.arange(len(judged)), correct[last].float(), groups))

    whole, single, short = cosine(64, window=2), cosine(1, window=64), cosine(1, window=10)
    assert single > whole - 0.05
    assert short < single - 0.1
