"""Writes the tables of the pages on evidence from `evidence/`, and checks the pages: `python -m tools.evidence.tables`.

With `--check` nothing is written. The exit status is 1 where a table, or a number in the prose, is not that of the
results. `tools.evidence.pages` says which numbers are checked, and how.
"""

from __future__ import annotations

import sys

from tools.evidence.pages import PAGES, wrong
from tools.evidence.table_kinds import with_tables


def main(arguments: list[str]) -> int:
    """Writes the tables, unless `--check` is given, and prints what of the pages is not as the results have it."""
    if "--check" not in arguments:
        for page in PAGES:
            text = page.path.read_text(encoding="utf-8")
            page.path.write_text(with_tables(text), encoding="utf-8")
    problems = [problem for page in PAGES for problem in wrong(page)]
    print("\n".join(problems) or "The tables and numbers of the pages are those of the results.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
