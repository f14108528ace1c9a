"""Dumps of a few rollouts, made by code, written and read back."""

import json

from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump

PROBLEMS, SIZE = 5, 3
# The final answers of a problem's rollouts: right, wrong, wrong.
GUESSES = ("right", "low", "high")


def rollouts(problems=PROBLEMS, size=SIZE, prompt="Guess the hidden word.", **fields):
    """One rollout a row, problem after problem; `fields` are functions of problem and number, or values."""
    rows = []
    for problem in range(problems):
        for number in range(size):
            answer = f"word {problem}" if number == 0 else f"{GUESSES[number % 3]} {number}"
            given = {
                "prompt": prompt,
                "response": f"\\boxed{{{answer}}} by way {number}",
                "reward": float(number == 0),
                **fields,
            }
            row = {}
            for name, value in given.items():
                row[name] = value(problem, number) if callable(value) else value
            rows.append(row)
    return rows


def wrote(folder, rows, name="dump.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def dump_of(folder, rows, name="dump.jsonl", *, skip_bad=False, **given):
    path = wrote(folder, rows, name)
    return read_dump(path, find_layout(path, **given)[0], skip_bad=skip_bad)


def groups_of(dump):
    """For each row the number of its group."""
    return dump.frame["group"].tolist()


def by_problem(problems=PROBLEMS, size=SIZE):
    return [problem for problem in range(problems) for _ in range(size)]


def read(path, **given):
    """The layout of a file, and its rollouts in order; `given` are `name` and `fields` of `find_layout`."""
    dump = read_dump(path, find_layout(path, **given)[0])
    return dump.layout, list(dump.frame.itertuples())
