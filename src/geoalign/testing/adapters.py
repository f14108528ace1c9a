"""The contract of every adapter: what an engine trains on once a curator has decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from geoalign.curators.baselines.reshaped_advantages import IdentityConfig
from geoalign.curators.curator import Curator, identity
from geoalign.errors import ContractError, UnsupportedError
from geoalign.testing.trial import BrokenPromiseError, expect
from geoalign.types import Curation, Rollouts, response_keys

GROUPS, GROUP_SIZE = 2, 4
REWARDS = (1.0, 1.0, 0.0, 0.0, 3.0, 2.0, 0.0, 1.0)
"""The rewards of the contract's batch: two groups of four rollouts, each group together."""

# Half of the last digit in which engines differ: TRL adds 1e-4 to the deviation, others 1e-6.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class TrainedRows:
    """What an engine trains on after one batch, position by position.

    Attributes:
        responses: what tells the response of each position from all others, such as its token ids as a tuple; None
            where no token of the position is in the loss.
        advantages: the advantage of the tokens of each position; 0 where none is in the loss.
    """

    responses: Sequence[Any]
    advantages: Sequence[float]


class TrainWith(Protocol):
    """A function of yours that sends one batch through the engine with the adapter."""

    def __call__(
        self, curator: Curator[Any], rewards: Sequence[float], second_verifier: str | None = None
    ) -> TrainedRows:
        """What the engine trains on.

        The batch has two groups of four rollouts, each group together. All eight responses differ, as texts too, and
        have at least one token of the policy's own. The responses of two calls are the same.

        Args:
            rewards: what the engine's verifier says of the rollouts in this order, NaN where it failed.
            second_verifier: the adapter's setting of that name; None: it is not set.
        """
        ...


class DecidingCurator(Curator[IdentityConfig]):
    """A curator that decides what it was given: fields of a curation that replace those of the identity.

    Attributes:
        seen: every batch of rollouts that it curated.
    """

    def __init__(self, **decision: Any) -> None:
        super().__init__()
        self.decision = {name: torch.as_tensor(value) for name, value in decision.items()}
        self.drops_rows = "source" in decision and len(decision["source"]) < len(REWARDS)
        self.seen: list[Rollouts] = []

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        self.seen.append(rollouts)
        decision: dict[str, Any] = dict(self.decision)
        if "source" in decision:
            source = decision["source"]
            decision.setdefault("rewards", rollouts.rewards[source])
            decision.setdefault("weights", torch.ones(len(source)))
        return replace(identity(rollouts), **decision)


class AskingCurator(DecidingCurator):
    """A curator that asks a second verifier about some rows, and takes its verdicts for their rewards.

    Attributes:
        verdicts: what it was told of each row that it asked about, in that order.
    """

    requires = ("second_rewards",)

    def __init__(self, asked: Sequence[int]) -> None:
        super().__init__()
        self.asked = list(asked)
        self.verdicts: list[float | None] = []

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        assert rollouts.second_rewards is not None
        self.verdicts = list(rollouts.second_rewards(self.asked))
        rewards = rollouts.rewards.clone()
        for row, verdict in zip(self.asked, self.verdicts, strict=True):
            if verdict is not None:
                rewards[row] = verdict
        return replace(super().curate(rollouts), rewards=rewards)


def told_apart(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
    """A second verifier whose verdict, between 0 and 1, is another for each response."""
    texts = [repr(completion) for completion in completions]
    return [int(key) / 2**63 for key in response_keys(texts)]


def failing(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
    """A second verifier that fails."""
    raise RuntimeError("this verifier fails")


@dataclass(frozen=True)
class AdapterCheck:
    """One promise and the adapter that should keep it; a call tries it.

    Raises:
        ContractError: the promise is broken.
    """

    words: str
    try_it: Callable[[TrainWith], None]
    train_with: TrainWith

    @property
    def __name__(self) -> str:
        """The promise's name: pytest names its tests by it."""
        return self.try_it.__name__

    def __call__(self) -> None:
        try:
            self.try_it(self.train_with)
        except BrokenPromiseError as broken:
            raise ContractError(f"the adapter breaks the promise that {self.words}: {broken}") from None


def adapter_checks(train_with: TrainWith, *, drops: bool = True, asks: bool = True) -> list[AdapterCheck]:
    """The contract of every adapter, one check a promise, each of which raises a `ContractError` where it is broken:

        @pytest.mark.parametrize("check", adapter_checks(train_with))
        def test_the_contract(check):
            check()

    Args:
        train_with: as `TrainWith` says.
        drops: whether the engine can leave rows out of its loss; False leaves that promise out.
        asks: whether the adapter has the setting `second_verifier`; False leaves that promise out.
    """
    promises = {**_PROMISES, **(_PROMISE_OF_DROPS if drops else {}), **(_PROMISE_OF_VERDICTS if asks else {})}
    return [AdapterCheck(words, try_it, train_with) for words, try_it in promises.items()]


def _same(found: Sequence[float], expected: Sequence[float] | Tensor, what: str) -> None:
    """Raises `BrokenPromiseError` unless these advantages are the expected ones."""
    close = torch.allclose(torch.as_tensor(found), torch.as_tensor(expected), rtol=_TOLERANCE, atol=_TOLERANCE)
    rounded = [[round(float(value), 4) for value in values] for values in (found, expected)]
    expect(close, f"the advantages are {rounded[0]}, {what} {rounded[1]}")


def _plain(train_with: TrainWith, rewards: Sequence[float] = REWARDS) -> TrainedRows:
    """What the engine trains on where the curator changes nothing."""
    return train_with(DecidingCurator(), rewards)


def the_curator_sees_the_batch(train_with: TrainWith) -> None:
    curator = DecidingCurator()
    train_with(curator, REWARDS)
    expect(len(curator.seen) == 1, f"it was asked {len(curator.seen)} times")
    rollouts = curator.seen[0]
    rewards = rollouts.rewards.tolist()
    expect(rewards == list(REWARDS), f"it sees the rewards {rewards}")
    groups = rollouts.groups.tolist()
    expected = [groups[0]] * GROUP_SIZE + [groups[-1]] * GROUP_SIZE
    expect(groups == expected and groups[0] != groups[-1], f"it sees the groups {groups}")


def what_changes_nothing_leaves_the_rows(train_with: TrainWith) -> None:
    trained = _plain(train_with)
    expect(None not in trained.responses, "a response has no token in the loss")
    expect(len(set(trained.responses)) == len(REWARDS), "a response stands in two positions")
    rewards = torch.tensor(REWARDS).view(GROUPS, GROUP_SIZE)
    advantages = torch.tensor(list(trained.advantages)).view(GROUPS, GROUP_SIZE)
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    scale = (advantages * centred).sum(dim=1, keepdim=True) / (centred * centred).sum(dim=1, keepdim=True)
    expect(bool((scale > 0).all()), "a better response of a group has a smaller advantage")
    _same(trained.advantages, (centred * scale).flatten(), "and not GRPO's, such as")


def a_replaced_row_is_its_donor(train_with: TrainWith) -> None:
    source = [0, 1, 2, 0, 4, 4, 6, 7]
    before = _plain(train_with)
    trained = train_with(DecidingCurator(source=source), REWARDS)
    expected = [before.responses[row] for row in source]
    wrong = [position for position in range(len(source)) if trained.responses[position] != expected[position]]
    expect(not wrong, f"positions {wrong} do not hold the responses of rows {[source[row] for row in wrong]}")
    of_donors = _plain(train_with, [REWARDS[row] for row in source])
    _same(trained.advantages, of_donors.advantages, "for the rewards that then stand there the engine has")


def weights_multiply_the_advantages(train_with: TrainWith) -> None:
    weights = [0.5, 1.0, 0.0, 2.0, 1.0, 1.0, 0.25, 1.0]
    before = torch.tensor(list(_plain(train_with).advantages))
    trained = train_with(DecidingCurator(weights=weights), REWARDS)
    _same(trained.advantages, before * torch.tensor(weights), "the engine's own times the weights are")


def advantages_are_those_of_changed_rewards(train_with: TrainWith) -> None:
    rewards = [0.9, 0.8, 0.1, 0.4, 0.7, 0.7, 0.2, 0.1]
    trained = train_with(DecidingCurator(rewards=rewards), REWARDS)
    _same(trained.advantages, _plain(train_with, rewards).advantages, "for these rewards the engine has")


def the_curators_advantages_are_trained_on(train_with: TrainWith) -> None:
    advantages = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    weights = [1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.5]
    trained = train_with(DecidingCurator(advantages=advantages, weights=weights), REWARDS)
    expected = torch.tensor(advantages) * torch.tensor(weights)
    _same(trained.advantages, expected, "the curator's times its weights are")


def an_unscored_row_has_no_say(train_with: TrainWith) -> None:
    rewards = [math.nan, *REWARDS[1:]]
    curator = DecidingCurator()
    trained = train_with(curator, rewards)
    seen = curator.seen[0].rewards
    expect(bool(seen[0].isnan()), f"its reward reaches the curator as {float(seen[0])}, where NaN is expected")
    expect(trained.advantages[0] == 0, f"its own advantage is {trained.advantages[0]}, where 0 is expected")
    # The rewards 1, 0, 0 are left of the first group: their mean is 1/3.
    scored = torch.tensor(list(trained.advantages[1:GROUP_SIZE]))
    shape = torch.tensor([2.0, -1.0, -1.0])
    expected = shape * scored[0] / 2
    expect(float(scored[0]) > 0, f"the best of its group has the advantage {float(scored[0]):.4g}")
    _same(scored.tolist(), expected, "the mean of the others is not 0, as it is of")
    _same(trained.advantages[GROUP_SIZE:], _plain(train_with).advantages[GROUP_SIZE:], "in the other group they were")


def a_row_of_another_group_is_refused(train_with: TrainWith) -> None:
    try:
        train_with(DecidingCurator(source=[4, 1, 2, 3, 4, 5, 6, 7]), REWARDS)
    except UnsupportedError:
        return
    expect(False, "the batch was trained on")


def a_dropped_row_leaves_the_loss(train_with: TrainWith) -> None:
    kept = [0, 1, 2, 4, 5, 6, 7]
    before = _plain(train_with)
    trained = train_with(DecidingCurator(source=kept), REWARDS)
    expect(trained.responses[3] is None, "its tokens are in the loss")
    stay = [trained.responses[row] == before.responses[row] for row in kept]
    expect(all(stay), f"the responses of the other rows moved: {stay}")
    # A dropped row has no more say in the statistics than one without a reward.
    without = _plain(train_with, [reward if row in kept else math.nan for row, reward in enumerate(REWARDS)])
    expected = [without.advantages[row] for row in kept]
    _same([trained.advantages[row] for row in kept], expected, "without it the others have")


def a_second_verifiers_verdict_is_trained_on(train_with: TrainWith) -> None:
    asked = [5, 2]
    curator = AskingCurator(asked)
    trained = train_with(curator, REWARDS, f"{__name__}:{told_apart.__name__}")
    verdicts = [verdict for verdict in curator.verdicts if verdict is not None]
    expect(len(verdicts) == len(asked), f"of rows {asked} it says {curator.verdicts}")
    rewards = list(REWARDS)
    for row, verdict in zip(asked, verdicts, strict=True):
        rewards[row] = verdict
    _same(trained.advantages, _plain(train_with, rewards).advantages, "for its verdicts the engine has")

    everyone = AskingCurator(range(len(REWARDS)))
    train_with(everyone, REWARDS, f"{__name__}:{told_apart.__name__}")
    expect(len(set(everyone.verdicts)) == len(REWARDS), f"of eight responses it says {everyone.verdicts}")
    expect([everyone.verdicts[row] for row in asked] == verdicts, "asked about all rows it says something else of two")

    unanswered = AskingCurator(asked)
    trained = train_with(unanswered, REWARDS, f"{__name__}:{failing.__name__}")
    expect(unanswered.verdicts == [None, None], f"one that fails says {unanswered.verdicts}")
    _same(trained.advantages, _plain(train_with).advantages, "where it fails, and without one")


_PROMISES = {
    "a curator is asked once a batch, and sees its rewards and groups": the_curator_sees_the_batch,
    "a curator that changes nothing leaves every row and GRPO's advantages": what_changes_nothing_leaves_the_rows,
    "a replaced row is trained on as its donor": a_replaced_row_is_its_donor,
    "weights multiply the engine's advantages": weights_multiply_the_advantages,
    "changed rewards change the advantages": advantages_are_those_of_changed_rewards,
    "advantages of a curator are trained on": the_curators_advantages_are_trained_on,
    "a row without a reward has no say in its group": an_unscored_row_has_no_say,
    "a row of another prompt in a group is refused": a_row_of_another_group_is_refused,
}
_PROMISE_OF_DROPS = {"a dropped row is out of the loss and its group's statistics": a_dropped_row_leaves_the_loss}
_PROMISE_OF_VERDICTS = {
    "a second verifier's verdict is trained on, and one that fails changes nothing": (
        a_second_verifiers_verdict_is_trained_on
    )
}
