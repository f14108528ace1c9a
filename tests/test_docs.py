"""The documentation: its links, the settings, modules and commands that it names, its words."""

import dataclasses
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
import typer

from geoalign.errors import MissingExtraError
from geoalign.lab.cli import app
from geoalign.testing.synthetic import synthetic_rollouts

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    *DOCS,
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "configs").glob("*/*.md")),
    ROOT / "CONTRIBUTING.md",
]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]

sys.path.insert(0, str(ROOT / "docs"))
settings_tables = importlib.import_module("settings_tables")


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", settings_tables.TABLE.sub("", text), flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(text: str) -> list[list[str]]:
    """The `geoalign` commands in a page's shell blocks, continued lines joined; synopses and loops are left out."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    shell = [block.replace("\\\n", " ") for language, block in blocks if language in ("", "bash", "sh")]
    plain = [re.split(r" \| | #", line.strip().removeprefix("$ "))[0] for line in "".join(shell).splitlines()]
    synopsis = re.compile(r"[\[$]| [A-Z]+(\.\.\.)?( |$)")
    known = [line for line in plain if line.startswith("geoalign ") and not synopsis.search(line)]
    return [shlex.split(line, comments=True) for line in known]


@pytest.mark.parametrize("page", ["denoise", "method", "your_loop"])
def test_examples_run(page):
    one = synthetic_rollouts(16, 8, 16, seed=0).rollouts
    names = {"r": one.rewards, "g": one.groups, "h": one.hidden, "rollouts": one, "generator": torch.Generator()}
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_and_anchors_exist(page):
    text = prose(page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_and_modules_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src|docs|configs|recipes|tests|benchmarks|evidence)/[^`*<\s]*?)`", text):
        assert (ROOT / name.rstrip("/")).exists(), name
    for name in re.findall(r"`(geoalign(?:\.\w+)+)[^`]*`", text):
        if name not in ("geoalign.curators", "geoalign.yaml") and not name.startswith("geoalign.curator."):
            resolve(name)


def resolve(name: str) -> object:
    """A module, or what a module has, by its dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[length:]:
                value = getattr(value, part)
        except MissingExtraError:  # only the environment of an engine has its adapter
            return None
        return value
    raise AssertionError(name)


def test_the_layout_names_every_package():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "geoalign"
    for init in [*source.glob("*/__init__.py"), *source.glob("lab/*/__init__.py")]:
        name = init.parent.relative_to(source).as_posix()
        assert name in ("lab",) or f"`{name}/`" in text, name
    for name in re.findall(r"`((?:\w+/)*\w+(?:/|\.py))`", text):
        assert (source / name).exists() or (ROOT / name).exists(), name


def test_the_tests_of_the_engines_exist():
    columns = ["trl", "verl", "trinity", "slime", "swift", "skyrl"]
    lines = (ROOT / "tests" / "engines" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|") and "::" in line]
    assert len(rows) > 10
    for row in rows:
        for engine, cell in zip(columns, row[1:], strict=True):
            for file, name in re.findall(r"`(\w+)::(\w+)`", cell):
                folders = (f"adapters/{engine}", "adapters", "engines")
                places = [ROOT / f"tests/{folder}/test_{file}.py" for folder in folders]
                texts = [place.read_text(encoding="utf-8") for place in places if place.exists()]
                assert any(f"def test_{name}(" in text for text in texts), (engine, file, name)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_parses(page):
    for words in commands(page.read_text(encoding="utf-8")):
        COMMANDS[words[1]].make_context(words[1], words[2:])


@pytest.mark.parametrize("page", DOCS, ids=[page.name for page in DOCS])
def test_the_settings_tables_are_those_of_the_settings(page):
    text = page.read_text(encoding="utf-8")
    assert text == settings_tables.with_tables(text), "run: python docs/settings_tables.py"


def test_every_page_of_settings_has_its_table():
    shown = {page.name for page in DOCS if settings_tables.TABLE.search(page.read_text(encoding="utf-8"))}
    pages = {"method.md", "denoise.md", "train.md", "compare.md", "audit.md", "evaluate.md", "judge.md", "rewards.md"}
    assert shown == pages


@pytest.mark.parametrize("name", ["train.md", "rewards.md", "dialogue.md"])
def test_settings_in_the_text_exist(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for key in re.findall(r"`((?:reward|evaluation|launch|output)\.(?!jsonl)[a-z_.]+)[:`]", text):
        section = settings_tables.settings_class("RunConfig")
        for part in key.split("."):
            items = {item.name: item for item in dataclasses.fields(section)}
            assert part in items, key
            section = type(settings_tables.default(items[part]))
