"""`geoalign evaluate` from end to end: scripted answers with known scores, by rule and by reward model."""

import json

import pytest
from evaluating import REWARD, right_until, rows_of, run

from geoalign.dumps.response_files import read_responses
from geoalign.errors import UnscoredError


def test_known_answers_have_known_scores(tiny, files, tmp_path, scripted):
    scripted(right_until({"0": 1, "1": 3, "2": 0, "3": 1, "4": 0, "5": 1}))
    amc = tmp_path / "amc.jsonl"
    amc.write_text("".join(json.dumps({"problem": f"What is {n}+1?", "answer": n + 1.0}) + "\n" for n in (3, 4, 5)))
    found, said = run([tiny], [files[0], f"amc23={amc}"], [], tmp_path / "out", samples={"aime24": 4, "amc23": 1})
    aime, other = found.models[0].sets
    # 1, 3 and 0 of 4; of one response each two are right.
    assert (aime.accuracy.estimate, other.accuracy.estimate) == pytest.approx((4 / 12, 2 / 3))
    assert {k: v.estimate for k, v in aime.pass_at_k.items()} == pytest.approx({1: 1 / 3, 2: 0.5, 4: 2 / 3})
    assert found.models[0].average.estimate == pytest.approx((1 / 3 + 2 / 3) / 2)
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["models"]["tiny"]["sets"]["aime24"]["pass_at_k"]["2"]["estimate"] == pytest.approx(0.5)
    assert written["models"]["tiny"]["average"]["estimate"] == pytest.approx(0.5)
    assert written["settings"]["sets"]["aime24"]["samples"] == 4
    assert "torch" in written["versions"]
    for text in ("aime24 avg@4", "33.3%", "66.7%", "average of 2", "50.0%", "pass@k 1: 33.3%, 2: 50.0%, 4: 66.7%"):
        assert text in " ".join(said.split())
    assert "3 problems, where AIME24 has 30" in said
    assert "of 12 responses 3 cut off at the length limit" in said
    rows = rows_of(tmp_path / "out")
    assert [(row["set"], row["id"], row["sample"], row["correct"]) for row in rows[:5]] == [
        ("aime24", "line 1", 0, True), ("aime24", "line 1", 1, False), ("aime24", "line 1", 2, False),
        ("aime24", "line 1", 3, False), ("aime24", "line 2", 0, True),
    ]  # fmt: skip
    assert (rows[0]["answer"], rows[0]["response"], rows[0]["tokens"]) == ("1", "so \\boxed{1}", 7)
    assert json.loads(rows[0]["prompt"])[1] == {"role": "user", "content": "What is 0+1?"}


def test_hostile_responses_reach_every_file_whole(tiny, files, tmp_path, scripted):
    texts = ["a\ud800b", "\x00\x07\x1b[2J", "\u202e\u2028", "</script>\\boxed{" * 30, "", "💥"]
    scripted(lambda prompt, sample: texts[sample])
    _, said = run([tiny], [files[0]], [files[1]], tmp_path / "out", samples=6, save_responses=tmp_path / "r.jsonl.gz")
    saved = list(read_responses(tmp_path / "r.jsonl.gz").values())
    expected = ["a\ufffdb", *texts[1:]]
    assert [row.response for row in saved[:6]] == expected
    assert [row["response"] for row in rows_of(tmp_path / "out")[:6]] == expected
    assert len(saved) == len({row.key for row in saved}) == 3 * 6 + 2 * 6
    assert {row.set for row in saved} == {"aime24", "helpful"}
    assert saved[0].prompt[-1] == {"role": "user", "content": "What is 0+1?"}
    assert (saved[0].truncated, saved[1].truncated) == (True, False)
    assert "of 18 responses 3 with bytes that are no text, written as U+FFFD" in said
    assert "Dialogues were not scored" in said
    assert "\x1b[2J" not in said


def test_dialogues_are_scored_by_a_reward_model(tiny, files, tmp_path, scripted, reward_model):
    texts = ["long", "x", "longer"]
    scripted(lambda prompt, sample: texts[sample])
    found, said = run([tiny], [], [files[1]], tmp_path / "out", samples=3, reward=REWARD)
    (helpful,) = found.models[0].sets
    assert (helpful.reward.estimate, helpful.unscored, dict(helpful.counts)) == (5.0, 2, {"not_text": 0, "too_long": 2})
    assert reward_model.closed
    assert "of 6 responses 2 too_long, 2 without a score" in said
    assert [row["correct"] for row in rows_of(tmp_path / "out")] == [None] * 6
    assert json.loads((tmp_path / "out" / "results.json").read_text())["models"]["tiny"]["average"] is None


def test_too_few_scores_stop_it_and_nothing_is_lost(tiny, files, tmp_path, scripted, reward_model):
    texts = ["long"] * 3 + ["x"] * 3
    scripted(lambda prompt, sample: texts[sample])
    samples = {"aime24": 1, "helpful": 6}
    with pytest.raises(UnscoredError, match=r"a batch of helpful .*too_long 3.*--resume"):
        run([tiny], [files[0]], [files[1]], tmp_path / "out", samples=samples, reward=REWARD, batch_size=4)
    # Parts of four: long long long x | x x long long | long x x x. The third is not written.
    assert {path.name for path in (tmp_path / "out" / "rows" / "tiny" / "helpful").iterdir()} == {
        "part-00000.parquet", "part-00001.parquet",
    }  # fmt: skip
