import json
import pickle

import pytest
from benchmarks.labelled_sets import SETS, main, rouge

from geoalign.errors import InputError


def converted_rows(name, clone, out):
    main([name, str(clone), str(out)])
    return [json.loads(line) for line in out.read_text().splitlines()]


def put(clone, path, value):
    (clone / path).parent.mkdir(parents=True, exist_ok=True)
    (clone / path).write_text(json.dumps(value))


def test_ratings_of_a_scorer_and_of_people(tmp_path):
    row = {"source": "a", "context": "b", "system_output": "c", "scores": {"overall": 4.5}}
    put(tmp_path, SETS["topical_chat"].path, [{**row, "predict_scores": {"overall": 0.7}}])
    assert converted_rows("topical_chat", tmp_path, tmp_path / "out") == [
        {"group": "ab", "prompt": "ab", "response": "c", "reward": 0.7, "label": 4.5}
    ]


def test_pairs_without_a_rating_are_left_out(tmp_path, capsys):
    pair = {"input": "i", "output_1": "x", "output_2": "y", "label": 2}
    results = [{"score_1": ["N/A", "stop"], "score_2": ["7", "stop"]}]
    put(
        tmp_path, SETS["llmbar"].path + "/Natural/evaluators/ChatGPT/Rating/result.json", [{**pair, "results": results}]
    )
    (row,) = converted_rows("llmbar", tmp_path, tmp_path / "out")
    assert (row["group"], row["response"], row["reward"], row["label"]) == ("Natural 0", "y", 7.0, True)
    assert "1 without reward" in capsys.readouterr().out


def test_summaries_by_a_metric(tmp_path):
    people = {"coherence": 1.0, "consistency": 2.0, "fluency": 3.0, "relevance": 4.0}
    articles = {0: {"src": "s", "ref_summ": "a b", "sys_summs": {0: {"sys_summ": "b c c", "scores": people}}}}
    path = tmp_path / SETS["summeval_rouge"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(articles))
    (row,) = converted_rows("summeval_rouge", tmp_path, tmp_path / "out")
    assert row["label"] == 2.5
    assert row["reward"] == rouge("b c c", "a b") == pytest.approx(2 / 5)
    path.write_bytes(pickle.dumps(pytest.approx))
    with pytest.raises(InputError, match="plain values"):
        converted_rows("summeval_rouge", tmp_path, tmp_path / "out")
