import logging

import pytest
import torch

from geoalign import GRPO, PODS, Denoise, Monitor, Rollouts


def verdicts(seed, *, wrong=0.0, groups=24, size=8):
    """Answers of which a third is right, and the verdicts on them; `wrong` of those on wrong answers is 1."""
    generator = torch.Generator().manual_seed(seed)
    right = torch.rand(groups * size, generator=generator) < 1 / 3
    named = torch.randint(3, (groups * size,), generator=generator)
    flipped = ~right & (torch.rand(groups * size, generator=generator) < wrong)
    answers = ["right" if one else f"wrong {name}" for one, name in zip(right.tolist(), named.tolist(), strict=True)]
    group = torch.arange(groups).repeat_interleave(size)
    return Rollouts(rewards=(right | flipped).float(), groups=group, answers=answers)


def test_it_scores_and_changes_nothing():
    rollouts = verdicts(0, wrong=0.3)
    settings = {"geometry": "none"}
    assert Monitor().config.curator == Denoise().config
    acted, watched = Denoise(**settings).curate(rollouts), Monitor(curator=Denoise(**settings)).curate(rollouts)
    plain = GRPO().curate(rollouts)
    assert (acted.rewards != rollouts.rewards).any()
    assert watched.advantages is None
    for name in ("source", "rewards", "weights"):
        assert torch.equal(getattr(watched, name), getattr(plain, name))
    assert torch.equal(watched.scores, acted.scores)
    assert torch.equal(watched.anomalous, acted.anomalous)
    assert watched.metrics == pytest.approx(
        {**acted.metrics, "alarms": 0, "seconds": watched.metrics["seconds"]}, nan_ok=True
    )


def test_rows_that_the_inner_curator_leaves_out_stay():
    rollouts = verdicts(0)
    assert len(PODS(m=2).curate(rollouts).source) < len(rollouts)
    assert torch.equal(Monitor(curator=PODS(m=2)).curate(rollouts).source, torch.arange(len(rollouts)))


@pytest.mark.parametrize(("wrong", "alarms"), [(0.0, 0), (0.4, 30)])
def test_alarms(wrong, alarms, caplog):
    monitor = Monitor(curator=Denoise(geometry="none"), bounds={"false_positive_rate": 0.1, "no such metric": 0.0})
    with caplog.at_level(logging.WARNING):
        counted = [monitor.curate(verdicts(step, wrong=wrong)).metrics["alarms"] for step in range(30)]
    assert sum(counted) == len(caplog.records) == alarms
    if alarms:
        assert "false_positive_rate is" in caplog.records[0].message


def test_an_interval_counts_by_its_lower_end():
    class Said(GRPO):
        def curate(self, rollouts, **options):
            return super().curate(rollouts, **options).with_metrics(drift=0.5, drift_low=0.2)

    rollouts = verdicts(0)
    assert Monitor(curator=Said(), bounds={"drift": 0.3}).curate(rollouts).metrics["alarms"] == 0
    assert Monitor(curator=Said(), bounds={"drift": 0.1}).curate(rollouts).metrics["alarms"] == 1
