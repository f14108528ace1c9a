"""The source, the tests and the docs get smaller: a room's budget is its size today, and goes down with it.

Where they are to end: 30,000 lines of source in 260 files, as many of tests, 16,000 words of docs. What a feature adds,
something else in its room gives; a budget that is raised needs its reason in the commit.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "geoalign"

# Lines and files of each room, sub-folders included; "." and "lab" are the files that stand there alone.
ROOMS = {
    ".": (730, 7),
    "adapters": (4280, 40),
    "curators": (4330, 28),
    "hidden": (620, 6),
    "lab": (940, 7),
    "lab/analysis": (1530, 10),
    "lab/audit": (1290, 9),
    "lab/bench": (250, 3),
    "lab/compare": (760, 7),
    "lab/config": (1590, 12),
    "lab/dumps": (1010, 6),
    "lab/evaluation": (1130, 8),
    "lab/generation": (490, 5),
    "lab/judge": (300, 3),
    "lab/models": (350, 4),
    "lab/reports": (1940, 13),
    "lab/rewards": (1430, 12),
    "lab/store": (1510, 10),
    "lab/tasks": (1470, 8),
    "lab/train": (2110, 13),
    "method": (1390, 12),
    "settings": (620, 6),
}
# Lines of Python in all, and words of Markdown.
TREES = {"src": 30000, "tests": 30000, "benchmarks": 2990}
DOC_WORDS = 16000


def size(files: list[Path]) -> tuple[int, int]:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)


def rooms() -> dict[str, tuple[int, int]]:
    folders = [path for path in [*SOURCE.iterdir(), *(SOURCE / "lab").iterdir()] if path.is_dir()]
    names = {path.relative_to(SOURCE).as_posix(): path for path in folders if path.name not in ("lab", "__pycache__")}
    alone = {".": sorted(SOURCE.glob("*.py")), "lab": sorted((SOURCE / "lab").glob("*.py"))}
    every = {**{name: sorted(path.rglob("*.py")) for name, path in names.items()}, **alone}
    return {name: size(files) for name, files in every.items() if files}


def test_every_room_is_within_its_budget():
    found = rooms()
    assert set(found) == set(ROOMS)
    assert not {name: now for name, now in found.items() if now[0] > ROOMS[name][0] or now[1] > ROOMS[name][1]}


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_is_within_its_budget(tree):
    assert size(sorted((ROOT / tree).rglob("*.py")))[0] <= TREES[tree]


def test_the_docs_are_within_their_budget():
    # As `cat docs/*.md | wc -w` counts.
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert sum(len(page.split()) for page in pages) <= DOC_WORDS
