import json
import math

from geoalign.lab.runs.flagged import flagged_rollouts
from geoalign.lab.runs.numbers import numbers_of
from geoalign.lab.runs.reading import read_run
from geoalign.lab.train.page import before_and_after_rows, curator_totals


def test_a_run_in_progress_shows_its_latest_evaluation(make_run):
    folder = make_run(steps=6)
    lines = (folder / "evaluation.jsonl").read_text().splitlines()
    (folder / "evaluation.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    (row,) = before_and_after_rows(numbers_of(read_run(folder)))
    assert (row.after["stage"], row.after["step"]) == ("rl", 3)
    (folder / "evaluation.jsonl").write_text(lines[0] + "\n")
    (row,) = before_and_after_rows(numbers_of(read_run(folder)))
    assert row.after is None
    assert math.isnan(row.gain)


def test_totals_count_rows_and_sum_metrics(make_run, write_rows):
    folder = make_run(steps=2)
    write_rows(folder, 1, [{"score": 1.0, "anomalous": True, "source": 1}, {"score": 2.0}, {}])
    write_rows(folder, 2, [{"score": 1.0, "anomalous": True}, {}])
    totals = {total.name: total for total in curator_totals(numbers_of(read_run(folder)))}
    assert [totals[name].value for name in ("rollouts", "scored", "flagged", "replaced")] == [5, 3, 2, 1]
    assert totals["replaced"].share == 0.2
    # 310 pairs and one zero displacement at each of two steps; nothing was without a reward, so there is no line on it.
    assert totals["pairs"].value == 620
    assert totals["zero displacements"].value == 2
    assert "unscored rewards" not in totals


def test_flagged_rows_say_what_became_of_each(make_run, write_rows):
    folder = make_run(steps=1)
    flagged = {"anomalous": True, "reward": 1.0}
    rows = [
        {**flagged, "score": 5.0, "true_reward": 0.0, "source": 4, "response": "bad"},  # replaced
        {**flagged, "score": 9.0, "source": -1},  # left out
        {**flagged, "score": 7.0, "weight": 0.0},  # zero weight
        {**flagged, "score": 6.0},  # nothing happened
        {"score": 1.0, "reward": 0.0, "true_reward": 0.0, "response": "good"},
        {"reward": 0.0},
    ]
    write_rows(folder, 1, rows)
    shown = flagged_in(folder)
    assert [(row.row, row.rank) for row in shown] == [(1, 1), (2, 2), (3, 3), (0, 4)]
    assert [row.scored for row in shown] == [5, 5, 5, 5]
    assert [row.outcome.split(":")[0] for row in shown] == [
        "left out of the batch", "weight 0", "unchanged", "replaced by row 4",
    ]  # fmt: skip
    assert (shown[-1].response, shown[-1].donor_response) == ("bad", "good")
    assert [row.flipped for row in shown] == [False, False, False, True]
    assert [bool(row.donor_response) for row in shown] == [False, False, False, True]


def flagged_in(folder):
    """The flagged rollouts of a run's only step."""
    run = read_run(folder)
    return flagged_rollouts(run, run.rollouts[0], 8)


def test_flagged_rows_are_of_many_prompts(make_run, write_rows):
    folder = make_run(steps=1)
    groups = [0, 0, 0, 1, 2]
    rows = [{"anomalous": True, "score": 9.0 - row, "group": group} for row, group in enumerate(groups)]
    write_rows(folder, 1, rows)
    assert [row.row for row in flagged_in(folder)] == [0, 3, 4, 1, 2]


def test_of_denoise_the_probability_is_told_and_whether_the_reward_was_corrected(make_run, write_rows):
    folder = make_run(steps=1, curator="denoise")
    # A score of log(3) is a probability of 3/4. The generation of step 0 is curated for update 1.
    write_rows(folder, 0, [{"anomalous": True, "score": math.log(3)}])
    (folder / "metrics.jsonl").write_text(json.dumps({"stage": "rl", "step": 1, "geoalign/mean_change": 0.2}) + "\n")
    (row,) = flagged_in(folder)
    assert "75%" in row.outcome
    assert "corrected" in row.outcome


def test_amplified_and_only_watched_rollouts(make_run, write_rows):
    folder = make_run(steps=1)
    write_rows(folder, 1, [{"score": 2.0, "anomalous": True}, {"score": 1.0, "source": 0}])
    assert flagged_in(folder)[0].outcome == "amplified: copied over 1 other row(s)"
    write_rows(folder, 1, [{"score": 2.0, "anomalous": True}, {"score": 1.0}])
    (folder / "config.yaml").write_text(json.dumps({"curator": {"type": "monitor"}}))
    assert flagged_in(folder)[0].outcome == "unchanged: the curator only watches"
