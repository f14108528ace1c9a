import gzip
import json
import sqlite3

import pandas as pd
import pyarrow.parquet as pq
import torch

from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump

GROUPS, SIZE = 12, 4
ROWS = GROUPS * SIZE
# Rollouts whose reward lies far from its group's: (group, row).
OUTLIERS = ((3, 2), (8, 1))
# As few steps of the projector as still train something.
QUICK = ("curator.projector.steps=5", "curator.min_scores=8")
HOSTILE = (
    "</script><script>alert(1)</script>", "half a pair \ud800 of surrogates", "NUL \x00 and bell \x07",
    "line \u2028 and \u2029 paragraph", "right \u202e to left", "=HYPERLINK(1)",
)  # fmt: skip


def rewards():
    """[group][row]: 0 to 0.3, but 9 for the outliers."""
    found = [[row / 10 for row in range(SIZE)] for _ in range(GROUPS)]
    for group, row in OUTLIERS:
        found[group][row] = 9.0
    return found


def each():
    """(group, row, reward) of every rollout."""
    of_groups = rewards()
    return [(group, row, of_groups[group][row]) for group in range(GROUPS) for row in range(SIZE)]


def all_rewards():
    """The reward of every rollout, as any format has to give it back."""
    return [reward for _, _, reward in each()]


def all_responses():
    return [f"answer {group}.{row}" for group, row, _ in each()]


def verl(step=5):
    return [
        {"input": f"question {g}", "output": f"answer {g}.{r}", "gts": str(g), "score": reward, "step": step,
         "acc": reward > 0.15, "uid": f"7f3a_{g}_{r}_0"}
        for g, r, reward in each()
    ]  # fmt: skip


def verl_v1(step=5):
    rows = verl(step)
    for row, (g, r, _) in zip(rows, each(), strict=True):
        row["uid"] = f"u-{g}_{r}_0"
    return rows


def trinity(batch=3):
    return [
        {"eid": {"batch": batch, "task": g, "run": r, "step": 0, "suffix": f"{g:03x}{r:03x}"}, "type": "single_turn",
         "prompt_length": 5, "response_length": 7 + r, "info": {"model_version": 2}, "metrics": {},
         "prompt_text": f"question {g}", "response_text": f"answer {g}.{r}", "reward": reward}
        for g, r, reward in each()
    ]  # fmt: skip


def responses():
    return [
        {"idx": g, "query": f"question {g}", "answer": str(g), "history": [],
         "response": [f"answer {g}.{r}" for r in range(SIZE)], "pred": [str(r) for r in range(SIZE)],
         "score": [r > 1 for r in range(SIZE)], "pred_score": [[value] for value in rewards()[g]]}
        for g in range(GROUPS)
    ]  # fmt: skip


def plain():
    return [
        {"id": f"{g}-{r}", "prompt": f"question {g}", "response": f"answer {g}.{r}", "reward": reward, "extra": [g, r]}
        for g, r, reward in each()
    ]


def nemo_rl():
    """A list of one in each field, as a batch cut into samples leaves them."""
    return [
        {"content": [[f"question {g}", f"answer {g}.{r}", "Environment: correct"]], "rewards": [reward],
         "token_loss_mask": [[0, 1, 1, 0, 0]], "input_lengths": [4], "token_ids": [[3, 4, 4, 5, 0]], "idx": place}
        for place, (g, r, reward) in enumerate(each())
    ]  # fmt: skip


def verifiers(step=3):
    """As prime-rl's `traces.jsonl`: reward 2 x 0.5 x r, one unscored part beside it."""
    user = [
        {"message": {"role": "user", "content": [{"type": "text", "text": f"question {n}"}]}} for n in range(GROUPS)
    ]
    return [
        {"id": f"{g}-{r}", "env": {"id": "sums"}, "ok": True, "group": {"id": f"g{g}"},
         "task": {"type": "Sum", "data": {"idx": g, "answer": str(g)}, "hash": "h"},
         "run": {"type": "train", "id": "x", "work": {"type": "train", "step": step}},
         "traces": [
             {"agent": {"name": "solver"}, "rewards": {"right": {"score": reward * 2, "weight": 0.5}, "style": None},
              "nodes": [user[g], {"parent": 0, "sampled": True,
                                  "message": {"role": "assistant", "content": f"answer {g}.{r}"}}]},
             {"agent": {"name": "judge", "trainable": False}, "nodes": []},
         ]}
        for g, r, reward in each()
    ]  # fmt: skip


def nemo_gym():
    """As `BaseVerifyResponse` of NeMo-Gym with what the collection adds; math_with_judge adds the answers."""
    return [
        {"responses_create_params": {"input": [{"role": "user", "content": f"question {g}", "type": "message"}]},
         "response": {
             "object": "response", "incomplete_details": {"reason": "max_output_tokens"} if r == 3 else None,
             "output": [
                 {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                 {"type": "message", "role": "assistant", "status": "completed",
                  "content": [{"type": "output_text", "text": f"answer {g}.{r}", "annotations": []}]}],
             "usage": {"input_tokens": 3, "output_tokens": 5 + r, "total_tokens": 8 + r}},
         "reward": reward, "expected_answer": str(g), "extracted_answer": str(r), "library_reward": reward,
         "_ng_task_index": g, "_ng_rollout_index": r, "agent_ref": {"type": "responses_api_agents", "name": "simple"}}
        for g, r, reward in each()
    ]  # fmt: skip


def verifiers_results():
    """As `state_to_output` of verifiers writes lines of `results.jsonl`."""
    return [
        {"example_id": g, "prompt": [{"role": "user", "content": f"question {g}"}],
         "completion": [{"role": "assistant", "content": f"answer {g}.{r}"}], "answer": str(g), "info": {},
         "reward": reward, "error": None, "timing": {"total_ms": 1.5}, "is_completed": True, "is_truncated": r == 3,
         "stop_condition": "has_final_env_response", "metrics": {"correct": reward}, "tool_defs": None,
         "token_usage": {"input_tokens": 3.0, "output_tokens": 5.0 + r}}
        for g, r, reward in each()
    ]  # fmt: skip


def inspect(samples_only=False):
    """As Inspect's `.json` log with one scorer, of which each epoch is one rollout of a sample."""
    samples = [
        {"id": f"s{g}", "epoch": r + 1, "input": f"question {g}", "target": str(g),
         "messages": [
             {"id": "a", "role": "user", "source": "input", "content": f"question {g}"},
             {"id": "b", "role": "assistant", "source": "generate", "model": "m",
              "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": f"answer {g}.{r}"}]}],
         "output": {
             "model": "m", "completion": f"answer {g}.{r}", "usage": {"input_tokens": 3, "output_tokens": 5 + r},
             "choices": [{"message": {"role": "assistant", "content": f"answer {g}.{r}"},
                          "stop_reason": "max_tokens" if r == 3 else "stop"}]},
         "scores": {"match": {"value": reward, "answer": str(r), "history": []}}, "metadata": {}, "store": {}}
        for g, r, reward in each()
    ]  # fmt: skip
    header = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "m", "dataset": {}}, "plan": {}}
    return samples if samples_only else {**header, "samples": samples}


def trackio(run="quick"):
    """As rows of the table `traces` in a trackio database, messages and metadata as bytes of JSON."""
    return [
        {"id": f"{run}:{g}:completions:{r}", "run_id": f"id of {run}", "timestamp": f"2026-01-01T00:{g:02}:{r:02}",
         "run_name": run, "step": 3, "key": "completions", "trace_index": r,
         "messages": json.dumps([
             {"role": "user", "content": f"question {g}"}, {"role": "assistant", "content": f"answer {g}.{r}"},
         ]).encode(),
         "metadata": json.dumps({"reward": reward, "group": g, "gold": str(g)}).encode(),
         "search_text": "", "log_id": None, "space_id": None}
        for g, r, reward in each()
    ]  # fmt: skip


def write_trackio(path, traces=(), tables=()):
    """A database of trackio with the columns that matter; a table is a run's name, a step and a data frame."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id, run_name, step, metrics)")
        names = list(trackio()[0])
        database.execute(f"CREATE TABLE traces ({', '.join(names)})")
        for run, step, frame in tables:
            content = {"completions": {"_type": "trackio.table", "_value": frame.to_dict(orient="records")}}
            for metrics in ({"loss": 0.5}, content):
                values = (f"id of {run}", run, step, json.dumps(metrics).encode())
                database.execute("INSERT INTO metrics (run_id, run_name, step, metrics) VALUES (?, ?, ?, ?)", values)
        marks = ", ".join("?" for _ in names)
        database.executemany(f"INSERT INTO traces VALUES ({marks})", [tuple(trace.values()) for trace in traces])
    database.close()
    return path


def slime(step=7):
    samples = [
        {"group_index": g, "index": place, "prompt": f"question {g}", "response": f"answer {g}.{r}", "label": str(g),
         "response_length": 4 + r, "reward": reward, "status": "truncated" if r == 3 else "completed",
         "tokens": [1, 2], "rollout_log_probs": [-0.1]}
        for place, (g, r, reward) in enumerate(each())
    ]  # fmt: skip
    return {"rollout_id": step, "samples": samples}


def trl(step=2):
    return pd.DataFrame(
        {"step": step, "prompt": f"question {g}", "completion": f"answer {g}.{r}", "accuracy_reward": reward,
         "advantage": 0.0}
        for g, r, reward in each()
    )  # fmt: skip


def geoalign_run(step=4):
    rows = [
        {"step": step, "row": place, "group": g, "sample": r, "prompt": f"question {g}", "response": f"answer {g}.{r}",
         "reward": reward, "true_reward": r / 10, "corrupted": reward > 1, "score": None, "anomalous": False,
         "source": place, "weight": 1.0, "tokens": 5 + r}
        for place, (g, r, reward) in enumerate(each())
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"score": float})


# Answer and reward of eight rollouts of each prompt: one "a" was refused, one "b" was rewarded.
ANSWERS = "aaaabbcc"
REWARDS = (1, 1, 1, 0, 0, 1, 0, 0)


def verdicts(prompts=8):
    rows = []
    for prompt in range(prompts):
        for place, (answer, reward) in enumerate(zip(ANSWERS, REWARDS, strict=True)):
            row = {
                "id": f"{prompt}-{place}",
                "prompt": f"question {prompt}",
                "response": f"by way {place}\nto \\boxed{{{answer}}}",
                "answer": "a",
                "reward": float(reward),
            }
            rows.append(row)
    return rows


def table(folder):
    return pq.read_table(folder / "scores.parquet").to_pylist()


def write_lines(path, rows):
    data = "".join(json.dumps(row) + "\n" for row in rows).encode("ascii")
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def write_dump(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"trl": trl, "geoalign": geoalign_run}
    if name in tables:
        path = folder / f"{name}.parquet"
        tables[name]().to_parquet(path)
        return path
    if name == "slime":
        torch.save(slime(), folder / "7.pt")
        return folder / "7.pt"
    if name == "inspect":
        path = folder / "log.json"
        path.write_text(json.dumps(inspect(), indent=2))
        return path
    if name == "trackio":
        return write_trackio(folder / "project.db", trackio())
    makers = {"nemo_gym": nemo_gym, "verifiers_results": verifiers_results}
    makers |= {"nemo_rl": nemo_rl, "verifiers": verifiers, "verl": verl, "trinity": trinity, "responses": responses}
    lines = {**makers, "plain": plain}[name]()
    return write_lines(folder / (f"{name}.jsonl.gz" if name == "plain" else f"{name}.jsonl"), lines)


def changed(rows, index, **values):
    """The rows with one of them changed; a value of ... removes the field."""
    made = {**rows[index], **values}
    kept = {name: value for name, value in made.items() if value is not ...}
    return [*rows[:index], kept, *rows[index + 1 :]]


def filtered(folder):
    """The rollouts that stay, as `--filtered` writes them into a folder."""
    return [json.loads(line) for line in (folder / "filtered.jsonl").read_bytes().splitlines()]


def loaded(path, **given):
    return read_dump(path, find_layout(path)[0], **given)
