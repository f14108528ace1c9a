"""An audit as a log of Inspect. What writes and reads logs by Inspect itself is run by `make test-trackers`."""

import json
import sys

import pandas
import pytest
from dumps import GROUPS, SIZE, write_dump

from geoalign.audit.command import AuditRequest
from geoalign.audit.pipeline import run_audit
from geoalign.audit.settings import load_audit_config
from geoalign.errors import ConfigError, InputError, MissingExtraError


@pytest.fixture
def rollouts(tmp_path):
    return write_dump(tmp_path / "rollouts", "plain")


@pytest.mark.parametrize(("file", "request_", "what"), [
    ("log.jsonl", {}, r"ends in \.eval or \.json"),
    ("out/log.eval", {}, "outside of the audit's folder"),
    ("nowhere/log.eval", {}, "there is no folder"),
    ("there.json", {}, "--overwrite replaces it"),
    ("log.eval", {"redact": True}, "without --redact"),
])  # fmt: skip
def test_a_log_that_cannot_be_is_refused(run, rollouts, tmp_path, file, request_, what):
    (tmp_path / "there.json").write_text("{}")
    with pytest.raises(ConfigError, match=what):
        run(rollouts, export_inspect=tmp_path / file, **request_)
    assert not (tmp_path / "out").exists()


def test_the_audited_log_itself_is_never_written_over(run, tmp_path):
    log = write_dump(tmp_path / "logs", "inspect")
    with pytest.raises(ConfigError, match="another file than the inputs"):
        run(log, export_inspect=log, overwrite=True)


def test_without_inspect_it_says_what_to_install(run, rollouts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MissingExtraError, match="pip install inspect-ai"):
        run(rollouts, export_inspect=tmp_path / "log.eval")


def read_log(path):
    """A log by Inspect itself; the test is skipped where it is not installed."""
    return pytest.importorskip("inspect_ai.log").read_eval_log(str(path))


@pytest.mark.parametrize("ending", ["eval", "json"])
def test_rollouts_become_samples_with_their_epochs(run, rollouts, tmp_path, ending):
    pytest.importorskip("inspect_ai")
    path = tmp_path / f"log.{ending}"
    summary = run(rollouts, export_inspect=path)
    log = read_log(path)
    scores = pandas.read_parquet(tmp_path / "out" / "scores.parquet")
    assert sorted((one.id, one.epoch) for one in log.samples) == [
        (g + 1, r + 1) for g in range(GROUPS) for r in range(SIZE)
    ]
    by_place = {(one.metadata["id"], one.input, one.output.completion): one for one in log.samples}
    for row in scores.itertuples():
        sample = by_place[row.id, row.prompt, row.response]
        assert sample.scores["reward"].value == row.reward
        assert sample.scores["geoalign"].value["flagged"] == int(row.anomalous)
        assert (sample.scores["geoalign"].explanation is not None) == row.anomalous
    assert summary["counts"]["flagged"] > 0
    assert log.results.scores[0].metrics["flagged"].value == scores["anomalous"].mean()


def test_a_call_that_keeps_no_texts_in_memory_has_them_in_the_log(rollouts, tmp_path, no_page):
    pytest.importorskip("inspect_ai")
    path = tmp_path / "log.json"
    request = AuditRequest([str(rollouts)], tmp_path / "out", export_inspect=path)
    run_audit(load_audit_config("denoise", ()), request, with_texts=False)
    texts = {(f"question {g}", f"answer {g}.{r}") for g in range(GROUPS) for r in range(SIZE)}
    assert {(one.input, one.output.completion) for one in read_log(path).samples} == texts


def inspects_own(folder):
    """A log with all that Inspect insists on."""
    path = write_dump(folder, "inspect")
    log = json.loads(path.read_text())
    log["eval"] |= {"created": "2026-01-01T00:00:00+00:00", "config": {}}
    path.write_text(json.dumps(log))
    return path


@pytest.mark.parametrize("ending", ["eval", "json"])
def test_a_log_of_inspect_is_copied_with_one_score_more(run, tmp_path, ending):
    """And the copy, audited, gives the same flags: the score that was added is no reward."""
    inspect_log = pytest.importorskip("inspect_ai.log")
    log = inspects_own(tmp_path / "logs")
    before, copy = tmp_path / f"before.{ending}", tmp_path / f"copy.{ending}"
    inspect_log.write_eval_log(read_log(log), str(before))
    summary = run(before, export_inspect=copy)
    copied = read_log(copy)
    flagged = [one.scores.pop("geoalign").value["flagged"] for one in copied.samples]
    assert sum(flagged) == summary["counts"]["flagged"] > 0
    assert copied.samples == read_log(before).samples
    again = run(copy, output=tmp_path / "again")
    assert again["counts"]["flagged"] == summary["counts"]["flagged"]


def test_rows_without_the_samples_ids_are_refused(run, tmp_path):
    pytest.importorskip("inspect_ai")
    log = inspects_own(tmp_path / "logs")
    with pytest.raises(InputError, match="Leave out --field id="):
        run(log, export_inspect=tmp_path / "copy.json", fields=["id="])
