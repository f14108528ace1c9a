"""Writes the tables of settings in these pages from help texts and defaults: `python docs/settings_tables.py`.

A table is between `<!-- settings: CLASS as PREFIX without FIELD, FIELD -->` and `<!-- end -->`; `as` and `without`
are optional.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

TABLE = re.compile(r"(<!-- settings: (\w+)(?: as (\w+))?(?: without ([\w., ]+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def settings_class(name: str) -> type:
    """The settings class of this name, wherever it is defined."""
    for package in (import_module("geoalign.lab.config"), import_module("geoalign.curators")):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            found = getattr(import_module(module.name), name, None)
            if found is not None:
                return found
    raise LookupError(f"settings table: no settings class is called {name}")


def default(item: Field[Any]) -> Any:
    """The default of a setting, MISSING if there is none."""
    return item.default if item.default_factory is MISSING else item.default_factory()


def rows(cls: type, left_out: frozenset[str], prefix: str = "") -> Iterator[str]:
    """A table row for each setting; those of a nested section under their dotted names."""
    for item in fields(cls):
        name, value = prefix + item.name, default(item)
        if is_dataclass(value) and name not in left_out:
            yield from rows(type(value), left_out, f"{name}.")
        elif "help" in item.metadata and name not in left_out:
            shown = "required" if value is MISSING else f"`{value if isinstance(value, str) else json.dumps(value)}`"
            yield f"|`{name}`|{shown}|{item.metadata['help'].replace('|', chr(92) + '|')}|\n"


def with_tables(page: str) -> str:
    """The page with every table made anew."""

    def table(match: re.Match[str]) -> str:
        prefix, left_out = f"{match[3]}." if match[3] else "", frozenset((match[4] or "").split(", "))
        body = "".join(rows(settings_class(match[2]), left_out, prefix))
        return f"{match[1]}|key|default|what|\n|---|---|---|\n{body}{match[5]}"

    return TABLE.sub(table, page)


if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.glob("*.md")):
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
