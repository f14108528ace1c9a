"""docs/formats.md names what is read and written: every format, role, answer's field and column."""

import re
from pathlib import Path

import pytest

from geoalign.audit.folder import SCORES, AuditTables
from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS
from geoalign.dumps.files import DUMP_SUFFIXES
from geoalign.dumps.formats import FORMATS
from geoalign.dumps.formats.format import ROLES
from geoalign.lab.models.rows import SCHEMA
from geoalign.lab.runs.rollouts import ROLLOUT_SCHEMA

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def names_in(section: str) -> set[str]:
    """What stands in backticks below a heading, up to the next one of its level."""
    level, _, _ = section.partition(" ")
    _, _, below = PAGE.partition(f"\n{section}\n")
    return set(re.findall(r"`([^`\n]+)`", below.partition(f"\n{level} ")[0]))


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("## Rollout files", FORMATS),
        ("## Rollout files", [suffix for suffix in DUMP_SUFFIXES if not suffix.endswith(".gz")]),
        ("### Roles and fields", ROLES),
        ("### Roles and fields", GROUPS),
        ("### Answers", FINAL_ANSWERS),
        ("### Answers", GOLD_ANSWERS),
        ("## The folder of an audit", SCORES.names),
        ("## The folder of a run", ROLLOUT_SCHEMA.names),
        ("## The folder of an evaluation", SCHEMA.names),
    ],
)
def test_every_name_stands_on_the_page(section, names):
    assert set(names) <= names_in(section)


@pytest.mark.parametrize("name", [name for name, kind in FORMATS.items() if kind.columns])
def test_the_page_says_what_a_format_is_recognised_by(name):
    """Of each format with columns of its own; nested columns by their whole names."""
    row, *_ = re.findall(rf"^\| `{name}` \| .* \| (`.*`) \|$", PAGE, flags=re.MULTILINE)
    named = set(re.findall(r"`([^`]+)`", row))
    assert named <= set(FORMATS[name].columns)
    assert len(named) >= 3


def test_the_tables_of_an_audit_stand_on_the_page(tmp_path):
    with AuditTables(tmp_path, redact=False):
        pass
    assert {path.name for path in tmp_path.iterdir()} <= names_in("## The folder of an audit")
