from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from dumps import (
    GROUPS,
    OUTLIERS,
    SIZE,
    filtered,
    nemo_gym,
    trl,
    verifiers,
    write_dump,
    write_lines,
)

from geoalign.audit.words.other_findings import trained_on
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump

NAMES = (
    "verl", "trinity", "responses", "plain", "trl", "geoalign", "nemo_rl", "nemo_gym", "verifiers",
    "verifiers_results", "inspect", "trackio", "slime",
)  # fmt: skip


def read(path, **given):
    dump = read_dump(path, find_layout(path, **given)[0])
    return SimpleNamespace(layout=dump.layout, rows=list(dump.frame.itertuples()))


def test_what_prime_rl_generated_is_set_beside_what_it_trained_on(tmp_path, run):
    late = []
    for step in (9, 10):
        # Begun a step before; four rollouts are trained on in the next batch.
        made = [{**row, "id": f"{step}-{row['id']}"} for row in verifiers(step - 1)]
        cohorts = {"train/all": made, "train/effective": [*late, *made[:20]], "eval/all": made, "eval/effective": made}
        for name, rows in cohorts.items():
            folder = tmp_path / "in" / "rollouts" / f"step_{step}" / name
            folder.mkdir(parents=True)
            write_lines(folder / "traces.jsonl", rows)
        late = made[20:24]
    summary = run(tmp_path / "in")
    assert [one["step"] for one in summary["steps"]] == [9, 10]
    assert summary["counts"]["rows"] == 2 * GROUPS * SIZE
    # Of the two outliers of a step the first is trained on.
    shares = {"44 of 96", "4.5%", "3.8%"}
    assert all(share in trained_on(summary) for share in shares)
    with (tmp_path / "in/rollouts/step_10/train/effective/traces.jsonl").open("ab") as still_written:
        still_written.write(b'{"id": "9-')
    again = trained_on(run(tmp_path / "in", skip_bad=True, overwrite=True))
    assert again == trained_on(summary)
    scores = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert scores["trained_on"].to_pylist()[:25] == [True] * 24 + [False]
    evaluated = run(folder.parent, overwrite=True)["counts"]
    assert evaluated["rows"] == GROUPS * SIZE
    assert evaluated["trained_on"] + evaluated["not_trained_on"] == 0


def test_the_stream_of_prime_rl_says_what_was_trained_on(tmp_path, run):
    def with_trace(row, **values):
        """The row with its first trace alone, in which these values stand."""
        first = row["traces"][0]
        return {**row, "traces": [{**first, **values}]}

    made = [with_trace(row, id=f"trace of {row['id']}") for row in verifiers(9)]
    evaluated = with_trace({**made[0], "id": "e"}, id="t", info={"kind": "eval"})
    traces = tmp_path / "in" / "monitors" / "file" / "traces"
    for name in ("stream", "annotations/orchestrator"):
        (traces / name).mkdir(parents=True)
    write_lines(traces / "stream" / "00000.jsonl", made[:20])
    write_lines(traces / "stream" / "00001.jsonl", [evaluated, *made[20:]])
    shipped = [{"trace_id": f"trace of {row['id']}", "info": {"effective": True}} for row in made[:24]]
    write_lines(traces / "annotations" / "orchestrator" / "00000.jsonl", shipped)
    summary = run(tmp_path / "in")
    assert [one["step"] for one in summary["steps"]] == [9]
    assert (summary["counts"]["trained_on"], summary["counts"]["not_trained_on"]) == (24, GROUPS * SIZE - 24)
    assert summary["inputs"][0]["passed_over"] == 1


def test_a_folder_of_nemo_gym_stands_for_its_rollouts(tmp_path, run):
    folder = tmp_path / "in"
    folder.mkdir()
    write_lines(folder / "rollouts.jsonl", nemo_gym())
    write_lines(folder / "rollouts_materialized_inputs.jsonl", [{"responses_create_params": {"input": "q"}}])
    write_lines(folder / "rollouts_failures.jsonl", [{"_ng_failure_class": "x"}])
    (folder / "rollouts_aggregate_metrics.json").write_text("[]")
    assert [one["file"] for one in run(folder)["inputs"]] == [str(folder / "rollouts.jsonl")]


@pytest.mark.parametrize("name", NAMES)
def test_the_rollouts_that_stay_are_a_dump_again(name, tmp_path, run):
    path = write_dump(tmp_path / "in", name)
    before = path.read_bytes()
    summary = run(path, filtered=True)
    assert path.read_bytes() == before
    assert summary["inputs"][0]["format"] == name
    assert summary["counts"]["flagged"] == summary["counts"]["replaced"] == len(OUTLIERS)
    original = read(path)
    again = read(tmp_path / "out" / "filtered.jsonl")
    assert again.layout.format.name == "plain"
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    assert len(again.rows) == len(original.rows) == len(scores)
    for place, (row, old, score) in enumerate(zip(again.rows, original.rows, scores, strict=True)):
        donor = original.rows[score["source"]]
        assert (row.response, row.reward) == (donor.response, donor.reward)
        # Its place is its own still.
        assert (row.id, row.prompt) == (old.id, old.prompt)
        assert row.group == place // SIZE
        assert (score["file"], score["line"], score["sample"]) == (str(path), old.line, old.sample)
        flagged = (place // SIZE, place % SIZE) in OUTLIERS
        assert (score["source"] != place) == flagged == score["anomalous"]
        assert donor.group == old.group


def test_the_columns_of_the_filtered_rollouts(tmp_path, run):
    """docs/formats.md lists them."""
    run(write_dump(tmp_path / "in", "plain"), filtered=True)
    columns = {"file", "line", "sample", "step", "group", "id", "prompt", "response", "reward", "weight"}
    assert {frozenset(row) for row in filtered(tmp_path / "out")} == {frozenset(columns)}


def test_what_strategies_and_advantages_make_of_the_rollouts(tmp_path, run):
    path = write_dump(tmp_path / "in", "responses")
    summary = run(path, settings=("curator.strategy=drop",), filtered=True)
    assert summary["counts"]["left_out"] == len(OUTLIERS)
    again = filtered(tmp_path / "out")
    assert len(again) == GROUPS * SIZE - len(OUTLIERS)
    assert max(row["reward"] for row in again) < 1
    assert "advantage" not in again[0]
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    left_out = [row for row in scores if row["source"] == -1]
    assert len(left_out) == len(OUTLIERS)
    for row in left_out:
        assert (row["reward"], row["new_reward"], row["weight"]) == (9.0, None, 0.0)
    summary = run(path, settings=("curator.strategy=zero_weight",), filtered=True, overwrite=True)
    assert summary["counts"]["zero_weighted"] == len(OUTLIERS)
    weights = [row["weight"] for row in filtered(tmp_path / "out")]
    assert [divmod(place, SIZE) for place, weight in enumerate(weights) if weight != 1.0] == list(OUTLIERS)
    run(path, curator="mc_grpo", settings=("curator.drop_median=false",), filtered=True, overwrite=True)
    advantages = [row["advantage"] for row in filtered(tmp_path / "out")]
    # Rewards 0, 0.1, 0.2, 0.3: below the median 0.15 negative, above it positive.
    assert [advantage > 0 for advantage in advantages[:4]] == [False, False, True, True]
    assert pq.read_table(tmp_path / "out" / "scores.parquet")["advantage"].to_pylist() == advantages


def test_a_generation_that_trl_wrote_again_is_curated_once(tmp_path, run):
    # As for two updates on the rollouts of one generation: another step, other advantages.
    tables = {1: trl(1), 2: trl(2).assign(advantage=1.0), 3: trl(3), 4: trl(4)}
    for step in (3, 4):
        tables[step]["completion"] += "."
    (tmp_path / "in").mkdir()
    for step, table in tables.items():
        table.to_parquet(tmp_path / "in" / f"completions_{step:05}.parquet")
    summary = run(tmp_path / "in")
    names = [str(tmp_path / "in" / f"completions_{step:05}.parquet") for step in tables]
    assert summary["repeated"] == [
        {"file": names[1], "same_as": names[0]},
        {"file": names[3], "same_as": names[2]},
    ]
    assert [one["step"] for one in summary["steps"]] == [1, 3]
    assert summary["counts"]["rows"] == 2 * GROUPS * SIZE
    # One reward more or less is another table.
    tables[2].loc[0, "accuracy_reward"] = 0.05
    tables[2].to_parquet(names[1])
    assert [one["step"] for one in run(tmp_path / "in", overwrite=True)["steps"]] == [1, 2, 3]
