"""PAR: values that its own source gives, on three groups of eight rewards."""

import math

import pytest
import torch
from worked_groups import RB, RC, close, group

from geoalign import group_advantages
from geoalign.curators.baselines.rewards import PAR
from geoalign.errors import InputError


@pytest.mark.parametrize(
    ("slope", "rewards", "references", "expected"),
    [
        (1.0, RB, [0.5], [[0.377541, 0.622459][int(one)] for one in RB]),
        (1.0, RB, [0.2, 0.5, 0.8], [[0.379244, 0.620756][int(one)] for one in RB]),
        (3.0, RB, [0.5], [[0.182426, 0.817574][int(one)] for one in RB]),
        (1.0, RC, [0.5], [0.401312, 0.598688, 0.5, 0.450166, 0.549834, 0.425557, 0.574443, 0.475021]),
        (1.0, RC, [0.2, 0.5, 0.8], [0.402715, 0.597285, 0.5, 0.450895, 0.549105, 0.426634, 0.573366, 0.475389]),
        (1.0, [-3.0, 0, 2, 5], [-1.0, 0, 1, 2], [0.047827, 0.404801, 0.766107, 0.981356]),
    ],
)
def test_par(slope, rewards, references, expected):
    rollouts = group(rewards, reference_rewards=torch.tensor([references] * len(rewards)))
    curation = PAR(slope=slope).curate(rollouts)
    close(curation.rewards, expected)
    # References that are not there do not count.
    missing = torch.cat([rollouts.reference_rewards, torch.full((len(rewards), 2), math.nan)], dim=1)
    close(PAR(slope=slope).curate(group(rewards, reference_rewards=missing)).rewards, expected)


def test_par_tames_an_outlier():
    rollouts = group([3.0, 5, 8, 20], reference_rewards=torch.zeros(4, 1))
    close(group_advantages(rollouts.rewards, rollouts.groups), [-0.7878, -0.5252, -0.1313, 1.4444], atol=5e-5)
    shaped = PAR().curate(rollouts).rewards
    close(group_advantages(shaped, rollouts.groups), [-1.4861, 0.3042, 0.5836, 0.5983], atol=5e-5)


def test_par_is_grpo_where_rewards_differ_by_little():
    """At differences x up to 0.035, as ArmoRM's scores have, the sigmoid is straight up to x^2 / 12 = 1e-4."""
    rewards = torch.linspace(0.05, 0.085, 16).tolist()
    rollouts = group(rewards, reference_rewards=torch.tensor([rewards[::3]] * 16))

    def advantages(values):
        return group_advantages(values, rollouts.groups, eps=0.0)

    apart = (advantages(PAR().curate(rollouts).rewards) - advantages(rollouts.rewards)).abs().max()
    assert apart < 1e-4
    # A slope of a hundred, or rewards a hundred times as large, begin to be another method.
    steep = (advantages(PAR(slope=100.0).curate(rollouts).rewards) - advantages(rollouts.rewards)).abs().max()
    assert steep > 0.02


def test_par_is_no_op_on_binary_rewards_of_one_prompt():
    """With one set of references per prompt two rewards stay two rewards: GRPO's scale takes the change out."""
    rollouts = group(RB, reference_rewards=torch.full((8, 3), 0.3))
    shaped = group_advantages(PAR().curate(rollouts).rewards, rollouts.groups)
    torch.testing.assert_close(shaped, group_advantages(rollouts.rewards, rollouts.groups), atol=1e-5, rtol=0)


def test_par_without_references_is_an_error():
    with pytest.raises(InputError, match=r"reference_rewards: expected Rollouts\(\.\.\., reference_rewards=\.\.\.\)"):
        PAR().curate(group(RB))
    with pytest.raises(InputError, match=r"at least one reference reward per row, got none of 0 in row 0 \(group 17\)"):
        PAR().curate(group(RB, reference_rewards=torch.zeros(8, 0)))
    references = torch.zeros(8, 2)
    references[3] = math.nan
    with pytest.raises(InputError, match="got none of 2 in row 3"):
        PAR().curate(group(RB, reference_rewards=references))
    references[3] = math.inf
    with pytest.raises(InputError, match="infinite one in row 3"):
        PAR().curate(group(RB, reference_rewards=references))
    # A row without a reward needs none.
    rewards = [*RB[:3], math.nan, *RB[4:]]
    references[3] = math.nan
    assert PAR().curate(group(rewards, reference_rewards=references)).weights[3] == 0
