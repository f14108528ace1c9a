"""The documentation: its commands, examples and names are those of the code.

`make docs` checks the links of the site.
"""

import ast
import dataclasses
import importlib
import re
import shlex
from pathlib import Path

import pytest
import torch
import typer
from tools.site import commands_page, reference, settings_page
from tools.site.github_markdown import anchors, outside_fences
from tools.site.links import pages_outside_docs

import geoalign
from geoalign.cli import app
from geoalign.curators.registry import BUILT_IN
from geoalign.errors import MissingExtraError
from geoalign.lab.train.settings import RunConfig
from geoalign.testing.synthetic import synthetic_rollouts

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS, *(ROOT / path for path in pages_outside_docs())]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
# Packages that an example may not need in order to be run here.
ENGINES = {
    "axolotl", "datasets", "nemo_rl", "prime_rl", "ray", "rllm", "skyrl", "slime", "swift", "transformers", "trinity",
    "trl", "verl",
}  # fmt: skip


def commands(text: str) -> list[list[str]]:
    """The `geoalign` commands in a page's shell blocks, continued lines joined; synopses and loops are left out."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    shell = [block.replace("\\\n", " ") for language, block in blocks if language in ("", "bash", "sh", "console")]
    plain = [re.split(r" \| | #| && ", line.strip().removeprefix("$ "))[0] for line in "".join(shell).splitlines()]
    synopsis = re.compile(r"[\[$]| [A-Z]+(\.\.\.)?( |$)")
    known = [line for line in plain if line.startswith("geoalign ") and not synopsis.search(line)]
    return [shlex.split(line, comments=True) for line in known]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_parses(page):
    for words in commands(page.read_text(encoding="utf-8")):
        COMMANDS[words[1]].make_context(words[1], words[2:])


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


EXAMPLES = [page for page in PAGES if python_blocks(page)]


@pytest.mark.parametrize("page", EXAMPLES, ids=[page.name for page in EXAMPLES])
def test_what_examples_import_from_geoalign_exists(page):
    for code in python_blocks(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "geoalign":
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")


def runs_here(code: str) -> bool:
    """Whether an example is whole, needs no engine, and reads and writes no file."""
    if "..." in code or re.search(r"\bopen\(|sys\.stdin|\.(jsonl|yaml|parquet|pt|safetensors)\b", code):
        return False
    modules = re.findall(r"^\s*(?:from|import) ([\w.]+)", code, re.MULTILINE)
    return not any(ENGINES & set(module.split(".")) for module in modules)


# Its examples make a package, which a test of theirs installs.
TESTED_ELSEWHERE = {"add_a_curator.md"}
RUN = [page for page in DOCS if any(map(runs_here, python_blocks(page))) and page.name not in TESTED_ELSEWHERE]


@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_examples_run(page):
    one = synthetic_rollouts(16, 8, 16, seed=0).rollouts
    names = {
        "r": one.rewards,
        "g": one.groups,
        "h": one.hidden,
        "rewards": one.rewards,
        "groups": one.groups,
        "hidden": one.hidden,
        "rollouts": one,
        "generator": torch.Generator(),
    }
    for code in python_blocks(page):
        if runs_here(code):
            exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_and_anchors_exist(page):
    """Also of the site's pages, in seconds: `make docs`, which builds them, checks links into generated pages too."""
    links: list[tuple[str, str]] = []

    def collect(text: str) -> str:
        links.extend(re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", text))
        links.extend((name, "") for name in re.findall(r"(?:src|srcset)=\"(?!https?:)([^\"]+)\"", text))
        return text

    outside_fences(page.read_text(encoding="utf-8"), collect)
    for target, anchor in links:
        file = (page.parent / target).resolve() if target else page
        if file.parent == ROOT / "docs" / "reference":
            continue
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{target}#{anchor}"


# The changelog also names what there was.
NAMING = [page for page in PAGES if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", NAMING, ids=[page.relative_to(ROOT).as_posix() for page in NAMING])
def test_files_and_modules_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src|docs|configs|recipes|tests|tools|benchmarks|evidence)/[^`*<\s]*?)`", text):
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


@pytest.mark.parametrize("name", ["train.md", "compare.md", "evaluate.md", "rewards.md", "data.md", "dialogue.md"])
def test_settings_of_a_run_that_a_page_names_exist(name):
    sections = {item.name: item for item in dataclasses.fields(RunConfig)}
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for key in re.findall(r"`((?:reward|evaluation|launch|output)\.(?!jsonl)[a-z_.]+)[:`]", text):
        names = sections
        for part in key.split("."):
            assert part in names, key
            names = settings_within(names[part])


def settings_within(section: dataclasses.Field) -> dict[str, dataclasses.Field]:
    """The settings of a section, by name; none where it is a single setting."""
    if section.default_factory is dataclasses.MISSING or not dataclasses.is_dataclass(section.default_factory):
        return {}
    return {item.name: item for item in dataclasses.fields(section.default_factory)}


def test_the_layout_names_every_package():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "geoalign"
    for init in [*source.glob("*/__init__.py"), *source.glob("lab/*/__init__.py")]:
        name = init.parent.relative_to(source).as_posix()
        assert name in ("lab",) or f"`{name}/`" in text, name
    for name in re.findall(r"`((?:\w+/)*\w+(?:/|\.py))`", text):
        assert any((place / name).exists() for place in (source, ROOT, ROOT / "configs")), name


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


def test_the_reference_is_as_the_code_has_it():
    assert reference.stale() == [], reference.AGAIN


def test_the_reference_has_every_command_option_and_setting():
    commands_text = commands_page.page()
    for name, command in COMMANDS.items():
        section = part_of(commands_text, f"## {name}")
        for parameter in command.params:
            if parameter.name not in ("help", "context"):
                shown = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
                assert f"`{shown}" in section, (name, shown)
    settings_text = settings_page.page()
    for kind in settings_classes():
        section = part_of(settings_text, f"### {kind.__name__}")
        for item in dataclasses.fields(kind):
            assert item.name == "type" or f"| `{item.name}` |" in section, (kind, item.name)


def part_of(text: str, heading: str) -> str:
    """The text below a heading, up to the next heading."""
    return re.split(r"^##", text.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def settings_classes() -> set[type]:
    """Every class of settings that a user can write: those of all curators, and those in every `settings.py`."""
    modules = [importlib.import_module(location.partition(":")[0]) for location in BUILT_IN.values()]
    source = Path(geoalign.__file__).parent
    for path in sorted(source.rglob("settings.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        modules.append(importlib.import_module(f"geoalign.{name}"))
    found = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and "__pydantic_config__" in vars(kind)
    }
    bases_alone = {"LoadedModelConfig", "TailConfig"}
    return {kind for kind in found if kind.__name__ not in bases_alone}
