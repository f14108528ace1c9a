"""`geoalign evaluate` from end to end: scripted answers with known scores, by rule and by reward model."""

import json

import pytest
from evaluating import REWARD, right_until, rows_of, run, run_folder

from geoalign.dumps.response_files import read_responses
from geoalign.errors import UnscoredError


def test_known_answers_have_known_scores(tiny, files, tmp_path, scripted):
    scripted(right_until({"0": 1, "1": 3, "2": 0, "3": 1, "4": 0, "5": 1}))
    amc = tmp_path / "amc.jsonl"
    problems = [{"problem": f"What is {n}+1?", "answer": n + 1.0} for n in (3, 4, 5)]
    amc.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    samples = {"aime24": 4, "amc23": 1}
    found, said = run([tiny], [files[0], f"amc23={amc}"], [], tmp_path / "out", samples=samples)
    aime, other = found.models[0].sets
    # 1, 3 and 0 of 4; of one response each two are right.
    assert (aime.accuracy.estimate, other.accuracy.estimate) == pytest.approx((4 / 12, 2 / 3))
    pass_at_k = {k: interval.estimate for k, interval in aime.pass_at_k.items()}
    assert pass_at_k == pytest.approx({1: 1 / 3, 2: 0.5, 4: 2 / 3})
    assert found.models[0].average.estimate == pytest.approx((1 / 3 + 2 / 3) / 2)
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    of_model = written["models"]["tiny"]
    of_aime = of_model["sets"]["aime24"]
    assert of_aime["pass_at_k"]["2"]["estimate"] == pytest.approx(0.5)
    assert of_model["average"]["estimate"] == pytest.approx(0.5)
    assert of_aime["samples"] == 4
    assert "torch" in written["versions"]
    for text in ("aime24 avg@4", "33.3%", "66.7%", "average of 2", "50.0%", "pass@k 1: 33.3%, 2: 50.0%, 4: 66.7%"):
        assert text in " ".join(said.split())
    assert "3 problems, where AIME24 has 30" in said
    assert "of 12 responses 3 cut off at the length limit" in said
    rows = rows_of(tmp_path / "out")
    assert [(row["set"], row["id"], row["sample"], row["correct"]) for row in rows[:5]] == [
        ("aime24", "line 1", 0, True),
        ("aime24", "line 1", 1, False),
        ("aime24", "line 1", 2, False),
        ("aime24", "line 1", 3, False),
        ("aime24", "line 2", 0, True),
    ]
    first = rows[0]
    assert (first["answer"], first["response"], first["tokens"]) == ("1", "so \\boxed{1}", 7)
    assert json.loads(first["prompt"])[1] == {"role": "user", "content": "What is 0+1?"}


def test_hostile_responses_reach_every_file_whole(tiny, files, tmp_path, scripted):
    texts = ["a\ud800b", "\x00\x07\x1b[2J", "\u202e\u2028", "</script>\\boxed{" * 30, "", "💥"]
    scripted(lambda prompt, sample: texts[sample])
    responses = tmp_path / "r.jsonl.gz"
    _, said = run([tiny], [files[0]], [files[1]], tmp_path / "out", samples=6, save_responses=responses)
    saved = list(read_responses(responses).values())
    expected = ["a\ufffdb", *texts[1:]]
    assert [row.response for row in saved[:6]] == expected
    assert [row["response"] for row in rows_of(tmp_path / "out")[:6]] == expected
    assert len(saved) == len({row.key for row in saved}) == 3 * 6 + 2 * 6
    assert {row.set for row in saved} == {"aime24", "helpful"}
    assert saved[0].prompt[-1] == {"role": "user", "content": "What is 0+1?"}
    assert (saved[0].truncated, saved[1].truncated) == (True, False)
    assert "of 18 responses 18 without an answer in a box" in " ".join(said.split())
    assert "Dialogues were not scored" in said
    assert "\x1b[2J" not in said


def test_dialogues_are_scored_by_a_reward_model(tiny, files, tmp_path, scripted, reward_model):
    texts = ["long", "x", "longer"]
    scripted(lambda prompt, sample: texts[sample])
    found, said = run([tiny], [], [files[1]], tmp_path / "out", samples=3, reward=REWARD)
    (helpful,) = found.models[0].sets
    assert (helpful.reward.estimate, helpful.unscored, dict(helpful.counts)) == (5.0, 2, {"too_long": 2})
    assert reward_model.closed
    assert "of 6 responses 2 without a score (too_long)" in said
    assert [row["reason"] for row in rows_of(tmp_path / "out")] == [None, "too_long", None] * 2
    assert [row["correct"] for row in rows_of(tmp_path / "out")] == [None] * 6
    assert json.loads((tmp_path / "out" / "results.json").read_text())["models"]["tiny"]["average"] is None


def test_too_few_scores_stop_it_and_nothing_is_lost(tiny, files, tmp_path, scripted, reward_model):
    texts = ["long"] * 3 + ["x"] * 3
    scripted(lambda prompt, sample: texts[sample])
    samples = {"aime24": 1, "helpful": 6}
    with pytest.raises(UnscoredError, match=r"the responses to helpful .*too_long 3.*--resume"):
        run([tiny], [files[0]], [files[1]], tmp_path / "out", samples=samples, reward=REWARD, batch_size=4)
    # Parts of four: long long long x | x x long long | long x x x. The third is not written.
    written = [row for row in rows_of(tmp_path / "out") if row["set"] == "helpful"]
    assert [row["sample"] for row in written] == [0, 1, 2, 3, 4, 5, 0, 1]


def test_sets_are_called_anything(tiny, files, tmp_path, scripted, reward_model):
    """Words of ours, of the paper's, and what no folder could be called: nothing follows from a name."""
    scripted(lambda prompt, sample: "so \\boxed{1}")
    problems = files[0].partition("=")[2]
    talks = files[1].partition("=")[2]
    root = run_folder(tmp_path / "average", tiny, [10, 20], final=False)
    benchmarks = [f"{name}={problems}" for name in ("average", "AIME24", "../up: *", "reward")]
    dialogues = [f"{name}={talks}" for name in ("aime24", "Average", "problems")]
    found, said = run([root], benchmarks, dialogues, tmp_path / "out", checkpoints=True, reward=REWARD)
    (first, _) = found.models
    sets = {one.name: (one.kind, one.samples) for one in first.sets}
    assert sets == {
        **dict.fromkeys(("average", "AIME24", "../up: *", "reward"), ("benchmark", 1)),
        **dict.fromkeys(("aime24", "Average", "problems"), ("dialogue", 1)),
    }
    assert {one.accuracy.estimate for one in first.sets[:4]} == {first.average.estimate} == {1 / 3}
    assert {one.reward.estimate for one in first.sets[4:]} == {12.0}
    assert list(found.curves["average"].sets) == list(sets)
    assert found.curves["average"].average.values == (1 / 3, 1 / 3)
    assert "AIME24 is a set of your own: the paper's AIME24 is called aime24 here" in said
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(written["models"]["average-step-000010"]["sets"]) == list(sets)
