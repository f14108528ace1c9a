"""What the labels of rows that were drawn at random tell: the verifier's error rates, and what is said of them."""

import json

import numpy as np
import pandas
import pytest
from dumps import table, verdicts, write_lines
from files_of_checks import labelled, read, write

from geoalign import audit
from geoalign.audit.checked_verdicts import CheckedVerdicts, contradicted_prompts
from geoalign.audit.checks import features_of, right_share_guesses
from geoalign.audit.verdicts import claimed
from geoalign.audit.words import in_words
from geoalign.checks.anytime import anytime_intervals
from geoalign.checks.rates import CheckedRate, CheckedRates, checked_rates
from geoalign.errors import ConfigError
from geoalign.intervals import Interval
from geoalign.method.bounds import Bounds
from geoalign.noise.error_rates import ErrorRates

FPR, FNR = "false_positive_rate", "false_negative_rate"


# --- the rates --------------------------------------------------------------------------------------------------------


def test_flags_are_the_same_with_checks_and_without(tmp_path, run, dump, drawn):
    checks = write(tmp_path / "c.csv", labelled(drawn(40)))
    run(dump, curator="denoise", checks=checks, output=tmp_path / "again")
    assert table(tmp_path / "again") == table(tmp_path / "out")


def test_labels_of_rows_that_were_not_drawn_enter_no_rate(tmp_path, run, dump, drawn):
    checks = write(tmp_path / "c.csv", labelled(drawn(20)))
    flagged = [{**row, "label": "0"} for row in read(tmp_path / "out" / "flagged.csv")]
    labels = write(tmp_path / "labels.csv", flagged)
    without = run(dump, curator="denoise", checks=checks, output=tmp_path / "without")
    both = run(dump, curator="denoise", checks=checks, labels=(labels,), output=tmp_path / "both")
    assert both["labels"]["labelled"] == len(flagged)
    assert both["verifier"]["checks"] == without["verifier"]["checks"]


def test_further_verifiers_help_to_predict_the_labels():
    """Of a group's four rows three answer "a". The columns are the answer's share, and the verdicts of j1 and j2."""
    rows = pandas.DataFrame(
        {
            "group": [0, 0, 0, 0],
            "reward": [1.0, 0.0, 1.0, 0.0],
            "compared_answer": ["a", "a", "a", "b"],
            "correct": [None] * 4,
            "probability_wrong": [np.nan] * 4,
            "verdict.j1": [1.0, 1.0, np.nan, -1.0],
            "verdict.j2": [0.0, 1.0, 1.0, 1.0],
            "verdict.scores": [0.1, 0.2, 0.3, 0.4],
        }
    )
    features = features_of(rows, rows["reward"].to_numpy() == 1, probabilities=True)
    assert features.tolist() == [
        [0.75, 1, 0],
        [0.75, 1, 1],
        [0.75, 0.5, 1],
        [0.25, 0, 1],
    ]
    # Two of the three rows that j1 judged, three of the four of j2, and the three rows with the most frequent answer.
    assert right_share_guesses(rows) == pytest.approx([2 / 3, 3 / 4, 3 / 4])


def test_labels_are_predicted_by_what_has_not_seen_them(tmp_path, run, dump, drawn, monkeypatch):
    """By the share of the answer in its group and by `denoise`, but for the latter where it was told the truth."""
    asked = []

    def remembered(*args, **kwargs):
        asked.append(args[3])
        return checked_rates(*args, **kwargs)

    monkeypatch.setattr("geoalign.audit.checks.checked_rates", remembered)
    checks = write(tmp_path / "c.csv", labelled(drawn(20)))
    flagged = [{**row, "label": "0"} for row in read(tmp_path / "out" / "flagged.csv")]
    labels = write(tmp_path / "labels.csv", flagged)
    run(dump, curator="denoise", checks=checks, output=tmp_path / "without")
    run(dump, curator="denoise", checks=checks, labels=(labels,), output=tmp_path / "with")
    by_all, by_shares = asked
    assert (by_all.shape, by_shares.shape) == ((64, 2), (64, 1))
    # Of each prompt four rows of eight answer "a", and two each "b" and "c".
    assert sorted(by_shares[:, 0].tolist()) == [0.25] * 32 + [0.5] * 32


def test_labels_are_not_predicted_by_a_verifier_that_judged_drawn_rows_alone(tmp_path, run, dump, drawn, monkeypatch):
    """The checked rows are among its rows: it would tell them from all others."""
    seen = []

    def remembered(*args, **kwargs):
        seen.append(args[3])
        return checked_rates(*args, **kwargs)

    monkeypatch.setattr("geoalign.audit.checks.checked_rates", remembered)
    checks = write(tmp_path / "c.csv", labelled(drawn(20)))
    judge = ("judge=geoalign.answers.naive:substring",)
    run(dump, curator="denoise", checks=checks, verifiers=judge, output=tmp_path / "all")
    run(dump, curator="denoise", checks=checks, verifiers=judge, verifier_rows=("30",), output=tmp_path / "drawn")
    assert [features.shape[1] for features in seen] == [3, 2]


def test_an_interval_for_every_moment_is_that_of_the_betting(tmp_path, run, dump, drawn):
    rows = labelled(drawn(30))
    checks = write(tmp_path / "c.csv", rows)
    once = run(dump, curator="denoise", checks=checks, output=tmp_path / "once")["verifier"]["checks"]
    summary = run(dump, curator="denoise", checks=checks, anytime=True, output=tmp_path / "always")
    always = summary["verifier"]["checks"]
    wrong = np.array([row["label"] == "wrong" for row in rows])
    rewarded = np.array([row["reward"] == "1.0" for row in rows])
    expected = anytime_intervals(wrong, rewarded, rows=64)[-1]
    assert [always[FPR]["low"], always[FPR]["high"]] == expected.tolist()
    width_always = always[FPR]["high"] - always[FPR]["low"]
    width_once = once[FPR]["high"] - once[FPR]["low"]
    assert width_always > width_once


def test_checks_tell_rates_where_several_answers_may_be_right(tmp_path, run, dump, drawn):
    checks = write(tmp_path / "c.csv", labelled(drawn(64)))
    shared = ("curator.answers=shared",)
    summary = run(dump, curator="denoise", checks=checks, settings=shared, output=tmp_path / "again")
    assert summary["verifier"]["bounds"] is None
    assert summary["verifier"]["rates"][FPR]["by"] == "checks"
    assert summary["verifier"]["rates"][FNR]["low"] == 0.25


def test_checks_tell_rates_where_nothing_can_be_compared(tmp_path, run):
    alone = [{**row, "prompt": f"question {place}"} for place, row in enumerate(verdicts())]
    dump = write_lines(tmp_path / "d.jsonl", alone)
    summary = run(dump, curator="denoise", draw_checks=64, check_with="gold")
    assert in_words(summary).finding.level == "unjudged"
    assert [rate.value for rate in in_words(summary).verifier.rates] == ["25.0%", "25.0%"]


def checked(low, high, count=10):
    rate = CheckedRate((low + high) / 2, low, high, "wilson", count, 1)
    return CheckedVerdicts(CheckedRates(rate, rate), contradicted_prompts=0)


def test_the_best_claim_is_that_of_the_checks_inside_the_bounds():
    bounds = dict.fromkeys((FPR, FNR, "informedness"), Bounds(0.2, 0.6))
    model = ErrorRates((Interval(0.3, 0.25, 0.4),) * 3)
    for checks, told in (
        (checked(0.3, 0.5), (0.4, 0.3, 0.5, "checks")),
        (checked(0.1, 0.3), (0.2, 0.2, 0.3, "checks")),
        # No narrower than what is proved.
        (checked(0.1, 0.7), (0.4, 0.2, 0.6, "bounds")),
        # They deny what the proof rests on.
        (checked(0.0, 0.1), (0.05, 0.0, 0.1, "checks")),
        # No row of the class was checked: nothing is known by checks.
        (checked(0.0, 1.0, count=0), (0.3, 0.25, 0.4, "model")),
    ):
        rate = claimed(bounds, model, checks)[FPR]
        assert (rate["estimate"], rate["low"], rate["high"], rate["by"]) == pytest.approx(told)
    alone = claimed(None, model, checked(0.3, 0.5))
    assert (alone[FPR]["low"], alone[FPR]["high"]) == (0.3, 0.5)
    assert alone["informedness"]["by"] == "checks"


def test_labels_that_deny_the_supposition_of_the_bounds_are_found():
    used = pandas.DataFrame(
        {
            "group": [1, 1, 2, 2, 3, 3, 4],
            "compared_answer": ["a", "b", "a", "a", "a", "b", None],
            "exclusive": True,
        }
    )
    # Prompt 1: two right answers. Prompt 2: one answer both ways. Prompt 3 is as it should be, prompt 4 has no answer.
    assert contradicted_prompts(used, [True, True, True, False, True, False, True]) == 2
    assert contradicted_prompts(used, [True, None, True, None, True, False, True]) == 0
    # Where several answers to prompt 1 may be right, its two right answers deny nothing.
    shared = used.assign(exclusive=used["group"] != 1)
    assert contradicted_prompts(shared, [True, True, True, False, True, False, True]) == 1


def test_nothing_is_proved_where_labels_deny_it(tmp_path, run, dump, drawn):
    rows = [{**row, "label": "right"} for row in drawn(64)]
    summary = run(dump, curator="denoise", checks=write(tmp_path / "c.csv", rows), output=tmp_path / "again")
    verifier = summary["verifier"]
    assert verifier["checks"]["contradicted_prompts"] == 8
    assert (verifier["bounds"], verifier["errors_at_least"]) == (None, 0)
    # All 64 are right and 32 of them refused; there is no wrong row.
    assert verifier["rates"][FNR]["estimate"] == 0.5
    assert verifier["rates"][FPR]["estimate"] is None


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_next_command_draws_then_reads_then_draws_more(tmp_path, run, dump, drawn):
    def following(summary):
        return in_words(summary).verifier.next_command

    assert following(run(dump, curator="denoise", output=tmp_path / "none")).endswith("--draw-checks 50 --overwrite")
    rows = drawn(10)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    out = tmp_path / "out"
    assert following(summary).endswith(f"--checks {out / 'checks.csv'} --output {out}-checked")
    checks = write(tmp_path / "c.csv", labelled(rows))
    summary = run(dump, curator="denoise", checks=checks, output=tmp_path / "again")
    assert f"--draw-checks 20 --checks {checks}" in following(summary)


def test_a_page_shows_what_is_proved_before_what_was_checked(tmp_path, run):
    fooled = [("a", 1)] * 4 + [("b", 1)] * 3 + [("c", 0)]
    rows = [
        {"prompt": f"q{g}", "response": f"\\boxed{{{answer}}}", "answer": "a", "reward": reward}
        for g in range(20) for answer, reward in fooled
    ]  # fmt: skip
    summary = run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise", draw_checks=80, check_with="gold")
    known = [rate.by for rate in in_words(summary).verifier.rates if "rewarded" in rate.name]
    assert [by.split()[0] for by in known] == ["proved", "checked"]


def test_from_python(tmp_path, dump, no_page):
    with pytest.raises(ConfigError, match="draw_checks: expected `output`"):
        audit(dump, draw_checks=10)
    audit(dump, draw_checks=64, output=tmp_path / "out")
    checks = write(tmp_path / "c.csv", labelled(read(tmp_path / "out" / "checks.csv")))
    report = audit(dump, checks=checks)
    assert report.summary["verifier"]["rates"][FNR]["estimate"] == 0.25
    assert audit(dump, draw_checks=64, check_with="gold").summary["verifier"]["rates"][FPR]["estimate"] == 0.25
