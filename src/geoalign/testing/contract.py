"""The contract of every curator, as a whole and promise by promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.curators.curator import Curator
from geoalign.curators.registry import as_curator
from geoalign.errors import ConfigError, ContractError
from geoalign.testing import declarations, form, process, rows, state
from geoalign.testing.batches import RewardKind
from geoalign.testing.process import process_put_back
from geoalign.testing.trial import BrokenPromiseError, MakeCurator, Promise, Trial

# As they are tried: what a curation must be at all comes first, what composites make of it last.
CONTRACT: tuple[Promise, ...] = tuple(
    value
    for module in (form, process, rows, state, declarations)
    for value in vars(module).values()
    if isinstance(value, Promise)
)


@dataclass(frozen=True)
class Check:
    """One promise and the curator that should keep it; a call tries it.

    Raises:
        ContractError: the promise is broken.
    """

    promise: Promise
    trial: Trial

    @property
    def __name__(self) -> str:
        """The promise's name: pytest names its tests by it."""
        return self.promise.name

    def __call__(self) -> None:
        name = self.trial.name
        try:
            with process_put_back():
                self.promise.try_it(self.trial)
        except BrokenPromiseError as broken:
            raise ContractError(self._sentence(name, str(broken))) from None
        except Exception as error:
            # A curator may raise anything, where the contract has nothing to raise.
            raised = f"it raised {type(error).__name__}: {error}"
            raise ContractError(self._sentence(name, raised)) from error

    def _sentence(self, curator: str, found: str) -> str:
        return f"{curator} breaks the promise that {self.promise.words}: {found}"


def curator_checks(
    make: MakeCurator | str | Mapping[str, Any] | Any, *, rewards: RewardKind | None = None
) -> list[Check]:
    """The contract of every curator, one check a promise, each of which raises a `ContractError` where it is broken:

        @pytest.mark.parametrize("check", curator_checks(Clipped))
        def test_the_contract(check):
            check()

    Args:
        make: a function without arguments that makes a new curator, such as its class; or, as `as_curator` takes it, a
            name, a dict with its `type`, or settings. It is called when a check is.
        rewards: the kind of rewards on which the curator decides something. None: binary ones if it declares
            `binary_rewards`, else continuous ones. A curator that takes all rewards, and does something about binary
            ones alone, is tried with "binary".

    Raises:
        ConfigError: a curator was given, where each promise is tried on a new one.
    """
    trial = Trial(_maker(make), rewards)
    return [Check(each, trial) for each in CONTRACT]


def check_curator(make: MakeCurator | str | Mapping[str, Any] | Any, *, rewards: RewardKind | None = None) -> None:
    """Tries a curator on the contract of every curator, as scikit-learn's `check_estimator` does an estimator.

    It takes less than a second for a curator of a few lines. Arguments are those of `curator_checks`.

    Raises:
        ContractError: a promise is broken; the message is one sentence that names the first of them, and how.
        ConfigError: a curator was given, where each promise is tried on a new one.
    """
    for check in curator_checks(make, rewards=rewards):
        check()


def _maker(make: Any) -> MakeCurator:
    if isinstance(make, Curator):
        raise ConfigError(
            f"make: expected what makes a new curator, such as its class, got a {type(make).__name__}; every promise "
            "is tried on a new one"
        )
    if callable(make):
        return make
    return lambda: as_curator(make, setting="make")
