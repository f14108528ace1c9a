"""The page of the API: which names it has, in which order. mkdocstrings writes the entries, from the source alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import geoalign
import geoalign.hidden
import geoalign.method
import geoalign.noise
from geoalign.curators.registry import BUILT_IN

_HEAD = """# API

What can be imported, entry by entry. The names of the first three chapters come from `geoalign` itself:
`from geoalign import Denoise, Rollouts`.

A type such as `Float[Tensor, "b d"]` is a tensor of floats with b rows and d columns. The letters are the same within
one entry, b is usually the number of rollouts, d the width of a hidden state. `Int` and `Bool` are whole numbers and
truth values.
"""
_VOCABULARY = ("Rollouts", "Curation", "group_advantages", "boxed_answers")
_AROUND_CURATORS = ("Curator", "as_curator", "CURATORS", "CurationSession")
_TO_WRITE_ONE = (
    "identity",
    "groups_of",
    "tied_rewards",
    "subset",
    "reweighted",
    "Baseline",
    "Holder",
    "check_curator",
    "curator_checks",
)
# They are made from other curators too, by a signature of their own.
_HOLDERS = ("Appeals", "Chain", "Monitor")
# A function that is a package: its call is described.
_AUDIT = ("heading: geoalign.audit", "toc_label: geoalign.audit")
# These stand on the page of the settings.
_SETTINGS = ("DenoiseConfig", "GeoAlignConfig", "ProjectorConfig")
_PRESET = ("heading: GeoAlignConfig.preset", "toc_label: GeoAlignConfig.preset")
_ENGINES = {
    "trl": "TRL: a mixin for its GRPO trainer, and a trainer that is ready to use.",
    "verl": "verl: trainers under names of their own, and what a trainer of yours inherits.",
    "swift": "ms-swift: a plug-in, and what a trainer of yours inherits.",
    "trinity": "Trinity-RFT: an operator and an advantage function, named by path in its YAML.",
    "slime": "slime: functions that it loads by path.",
    "skyrl": "SkyRL: what stands before a trainer, and an entry point.",
}


def page() -> str:
    """The page as Markdown."""
    others = {"__version__", "audit", *_VOCABULARY, *_AROUND_CURATORS, *_TO_WRITE_ONE, *_SETTINGS}
    names = sorted(set(dir(geoalign)) - others)
    parts = [
        _HEAD.strip(),
        "## Rollouts and curations\n\nA curator reads `Rollouts` and answers with a `Curation`.",
        *_entries(map(path_of, _VOCABULARY)),
        "## Curators\n\nEvery curator has the methods of `Curator`, and is made from its settings, by keywords or at "
        "once: `Denoise(window=3)` or `Denoise(DenoiseConfig(window=3))`. "
        "[Settings](settings.md#curators) lists them. Each entry says what is the curator's own.",
        *_entries(map(path_of, _AROUND_CURATORS)),
        *(_curator(name) for name in names),
        "### Settings as classes\n\n" + _settings_links(),
        _entry("geoalign.GeoAlignConfig.preset", level=4, options=_PRESET),
        "## To write a curator\n\n[Add a curator](../add_a_curator.md) is a tutorial with these.",
        *_entries(map(path_of, _TO_WRITE_ONE)),
        "## Audits\n\n`from geoalign import audit`, as [Audit your own rollouts](../audit.md#from-python) shows.",
        _entry("geoalign.audit.AuditPackage.__call__", options=_AUDIT),
        _entry("geoalign.audit.results.AuditReport"),
        "## Inside an engine\n\nEach adapter is imported from `geoalign.adapters` and the engine's name.",
    ]
    for engine, words in _ENGINES.items():
        module = import_module(f"geoalign.adapters.{engine}")
        parts.append(f"### geoalign.adapters.{engine}\n\n{words}")
        own = [name for name in module.__all__ if name not in dir(geoalign)]
        parts.extend(_entries((f"{module.__name__}.{name}" for name in own), level=4))
    parts.append("## Hidden states: geoalign.hidden\n\nFor a loop of your own: the states that curators read.")
    parts.extend(_entries(f"geoalign.hidden.{name}" for name in geoalign.hidden.__all__))
    parts.append(
        "## The equations: geoalign.method\n\nThe paper's equations as pure functions of tensors, one idea a module. "
        "[The method](../method.md) says which equation is which function."
    )
    parts.extend(_entries(_modules_of(geoalign.method)))
    parts.append(
        "## The noise model: geoalign.noise\n\nHow far a reward is to be believed: what `Denoise` and audits infer. "
        "[denoise](../denoise.md) explains the model."
    )
    parts.extend(_entries(_modules_of(geoalign.noise)))
    return "\n\n".join(parts) + "\n"


def path_of(name: str) -> str:
    """The dotted path of a name of `geoalign` that the source shows: a curator's is that of the registry."""
    for location in BUILT_IN.values():
        module, _, attribute = location.partition(":")
        if attribute == name:
            return f"{module}.{name}"
    return f"geoalign.{name}"


def _entries(paths: Iterable[str], *, level: int = 3) -> list[str]:
    return [_entry(path, level=level) for path in paths]


def _curator(name: str) -> str:
    """The docstring of a curator; its methods are those of `Curator`, and so is how most are made."""
    options = ["members: false"]
    if name not in _HOLDERS:
        options.extend(["show_signature: false", "separate_signature: false"])
    return _entry(path_of(name), options=options)


def _entry(path: str, *, level: int = 3, options: Sequence[str] = ()) -> str:
    """An entry that mkdocstrings writes; `options`: further options of it, lines of YAML."""
    lines = [f"heading_level: {level}", *options]
    return "\n".join([f"::: {path}", "    options:", *(f"      {line}" for line in lines)])


def _settings_links() -> str:
    links = [f"[`{name}`](settings.md#{name.lower()})" for name in _SETTINGS]
    return (
        f"{', '.join(links)}: frozen dataclasses whose values are checked when they are made. "
        "The settings of the other curators are imported from the modules that [Settings](settings.md#curators) names."
    )


def _modules_of(package: ModuleType) -> list[str]:
    """The modules of a package, in the order in which its docstring names them, and then the others."""
    found = [module.name for module in iter_modules(package.__path__)]
    words = (package.__doc__ or "").split()
    ordered = sorted(found, key=lambda name: (words.index(name) if name in words else len(words), name))
    return [f"{package.__name__}.{name}" for name in ordered]
