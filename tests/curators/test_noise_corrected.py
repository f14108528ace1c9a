import math
from dataclasses import replace

import pytest
import torch

from geoalign import Rollouts
from geoalign.curators.baselines.reshaped_advantages import NoiseCorrected
from geoalign.errors import ConfigError

RATES = {"false_positive_rate": 0.1, "false_negative_rate": 0.3}


def rollouts(rewards, groups=None):
    groups = [0] * len(rewards) if groups is None else groups
    return Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups))


def test_forward_weights_stand_in_the_advantages_place():
    # rho1 = 0.3: 0.3 for a reward of 1 and 0.3 - 1 = -0.7 for one of 0, in groups of equal rewards too.
    batch = rollouts([1.0, 0.0, math.nan, 0.0, 0.0], groups=[0, 0, 0, 1, 1])
    curation = NoiseCorrected(**RATES).curate(batch)
    assert curation.advantages.tolist() == pytest.approx([0.3, -0.7, 0.0, -0.7, -0.7])
    assert curation.weights.tolist() == [1, 1, 0, 1, 1]
    assert curation.metrics["informedness"] == pytest.approx(0.6)


def test_backward_rewards():
    # (1 - 0.1) / (1 - 0.1 - 0.3) = 1.5 and (0 - 0.1) / 0.6 = -1/6; their difference 1 / 0.6 is split about the mean.
    curation = NoiseCorrected(correction="backward", **RATES).curate(rollouts([1.0, 0.0, 1.0, 0.0, 1.0]))
    # Mean verdict 0.6: (1 - 0.6) / 0.6 = 2/3 and -0.6 / 0.6 = -1.
    assert curation.advantages.tolist() == pytest.approx([2 / 3, -1, 2 / 3, -1, 2 / 3])


def answered(flips, seed, groups=200, size=8):
    """Groups with one right answer, given by each row with probability 0.6, and verdicts flipped at (rho0, rho1)."""
    draw = torch.Generator().manual_seed(seed)
    rows = groups * size
    right = torch.rand(rows, generator=draw) < 0.6
    wrong_answer = torch.randint(1, 4, (rows,), generator=draw)
    flip = torch.rand(rows, generator=draw) < torch.where(right, flips[1], flips[0])
    return Rollouts(
        rewards=(right ^ flip).float(),
        groups=torch.arange(groups).repeat_interleave(size),
        answers=[str(0 if ok else int(other)) for ok, other in zip(right, wrong_answer, strict=True)],
    )


def test_estimated_rates():
    curator = NoiseCorrected()
    for seed in range(3):
        curation = curator.curate(answered((0.1, 0.3), seed))
    assert curation.metrics["false_positive_rate"] == pytest.approx(0.1, abs=0.03)
    assert curation.metrics["false_negative_rate"] == pytest.approx(0.3, abs=0.03)
    assert curation.metrics["informedness"] == pytest.approx(0.6, abs=0.05)
    assert curation.advantages.max() == pytest.approx(curation.metrics["false_negative_rate"])


def test_rates_of_which_nothing_is_known_change_nothing():
    curation = NoiseCorrected().curate(rollouts([1.0, 0.0, 1.0]))
    assert curation.advantages is None
    assert math.isnan(curation.metrics["informedness"])
    assert curation.metrics["corrected"] == 0


def test_only_the_last_batches_count():
    curator = NoiseCorrected(window=1)
    curator.curate(answered((0.4, 0.4), 0))
    last = answered((0.05, 0.05), 1)
    assert curator.curate(last).metrics == NoiseCorrected().curate(last).metrics


def test_what_is_refused():
    with pytest.raises(ConfigError, match="false_negative_rate: expected below"):
        NoiseCorrected(false_positive_rate=0.5, false_negative_rate=0.5)


def test_only_estimates_ask_for_answers():
    assert NoiseCorrected(**RATES).reads == ()
    assert "answers" in NoiseCorrected(false_positive_rate=0.1).reads
    batch = answered((0.1, 0.3), 0)
    plain = replace(batch, answers=None)
    with_rates = NoiseCorrected(**RATES)
    assert torch.equal(with_rates.curate(batch).advantages, with_rates.curate(plain).advantages)
