"""The skeleton of an adapter keeps what adapters promise, and runs as it is."""

import contextlib
import io
import math
from dataclasses import replace
from typing import ClassVar

import pytest
import recipe
import torch
from asking import settings_with

from geoalign import GRPO, identity
from geoalign.errors import ConfigError, UnsupportedError
from geoalign.testing import TrainedRows, adapter_checks

DENOISE = {"curator": {"type": "denoise", "geometry": "none"}, "rollout_fields": {"answers": "answer"}}


@pytest.fixture(scope="module")
def skeleton():
    return recipe.load("skeleton_adapter")


@pytest.fixture
def engine(skeleton):
    """Makes the curated engine of a section of settings."""

    def make(section, loss="token_mean"):
        return skeleton.CuratedEngine({"loss": loss, "geoalign": section})

    return make


def batch(rewards, prompts):
    """One token a row, which is the row's number."""
    rows = range(len(rewards))
    return {
        "prompts": torch.tensor(prompts),
        "tokens": torch.tensor([[row] for row in rows]),
        "mask": torch.ones(len(rewards), 1, dtype=torch.long),
        "rewards": torch.tensor(rewards),
        "info": [{"answer": "a"} for _ in rows],
    }


@pytest.mark.parametrize("section", [{"curator": "grpo"}, {**DENOISE, "monitor": True}], ids=["grpo", "monitor"])
def test_what_changes_nothing_is_the_plain_engine_bit_for_bit(skeleton, engine, section):
    plain, curated = skeleton.Engine({"loss": "token_mean"}), engine(section)
    plain.train(3)
    curated.train(3)
    assert torch.equal(plain.logits, curated.logits)


@pytest.fixture
def train_with(skeleton, engine, monkeypatch):
    """One batch of the contract through the skeleton, whose groups then have four rows."""
    monkeypatch.setattr(skeleton, "SAMPLES", 4)

    def train_with(curator, rewards, second_verifier=None):
        curated = engine(settings_with(second_verifier))
        curated.session.curator = curator
        given = batch(list(rewards), [7] * 4 + [9] * 4)
        advantages = curated.compute_advantages(given)
        rows = zip(given["tokens"][:, 0].tolist(), given["mask"][:, 0].tolist(), strict=True)
        return TrainedRows(responses=[row if kept else None for row, kept in rows], advantages=advantages.tolist())

    return train_with


def test_the_contract(train_with):
    for check in adapter_checks(train_with):
        check()


def test_the_curators_advantages_reach_the_policy(skeleton, engine):
    plain, curated = skeleton.Engine({"loss": "token_mean"}), engine(DENOISE)
    plain.train(5)
    curated.train(5)
    assert not torch.equal(plain.logits, curated.logits)


def test_five_metrics_are_logged_and_alarms(engine):
    curated = engine(DENOISE)
    curated.train(1)
    shown = {"anomalous_share", "changed_share", "recovered", "identified", "seconds"}
    assert shown >= {name.removeprefix("geoalign/") for name in curated.logs[0]}
    curated.compute_advantages(batch([1.0, math.nan, 0.0], [7, 7, 7]))
    assert curated.logs[-1]["geoalign/unscored_rows"] == 1


def test_it_resumes_as_if_undisturbed(engine, tmp_path):
    whole, first, second = engine(DENOISE), engine(DENOISE), engine(DENOISE)
    whole.train(6)
    first.train(3)
    first.save(tmp_path)
    second.load(tmp_path)
    second.train(3)
    assert torch.equal(whole.logits, second.logits)


def test_a_curator_saved_with_other_settings_is_refused(engine, tmp_path):
    engine(DENOISE).save(tmp_path)
    other = engine({**DENOISE, "curator": {**DENOISE["curator"], "window": 3}})
    with pytest.raises(ConfigError, match=r"load: .*denoise\.window: saved with 10, now 3; set the geoalign.curator"):
        other.load(tmp_path)


class SilentlyDropping(GRPO):
    """Drops a row, and has not declared it."""

    acts_on: ClassVar = None

    def curate(self, rollouts, *, generator=None, details=False):
        given = identity(rollouts)
        return replace(given, source=given.source[1:], rewards=given.rewards[1:], weights=given.weights[1:])


def test_what_the_engine_cannot_carry_out_is_refused_by_name(engine):
    with pytest.raises(UnsupportedError, match="GeoAlign requires hidden states, which the engine does not return"):
        engine({"curator": "geoalign"})
    with pytest.raises(UnsupportedError, match=r"PODS drops rows under loss=row_mean, .* set it to token_mean"):
        engine({"curator": "pods"}, loss="row_mean")
    with pytest.raises(ConfigError, match=r"SeedGRPO requires answers: expected geoalign.rollout_fields.answers: the"):
        engine({"curator": "seed_grpo"})
    with pytest.raises(ConfigError, match=r"geoalign\.monitr: unknown key: expected .*monitor"):
        engine({"monitr": True})
    undeclared = engine({"curator": "grpo"}, loss="row_mean")
    undeclared.session.curator = SilentlyDropping()
    with pytest.raises(UnsupportedError, match="SilentlyDropping drops rows under loss=row_mean"):
        undeclared.compute_advantages(batch([1.0, 0.0], [7, 7]))


def test_the_script_shows_what_the_curator_is_good_for(skeleton):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        skeleton.main()
    lines = said.getvalue().splitlines()
    plain, curated = (float(line.split()[-1].rstrip("%")) for line in lines[:2])
    assert plain < curated
