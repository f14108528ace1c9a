"""Promises on what a curator keeps from batch to batch: a saved training goes on as an undisturbed one."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import torch

from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.curator import Curator
from geoalign.errors import ConfigError
from geoalign.testing.trial import BrokenPromiseError, Trial, curate, expect, expect_same, promise


@promise("a new one that loads its state goes on as it would have")
def a_restored_one_goes_on_alike(trial: Trial) -> None:
    state, expected = trial.saved
    curator, drawn = trial.new(), torch.get_rng_state()
    curator.load_state_dict(_through_a_file(state))
    expect(torch.equal(torch.get_rng_state(), drawn), "loading draws from torch's global generator")
    resumed = curate(curator, trial.batch(3), seed=5)
    expect_same(resumed, expected, "after three batches, a save and a load (name in `kept` what it keeps)")


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """The state as a checkpoint gives it back."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state"
        save_state(file, state)
        return load_state(file)


@promise("its state is nested dicts and lists of tensors and plain values, which torch loads with weights_only=True")
def torch_loads_its_state_safely(trial: Trial) -> None:
    state, expected = trial.saved
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    curator = trial.new()
    curator.load_state_dict(torch.load(file, weights_only=True))
    resumed = curate(curator, trial.batch(3), seed=5)
    expect_same(resumed, expected, "after three batches, torch.save and torch.load")


@promise("it refuses a state that is not its own by a ConfigError that says what was expected, and what came")
def a_foreign_state_is_refused(trial: Trial) -> None:
    _expect_refused(trial.new(), {"unknown": 1}, "state without class and settings", words=("expected",))
    own = trial.new().state_dict()
    _expect_refused(trial.new(), {**own, "unknown": 1}, "state with another key", words=("expected", "unknown"))


def _expect_refused(curator: Curator[Any], state: dict[str, Any], what: str, *, words: tuple[str, ...]) -> None:
    """Raises `BrokenPromiseError` unless loading the state is a ConfigError that has these words."""
    try:
        curator.load_state_dict(state)
    except ConfigError as error:
        said = str(error)
        expect(all(word in said for word in words), f"of a {what} it says {said!r}")
    else:
        raise BrokenPromiseError(f"it loads a {what}")


@promise("it refuses an unknown setting by a ConfigError that names it")
def an_unknown_setting_is_refused(trial: Trial) -> None:
    try:
        type(trial.curator)(no_such_setting=1)
    except ConfigError as error:
        expect("no_such_setting" in str(error), f"it says {str(error)!r}")
    else:
        raise BrokenPromiseError("it takes no_such_setting=1")
