import json
import math
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import torch
from dumps import (
    GROUPS,
    OUTLIERS,
    SIZE,
    each,
    filtered,
    nemo_rl,
    plain,
    trinity,
    trl,
    verifiers,
    verl,
    verl_v1,
    write_dump,
    write_lines,
)

from geoalign.audit.words.other_findings import trained_on
from geoalign.dumps.formats import find_layout
from geoalign.dumps.reading import read_dump, read_rewards
from geoalign.errors import ConfigError, InputError

NAMES = ("verl", "trinity", "responses", "plain", "trl", "geoalign", "nemo_rl", "verifiers", "slime")


def read(path, **given):
    dump = read_dump(path, find_layout(path, **given)[0])
    return SimpleNamespace(layout=dump.layout, rows=list(dump.frame.itertuples()))


@pytest.mark.parametrize("name", NAMES)
def test_found_by_itself_and_read(name, tmp_path):
    path = write_dump(tmp_path, name)
    dump = read(path)
    assert dump.layout.format.name == name
    assert read_rewards(path, dump.layout) == [row.reward for row in dump.rows]
    assert len(dump.rows) == GROUPS * SIZE
    assert [row.reward for row in dump.rows] == [reward for _, _, reward in each()]
    assert [row.sample for row in dump.rows] == [row for _, row, _ in each()]
    assert [row.response for row in dump.rows] == [f"answer {g}.{r}" for g, r, _ in each()]
    assert {row.prompt for row in dump.rows} == {f"question {g}" for g in range(GROUPS)}
    assert len({row.group for row in dump.rows}) == GROUPS
    assert len({row.id for row in dump.rows}) == GROUPS * SIZE


def test_what_else_the_formats_say(tmp_path):
    found = {name: read(write_dump(tmp_path, name)).rows for name in NAMES}
    assert [row.correct for row in found["verl"][:4]] == [False, False, True, True]
    assert found["verl"][5].answer == "1"
    assert found["trinity"][6].tokens == 9
    assert found["geoalign"][14].true_reward == 0.2
    assert found["geoalign"][14].tokens == 7
    assert found["responses"][7].correct is True
    assert found["responses"][7].answer == "1"
    assert found["responses"][7].final_answer == "3"
    assert found["plain"][7].id == "1-3"
    assert (found["verifiers"][7].id, found["verifiers"][7].answer, found["verifiers"][7].step) == ("1-3", "1", 3)
    assert [(row.tokens, row.truncated, row.answer) for row in found["slime"][6:8]] == [(6, False, "1"), (7, True, "1")]


def test_the_answers_in_verls_dump_are_the_responses_own(tmp_path):
    rows = [{**row, "geoalign_answer": str(number)} for number, row in enumerate(verl())]
    dump = read(write_lines(tmp_path / "5.jsonl", rows))
    assert [row.final_answer for row in dump.rows] == [str(number) for number in range(len(rows))]
    assert dump.rows[0].answer == "0"


def test_turns_and_tool_calls_of_an_episode(tmp_path):
    (episode, *_) = verifiers()
    nodes = episode["traces"][0]["nodes"]
    nodes[1]["message"]["tool_calls"] = [{"id": "0", "name": "add", "arguments": '{"a": 1}'}]
    nodes.append({"parent": 1, "message": {"role": "tool", "tool_call_id": "0", "content": "2"}})
    nodes.append({"parent": 0, "sampled": True, "message": {"role": "assistant", "content": "left"}})
    nodes.append({"parent": 2, "sampled": True, "message": {"role": "assistant", "content": "done"}})
    failed = {**episode, "id": "f", "traces": [{**episode["traces"][0], "rewards": {}}]}
    first, second = read(write_lines(tmp_path / "traces.jsonl", [episode, failed])).rows
    assert first.response == '[assistant]\nanswer 0.0\nadd({"a": 1})\n[tool]\n2\n[assistant]\ndone'
    assert first.reward == 0
    assert math.isnan(second.reward)


def test_what_prime_rl_generated_is_set_beside_what_it_trained_on(tmp_path, run):
    late = []
    for step in (9, 10):
        # Begun a step before; four rollouts are trained on in the next batch.
        made = [{**row, "id": f"{step}-{row['id']}"} for row in verifiers(step - 1)]
        cohorts = {"train/all": made, "train/effective": [*late, *made[:20]], "eval/all": made, "eval/effective": made}
        for name, rows in cohorts.items():
            (folder := tmp_path / "in" / "rollouts" / f"step_{step}" / name).mkdir(parents=True)
            write_lines(folder / "traces.jsonl", rows)
        late = made[20:24]
    summary = run(tmp_path / "in")
    assert [one["step"] for one in summary["steps"]] == [9, 10]
    assert summary["counts"]["rows"] == 2 * GROUPS * SIZE
    # Of the two outliers of a step the first is trained on.
    shares = {"44 of 96", "4.5%", "3.8%"}
    assert all(share in trained_on(summary) for share in shares)
    with (tmp_path / "in/rollouts/step_10/train/effective/traces.jsonl").open("ab") as still_written:
        still_written.write(b'{"id": "9-')
    again = trained_on(run(tmp_path / "in", skip_bad=True, overwrite=True))
    assert again == trained_on(summary)
    assert pq.read_table(tmp_path / "out" / "scores.parquet")["trained_on"].to_pylist()[:25] == [True] * 24 + [False]
    evaluated = run(folder.parent, overwrite=True)["counts"]
    assert (evaluated["rows"], evaluated["trained_on"] + evaluated["not_trained_on"]) == (GROUPS * SIZE, 0)


@pytest.mark.parametrize(("rows", "message"), [
    ([{**nemo_rl()[0], "content": [["alone"]]}], "content: expected the texts of two messages or more"),
    ([{**nemo_rl()[0], "token_loss_mask": [[0, 0]]}], "token_loss_mask: expected a prompt and turns of the policy"),
    ([{**verifiers()[0], "traces": ["x"]}], "expected episodes of verifiers or prime-rl, got a field"),
    ([{**verifiers()[0], "traces": []}], "traces: expected one trace that trains the policy, got 0"),
])  # fmt: skip
def test_nested_rows_that_hold_no_rollout(tmp_path, rows, message):
    with pytest.raises(InputError, match=f"line 1: {message}"):
        read(write_lines(tmp_path / "rows.jsonl", rows))


def test_what_torch_saved_is_not_run(tmp_path):
    torch.save({"samples": [pytest.approx]}, tmp_path / "0.pt")
    with pytest.raises(InputError, match=r"0\.pt: expected slime's rollouts"):
        read(tmp_path / "0.pt")


@pytest.mark.parametrize("name", NAMES)
def test_the_rollouts_that_stay_are_a_dump_again(name, tmp_path, run):
    path = write_dump(tmp_path / "in", name)
    before = path.read_bytes()
    summary = run(path, filtered=True)
    assert path.read_bytes() == before
    assert summary["inputs"][0]["format"] == name
    assert summary["counts"]["flagged"] == summary["counts"]["replaced"] == len(OUTLIERS)
    original, again = read(path), read(tmp_path / "out" / "filtered.jsonl")
    assert again.layout.format.name == "plain"
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    assert len(again.rows) == len(original.rows) == len(scores)
    for place, (row, old, score) in enumerate(zip(again.rows, original.rows, scores, strict=True)):
        donor = original.rows[score["source"]]
        assert (row.response, row.reward) == (donor.response, donor.reward)
        # Its place is its own still.
        assert (row.id, row.prompt) == (old.id, old.prompt)
        assert row.group == place // SIZE
        assert (score["file"], score["line"], score["sample"]) == (str(path), old.line, old.sample)
        flagged = (place // SIZE, place % SIZE) in OUTLIERS
        assert (score["source"] != place) == flagged == score["anomalous"]
        assert donor.group == old.group


def test_the_columns_of_the_filtered_rollouts(tmp_path, run):
    """docs/formats.md lists them."""
    run(write_dump(tmp_path / "in", "plain"), filtered=True)
    columns = {"file", "line", "sample", "step", "group", "id", "prompt", "response", "reward", "weight"}
    assert {frozenset(row) for row in filtered(tmp_path / "out")} == {frozenset(columns)}


def test_what_strategies_and_advantages_make_of_the_rollouts(tmp_path, run):
    path = write_dump(tmp_path / "in", "responses")
    summary = run(path, settings=("curator.strategy=drop",), filtered=True)
    assert summary["counts"]["left_out"] == len(OUTLIERS)
    assert len(again := filtered(tmp_path / "out")) == GROUPS * SIZE - len(OUTLIERS)
    assert max(row["reward"] for row in again) < 1
    assert "advantage" not in again[0]
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    left = [row for row in scores if row["source"] == -1]
    assert [(row["reward"], row["new_reward"], row["weight"]) for row in left] == [(9.0, None, 0.0)] * len(OUTLIERS)
    summary = run(path, settings=("curator.strategy=zero_weight",), filtered=True, overwrite=True)
    assert summary["counts"]["zero_weighted"] == len(OUTLIERS)
    weights = [row["weight"] for row in filtered(tmp_path / "out")]
    assert [divmod(place, SIZE) for place, weight in enumerate(weights) if weight != 1.0] == list(OUTLIERS)
    run(path, curator="mc_grpo", settings=("curator.drop_median=false",), filtered=True, overwrite=True)
    advantages = [row["advantage"] for row in filtered(tmp_path / "out")]
    # Rewards 0, 0.1, 0.2, 0.3: below the median 0.15 negative, above it positive.
    assert [advantage > 0 for advantage in advantages[:4]] == [False, False, True, True]
    assert pq.read_table(tmp_path / "out" / "scores.parquet")["advantage"].to_pylist() == advantages


def test_a_table_of_trl_with_conversations_and_several_rewards(tmp_path):
    table = trl()
    table["prompt"] = [[{"role": "user", "content": text}] for text in table["prompt"]]
    table["completion"] = [[{"role": "assistant", "content": text}] for text in table["completion"]]
    table.insert(4, "format_reward", 0.5)
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match=r"got accuracy_reward, format_reward.*--field reward=accuracy_reward\+"):
        read(tmp_path / "t.parquet")
    dump = read(tmp_path / "t.parquet", fields={"reward": "accuracy_reward+format_reward"})
    assert [row.reward for row in dump.rows] == [reward + 0.5 for _, _, reward in each()]
    assert dump.rows[0].messages == ({"role": "user", "content": "question 0"},)
    assert dump.rows[5].response == "answer 1.1"


def test_verl_without_uid_groups_by_prompt_and_with_it_by_its_stem(tmp_path):
    bare = [{key: value for key, value in row.items() if key != "uid"} for row in verl()]
    groups = [row.group_name for row in read(write_lines(tmp_path / "a.jsonl", bare)).rows]
    assert groups == [f"question {g}" for g, _, _ in each()]
    # One prompt drawn twice: two groups where the uid says so.
    twice = [{**row, "input": "question"} for row in verl_v1()]
    groups = [row.group_name for row in read(write_lines(tmp_path / "b.jsonl", twice)).rows]
    assert groups == [f"u-{g}" for g, _, _ in each()]


def test_another_format_by_its_fields(tmp_path):
    rows = [{"q": f"question {g}", "meta": {"rm": r, "ok": r > 1}, "out": f"answer {g}.{n}"} for g, n, r in each()]
    path = write_lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(
        ConfigError, match=r"found no reward and no response and no prompt\. Its fields: q \(text\), meta.rm"
    ) as e:
        read(path)
    assert e.value.options == ("--field", "reward=meta.rm", "--field", "response=out", "--field", "prompt=q")
    dump = read(path, fields={"prompt": "q", "response": "out", "reward": "meta.rm"})
    assert [row.reward for row in dump.rows] == [reward for _, _, reward in each()]
    assert dump.rows[6].response == "answer 1.2"
    # A field that is not named for rewards may hold verdicts.
    verdicts = read(path, fields={"prompt": "q", "response": "out", "reward": "meta.ok"})
    assert [row.reward for row in verdicts.rows] == [float(reward > 1) for _, _, reward in each()]


def test_a_format_by_name(tmp_path):
    path = write_dump(tmp_path, "verl")
    assert read(path, name="plain").layout.format.name == "plain"
    with pytest.raises(ConfigError, match=r"--format: expected one of geoalign, .*; got 'trinty'"):
        read(path, name="trinty")
    for table in (path, write_lines(tmp_path / "t.jsonl", [{"prompt": "a", "advantage": 0.5, "r": 1}])):
        with pytest.raises(ConfigError, match="found no "):
            read(table, name="trl", fields={"reward": "score"} if table == path else {})


def test_a_generation_that_trl_wrote_again_is_curated_once(tmp_path, run):
    # As for two updates on the rollouts of one generation: another step, other advantages.
    tables = {1: trl(1), 2: trl(2).assign(advantage=1.0), 3: trl(3), 4: trl(4)}
    for step in (3, 4):
        tables[step]["completion"] += "."
    (tmp_path / "in").mkdir()
    for step, table in tables.items():
        table.to_parquet(tmp_path / "in" / f"completions_{step:05}.parquet")
    summary = run(tmp_path / "in")
    names = [str(tmp_path / "in" / f"completions_{step:05}.parquet") for step in tables]
    assert summary["repeated"] == [{"file": names[1], "same_as": names[0]}, {"file": names[3], "same_as": names[2]}]
    assert [one["step"] for one in summary["steps"]] == [1, 3]
    assert summary["counts"]["rows"] == 2 * GROUPS * SIZE
    # One reward more or less is another table.
    tables[2].loc[0, "accuracy_reward"] = 0.05
    tables[2].to_parquet(names[1])
    assert [one["step"] for one in run(tmp_path / "in", overwrite=True)["steps"]] == [1, 2, 3]


def test_a_table_of_wandb_is_that_of_trl(tmp_path):
    table, path = trl(1), tmp_path / "completions_1_ab.table.json"
    saved = {"columns": [*table.columns], "data": table.to_numpy().tolist(), "ncols": table.shape[1]}
    path.write_text(json.dumps(saved))
    table.to_parquet(tmp_path / "a.parquet")
    found, same = ([(row.response, row.reward) for row in read(file).rows] for file in (path, tmp_path / "a.parquet"))
    assert found == same
    path.write_text(json.dumps({**saved, "data": [["too short"]]}))
    with pytest.raises(InputError, match=r"ab\.table\.json: expected a table of W&B, columns and data, got zip"):
        read(path)


def test_a_json_file_holds_lines_or_one_array(tmp_path):
    rows = trinity()
    path = write_lines(tmp_path / "trinity.json", rows)
    expected = read(path).rows
    assert len(expected) == GROUPS * SIZE
    for content in (rows, {"version": 1, "data": rows}):
        for indent in (None, 2):
            path.write_text(json.dumps(content, indent=indent))
            found = read(path).rows
            assert [(row.response, row.reward, row.group) for row in found] == [
                (row.response, row.reward, row.group) for row in expected
            ]


def test_one_question_under_two_system_messages_is_two_prompts(tmp_path):
    rows = [{**row, "prompt": "same", "system": f"rule {place // SIZE}"} for place, row in enumerate(plain())]
    dump = read(write_lines(tmp_path / "a.jsonl", rows))
    assert [row.group_name for row in dump.rows[: SIZE + 1]] == ['["rule 0", "same"]'] * SIZE + ['["rule 1", "same"]']
    assert len({row.group for row in dump.rows}) == GROUPS
    bare = read(write_lines(tmp_path / "b.jsonl", [{**row, "system": None} for row in plain()]))
    assert bare.rows[0].group_name == "question 0"
