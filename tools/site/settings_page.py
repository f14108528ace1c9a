"""The page of the settings: a section for each class, found by walking through what a user writes in YAML or Python."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types
from pydantic.fields import FieldInfo

import geoalign
from geoalign.adapters.settings import EngineSettings, RllmSettings, SlimeSettings, StateSettings, TrinitySettings
from geoalign.audit.settings import AuditConfig
from geoalign.curators.registry import BUILT_IN, CuratorSection
from geoalign.endpoint.settings import JudgeConfig
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.train.settings import RunConfig
from tools.site.api_page import path_of
from tools.site.markdown import paragraphs, table

_HEAD = """# Settings

Every setting that can be written in a YAML file, given as `--set KEY=VALUE` or passed in Python, with its default.
Keys of nested sections are joined by dots on the command line: `--set curator.window=3`. An unknown key is an error
that names the nearest known one, and a value that is not allowed is an error that says what is.

A "section" is a mapping of YAML: `model: {type: tiny, layers: 3}`, or the same on indented lines.
"""


@dataclass(frozen=True)
class Section:
    """A class of settings and where its settings are written: `path` in the YAML file, `type` if a section picks it."""

    kind: Any
    path: str
    type: str | None = None


@dataclass(frozen=True)
class Chapter:
    """A file or command of the user: a title, a sentence, and the class that its settings begin with."""

    title: str
    words: str
    root: Any
    place: str


_CHAPTERS = (
    Chapter(
        "A training run",
        "The file that `geoalign train CONFIG.yaml` reads. Its sections follow, each with its own settings.",
        RunConfig,
        "the YAML file of a run",
    ),
    Chapter(
        "A comparison",
        "The file that `geoalign compare CONFIG.yaml` reads. Its `run` is a training run as above, or the name of a "
        "file with one.",
        CompareConfig,
        "the YAML file of a comparison",
    ),
    Chapter(
        "An audit",
        "What `geoalign audit --set KEY=VALUE` sets. [Commands](commands.md#audit) lists the other options.",
        AuditConfig,
        "`geoalign audit --set`",
    ),
    Chapter(
        "An evaluation",
        "What `geoalign evaluate --set KEY=VALUE` sets. [Commands](commands.md#evaluate) lists the other options.",
        EvaluateConfig,
        "`geoalign evaluate --set`",
    ),
    Chapter(
        "A judge",
        "What `geoalign judge --set KEY=VALUE` sets. [Commands](commands.md#judge) lists the other options.",
        JudgeConfig,
        "`geoalign judge --set`",
    ),
)
# Inside another trainer; TRL takes the same things as keywords.
_ENGINES = (
    (EngineSettings, "SkyRL: the section `geoalign` of its configuration."),
    (
        StateSettings,
        "verl: the section `+geoalign` of its configuration. ms-swift: the file, or the dict, that `install` is given.",
    ),
    (TrinitySettings, "Trinity-RFT: `args` of the operator, or `advantage_fn_args`."),
    (SlimeSettings, "slime: the section `geoalign` in the file of `--custom-config-path`."),
    (RllmSettings, "rLLM: what `geoalign.adapters.rllm.register` takes."),
)
_CURATORS = """## Curators

A section `curator` with its `type` picks one, in a run, an arm of a comparison, an audit or an engine. A name alone is
the curator with its defaults: `curator: denoise`. In Python a name, a dict, the settings or the curator itself is
taken: `curator="denoise"`, `curator={"type": "denoise", "window": 3}`, `curator=Denoise(DenoiseConfig(window=3))`.
[Which curator?](../which_curator.md) helps to choose.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD.strip()]
    seen: set[Any] = set()
    for chapter in _CHAPTERS:
        parts.append(f"## {chapter.title}\n\n{chapter.words}")
        for section in sections(chapter.root):
            if section.kind not in seen:
                seen.add(section.kind)
                parts.append(_section(section.kind, _place(section, chapter)))
        if chapter.root is RunConfig:
            parts.append(_trainer_options())
    parts.append(_CURATORS.strip())
    # The default and the paper's first.
    names = ["denoise", "geoalign", *(name for name in BUILT_IN if name not in ("denoise", "geoalign"))]
    parts.append(table(["type", "settings"], [_curator_row(name) for name in names]))
    for name in names:
        for section in curator_sections(name):
            if section.kind not in seen:
                seen.add(section.kind)
                parts.append(_section(section.kind, _place_of_curator(section), curator=name))
    parts.append("## Inside an engine\n\nThe settings of the adapters. TRL takes them as keywords of its trainer.")
    parts.extend(_section(kind, where) for kind, where in _ENGINES)
    return "\n\n".join(parts) + "\n"


def sections(root: Any) -> Iterator[Section]:
    """The class of a file's settings and, depth first, those of its sections; curators have a chapter of their own."""
    yield Section(root, "")
    yield from _sections_within(root, "")


def curator_sections(name: str) -> Iterator[Section]:
    """The settings of a curator by name, and those within them."""
    kind = _curator_class(name).config_class
    yield Section(kind, "curator", name)
    yield from _sections_within(kind, "curator")


def _sections_within(kind: Any, path: str) -> Iterator[Section]:
    hints = get_type_hints(kind, include_extras=True)
    for item in fields(kind):
        dotted = f"{path}.{item.name}" if path else item.name
        for inner, type_name, suffix in _classes_in(hints[item.name]):
            yield Section(inner, dotted + suffix, type_name)
            if inner is not RunConfig:
                yield from _sections_within(inner, dotted + suffix)


def _classes_in(hint: Any) -> Iterator[tuple[Any, str | None, str]]:
    """The classes of settings in a type hint: the class, the `type` that picks it, what a path gets for it."""
    if hint == CuratorSection:
        return
    kinds = kinds_of(hint)
    if kinds:
        yield from ((kind, name, "") for name, kind in kinds.items())
    elif is_dataclass(hint):
        yield hint, None, ""
    elif get_origin(hint) is dict:
        yield from ((kind, name, f".NAME{suffix}") for kind, name, suffix in _classes_in(get_args(hint)[1]))
    elif get_origin(hint) in (list, tuple):
        yield from ((kind, name, f"[]{suffix}") for kind, name, suffix in _classes_in(get_args(hint)[0]))
    elif get_origin(hint) is Annotated or get_origin(hint) in (Union, types.UnionType):
        members = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
        for member in members:
            yield from _classes_in(member)


def _section(kind: Any, place: str, curator: str | None = None) -> str:
    parts = [f"### {kind.__name__}", place, *_description(kind, curator)]
    rows = list(setting_rows(kind))
    parts.append(table(["key", "value", "default", "meaning"], rows) if rows else "It has no settings.")
    return "\n\n".join(parts)


def _place(section: Section, chapter: Chapter) -> str:
    python = f"`from {section.kind.__module__} import {section.kind.__name__}`"
    if not section.path:
        return f"Where: {chapter.place}. Python: {python}."
    written = f"`{section.path}`" if section.type is None else f"`{section.path}`, with `type: {section.type}`,"
    return f"Where: {written} in {chapter.place}. Python: {python}."


def _place_of_curator(section: Section) -> str:
    name = section.kind.__name__
    home = section.kind.__module__
    if name in dir(geoalign):
        home = "geoalign"
    written = f"`{section.path}: {{type: {section.type}}}`" if section.type else f"`{section.path}`"
    return f"Where: {written}. Python: `from {home} import {name}`."


def _description(kind: Any, curator: str | None) -> list[str]:
    """The docstring of the class; of a curator's settings, also the first words on the curator."""
    own = kind.__doc__ or ""
    # A dataclass without a docstring has its signature as one.
    says_nothing = not own or own.startswith((f"{kind.__name__}(", "The settings of `"))
    found = [] if says_nothing else [paragraphs(own)]
    if curator is not None and kind is _curator_class(curator).config_class:
        curator_class = _curator_class(curator)
        address = f"api.md#{path_of(curator_class.__name__)}"
        first = paragraphs(curator_class.__doc__ or "").partition("\n\n")[0]
        found.insert(0, f"[`{curator_class.__name__}`]({address}): {first}")
    return found


def _curator_row(name: str) -> list[str]:
    settings = _curator_class(name).config_class.__name__
    return [f"`{name}`", f"[{settings}](#{settings.lower()})"]


def _curator_class(name: str) -> Any:
    module, _, attribute = BUILT_IN[name].partition(":")
    return getattr(import_module(module), attribute)


def setting_rows(kind: Any) -> Iterator[list[str]]:
    """A row for each setting of a class: key, what it may be, default, meaning."""
    hints = get_type_hints(kind, include_extras=True)
    for item in fields(kind):
        if item.name == "type":
            # It stands in the line above the table.
            continue
        yield [f"`{item.name}`", allowed(hints[item.name]), _default(item, hints[item.name]), item.metadata["help"]]


def _default(item: Field[Any], hint: Any) -> str:
    if item.default_factory is not MISSING:
        value = item.default_factory()
    elif item.default is not MISSING:
        value = item.default
    else:
        return "required"
    if is_dataclass(value):
        return f"`{value.type}`" if hint == CuratorSection or kinds_of(hint) else "its defaults"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def allowed(hint: Any) -> str:
    """A type hint in words: what a user may write."""
    if hint == CuratorSection:
        return "[a curator](#curators)"
    kinds = kinds_of(hint)
    if kinds:
        members = [f"[`{name}`](#{kind.__name__.lower()})" for name, kind in kinds.items()]
        return f"section with `type` {_either(members)}"
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        return _bounded(allowed(inner), _constraints(notes))
    if origin is Literal:
        return _either([f"`{value}`" for value in get_args(hint)])
    if origin in (Union, types.UnionType):
        members = get_args(hint)
        if int in members and float in members:
            members = tuple(member for member in members if member is not int)
        return _either(list(dict.fromkeys(allowed(member) for member in members)))
    if origin is dict:
        value = get_args(hint)[1]
        return "section" if value is Any else f"section: name to {allowed(value)}"
    if origin in (list, tuple, Sequence):
        return f"list of {_plural(allowed(get_args(hint)[0]))}"
    if is_dataclass(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    simple = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text", type(None): "`null`"}
    return simple[hint]


def kinds_of(hint: Any) -> dict[str, Any]:
    """The classes of settings of which a section's `type` picks one, by this; none: the hint is no such union."""
    if get_origin(hint) is Annotated and any(
        isinstance(note, FieldInfo) and note.discriminator for note in get_args(hint)
    ):
        return {kind.type: kind for kind in get_args(get_args(hint)[0])}
    return {}


def _constraints(notes: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for note in notes:
        found.extend(note.metadata if isinstance(note, FieldInfo) else [note])
    return found


def _bounded(words: str, constraints: Sequence[Any]) -> str:
    """A number with its bounds: "whole number in [1, 1024]", "number > 0"."""
    least = next((one for one in constraints if isinstance(one, (annotated_types.Ge, annotated_types.Gt))), None)
    most = next((one for one in constraints if isinstance(one, (annotated_types.Le, annotated_types.Lt))), None)
    if least is None:
        return words
    includes_least = isinstance(least, annotated_types.Ge)
    low = least.ge if includes_least else least.gt
    if most is None:
        return f"{words} {'≥' if includes_least else '>'} {low}"
    includes_most = isinstance(most, annotated_types.Le)
    high = most.le if includes_most else most.lt
    return f"{words} in {'[' if includes_least else '('}{low}, {_power(high)}{']' if includes_most else ')'}"


def _power(number: Any) -> str:
    return {2**31: "2^31", 2**63: "2^63"}.get(number, str(number))


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _plural(words: str) -> str:
    return words.replace("number", "numbers", 1).replace("text", "texts", 1)


def _trainer_options() -> str:
    """What this project sets in TRL's own options, section by section."""
    from geoalign.lab.train.options import GRPO, REWARD_MODEL, SFT

    parts = [
        "### Options of TRL's trainers\n\n"
        "The sections `sft`, `reward_model`, `gold_model` and `grpo` of a run hold options of TRL, passed on as they "
        "are. Where an option is left out, the value below is taken if there is one, otherwise TRL's own default."
    ]
    sections_of_trl = {"SFTConfig": ("`sft`", SFT), "GRPOConfig": ("`grpo`", GRPO)}
    models = {"Reward and gold model": ("`reward_model` and `gold_model` (TRL's `RewardConfig`)", REWARD_MODEL)}
    for title, (where, options) in (sections_of_trl | models).items():
        rows = [[f"`{name}`", f"`{json.dumps(value)}`"] for name, value in options.items()]
        parts.append(f"#### {title}\n\nWhere: {where} in the YAML file of a run.")
        parts.append(table(["key", "default here"], rows))
    return "\n\n".join(parts)
