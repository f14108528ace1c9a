"""Evaluations in training keep their responses, in rows such as `geoalign evaluate` writes."""

import pyarrow.parquet as pq
import pytest

from geoalign.files.json_files import read_lines
from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.models.accuracy import evaluation_values
from geoalign.lab.models.rows import SCHEMA, ResponseRow


def test_the_rows_of_each_evaluation_come_to_its_line(tiny, train_here, tmp_path):
    train_here(tiny(evaluation={"every": 2, "samples": 2, "pass_samples": 4}), tmp_path / "run")
    lines = read_lines(tmp_path / "run" / "evaluation.jsonl")
    assert [(line["step"], line["samples"]) for line in lines] == [(0, 2), (2, 2), (4, 4)]
    for line in lines:
        table = pq.read_table(tmp_path / "run" / "responses" / f"step-{line['step']:06d}.parquet")
        assert table.schema.equals(SCHEMA)
        rows = [ResponseRow(**row) for row in table.to_pylist()]
        # 4 problems, each with so many responses.
        assert len({(row.model, row.set, row.id, row.sample) for row in rows}) == 4 * line["samples"]
        evaluation_set = EvaluationSet(
            name=line["set"], kind="benchmark", problems=[], samples=line["samples"], max_new_tokens=5
        )
        values = evaluation_values(evaluation_set, rows, [None] * len(rows))
        assert values == {name: line[name] for name in values}


@pytest.mark.parametrize("name", ["average", "*", "aime24", "references"])
def test_a_set_is_called_anything(tiny, train_here, tmp_path, name):
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(f'{{"problem": "{n}+1=", "answer": "{n + 1}"}}\n' for n in range(8)))
    task = {"type": "math", "train": str(problems), "evaluation": {name: str(problems)}}
    settings = tiny(evaluation={"every": None, "problems": 2})
    settings = {**settings, "task": task, "sft": None}
    summary = train_here(settings, tmp_path / "run")
    assert list(summary["reward"]["after_rl"]) == [name]
