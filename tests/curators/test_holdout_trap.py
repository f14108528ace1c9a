"""No group is scored differently because it was held out; at d = 2048 a projector fits its own groups completely."""

import pytest
import torch
from benchmarks.holdout_trap import make_batch, trap

from geoalign import GeoAlign, GeoAlignConfig
from geoalign.method import scoring as scoring_module

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def batch(states):
    return make_batch(states, "continuous", seed=0, groups=40, d=1024)


def test_the_trap_is_real():
    # Trained on 90% of the groups of isotropic states, the projector calls the other 10% anomalous: so the checks below
    # would see it if GeoAlign did the same.
    outcome = trap(batch("isotropic"), seed=0)
    assert outcome.flagged.sum() >= 10
    assert outcome.held_out[outcome.flagged].mean() > 0.5
    assert outcome.new_deviation > outcome.train_deviation + 0.2
    assert parted(torch.from_numpy(outcome.scores), torch.from_numpy(outcome.held_out)) > 4


def test_in_sample_flags_spread_over_the_groups():
    data = batch("compressible")
    curation = GeoAlign(GeoAlignConfig(alpha=0.1)).curate(data.rollouts, generator=torch.Generator().manual_seed(0))
    check_spread(curation, data.rollouts.groups % 10 == 0, share=0.1)


def test_cross_fit_treats_both_folds_alike(monkeypatch):
    # The folds are the even and the odd groups here, so that we know which group was scored by which consensus.
    monkeypatch.setattr(scoring_module, "fold_of_groups", lambda pairs, groups, folds, _: torch.arange(groups) % folds)
    data = batch("isotropic")
    config = GeoAlignConfig(alpha=0.1, scoring="cross_fit")
    curation = GeoAlign(config).curate(data.rollouts, generator=torch.Generator().manual_seed(0))
    check_spread(curation, data.rollouts.groups % 2 == 0, share=0.5)
    assert abs(parted(curation.scores, data.rollouts.groups % 2 == 0)) < 4


def parted(scores, part):
    """By how many standard errors the mean score of the groups (of 8 rows) in `part` exceeds that of the others."""
    means = scores.view(-1, 8).mean(1)
    in_part = part.view(-1, 8)[:, 0]
    one = means[in_part]
    other = means[~in_part]
    standard_error = (one.var() / len(one) + other.var() / len(other)).sqrt()
    return float((one.mean() - other.mean()) / standard_error)


def check_spread(curation, part, share):
    """The flags that fall on `part` of the groups are as many as chance would put there (four standard deviations)."""
    flags = int(curation.anomalous.sum())
    assert flags >= 8
    on_part = int((curation.anomalous & part).sum())
    deviation = (share * (1 - share) * flags) ** 0.5
    assert abs(on_part - share * flags) <= 4 * deviation
