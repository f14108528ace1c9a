"""From a YAML file and the command line to the typed settings of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.compare.plan import check_overlays, planned_runs
from geoalign.lab.compare.settings import CLEAN, CLEAN_ARM, DEFAULTS, CompareConfig
from geoalign.lab.train.settings import DEFAULT_TYPES
from geoalign.settings.layers import Loaded, merged_settings, override_setting, read_layers
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.text import quote

# Names of arms and levels become names of folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")


def load_compare_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    arms: Sequence[str] | None = None,
    levels: Sequence[str] | None = None,
) -> Loaded[CompareConfig]:
    """The settings of a comparison: the file (without one, `DEFAULTS`), then each `a.b=c` of `overrides` in order.

    Where the file's `run` is a text, it names a file with the settings of the base run, beside the comparison's own. A
    `base` names another comparison in the same folder, which the file is merged into.
    `arms` and `levels` choose among them; an arm that the settings do not have is the curator of that name, or `clean`.
    """
    data: dict[str, Any] = deepcopy(DEFAULTS)
    where: dict[str, str] = {}
    if path is not None:
        data, where = _read(path)
    given = data.get("arms") or {}
    if isinstance(given, dict) and (given or arms):
        # Written out first, so that an override changes the arm and does not replace it. All of them, in the order of
        # the file: an arm that is chosen may be based on one that is not.
        chosen = arms or ()
        named_here_alone = dict.fromkeys(name for name in chosen if name not in given)
        written = _written_out({**given, **named_here_alone}, Locations(where))
        data["arms"] = {name: written[name] for name in dict.fromkeys((*chosen, *written))}
    for override in overrides:
        override_setting(data, where, override, default_types=DEFAULT_TYPES)
    locations = Locations(where)
    config = _chosen(parse_compare_config(data, locations), arms, levels)
    _check(config, locations)
    return Loaded(config, locations)


def parse_compare_config(data: Mapping[str, Any], locations: Locations = NOWHERE) -> CompareConfig:
    """The settings of a comparison from plain data; an arm that is `null` is the curator of its name, or `clean`."""
    values = {name: value for name, value in data.items() if value is not None or name in ("oracle", "workers")}
    arms = values.get("arms")
    if isinstance(arms, Mapping):
        values["arms"] = {name: _arm(name, value) for name, value in arms.items()}
        values.setdefault("oracle", "oracle" if "oracle" in arms else None)
    levels = values.get("levels")
    if isinstance(levels, Mapping):
        values["levels"] = {name: value or {} for name, value in levels.items()}
    config: CompareConfig = load_settings(CompareConfig, values, locations)
    _check_names("arms", config.arms, locations or Locations())
    _check_names("levels", config.levels, locations or Locations())
    return config


def _check_names(section: str, names: Iterable[str], locations: Locations) -> None:
    """Raises ConfigError unless names of arms or levels can be those of folders, which they become."""
    folders: dict[str, str] = {}
    for name in names:
        if not _NAME.fullmatch(name):
            expected = "expected a name of letters, digits, dots, _, + and -, at most 80"
            raise _wrong(f"{section}.{name}", expected, name, locations)
        other = folders.setdefault(name.casefold(), name)
        if other != name:
            expected = f"expected a name that differs from {other} by more than case: both name a folder"
            raise _wrong(f"{section}.{name}", expected, name, locations)


def _chosen(config: CompareConfig, arms: Sequence[str] | None, levels: Sequence[str] | None) -> CompareConfig:
    """The same comparison with the arms and levels that the command line names, and what is said of these."""
    if levels is not None:
        for level in levels:
            if level not in config.levels:
                raise ConfigError(f"--levels: expected some of {_list_of(config.levels)}, got {quote(level)}")
        config = replace(config, levels={name: config.levels[name] for name in levels})
    if arms is not None:
        if config.baseline not in arms:
            raise ConfigError(
                f"--curators: expected the baseline {config.baseline} among them (or --set baseline=NAME), "
                f"got {_list_of(arms)}"
            )
        config = replace(
            config,
            arms={name: config.arms[name] for name in arms},
            oracle=config.oracle if config.oracle in arms else "oracle" if "oracle" in arms else None,
            primary=[item for item in config.primary if item.arm in arms and item.against in arms],
        )
    if arms is None and levels is None:
        return config
    arms_at = {}
    for arm, names in config.arms_at.items():
        if arm in config.arms:
            arms_at[arm] = [level for level in names if level in config.levels]
    return replace(config, arms_at=arms_at)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A comparison's file as plain data, the file that its `run` may name read in, and where each key was written."""
    data, where = read_layers(path, default_types=DEFAULT_TYPES)
    named = data.get("run")
    if not isinstance(named, str):
        return data, where
    base = path.parent / named
    if not base.is_file():
        raise ConfigError(
            f"{Locations(where).prefix('run')}run: expected settings, or a file with them, got no file {base}"
        )
    run, locations = read_layers(base, default_types=DEFAULT_TYPES)
    return {**data, "run": run}, {**where, **{f"run.{key}": location for key, location in locations.items()}}


def _arm(name: str, value: Any) -> Any:
    if value is None:
        return deepcopy(CLEAN_ARM) if name == CLEAN else {"curator": {"type": name}}
    return value


def _written_out(given: Mapping[str, Any], locations: Locations) -> dict[str, Any]:
    """The settings of every arm, with those of the earlier arm that its `base` names under its own."""
    arms: dict[str, Any] = {}
    for name, value in given.items():
        arm = _arm(name, value)
        if isinstance(arm, dict) and "base" in arm:
            base = arm.pop("base")
            if base not in arms:
                key = f"arms.{name}.base"
                raise ConfigError(f"{locations.prefix(key)}{key}: expected an arm above this one, got {quote(base)}")
            arm = merged_settings(arms[base], arm, default_types=DEFAULT_TYPES)
        arms[name] = arm
    return arms


def _check(config: CompareConfig, locations: Locations) -> None:
    """Raises ConfigError for a comparison that cannot run: nothing to run, an arm or level that is not there, arms that
    would not be comparable, settings that a run does not have."""
    for section, names in (("arms", config.arms), ("levels", config.levels)):
        if not names:
            raise _wrong(section, "expected at least one", [], locations)
    if not config.seeds or len(set(config.seeds)) < len(config.seeds):
        raise _wrong("seeds", "expected one or more, each once", config.seeds, locations)
    arms = [("baseline", config.baseline)]
    if config.oracle is not None:
        arms.append(("oracle", config.oracle))
    for at, item in enumerate(config.primary):
        arms += [(f"primary[{at}].arm", item.arm), (f"primary[{at}].against", item.against)]
    arms += [("arms_at", arm) for arm in config.arms_at]
    for key, arm in arms:
        if arm not in config.arms:
            raise _wrong(key, f"expected one of the arms {_list_of(config.arms)}", arm, locations)
    for arm, levels in config.arms_at.items():
        for level in levels:
            if level not in config.levels:
                raise _wrong(
                    f"arms_at.{arm}", f"expected some of the levels {_list_of(config.levels)}", level, locations
                )
    check_overlays(config, locations)
    planned_runs(replace(config, seeds=config.seeds[:1], arms_at={}), locations)


def _wrong(key: str, expected: str, got: Any, locations: Locations) -> ConfigError:
    where = locations.prefix(key.partition("[")[0])
    return ConfigError(f"{where}{key}: {expected}, got {quote(got)}")


def _list_of(names: Iterable[str]) -> str:
    return ", ".join(names)
