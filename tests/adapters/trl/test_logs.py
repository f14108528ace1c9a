import math
import time

import pandas as pd
import pytest
import torch
from trl_parts import Recording, Scripted, best_of_group, by_hand, curation, data, digits, length, trainer

from geoalign.curators.chain import Chain
from geoalign.curators.denoise import Denoise
from geoalign.errors import ConfigError, UnsupportedError


def scored(rollouts):
    time.sleep(0.05)
    made = best_of_group(rollouts)
    scores = torch.arange(len(rollouts)).float()
    scores[0] = math.nan
    metrics = {"pairs": 12.0, "threshold": math.nan, "seconds": 99.0}
    moved = made.source != torch.arange(len(rollouts))
    return curation(rollouts, source=made.source, scores=scores, anomalous=moved, metrics=metrics)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two steps, an evaluation of four rows after each, and the folder."""
    folder = tmp_path_factory.mktemp("logs")
    changes = {"log_completions": True, "num_completions_to_print": 1, "reward_weights": [1.0, 0.1]}
    changes |= {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}
    extra = {"eval_dataset": data(1), "details_every": 2, "log_metrics": "all"}
    watcher = Scripted(scored, requires=("hidden", "logprobs"))
    made = trainer(folder, watcher, cls=Recording, reward=[digits, length], extra=extra, **changes)
    made.train()
    return made, folder


def test_raw_reward_stays_the_logged_reward(trained):
    log, step = trained[0].state.log_history[0], trained[0].steps[0]
    per_function = torch.tensor([digits(step.responses), length(step.responses)])
    raw = per_function[0] + 0.1 * per_function[1]
    assert log["reward"] == pytest.approx(raw.mean().item(), rel=1e-5)
    assert log["reward_std"] == pytest.approx(raw.std().item(), rel=1e-5)
    assert log["rewards/digits/mean"] == pytest.approx(per_function[0].mean().item(), rel=1e-5)
    assert log["rewards/length/std"] == pytest.approx(per_function[1].std().item(), rel=1e-5)
    assert log["geoalign/curated_reward"] == pytest.approx(raw[step.curation.source].mean().item(), rel=1e-5)
    assert log["geoalign/curated_reward"] > log["reward"]
    # The curator's own, without those that are NaN, and one clock for the seconds of all.
    assert log["geoalign/pairs"] == 12
    assert "geoalign/threshold" not in log
    assert 0.05 <= log["geoalign/seconds"] < 5
    assert all(0 < log[f"geoalign/{name}_seconds"] < 5 for name in ("hidden", "logprob"))


def test_by_default_a_log_has_few_metrics_and_the_mean_of_what_went_wrong(tmp_path):
    """Three generations are logged at once; in one of them two of eight rows have no reward."""
    calls = iter(range(9))

    def failing(completions, **columns):
        broken = next(calls) == 1
        return [None if broken and row < 2 else 1.0 * row for row in range(len(completions))]

    changes = {"max_steps": 3, "logging_steps": 3}
    made = trainer(tmp_path, Scripted(scored), reward=failing, **changes)
    made.train()
    found = {name: value for name, value in made.state.log_history[0].items() if name.startswith("geoalign/")}
    shown = {"anomalous_share", "changed_share", "seconds", "curated_reward", "unscored_rows"}
    assert set(found) == {f"geoalign/{name}" for name in shown}
    assert found["geoalign/unscored_rows"] == pytest.approx(2 / 3)
    with pytest.raises(ConfigError, match="log_metrics: expected one of headline, all; got 'none'"):
        trainer(tmp_path, Scripted(scored), extra={"log_metrics": "none"})


def test_completions_table_has_the_curators_columns(trained):
    made, folder = trained
    step = made.steps[0]
    table = pd.read_parquet(folder / "completions" / "completions_00001.parquet")
    # The table that the evaluation wrote: four rows of it at the end, after the last four of the training batch.
    positions = slice(4, 8)
    assert table["source"].tolist() == [*step.curation.source.tolist()[positions], 0, 1, 2, 3]
    assert table["score"].tolist()[:4] == [4, 5, 6, 7]
    assert table["score"][4:].isna().all()
    assert table["anomalous"].tolist() == step.curation.anomalous.tolist()[positions] + [False] * 4
    # Raw rollouts and raw rewards; the advantage is the one that entered the loss in that position.
    assert table["completion"].tolist()[:4] == step.responses[positions]
    assert table["digits"].tolist()[:4] == pytest.approx(digits(step.responses)[positions])
    expected = by_hand(step.rollouts.rewards[step.curation.source])[positions]
    assert table["advantage"].tolist()[:4] == pytest.approx(expected.tolist(), abs=1e-4)


def test_evaluation_is_never_curated(trained):
    made, _ = trained
    assert len(made.curator.seen) == len(made.steps) == 2
    evaluations = [log for log in made.state.log_history if "eval_reward" in log]
    assert len(evaluations) == 2
    assert not any(key.startswith("eval_geoalign") for log in evaluations for key in log)


def test_observer_is_told_everything(tmp_path):
    asked = []

    class Asked(Scripted):
        def curate(self, rollouts, *, generator=None, details=False):
            asked.append(details)
            return super().curate(rollouts)

    batches = {"steps_per_generation": 2, "gradient_accumulation_steps": 2, "max_steps": 3}
    made = trainer(tmp_path, Asked(curation), cls=Recording, extra={"details_every": 2}, **batches)
    made.train()
    assert [(step.step, step.generation) for step in made.steps] == [(0, 0), (1, 1), (2, 2)]
    assert asked == [True, False, True]
    step = made.steps[0]
    assert len(step.prompts) == len(step.responses) == len(step.lengths) == len(step.rollouts) == 16
    assert step.rollouts.groups.tolist() == [row // 4 for row in range(16)]
    assert step.rollouts.ids[:2] == ["0:0", "0:1"]
    assert step.prompts[0] == step.prompts[3] != step.prompts[4]
    torch.testing.assert_close(step.rollouts.rewards, torch.tensor(digits(step.responses)))


def score(completions, **columns):
    return [0.0] * len(completions)


@pytest.mark.parametrize(
    ("curator", "extra", "words"),
    [
        (Scripted(curation), {"details_every": -1}, "details_every"),
        (Scripted(curation), {"hidden_source": "telepathy"}, "hidden_source"),
        (Scripted(curation), {"rollout_fields": {"answer": "gold"}}, "expected keys out of answers"),
        (Scripted(curation), {"rollout_fields": {"answers": 3}}, "expected a dataset column or a callable, got int"),
        (Chain([Denoise(component="format")]), {}, "component: expected one of digits; got 'format'"),
        ("geoaling", {}, r"^curator: expected one of .*denoise.*nearest: geoalign.*got 'geoaling'"),
        ({"type": "denoise", "windw": 3}, {}, r"curator\.windw: unknown key: expected curator\.window"),
        (3, {}, "curator: expected a curator .*, got int"),
        (None, {"monitor": True}, "monitor: expected with a curator"),
    ],
)
def test_bad_arguments_are_named(tmp_path, curator, extra, words):
    with pytest.raises(ConfigError, match=words):
        trainer(tmp_path, curator, extra=extra)
    with pytest.raises(UnsupportedError, match="'score'"):  # a column of the completions table
        trainer(tmp_path, Scripted(curation), reward=score)
