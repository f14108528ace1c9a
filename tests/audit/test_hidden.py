"""Hidden states from files, by row; the projector stays warm over the dumps."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from dumps import GROUPS, QUICK, ROWS, SIZE, responses, verl, write_dump, write_lines

from geoalign import GeoAlign, Rollouts
from geoalign.audit.settings import load_audit_config
from geoalign.errors import ConfigError, InputError


def states(seed=0, rows=ROWS, width=16):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def save_npy(path, values):
    np.save(path, values.numpy())
    return path


def test_the_same_as_the_library_step_by_step(tmp_path, run):
    paths = [write_lines(tmp_path / f"{step}.jsonl", verl(step)) for step in (10, 9)]
    files = [save_npy(tmp_path / "10.npy", states(10)), save_npy(tmp_path / "9.npy", states(9))]
    summary = run(*paths, curator="geoalign", hidden=files, settings=(*QUICK, "seed=3"))
    # By step, whatever the order of the arguments; each dump with its own states.
    assert [one["step"] for one in summary["steps"]] == [9, 10]
    curator = GeoAlign(load_audit_config("geoalign", QUICK).curator)
    generator = torch.Generator().manual_seed(3)
    rewards = torch.tensor([row["score"] for row in verl()], dtype=torch.float64)
    groups = torch.arange(ROWS) // SIZE
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    found = []
    for step in (9, 10):
        # Any numbers do for groups, as long as they sort alike.
        rollouts = Rollouts(rewards=rewards, groups=groups, hidden=states(step))
        curation = curator.curate(rollouts, generator=generator)
        found += curation.scores.tolist()
    assert [row["score"] for row in scores] == found
    # The second step was judged by what the first one had taught.
    assert summary["steps"][0]["metrics"]["geoalign/new_group_accuracy"] is None
    assert summary["steps"][1]["metrics"]["geoalign/new_group_accuracy"] == summary["consensus"]["new_group_accuracy"]
    assert summary["consensus"]["groups"] == GROUPS
    assert summary["hidden"]["from"] == "file"
    assert summary["hidden"]["files"][0] == {"file": str(files[1]), "shape": [ROWS, 16], "dtype": "float32"}


def test_pairs_and_density_are_written(tmp_path, run, monkeypatch):
    monkeypatch.setattr("geoalign.audit.step.PAIRS_PER_STEP", 13)
    path = write_dump(tmp_path / "in", "verl")
    hidden = save_npy(tmp_path / "h.npy", states())
    summary = run(path, curator="geoalign", hidden=[hidden], settings=(*QUICK, "curator.alpha=0.6"))
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    pairs = pq.read_table(tmp_path / "out" / "pairs.parquet").to_pylist()
    density = pq.read_table(tmp_path / "out" / "densities.parquet").to_pylist()
    assert summary["counts"]["flagged"] > 0
    for pair in pairs:
        better, worse = scores[pair["better"]], scores[pair["worse"]]
        assert better["reward"] > worse["reward"]
        assert better["group"] == worse["group"] == pair["group"]
        assert pair["deviation"] == pytest.approx(1 - pair["projected_cosine"], abs=1e-6)
    flagged = {row["group"] for row in scores if row["anomalous"]}
    # Six pairs in each group of four different rewards: all of flagged groups, two whole groups of the others.
    assert len(pairs) == 6 * len(flagged) + 6 * 2
    assert summary["pairs_left_out"] == 6 * (GROUPS - len(flagged) - 2)
    assert {row["group_pairs"] for row in scores} == {6}
    assert min(row["score"] for row in scores if row["anomalous"]) >= density[0]["threshold"]
    assert density[0]["peak"] == pytest.approx(max(row["density"] for row in density), rel=1e-3)


def test_one_dump_alone_is_judged_by_cross_fitting(tmp_path, run):
    path = write_dump(tmp_path / "in", "verl")
    # The first column tells better from worse: a consensus that anything finds.
    values = states() * 0.01
    values[:, 0] += torch.tensor([row["score"] for row in verl()])
    hidden = save_npy(tmp_path / "h.npy", values)
    raw = ("curator.projector=null", "curator.min_scores=8")
    found = run(path, curator="geoalign", hidden=[hidden], settings=raw)["consensus"]
    assert found["groups"] == GROUPS // 2  # one fold is counted
    assert found["new_group_accuracy"] > 0.9
    assert found["new_group_accuracy_low"] > found["chance_accuracy"] == 0.5
    # With a second dump, which is judged by what the first one had taught, nothing is cross-fitted.
    second = write_lines(tmp_path / "second.jsonl", verl(6))
    found = run(path, second, curator="geoalign", hidden=[hidden] * 2, settings=QUICK, overwrite=True)["consensus"]
    assert (found["groups"], found["steps"]) == (GROUPS, 1)


BAD_STATES = {
    "too few": (states(rows=47), r"expected 48 rows, one for each rollout of .*verl.jsonl.* got shape \(47, 16\)"),
    "too many": (states(rows=49), r"got shape \(49, 16\)"),
    "one column": (states(width=1), r"at least 2 columns, got shape \(48, 1\)"),
    "three dimensions": (states().reshape(48, 4, 4), r"got shape \(48, 4, 4\)"),
    "whole numbers": (states().long(), r"expected floating-point numbers of 16, 32 or 64 bits, got torch.int64"),
    "not finite": (states().index_fill(0, torch.tensor([5]), torch.nan), r"h.npy: hidden: expected finite .* row 5"),
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_states_that_do_not_fit_are_refused_by_name(kind, tmp_path, run):
    values, message = BAD_STATES[kind]
    path = write_dump(tmp_path / "in", "verl")
    with pytest.raises(InputError, match=message) as caught:
        run(path, curator="geoalign", hidden=[save_npy(tmp_path / "h.npy", values)], settings=QUICK)
    assert "h.npy" in str(caught.value)
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize(("names", "more", "message"), [
    (["h.npy", "h.npy"], {}, r"expected a file for each of the 1 dumps, .* got 2 file\(s\)"),
    (["no.npy"], {}, r"no.npy: expected a file .* got none there"),
    (["in/verl.jsonl"], {}, r"expected a file whose name ends in .safetensors or .npy, got another"),
    (["in"], {}, r"expected verl.safetensors or verl.npy for .* got neither"),
    (["h.npy"], {"model": "some/model"}, "--hidden: expected without --model"),
])  # fmt: skip
def test_which_states_belong_to_which_dump(tmp_path, run, names, more, message):
    path = write_dump(tmp_path / "in", "verl")
    save_npy(tmp_path / "h.npy", states())
    with pytest.raises(ConfigError, match=message):
        run(path, curator="geoalign", hidden=[tmp_path / name for name in names], **more)


def test_states_stay_aligned_when_rows_are_skipped(tmp_path, run):
    rows = verl()
    rows[5]["score"] = "bad"
    path = write_lines(tmp_path / "dump.jsonl", rows)
    h = save_npy(tmp_path / "h.npy", states())
    run(path, curator="geoalign", hidden=[h], settings=QUICK, skip_bad=True)
    kept = [place for place in range(ROWS) if place != 5]
    rewards = torch.tensor([rows[place]["score"] for place in kept], dtype=torch.float64)
    rollouts = Rollouts(rewards=rewards, groups=torch.tensor(kept) // SIZE, hidden=states()[kept])
    curator = GeoAlign(load_audit_config("geoalign", QUICK).curator)
    expected = curator.curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert pq.read_table(tmp_path / "out" / "scores.parquet")["score"].to_pylist() == expected.scores.tolist()
    # A bad line hides how many responses its prompt had.
    lists = write_lines(tmp_path / "lists.jsonl", responses())
    lists.write_text(lists.read_text().replace('{"idx": 4', '{"idx" 4'))
    with pytest.raises(InputError, match=r"expected a dump whose rollouts can be counted, .*where row 5"):
        run(lists, curator="geoalign", hidden=[h], skip_bad=True, output=tmp_path / "lists")
