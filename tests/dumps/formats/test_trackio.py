import json
import math

import pandas as pd
import pytest
from dumps import GROUPS, SIZE, all_responses, all_rewards, each, trackio, trl, write_trackio
from written import read

from geoalign.adapters.trl.flagged_traces import FLAGGED
from geoalign.errors import InputError


def test_traces_of_a_database_and_of_its_parquet(tmp_path):
    database = write_trackio(tmp_path / "project.db", trackio())
    rows = [{**row, "messages": row["messages"].decode(), "metadata": row["metadata"].decode()} for row in trackio()]
    pd.DataFrame(rows).to_parquet(tmp_path / "traces.parquet")
    for path in (database, tmp_path / "traces.parquet"):
        layout, found = read(path)
        assert layout.format.name == "trackio"
        assert [row.prompt for row in found] == [f"question {group}" for group, _, _ in each()]
        assert [row.response for row in found] == all_responses()
        assert [row.reward for row in found] == all_rewards()
        assert (found[7].step, found[7].group_name, found[7].answer) == (3, "1", "1")


def test_a_reward_of_any_name_is_named(tmp_path):
    traces = trackio()
    for trace in traces:
        reward = json.loads(trace["metadata"])["reward"]
        trace["metadata"] = json.dumps({"exact": reward}).encode()
    path = write_trackio(tmp_path / "project.db", traces)
    with pytest.raises(Exception, match=r"--field reward=metadata\.exact"):
        read(path)
    _, found = read(path, fields={"reward": "metadata.exact"})
    assert [row.reward for row in found] == all_rewards()


def test_tables_of_trl_come_first_each_once(tmp_path):
    first = trl(1)
    first.loc[0, "accuracy_reward"] = math.nan
    as_written = first.replace({math.nan: "NaN"})
    tables = [("quick", 1, as_written), ("quick", 2, as_written), ("quick", 3, trl(2))]
    layout, found = read(write_trackio(tmp_path / "project.db", trackio(), tables))
    assert layout.format.name == "trl"
    assert len(found) == 2 * GROUPS * SIZE
    assert math.isnan(found[0].reward)
    assert [row.reward for row in found[1:3]] == all_rewards()[1:3]


@pytest.mark.parametrize(("traces", "tables"), [
    ([*trackio("a"), *trackio("b")], []),
    ([], [("a", 1, trl(1)), ("b", 1, trl(1))]),
])  # fmt: skip
def test_several_runs_are_refused_with_the_way_out(traces, tables, tmp_path):
    with pytest.raises(InputError, match=r"row 1: .*2 runs \(a, b\): copy the file, .*delete from \w+ where run_name"):
        read(write_trackio(tmp_path / "project.db", traces, tables))


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00 and more", b"no database"])
def test_what_is_no_project_is_refused(content, tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected a project of trackio"):
        read(path)


def test_the_flagged_rollouts_of_a_training_are_passed_over(tmp_path):
    traces = trackio()
    for trace in traces[:4]:
        trace["key"] = FLAGGED
    _, found = read(write_trackio(tmp_path / "project.db", traces))
    assert len(found) == GROUPS * SIZE - 4
    with pytest.raises(InputError, match="without tables of completions and without traces"):
        read(write_trackio(tmp_path / "flagged.db", traces[:4]))


def test_flagged_rollouts_in_a_table_of_parquet_are_refused(tmp_path):
    path = tmp_path / "traces.parquet"
    pd.DataFrame([{**trace, "key": FLAGGED} for trace in trackio()]).to_parquet(path)
    with pytest.raises(InputError, match="key: expected a rollout that was not chosen for its flag"):
        read(path)
