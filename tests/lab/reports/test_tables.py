import json
import math

from geoalign.lab.reports.page import curator_totals, evaluation_rows, flagged_rows
from geoalign.lab.store.read_run import read_run


def test_a_run_in_progress_shows_its_latest_evaluation(make_run):
    folder = make_run(steps=6)
    lines = (folder / "evaluation.jsonl").read_text().splitlines()
    (folder / "evaluation.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    (row,) = evaluation_rows(read_run(folder))
    assert (row.after.stage, row.after.step) == ("rl", 3)
    (folder / "evaluation.jsonl").write_text(lines[0] + "\n")
    (row,) = evaluation_rows(read_run(folder))
    assert row.after is None
    assert math.isnan(row.gain)


def test_totals_count_rows_and_sum_metrics(make_run, write_rows):
    folder = make_run(steps=2)
    write_rows(folder, 1, [{"score": 1.0, "anomalous": True, "source": 1}, {"score": 2.0}, {}])
    write_rows(folder, 2, [{"score": 1.0, "anomalous": True}, {}])
    totals = {total.name: total for total in curator_totals(read_run(folder))}
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
    shown, total = flagged_rows(read_run(folder))
    assert total == 4
    assert [(row["row"], row["rank"], row["scored"]) for row in shown] == [(1, 1, 5), (2, 2, 5), (3, 3, 5), (0, 4, 5)]
    assert [row["outcome"].split(":")[0] for row in shown] == [
        "left out of the batch", "weight 0", "unchanged", "replaced by row 4",
    ]  # fmt: skip
    last = shown[-1]
    names = ("response", "donor_row", "donor_response", "donor_reward")
    assert [last[name] for name in names] == ["bad", 4, "good", 0.0]
    assert [row["flipped"] for row in shown] == [False, False, False, True]
    assert [row["donor_row"] for row in shown] == [None, None, None, 4]


def test_amplified_and_only_watched_rollouts(make_run, write_rows):
    folder = make_run(steps=1)
    write_rows(folder, 1, [{"score": 2.0, "anomalous": True}, {"score": 1.0, "source": 0}])
    assert flagged_rows(read_run(folder))[0][0]["outcome"] == "amplified: copied over 1 other row(s)"
    write_rows(folder, 1, [{"score": 2.0, "anomalous": True}, {"score": 1.0}])
    (folder / "config.yaml").write_text(json.dumps({"curator": {"type": "monitor"}}))
    assert flagged_rows(read_run(folder))[0][0]["outcome"] == "unchanged: the curator only watches"
