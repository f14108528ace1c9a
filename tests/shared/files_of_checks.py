"""Files of checks, as a person fills them in."""

import csv


def read(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def labelled(rows, right="right", wrong="wrong", until=None):
    """The rows, of which the first get a label of what is true of them."""
    until = len(rows) if until is None else until
    found = []
    for place, row in enumerate(rows):
        true_label = right if row["final_answer"] == "a" else wrong
        found.append({**row, "label": true_label if place < until else ""})
    return found


def labels_of_lines(rows):
    return [(row["line"], row["label"]) for row in rows]
