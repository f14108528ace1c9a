"""What TRL logs around a curation."""

import math
import time

import pandas as pd
import pytest
import torch
from trl_parts import (
    Recording,
    Scripted,
    best_of_group,
    by_hand,
    curation,
    data,
    digits,
    length,
    trainer,
)

from geoalign.adapters.trl import CuratedStep
from geoalign.errors import ConfigError, UnsupportedError


def scored(rollouts):
    made = best_of_group(rollouts)
    scores = torch.arange(len(rollouts)).float()
    scores[0] = math.nan
    return curation(
        rollouts,
        source=made.source,
        scores=scores,
        anomalous=made.source != torch.arange(len(rollouts)),
        metrics={"pairs": 12.0, "threshold": math.nan},
    )


def test_raw_reward_stays_the_logged_reward(tmp_path):
    made = trainer(
        tmp_path,
        Scripted(best_of_group),
        cls=Recording,
        reward=[digits, length],
        reward_weights=[1.0, 0.1],
        max_steps=1,
    )
    made.train()
    log, step = made.state.log_history[0], made.steps[0]
    per_function = torch.tensor([digits(step.responses), length(step.responses)])
    raw = per_function[0] + 0.1 * per_function[1]
    assert log["reward"] == pytest.approx(raw.mean().item(), rel=1e-5)
    assert log["reward_std"] == pytest.approx(raw.std().item(), rel=1e-5)
    assert log["rewards/digits/mean"] == pytest.approx(per_function[0].mean().item(), rel=1e-5)
    assert log["rewards/length/std"] == pytest.approx(per_function[1].std().item(), rel=1e-5)
    assert log["geoalign/curated_reward"] == pytest.approx(raw[step.curation.source].mean().item(), rel=1e-5)
    assert log["geoalign/curated_reward"] > log["reward"]


def test_curator_metrics_are_logged_and_nan_is_left_out(tmp_path):
    made = trainer(tmp_path, Scripted(scored), max_steps=1)
    made.train()
    log = made.state.log_history[0]
    assert log["geoalign/pairs"] == 12
    assert "geoalign/threshold" not in log


def test_completions_table_has_the_curators_columns(tmp_path):
    made = trainer(tmp_path, Scripted(scored), cls=Recording, log_completions=True, num_completions_to_print=1)
    made.train()
    for index, step in enumerate(made.steps):
        table = pd.read_parquet(tmp_path / "completions" / f"completions_{index + 1:05d}.parquet")
        assert table["score"].isna().tolist() == [True] + [False] * 7
        assert table["score"][1:].tolist() == list(range(1, 8))
        assert table["source"].tolist() == step.curation.source.tolist()
        assert table["anomalous"].tolist() == step.curation.anomalous.tolist()
        # Raw rollouts and raw rewards; the advantage is the one that entered the loss in that slot.
        assert table["completion"].tolist() == step.responses
        assert table["digits"].tolist() == pytest.approx(step.rollouts.rewards.tolist())
        expected = by_hand(step.rollouts.rewards[step.curation.source])
        assert table["advantage"].tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_columns_stay_aligned_through_an_evaluation(tmp_path):
    made = trainer(
        tmp_path,
        Scripted(scored),
        cls=Recording,
        log_completions=True,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=4,
        extra={"eval_dataset": data(1)},
    )
    made.train()
    # The table that the evaluation wrote: four rows of it at the end, after the last four of the training batch.
    table = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
    step = made.steps[-1]
    assert table["completion"].tolist()[:4] == step.responses[4:]
    assert table["source"].tolist() == [*step.curation.source.tolist()[4:], 0, 1, 2, 3]
    assert table["score"][4:].isna().all()
    assert not table["anomalous"][4:].any()


def test_observer_is_told_everything(tmp_path):
    made = trainer(tmp_path, Scripted(scored), cls=Recording, steps_per_generation=2, gradient_accumulation_steps=2)
    made.train()
    assert [(step.step, step.generation) for step in made.steps] == [(0, 0), (1, 1)]
    step = made.steps[0]
    assert isinstance(step, CuratedStep)
    assert len(step.prompts) == len(step.responses) == len(step.lengths) == len(step.rollouts) == 16
    assert step.rollouts.groups.tolist() == [row // 4 for row in range(16)]
    assert step.rollouts.ids[:2] == ["0:0", "0:1"]
    assert step.prompts[0] == step.prompts[3] != step.prompts[4]
    torch.testing.assert_close(step.rollouts.rewards, torch.tensor(digits(step.responses)))


def test_details_every_nth_generation(tmp_path):
    asked = []

    class Asked(Scripted):
        def curate(self, rollouts, *, generator=None, details=False):
            asked.append(details)
            return super().curate(rollouts)

    trainer(tmp_path, Asked(curation), extra={"details_every": 2}, max_steps=4).train()
    assert asked == [True, False, True, False]
    asked.clear()
    trainer(tmp_path, Asked(curation), max_steps=2).train()
    assert asked == [False, False]


def score(completions, **columns):
    return [0.0] * len(completions)


def test_a_reward_function_named_as_a_column_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="'score'"):
        trainer(tmp_path, Scripted(curation), reward=score)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"details_every": -1}, "details_every"),
        ({"hidden_source": "telepathy"}, "hidden_source"),
        ({"rollout_fields": {"answer": "gold"}}, "expected keys out of answers"),
        ({"rollout_fields": {"answers": 3}}, "expected a dataset column or a callable, got int"),
    ],
)
def test_bad_arguments_are_named(tmp_path, extra, words):
    with pytest.raises(ConfigError, match=words):
        trainer(tmp_path, Scripted(curation), extra=extra)


def test_what_is_no_curator_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a Curator or None, got str"):
        trainer(tmp_path, "geoalign")


def test_one_clock_for_the_seconds_of_every_curator(tmp_path):
    def slow(rollouts):
        time.sleep(0.05)
        return curation(rollouts, metrics={"seconds": 99.0})

    made = trainer(tmp_path, Scripted(slow, requires=("hidden", "logprobs")), max_steps=1)
    made.train()
    log = made.state.log_history[0]
    assert 0.05 <= log["geoalign/seconds"] < 5
    assert 0 < log["geoalign/hidden_seconds"] < 5
    assert 0 < log["geoalign/logprob_seconds"] < 5


def test_passes_that_nobody_needs_take_no_seconds(tmp_path):
    made = trainer(tmp_path, Scripted(best_of_group), max_steps=1)
    made.train()
    log = made.state.log_history[0]
    assert log["geoalign/seconds"] >= 0
    assert "geoalign/hidden_seconds" not in log
    assert "geoalign/logprob_seconds" not in log
