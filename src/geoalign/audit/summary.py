"""Numbers of `summary.json` that are read off the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas

from geoalign.audit.inputs import Input
from geoalign.dumps.reading import Dump


def counts_of(rows: pandas.DataFrame) -> dict[str, int]:
    """`counts` of `summary.json`, over the rows of all files."""
    groups = rows.drop_duplicates("group")
    unscored = rows["reward"].isna()
    judged = rows["score"].notna()
    kept = rows["source"] >= 0
    own = rows["source"] == rows.index
    counts = {
        "rows": len(rows),
        "groups": len(groups),
        "pairs": groups["group_pairs"].sum(),
        "groups_without_pairs": (groups["group_pairs"] == 0).sum(),
        "scored": judged.sum(),
        "unscored": unscored.sum(),
        "flagged": rows["anomalous"].sum(),
        "replaced": (kept & ~own).sum(),
        "left_out": (~kept).sum(),
        "changed": (own & ~unscored & (rows["new_reward"] != rows["reward"])).sum(),
        "zero_weighted": (kept & ~unscored & (rows["weight"] == 0)).sum(),
        "answered": rows["final_answer"].notna().sum(),
    }
    for name, was_trained_on in (("trained_on", True), ("not_trained_on", False)):
        part = rows["trained_on"].eq(was_trained_on)
        counts[name] = part.sum()
        counts[f"{name}_scored"] = (part & judged).sum()
        counts[f"{name}_flagged"] = (part & rows["anomalous"]).sum()
    return {name: int(count) for name, count in counts.items()}


def input_entry(source: Input, dump: Dump, rows: pandas.DataFrame) -> dict[str, Any]:
    """What `summary.json` says of a file."""
    sizes = Counter(rows.groupby("group").size().tolist())
    return {
        "file": str(source.path),
        "format": source.layout.format.name,
        "fields": dict(dump.layout.fields),
        "rows": len(rows),
        "groups": rows["group"].nunique(),
        "own_groups": dump.own_groups,
        "remark": dump.remark,
        "own_answer": dump.own_answer or None,
        "group_sizes": {str(size): count for size, count in sorted(sizes.items())},
        "skipped": len(dump.skipped),
        "passed_over": source.passed_over,
    }
