"""Curators on sequences of batches: how close their advantages come to those of the true rewards."""

import json
import math

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from geoalign import Rollouts
from geoalign.curators.registry import make_curator
from geoalign.errors import ConfigError, InputError
from geoalign.lab.bench.batches import PlantedBatch, load_batch, save_batch
from geoalign.lab.bench.curators import (
    CURATOR_SETTINGS,
    WARM_UP,
    curate_in_order,
    measure_curators,
    parse_curators,
    settings_of,
)
from geoalign.lab.bench.detection_report import detection_json, print_curators
from geoalign.lab.bench.synthetic import synthetic_rollouts
from geoalign.lab.cli import app
from geoalign.method.advantages import advantage_cosine, group_advantages


def batches(rewards="binary", *, count=WARM_UP + 3, groups=24, corruption=0.25):
    return [
        synthetic_rollouts(groups, 8, 16, seed=seed, rewards=rewards, corruption=corruption, signal=1.5)
        for seed in range(count)
    ]


def measured(values, sequence):
    return curate_in_order("small", "it", settings_of(values, sequence[0].rollouts.rewards), sequence)


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_grpo_has_the_cosine_of_the_rewards_as_they_came(rewards):
    sequence = batches(rewards)
    found = measured({"type": "grpo"}, sequence)
    assert found.advantage_cosine == found.observed_advantage_cosine
    cosines = []
    for batch in sequence[WARM_UP:]:
        one = batch.rollouts
        given = group_advantages(one.rewards, one.groups)
        cosines.append(advantage_cosine(given, torch.arange(len(one)), one.true_rewards, one.groups))
    assert found.advantage_cosine.estimate == pytest.approx(sum(cosines) / 3)
    assert found.batches == 3
    assert math.isnan(found.auroc.estimate)
    assert math.isnan(found.precision)
    assert found.recall == 0


@pytest.mark.parametrize("rewards", ["binary", "continuous"])
def test_the_oracle_bounds_and_denoise_beats_grpo_where_states_tell(rewards):
    sequence = batches(rewards)
    grpo, denoise, oracle = (measured({"type": name}, sequence) for name in ("grpo", "denoise", "oracle"))
    assert denoise.advantage_cosine.estimate > grpo.advantage_cosine.estimate + 0.05
    assert denoise.auroc.estimate > 0.7
    assert oracle.advantage_cosine.estimate > grpo.advantage_cosine.estimate
    assert (oracle.auroc.estimate, oracle.precision) == (1, 1)
    assert oracle.recall == 1
    assert all(row.seconds > 0 for row in (grpo, denoise, oracle))


def test_without_corruption_grpo_and_the_oracle_are_perfect():
    sequence = batches(corruption=0.0)
    for name in ("grpo", "oracle"):
        assert measured({"type": name}, sequence).advantage_cosine.estimate == pytest.approx(1)


def test_state_is_carried_from_batch_to_batch_and_the_first_batches_do_not_count():
    sequence = batches()
    curator = make_curator(settings_of({"type": "denoise"}, torch.zeros(0)))
    last = None
    for batch in sequence:
        last = curator.curate(batch.rollouts)
    one = sequence[-1].rollouts
    by_hand = advantage_cosine(last.advantages * last.weights, last.source, one.true_rewards, one.groups)
    alone = measured({"type": "denoise"}, sequence[: WARM_UP + 1])
    assert alone.batches == 1
    three, two = measured({"type": "denoise"}, sequence), measured({"type": "denoise"}, sequence[:-1])
    assert 3 * three.advantage_cosine.estimate - 2 * two.advantage_cosine.estimate == pytest.approx(by_hand)
    assert math.isnan(measured({"type": "denoise"}, sequence[:WARM_UP]).advantage_cosine.estimate)


def test_precision_and_recall_by_hand():
    # One group: rewards 1 1 0 0, the first and the last corrupted; the oracle sees the first alone as wrong.
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1.0, 0.0, 0.0]),
        groups=torch.zeros(4, dtype=torch.long),
        true_rewards=torch.tensor([0.0, 1.0, 0.0, 0.0]),
    )
    batch = PlantedBatch(rollouts, torch.tensor([True, False, False, True]))
    found = measured({"type": "oracle"}, [batch] * (WARM_UP + 1))
    # One flagged, of the two that were corrupted: precision 1, recall 1/2. Scores 1 0 0 0 against 1 0 0 1: of the
    # four pairs of a corrupted and a right row two are ordered rightly and two are ties, (2 + 2/2) / 4.
    assert (found.precision, found.recall, found.auroc.estimate) == (1, 0.5, 0.75)
    # The oracle puts a right row of the same group, (0, 1 or 0), in the first place; GRPO's advantages are 1 1 -1 -1
    # against 3 -1 -1 -1 moved by a row: cosine (-1 + 3 + 1 + 1) / (2 sqrt 12) = 0.577.
    grpo = measured({"type": "grpo"}, [batch] * (WARM_UP + 1))
    assert grpo.advantage_cosine.estimate == pytest.approx(4 / (2 * 12**0.5), rel=1e-4)


def test_every_default_runs_and_is_printed_and_written():
    rows = measure_curators([("small", batches(count=WARM_UP + 1, groups=8))], CURATOR_SETTINGS)
    assert [row.curator for row in rows] == list(CURATOR_SETTINGS)
    console = Console(width=160, record=True)
    print_curators(console, rows)
    text = console.export_text()
    assert all(row.curator in text for row in rows)
    observed = rows[0].observed_advantage_cosine.estimate
    assert f"as the rewards came: {observed:.3f}" in " ".join(text.split())
    written = json.loads(detection_json([], rows))["curators"]
    assert written[0]["advantage_cosine"]["estimate"] == rows[0].advantage_cosine.estimate
    assert written[0]["precision"] is None


def test_repeated_rows_hold_one_response_and_change_nothing_else():
    plain, repeated = (
        synthetic_rollouts(6, 8, 4, seed=1, corruption=0.4, rewards="binary", repeated=share) for share in (0.0, 0.5)
    )
    one, other = plain.rollouts, repeated.rollouts
    assert torch.equal(one.response_keys, torch.arange(48))
    assert torch.equal(plain.corrupted, repeated.corrupted)
    keys = other.response_keys
    assert torch.equal(other.hidden, one.hidden[keys])
    assert torch.equal(other.true_rewards, one.true_rewards[keys])
    assert torch.equal(keys // 8, other.groups)
    again = keys != torch.arange(48)
    assert 0.2 < again.float().mean() < 0.55
    assert (keys[again] % 8 < 2).all()
    assert not again.view(6, 8)[:, :2].any()


def test_the_papers_settings_follow_the_rewards():
    paper = CURATOR_SETTINGS["geoalign, paper's"]
    assert settings_of(paper, torch.tensor([0.0, 1.0])).alpha == 0.05
    assert settings_of(paper, torch.tensor([0.0, 1.0, 2.0])).alpha == 0.12


def test_curators_are_named_or_written_as_json():
    assert parse_curators([]) == CURATOR_SETTINGS
    asked = ["pair count", "cppo", '{"type": "denoise", "geometry": "none"}']
    found = list(parse_curators(asked).values())
    assert found == [{"type": "pair_count"}, {"type": "cppo"}, {"type": "denoise", "geometry": "none"}]
    with pytest.raises(ConfigError, match=r"expected JSON or one of grpo.*got 'cpo'"):
        parse_curators(["cpo"])
    with pytest.raises(ConfigError, match="expected the key type"):
        parse_curators(["{}"])
    with pytest.raises(ConfigError, match="settings as JSON"):
        parse_curators(["{type"])
    with pytest.raises(ConfigError, match="geometri"):
        parse_curators(['{"type": "denoise", "geometri": "none"}'])


def test_a_curator_that_lacks_a_field_is_named():
    with pytest.raises(InputError, match="--curator it: expected batches with lengths, got none in small"):
        measured({"type": "gfpo"}, batches(count=1, groups=2))


def test_saved_batches_keep_true_rewards_keys_and_answers(tmp_path):
    given = synthetic_rollouts(2, 2, 4, seed=0, rewards="binary", corruption=0.5)
    rollouts = Rollouts(
        rewards=given.rollouts.rewards,
        groups=given.rollouts.groups,
        hidden=given.rollouts.hidden,
        true_rewards=given.rollouts.true_rewards,
        response_keys=torch.tensor([3, 3, 4, 5]),
        answers=["7", None, "8", "7"],
    )
    save_batch(tmp_path / "a.safetensors", PlantedBatch(rollouts, given.corrupted))
    again = load_batch(tmp_path / "a.safetensors").rollouts
    assert torch.equal(again.true_rewards, rollouts.true_rewards)
    assert torch.equal(again.response_keys, rollouts.response_keys)
    assert list(again.answers) == ["0", None, "1", "0"]


def test_batches_without_true_rewards_have_no_such_table(tmp_path):
    given = synthetic_rollouts(8, 4, 8, seed=0, corruption=0.2)
    assert torch.equal(given.rollouts.true_rewards != given.rollouts.rewards, given.corrupted)
    bare = Rollouts(rewards=given.rollouts.rewards, groups=given.rollouts.groups, hidden=given.rollouts.hidden)
    save_batch(tmp_path / "a.safetensors", PlantedBatch(bare, given.corrupted))
    assert measure_curators([("bare", [load_batch(tmp_path / "a.safetensors")])], CURATOR_SETTINGS) == []


def test_the_command_measures_the_curators_asked_for(tmp_path):
    for number, batch in enumerate(batches(count=WARM_UP + 1, groups=6)):
        save_batch(tmp_path / f"{number}.safetensors", batch)
    files = [word for path in sorted(tmp_path.glob("*.safetensors")) for word in ("--batch", str(path))]
    more = ["--curator", "grpo", "--curator", "oracle", "--json", str(tmp_path / "d.json")]
    result = CliRunner().invoke(app, ["bench", "--detection", *files, *more])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "d.json").read_text())["curators"]
    assert [row["curator"] for row in rows] == ["grpo", "oracle"]
    assert all(row["batches"] == 1 for row in rows)
    assert "cosine with the true rewards' advantages" in " ".join(result.output.split())
