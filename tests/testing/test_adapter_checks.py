"""`adapter_checks` names the promise that a wrong adapter breaks, and lets a right one pass."""

from dataclasses import replace

import pytest
import torch

from geoalign import group_advantages
from geoalign.adapters.assignment import assign
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import EngineSettings
from geoalign.curators.session import CurationSession
from geoalign.errors import ContractError
from geoalign.testing import TrainedRows, adapter_checks
from geoalign.types import Rollouts

GROUPS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])


class Adapter:
    """An engine of eight rows and its adapter, right in all but what a subclass changes."""

    def __call__(self, curator, rewards, second_verifier=None):
        settings = EngineSettings(second_verifier=second_verifier)
        verifier = verifier_of_settings(settings, CurationSession(curator, seed=0), gold=())
        rollouts = self.read(torch.tensor(rewards))
        if verifier is not None:
            rollouts = replace(rollouts, second_rewards=self.second_rewards(verifier))
        curation = curator.curate(rollouts)
        placed = self.place(curation)
        responses = [row if kept else None for row, kept in zip(self.moved(placed), self.kept(placed), strict=True)]
        return TrainedRows(responses=responses, advantages=self.advantages(placed).tolist())

    def read(self, rewards):
        return Rollouts(rewards=rewards, groups=GROUPS)

    def second_rewards(self, verifier):
        return verifier.field(lambda asked: [{"prompt": "p", "response": f"response {row}"} for row in asked])

    def place(self, curation):
        return assign(curation, GROUPS)

    def moved(self, placed):
        return placed.source.tolist()

    def kept(self, placed):
        return placed.kept.tolist()

    def advantages(self, placed):
        advantages = placed.advantages
        if advantages is None:
            advantages = group_advantages(placed.rewards, GROUPS, scale="none")
        return (advantages * placed.weights).nan_to_num(0.0)


class TwoCalls(Adapter):
    def __call__(self, curator, rewards, second_verifier=None):
        super().__call__(curator, rewards, second_verifier)
        return super().__call__(curator, rewards, second_verifier)


class OneGroup(Adapter):
    def read(self, rewards):
        return Rollouts(rewards=rewards, groups=torch.zeros(8, dtype=torch.long))


class RewardsUpsideDown(Adapter):
    def advantages(self, placed):
        return -super().advantages(placed)


class KeepsResponses(Adapter):
    def moved(self, placed):
        return list(range(8))


class LosesWeights(Adapter):
    def advantages(self, placed):
        return group_advantages(placed.rewards, GROUPS, scale="none").nan_to_num(0.0)


class ForgetsTheCuratorsAdvantages(Adapter):
    def advantages(self, placed):
        return group_advantages(placed.rewards, GROUPS, scale="none").nan_to_num(0.0) * placed.weights


class CountsFailuresAsZero(Adapter):
    def read(self, rewards):
        return Rollouts(rewards=rewards.nan_to_num(0.0), groups=GROUPS)


class CrossesGroups(Adapter):
    def place(self, curation):
        return assign(curation, torch.zeros(8, dtype=torch.long))


class KeepsDroppedTokens(Adapter):
    def kept(self, placed):
        return [True] * 8


class AsksAboutTheFirstRows(Adapter):
    def second_rewards(self, verifier):
        return verifier.field(
            lambda asked: [{"prompt": "p", "response": f"response {row}"} for row in range(len(asked))]
        )


class AsksWithoutTheResponse(Adapter):
    def second_rewards(self, verifier):
        return verifier.field(lambda asked: [{"prompt": "p", "response": "response"} for _ in asked])


class TakesAFailureForARefusal(Adapter):
    def second_rewards(self, verifier):
        asks = super().second_rewards(verifier)
        return lambda asked: [verdict or 0.0 for verdict in asks(asked)]


def test_a_right_adapter_passes():
    checks = adapter_checks(Adapter())
    for check in checks:
        check()
    assert len(adapter_checks(Adapter(), drops=False)) == len(checks) - 1
    assert len(adapter_checks(Adapter(), asks=False)) == len(checks) - 1


@pytest.mark.parametrize(
    ("adapter", "broken"),
    [
        (TwoCalls, "the_curator_sees_the_batch"),
        (OneGroup, "the_curator_sees_the_batch"),
        (RewardsUpsideDown, "what_changes_nothing_leaves_the_rows"),
        (KeepsResponses, "a_replaced_row_is_its_donor"),
        (LosesWeights, "weights_multiply_the_advantages"),
        (ForgetsTheCuratorsAdvantages, "the_curators_advantages_are_trained_on"),
        (CountsFailuresAsZero, "an_unscored_row_has_no_say"),
        (CrossesGroups, "a_row_of_another_group_is_refused"),
        (KeepsDroppedTokens, "a_dropped_row_leaves_the_loss"),
        (AsksAboutTheFirstRows, "a_second_verifiers_verdict_is_trained_on"),
        (AsksWithoutTheResponse, "a_second_verifiers_verdict_is_trained_on"),
        (TakesAFailureForARefusal, "a_second_verifiers_verdict_is_trained_on"),
    ],
)
def test_a_wrong_adapter_breaks_the_promise(adapter, broken):
    [check] = [each for each in adapter_checks(adapter()) if each.__name__ == broken]
    with pytest.raises(ContractError, match="the adapter breaks the promise that "):
        check()


class KeepsOldAdvantages(Adapter):
    """Its advantages are those of the rewards before the curator changed them."""

    def read(self, rewards):
        self.before = rewards
        return super().read(rewards)

    def advantages(self, placed):
        if placed.advantages is not None:
            return placed.advantages * placed.weights
        return (group_advantages(self.before, GROUPS, scale="none") * placed.weights).nan_to_num(0.0)


def test_changed_rewards_have_to_reach_the_advantages():
    broken = []
    for check in adapter_checks(KeepsOldAdvantages()):
        try:
            check()
        except ContractError:
            broken.append(check.__name__)
    assert "advantages_are_those_of_changed_rewards" in broken
    assert "a_replaced_row_is_its_donor" in broken
