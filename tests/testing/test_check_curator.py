"""`check_curator` names the promise that a wrong curator breaks, and lets a right one pass."""

import random
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, ClassVar

import pytest
import torch
from pydantic import Field

from geoalign import Chain, Curator, Denoise, identity
from geoalign.errors import ConfigError, ContractError
from geoalign.settings import setting, settings
from geoalign.testing import check_curator, curator_checks


@settings
class LimitConfig:
    type: ClassVar[str] = "limit"

    limit: Annotated[float, Field(gt=0)] = setting(default=0.5, help="Largest |reward|.")


class Clipped(Curator[LimitConfig]):
    """Keeps every promise."""

    acts_on = ("rewards",)
    scores_rows = False

    def curate(self, rollouts, *, generator=None, details=False):
        return replace(identity(rollouts), rewards=rollouts.rewards.clamp(-self.config.limit, self.config.limit))


class ChangesTheBatch(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        rollouts.rewards.clamp_(-self.config.limit, self.config.limit)
        return identity(rollouts)


class ScoresARowTooMany(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        clipped = super().curate(rollouts)
        scores = torch.cat([clipped.scores, torch.zeros(1)])
        return replace(clipped, scores=scores, anomalous=scores > 1)


class WeighsUndeclared(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        clipped = super().curate(rollouts)
        return replace(clipped, weights=clipped.weights / 2)


class DropsUndeclared(Clipped):
    acts_on = ("rows",)

    def curate(self, rollouts, *, generator=None, details=False):
        source = (rollouts.rewards.nan_to_num(0.0) >= -0.5).nonzero()[:, 0]
        given = identity(rollouts)
        return replace(given, source=source, rewards=given.rewards[source], weights=given.weights[source])


class TakesUnscoredDonors(Clipped):
    """Every row becomes its group's first."""

    acts_on = ("rows",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        first = [int((rollouts.groups == group).nonzero()[0, 0]) for group in rollouts.groups]
        source = torch.tensor(first, dtype=torch.long)
        return replace(given, source=source, rewards=given.rewards[source])


class CrossesGroups(Clipped):
    acts_on = ("rows",)

    def curate(self, rollouts, *, generator=None, details=False):
        source = torch.arange(len(rollouts)).flip(0)
        given = identity(rollouts)
        return replace(given, source=source, rewards=given.rewards[source], weights=given.weights[source])


class GoesByTheOrder(Clipped):
    acts_on = ("weights",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        weights = given.weights.clone()
        weights[:3] = 0
        return replace(given, weights=weights)


class DrawsGlobally(Clipped):
    acts_on = ("weights",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        return replace(given, weights=given.weights * torch.rand(len(rollouts)))


class DrawsFromPython(Clipped):
    acts_on = ("weights",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        return replace(given, weights=given.weights * random.random())


class SetsTheDefaultDtype(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        torch.set_default_dtype(torch.float64)
        clipped = super().curate(rollouts)
        torch.set_default_dtype(torch.float32)
        return clipped


class FailsWithoutRows(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        return super().curate(rollouts).with_metrics(highest=rollouts.rewards.max().item())


class ForgetsWhatItLearnt(Clipped):
    """Clips at the largest |reward| of the batch before, and does not name that in `kept`."""

    _largest = 0.5

    def curate(self, rollouts, *, generator=None, details=False):
        rewards = rollouts.rewards.clamp(-self._largest, self._largest)
        known = rollouts.rewards.nan_to_num(0.0).abs()
        self._largest = float(known.max()) / 2 if len(known) and known.any() else self._largest
        return replace(identity(rollouts), rewards=rewards)


class ReadsUndeclared(Clipped):
    acts_on = ("weights",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        return given if rollouts.lengths is None else replace(given, weights=given.weights * (rollouts.lengths < 20))


class TellsRoundingApart(Clipped):
    """Gives weight 0 to the highest reward of the batch, once and for all: 0.7 or 0.70000005."""

    acts_on = ("weights",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        highest = rollouts.rewards == rollouts.rewards.nan_to_num(-1e38).max() if len(rollouts) else given.anomalous
        return replace(given, weights=given.weights * ~highest)


class CountsInWholeNumbers(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        return super().curate(rollouts).with_metrics(rows=len(rollouts))


class TakesUnfitDonors(Clipped):
    """Every row becomes the highest of its group."""

    acts_on = ("rows",)

    def curate(self, rollouts, *, generator=None, details=False):
        rewards = rollouts.rewards.nan_to_num(-1e38)
        highest = [int(torch.where(rollouts.groups == group, rewards, -2e38).argmax()) for group in rollouts.groups]
        source = torch.tensor(highest, dtype=torch.long)
        given = identity(rollouts)
        return replace(given, source=source, rewards=given.rewards[source], weights=given.weights[source])


class RewardsEqualRewards(Clipped):
    acts_on = ("advantages",)

    def curate(self, rollouts, *, generator=None, details=False):
        return replace(identity(rollouts), advantages=rollouts.rewards.nan_to_num(0.0))


class NarrowsRewards(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        clipped = super().curate(rollouts)
        return replace(clipped, rewards=clipped.rewards.float())


class NeedsUndeclared(Clipped):
    acts_on = ("weights",)
    optional = ("lengths",)

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        return replace(given, weights=given.weights * (rollouts.lengths < 20))


class DoesNothing(Clipped):
    def curate(self, rollouts, *, generator=None, details=False):
        return identity(rollouts)


WRONG = [
    (ChangesTheBatch, r"it never changes the rollouts, .*: rewards of the rollouts is another after the call"),
    (ScoresARowTooMany, r"it scores and flags every input row, .*: scores has shape \(73,\) for a batch of 72 rows"),
    (WeighsUndeclared, r"it changes what it declares .*: it changes weights, and declares \('rewards',\)"),
    (DropsUndeclared, r"it returns fewer rows if .*: it drops rows, and declares drops_rows = False"),
    (TakesUnscoredDonors, r"a row without a reward has weight 0 .*: a row without a reward has a weight other than 0"),
    (CrossesGroups, r"every row stays in its group: a row takes the place of a row of another group"),
    (GoesByTheOrder, r"the order of the rows changes nothing: rows have other rewards, weights or advantages"),
    (DrawsGlobally, r"it leaves global random states .* alone, .*: rand changed a random state"),
    (DrawsFromPython, r"a generator of the same seed give the same curation, .*: its weights differ"),
    (SetsTheDefaultDtype, r"it leaves .* the settings of the process alone, .*: \w+ changed .* a setting"),
    (FailsWithoutRows, r"an empty batch is no error, .*: it raised RuntimeError: max\(\)"),
    (ForgetsWhatItLearnt, r"a new one that loads its state goes on .*: its rewards differ after three batches"),
    (ReadsUndeclared, r"fields .* that it does not declare in requires or optional change nothing: its weights differ"),
    (TellsRoundingApart, r"rewards that differ by rounding alone are equal rewards: 0.7 and 0.1 \+ 0.6"),
    (CountsInWholeNumbers, r"metrics are floats: rows is of type int"),
    (TakesUnfitDonors, r"a row whose donor_ok is False takes no other .*: a row unfit as a donor takes another row's"),
    (RewardsEqualRewards, r"in groups of equal rewards, .* advantages are 0: an advantage is not 0"),
    (NarrowsRewards, r"float64 rewards stay float64, .*: rewards are of type torch.float32"),
    (NeedsUndeclared, r"it needs no field that it does not declare in requires: it raised TypeError"),
    (DoesNothing, r"it does something on an ordinary batch, .*: it changes nothing in two batches of 72 rows"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG, ids=[wrong.__name__ for wrong, _ in WRONG])
def test_a_wrong_curator_is_told_which_promise_it_breaks(wrong, words):
    with pytest.raises(ContractError, match=rf"^{wrong.__name__} breaks the promise that .*{words}"):
        check_curator(wrong)


def test_a_right_curator_keeps_every_promise():
    check_curator(Clipped)


def test_each_promise_has_a_name_of_its_own():
    checks = curator_checks(Clipped)
    assert len({check.__name__ for check in checks}) == len(checks) > 30


def test_a_check_leaves_the_process_as_it_was():
    drawn, dtype = torch.get_rng_state(), torch.get_default_dtype()
    for wrong in (DrawsGlobally, SetsTheDefaultDtype):
        for check in curator_checks(wrong):
            with suppress(ContractError):
                check()
    assert torch.equal(torch.get_rng_state(), drawn)
    assert torch.get_default_dtype() == dtype


def test_one_broken_promise_leaves_the_others_alone():
    """Also where the curator spoils the batch in place: each check has its own."""
    for check in curator_checks(ChangesTheBatch):
        with suppress(ContractError):
            check()
    check_curator(Clipped)


def test_a_curator_can_be_named_as_everywhere():
    """Its first promise is tried, by name, as a dict, and as settings."""
    for given in ("denoise", {"type": "denoise", "window": 3}, Denoise(window=3).config):
        first = curator_checks(given)[0]
        first()
        assert first.trial.name == "Denoise"


def test_what_makes_no_new_curator_is_refused():
    with pytest.raises(ConfigError, match=r"^make: expected what makes a new curator, .*, got a Clipped"):
        check_curator(Clipped())
    with pytest.raises(ConfigError, match=r"^make: expected a function that returns a Curator, got int"):
        check_curator(lambda: 3)


def test_a_curator_of_binary_rewards_must_refuse_others():
    class TakesAll(Clipped):
        binary_rewards = True

        def declare(self):
            """Clips verdicts, too."""

    with pytest.raises(ContractError, match=r"^TakesAll breaks the promise that rewards other than 0 and 1 .*: it cu"):
        check_curator(lambda: TakesAll(limit=0.5))


def test_a_chain_of_ones_own_is_checked_as_any_curator():
    check_curator(lambda: Chain([Clipped(limit=0.5), Clipped(limit=0.25)]))
