"""The estimator in rLLM's own registry, configuration and function of advantages, from a checkout of it.

GEOALIGN_RLLM names the folder of the checkout; our own environment has what else these parts import.
"""

import math

import pytest
import torch
from asking import settings_with
from rllm_parts import SIZE, advantages_of, groups_of

from geoalign.errors import ConfigError, UnsupportedError
from geoalign.testing import TrainedRows, adapter_checks

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
# Rows cannot be moved: see below.
LEFT_OUT = ("a_replaced_row_is_its_donor",)


def registered(settings=None, **more):
    from geoalign.adapters.rllm import register

    return register({"curator": "grpo", **(settings or {})}, **more)


def train_with(curator, rewards, second_verifier=None):
    estimator = registered(settings_with(second_verifier))
    estimator.session.curator = curator
    groups = groups_of(rewards)
    advantages = advantages_of(groups)
    responses = [tuple(each.steps[0].response_ids) for group in groups for each in group.trajectories]
    return TrainedRows(responses=responses, advantages=advantages)


CHECKS = [check for check in adapter_checks(train_with, drops=False) if check.__name__ not in LEFT_OUT]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract(check):
    check()


@pytest.mark.parametrize("by_std", [True, False])
@pytest.mark.parametrize("curator", ["grpo", "monitor"])
def test_a_curator_that_changes_nothing_gives_rllms_advantages_bit_for_bit(curator, by_std):
    rewards = torch.rand(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    plain = advantages_of(groups_of(rewards), "grpo", norm_adv_by_std_in_grpo=by_std)
    inner = {"type": "monitor", "curator": {"type": "denoise", "geometry": "none"}}
    registered({"curator": inner if curator == "monitor" else curator, "rollout_fields": {"answers": "answer"}})
    assert advantages_of(groups_of(rewards), norm_adv_by_std_in_grpo=by_std) == plain


def drawn(prompts, seed=0):
    """Verdicts of a verifier that errs in one row of five, what each response answers, and which verdicts are wrong."""
    draws = torch.Generator().manual_seed(seed)
    correct = torch.rand(prompts * SIZE, generator=draws) < 0.5
    mistakes = torch.randint(3, (prompts * SIZE,), generator=draws)
    wrong = torch.rand(prompts * SIZE, generator=draws) < 0.2
    answers = [
        "7" if is_correct else f"no {kind}"
        for is_correct, kind in zip(correct.tolist(), mistakes.tolist(), strict=True)
    ]
    return (correct ^ wrong).float().tolist(), answers, correct & wrong


def test_denoise_acts_on_what_the_trajectories_answer():
    rewards, answers, refused = drawn(prompts=200)
    logged = []
    registered(
        {"curator": {"type": "denoise", "geometry": "none"}, "rollout_fields": {"answers": "output"}},
        log=logged.append,
    )
    found = torch.tensor(advantages_of(groups_of(rewards, answers=answers)))
    plain = torch.tensor(advantages_of(groups_of(rewards), "grpo"))
    assert found[refused].mean() > plain[refused].mean() + 0.3
    assert logged[0]["geoalign/changed_share"] > 0


def test_each_role_has_an_estimator_of_its_own():
    solver = registered(name="of_solver")
    judge = registered(name="of_judge")
    rewards = [1.0, 0.0, 0.0, 1.0]
    groups = [*groups_of(rewards), *groups_of(rewards, role="judge")]
    advantages_of(groups, "grpo", estimator_map={"solver": "of_solver", "judge": "of_judge"})
    assert (solver.session.calls, judge.session.calls) == (1, 1)
    with pytest.raises(UnsupportedError, match="role 'judge': this estimator curates 'solver'"):
        advantages_of(groups_of(rewards, role="judge"), estimator_map={"judge": "of_solver"})


def test_it_goes_on_from_its_state_file(tmp_path):
    settings = {
        "curator": {"type": "denoise", "geometry": "none"}, "rollout_fields": {"answers": "output"},
        "state_file": str(tmp_path / "state.safetensors"),
    }  # fmt: skip
    batches = [drawn(prompts=100, seed=seed)[:2] for seed in (0, 1)]
    registered(settings)
    whole = [advantages_of(groups_of(rewards, answers=answers)) for rewards, answers in batches]
    (tmp_path / "state.safetensors").unlink()
    registered(settings)
    advantages_of(groups_of(batches[0][0], answers=batches[0][1]))
    resumed = registered(settings)
    assert advantages_of(groups_of(batches[1][0], answers=batches[1][1])) == whole[1]
    assert resumed.session.calls == 2


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"curator": "denoise"}, UnsupportedError, "Denoise requires hidden states, which rLLM does not return"),
        ({"curator": {"type": "pods"}}, UnsupportedError, "drops rows|replaces rows"),
        ({"curator": "oracle"}, (UnsupportedError, ConfigError), "true_rewards|replaces rows"),
        ({"curators": "grpo"}, ConfigError, "curators"),
    ],
)
def test_what_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        registered(settings)


def test_a_curator_that_replaces_rows_without_saying_so_is_refused_in_the_batch():
    from geoalign.testing.adapters import DecidingCurator

    estimator = registered()
    estimator.session.curator = DecidingCurator(source=[0, 1, 2, 0])
    with pytest.raises(UnsupportedError, match="replaces rows"):
        advantages_of(groups_of([1.0, 0.0, 0.0, 1.0]))


def test_rllms_configuration_forgets_names_that_are_not_its_own():
    """The reason why the estimator is registered as OTHER, too: docs/proposals/rllm.md."""
    from rllm.trainer.algorithms.advantage import RLLM_ADV_ESTIMATOR_REGISTRY
    from rllm.trainer.algorithms.config import rLLMAdvantageEstimator

    registered()
    del RLLM_ADV_ESTIMATOR_REGISTRY[rLLMAdvantageEstimator.OTHER]
    with pytest.raises(ValueError, match="Unknown advantage estimator"):
        advantages_of(groups_of([1.0, 0.0, 0.0, 1.0]))


def test_a_name_of_rllms_own_is_refused():
    with pytest.raises(ConfigError, match="name: expected none of rLLM's own estimators, got 'rloo'"):
        registered(name="rloo")


def test_a_group_with_one_reward_left_teaches_nothing():
    registered()
    assert advantages_of(groups_of([1.0, math.nan, math.nan, math.nan])) == [0.0, 0.0, 0.0, 0.0]


def test_a_second_verifier_reads_what_was_asked_first_and_answered_last():
    from rllm.types import Step, Trajectory

    from geoalign.adapters.rllm.estimator import _asked

    messages = [
        {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]},
        {"role": "assistant", "content": "5"},
        {"role": "user", "content": "Try again."},
        {"role": "assistant", "content": "4"},
    ]
    trajectory = Trajectory(steps=[Step(chat_completions=messages)], task={"ground_truth": "4"})
    assert _asked(trajectory) == {"prompt": "2 + 2?", "response": "4", "task": {"ground_truth": "4"}}
