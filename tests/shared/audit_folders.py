"""A folder as `geoalign audit` leaves it, generated without an audit."""

import itertools
import json

import numpy as np
import pyarrow
import pyarrow.parquet

from geoalign.audit.folder import DENSITIES, PAIRS, SCORES, scores_schema

INPUT = {
    "file": "dump.jsonl", "format": "verl", "fields": {"prompt": "input"}, "own_groups": True, "remark": "",
    "own_answer": None, "group_sizes": {"6": 12}, "skipped": 0,
}  # fmt: skip
LABEL_COMMAND = "geoalign audit dump.jsonl --labels labels.csv --output out-labelled"
WORDS = ["add", "the", "two", "numbers", "then", "carry", "one", "into", "tens", "so", "we", "get", "a", "sum"]


def write_audit(
    folder, *, groups = 12, size = 6, steps = 1, length = 300, redact = False,
    change = None, pairs = True, **summary,
):  # fmt: skip
    """`steps` dumps of `groups` x `size` rollouts; rollout 1 of every third group is flagged, the best replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    rows = []
    for step in range(1, steps + 1):
        for group in range(groups):
            number = (step - 1) * groups + group
            rows.extend(_group(generator, step, number, size, len(rows), length))
    if change is not None:
        change(rows)
    for row in rows:
        row.setdefault("compared_answer", row.get("final_answer"))
    table = pyarrow.Table.from_pylist(rows, schema=SCORES).select(scores_schema(redact).names)
    pyarrow.parquet.write_table(table, folder / "scores.parquet")
    if pairs:
        pyarrow.parquet.write_table(_pairs(rows, generator), folder / "pairs.parquet")
        pyarrow.parquet.write_table(_densities(steps), folder / "densities.parquet")
    value = {
        "geoalign": "0.1.0", "command": {"arguments": ["audit", "dump.jsonl"], "output": "out"},
        "inputs": [{**INPUT, "rows": len(rows), "groups": groups}], "skipped": [], "repeated": [],
        "labels": {"files": [], "labelled": 0, "without_label": 0}, "appeals": None,
        "curator": {"type": "geoalign", "alpha": 0.05}, "seed": 0, "redacted": redact, "filtered": False,
        "hidden": {"from": "file", "files": []}, "counts": _counts(rows), "label_command": LABEL_COMMAND, "next": None,
        "consensus": {"new_group_accuracy": 0.62, "new_group_accuracy_low": 0.55, "new_group_accuracy_high": 0.69,
                      "groups": groups, "chance_accuracy": 0.5},
        "spellings": {"prompts": 0, "answers": 0, "gold": 0, "listed": []},
        "verifier": {"reason": "The rewards are scores: they take more than two values."},
        "steps": [{"step": step, "metrics": {"geoalign/states_used": 1.0}} for step in range(1, steps + 1)],
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps({**value, **summary}))
    return folder


def _counts(rows):
    names = ("groups", "pairs", "unscored", "replaced", "left_out", "changed", "zero_weighted", "answered",
             "trained_on", "not_trained_on")  # fmt: skip
    return {
        **dict.fromkeys(names, 0),
        "rows": len(rows),
        "scored": sum(row["score"] is not None for row in rows),
        "flagged": sum(row["anomalous"] for row in rows),
    }


def _group(generator, step, group, size, first, length):
    """Rewards 0, 1, 2, ... in sixths; the flagged one's response is the best one's with another word in it."""
    rows = []
    flagged = group % 3 == 0
    base = "we add two numbers now: " + " ".join(generator.choice(WORDS, max(4, length // 5)))[:length]
    for sample in range(size):
        response = f"{base} so $x_{{{sample}}} = \\frac{{{group}}}{{{sample + 2}}}$." if sample in (1, size - 1) else (
            " ".join(generator.choice(WORDS, max(4, length // 5)))[:length])  # fmt: skip
        suspect = flagged and sample == 1
        rows.append(
            {
                "index": first + sample, "step": step, "file": "dump.jsonl", "row": group, "line": group + 1,
                "sample": sample,
                "id": f"s{step}-g{group}-r{sample}", "group": group,
                "trusted": False, "prompt": f"Problem {group}: find $x_{{{group}}}$.",
                "response": response.replace("numbers", "figures") if suspect else response,
                "answer": str(group + sample), "reward": sample / 6, "true_reward": None,
                "correct": sample % 2 == 1, "characters": len(response), "tokens": None, "truncated": False,
                "score": 5.0 + group / 10 if suspect else 0.5 + sample / 10, "anomalous": suspect,
                "source": first + size - 1 if suspect else first + sample, "weight": 1.0,
                "new_reward": (size - 1) / 6 if suspect else sample / 6, "group_size": size,
                "group_mean": (size - 1) / 12, "group_std": 0.3, "group_pairs": size * (size - 1) // 2,
                "group_flagged": int(flagged),
            }
        )  # fmt: skip
    return rows


def _pairs(rows, generator):
    found = []
    for better, worse in itertools.product(rows, rows):
        same = (better["step"], better["group"]) == (worse["step"], worse["group"])
        if same and (better["reward"] or 0) > (worse["reward"] or 0):
            deviation = 1.5 if better["anomalous"] or worse["anomalous"] else float(generator.uniform(0, 0.4))
            whose = {"step": better["step"], "group": better["group"]}
            whose |= {"better": better["index"], "worse": worse["index"]}
            found.append({**whose, "deviation": deviation, "raw_cosine": 0.25, "projected_cosine": 1 - deviation})
    # By groups, as an audit writes them.
    return pyarrow.Table.from_pylist(sorted(found, key=lambda pair: (pair["step"], pair["group"])), schema=PAIRS)


def _densities(steps):
    grid = np.linspace(0, 7, 64)
    curve = zip(grid.tolist(), np.exp(-((grid - 1) ** 2)).tolist(), strict=True)
    rows = [{"score": x, "density": y, "threshold": 4.0, "peak": 1.0} for x, y in curve]
    return pyarrow.Table.from_pylist([{"step": step + 1, **row} for step in range(steps) for row in rows], DENSITIES)
