"""`geoalign report` and `geoalign status` on damaged folders: one sentence or a report that names what it left out."""

import shutil

import pytest
from harness import run
from reports import Damage, damages, write_folder

from geoalign.lab.reports import documents

ALL = list(damages())
# A report that comes about takes a hundred times as long as one that is refused: the long form makes all of them.
QUICK = [damage for at, damage in enumerate(ALL) if at % 24 == 0 or (damage.outcome == "error" and at % 2)]
REST = [damage for damage in ALL if damage not in QUICK]
TOLD = [damage for damage in ALL if damage.kind in ("run", "comparison")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A whole folder of each kind, written once."""
    root = tmp_path_factory.mktemp("whole")
    return {kind: write_folder(kind, root / kind) for kind in dict.fromkeys(damage.kind for damage in ALL)}


@pytest.fixture
def damaged(tmp_path, whole):
    """A copy of a whole folder after its damage."""

    def spoil(damage: Damage):
        folder = tmp_path / str(damage)[:60]
        shutil.copytree(whole[damage.kind], folder)
        damage.spoil(folder / damage.file)
        return folder

    return spoil


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without drawing their figures, which takes nearly all of the time; all numbers are computed."""
    monkeypatch.setattr(documents, "render", lambda panel, theme: b"<svg/>")


def held(damage, folder):
    """What `geoalign report` did that it must not do."""
    outcome = run("report", folder)
    found = outcome.broken()
    name = damage.file.rsplit("/", 1)[-1]
    page = folder / "report.html"
    if damage.outcome == "error" or outcome.code:
        lines = outcome.err.strip().splitlines()
        if damage.outcome != "error":
            found.append(f"an error where a report was expected: {outcome.err[:200]}")
        elif outcome.code != 2 or len(lines) != 1 or not lines[0].startswith("Error: "):
            found.append(f"no error of one line: code {outcome.code}, {outcome.err[:300]!r}")
        elif name not in lines[0] and damage.kind not in ("evaluation", "judging"):
            found.append(f"the error does not name {name}: {lines[0][:300]}")
    elif damage.outcome == "note":
        text = page.read_text(encoding="utf-8")
        if "Left out: " not in outcome.err or name not in outcome.err:
            found.append(f"the terminal does not name {name}: {outcome.err[:300]!r}")
        if "Left out" not in text or name not in text:
            found.append(f"the page does not name {name}")
    elif "Left out: " in outcome.err:
        found.append(f"something was left out of what is fine: {outcome.err[:300]}")
    return found


def told(damage, folder):
    """What `geoalign status` did that it must not do."""
    outcome = run("status", folder)
    found = outcome.broken()
    if outcome.code == 2 and not outcome.err.startswith("Error: "):
        found.append(f"no error of one line: {outcome.err[:300]!r}")
    if damage.file.endswith(".jsonl") and damage.outcome == "error" and outcome.code == 0:
        found.append("what is damaged is not told")
    return found


def check(damage, found):
    assert not found, f"{damage}: {found}"


def test_the_corpus_is_large_and_every_damage_has_a_name_of_its_own():
    assert len(ALL) >= 300
    assert len({str(damage) for damage in ALL}) == len(ALL)


@pytest.mark.parametrize("damage", QUICK, ids=str)
def test_a_damaged_folder_ends_in_a_sentence_or_a_report(damage, damaged, undrawn):
    check(damage, held(damage, damaged(damage)))


@pytest.mark.slow
@pytest.mark.parametrize("damage", REST, ids=str)
def test_every_other_damaged_folder_does_too(damage, damaged, undrawn):
    check(damage, held(damage, damaged(damage)))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [damage for damage in ALL if damage.outcome != "error"], ids=str)
def test_the_figures_of_damaged_folders_are_drawn(damage, damaged):
    check(damage, held(damage, damaged(damage)))


@pytest.mark.parametrize("damage", TOLD[::8], ids=str)
def test_the_status_of_a_damaged_folder(damage, damaged):
    check(damage, told(damage, damaged(damage)))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [damage for at, damage in enumerate(TOLD) if at % 8], ids=str)
def test_the_status_of_every_other_damaged_folder(damage, damaged):
    check(damage, told(damage, damaged(damage)))
