"""`verifiers` of `summary.json` as a table, for Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas

_RATES = ("false_positive", "false_negative")
_FACTS = ("kind", "drawn", "judged", "failed", "accepted", "agrees_with_reward")


def verifier_frame(several: Mapping[str, Any]) -> pandas.DataFrame:
    """A row for each verifier by its name.

    Columns: `kind`, `drawn` (about how many drawn rows it was asked; NaN: about all rows), `judged`, `failed`,
    `accepted` and `agrees_with_reward`. For both rates X of `false_positive` and `false_negative`: `X_at_least` and
    `X_at_most`, which are proved, `X_checked`, `X_checked_low` and `X_checked_high` by checks, inside what is proved,
    and `X_guess` of the model's best mode. `place` is that in the ranking, from 1; verifiers of one place are tied. NaN
    is not known.
    """
    modes = several["model"].get("modes", [])
    guesses = modes[0]["rates"] if modes else {}
    places = {name: number for number, names in enumerate(several["ranking"]["places"], start=1) for name in names}
    rows = {}
    for entry in several["table"]:
        name = entry["name"]
        row = {fact: entry[fact] for fact in _FACTS}
        for rate in _RATES:
            key = f"{rate}_rate"
            bounds = (entry["bounds"] or {}).get(key, {})
            checks = entry["rates"][key] if entry["checks"] else {}
            row[f"{rate}_at_least"] = bounds.get("low")
            row[f"{rate}_at_most"] = bounds.get("high")
            row[f"{rate}_checked"] = checks.get("estimate")
            row[f"{rate}_checked_low"] = checks.get("low")
            row[f"{rate}_checked_high"] = checks.get("high")
            row[f"{rate}_guess"] = guesses.get(name, {}).get(key)
        row["place"] = places.get(name)
        rows[name] = row
    frame = pandas.DataFrame.from_dict(rows, orient="index").rename_axis("name")
    kinds = dict.fromkeys(map(str, frame), "float64") | {"kind": "object", "judged": "int64", "failed": "int64"}
    return frame.astype(kinds)
