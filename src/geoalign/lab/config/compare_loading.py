"""From a YAML file and the command line to the typed settings of a comparison, and back to plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.arms import check_arm, check_level, resolved_run
from geoalign.lab.config.compare import CLEAN, CLEAN_ARM, DEFAULTS, CompareConfig
from geoalign.lab.config.layers import is_file, merged_settings, read_layers
from geoalign.lab.config.loading import override_setting
from geoalign.settings.loading import load_settings, plain_settings
from geoalign.settings.locations import Locations
from geoalign.shown import shown, shown_key

# Names of arms and levels become names of folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")


@dataclass(frozen=True)
class LoadedComparison:
    """The settings of a comparison, and where each was written."""

    config: CompareConfig
    locations: Locations


def load_compare_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    arms: Sequence[str] | None = None,
    levels: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> LoadedComparison:
    """The settings of a comparison: the file (without one, `DEFAULTS`), then each `a.b=c` of `overrides` in order.

    Where the file's `run` is a text, it names a file with the settings of the base run, beside the comparison's own. A
    `base` names another comparison in the same folder, which the file is merged into.
    `arms`, `levels` and `seeds` choose among them, as `restrict` does.

    Raises:
        ConfigError: an unreadable file, an unknown key, a value out of range, a setting that an arm or level may not
            change, or a name that is not there; the message has the dotted key, the file and the line.
    """
    data, where = _read(path) if path is not None else (deepcopy(DEFAULTS), {})
    if isinstance(data.get("arms") or {}, dict) and arms is not None:
        data["arms"] = {**dict.fromkeys(arms), **(data.get("arms") or {})}
    if isinstance(data.get("arms"), dict):
        # Written out first, so that an override changes the arm and does not replace it.
        data["arms"] = _written_out(data["arms"], Locations(where))
    for override in overrides:
        override_setting(data, where, override, run=("run",))
    locations = Locations(where)
    config = restrict(parse_compare_config(data, locations), arms=arms, levels=levels, seeds=seeds, locations=locations)
    return LoadedComparison(config, locations)


def parse_compare_config(data: Mapping[str, Any], locations: Locations | None = None) -> CompareConfig:
    """The settings of a comparison from plain data, as `plain_compare_config` gives them.

    `null` as an arm's settings stands for the curator of the arm's name; `clean` then means no curator and no
    corruption.

    Raises:
        ConfigError: as `load_compare_config`.
    """
    locations = locations or Locations()
    values = {name: value for name, value in data.items() if value is not None or name in ("oracle", "workers")}
    if isinstance(arms := values.get("arms"), Mapping):
        values["arms"] = {name: _arm(name, value) for name, value in arms.items()}
        values.setdefault("oracle", "oracle" if "oracle" in arms else None)
    if isinstance(levels := values.get("levels"), Mapping):
        values["levels"] = {name: value or {} for name, value in levels.items()}
    config: CompareConfig = load_settings(CompareConfig, values, locations)
    _check(config, locations)
    return config


def names_given(option: str, text: str | None) -> list[str] | None:
    """The names of `A,B,...` on the command line; None where the option is not given.

    Raises:
        ConfigError: a name is empty or stands twice.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"{option}: expected names with commas between them, each once, got {shown(text)}")
    return names


def seeds_given(text: str | None) -> list[int] | None:
    """The seeds of `0,1,...` on the command line; None where the option is not given.

    Raises:
        ConfigError: anything but whole numbers from 0 below 2**31, each once.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    seeds = [int(part) for part in parts if re.fullmatch("[0-9]{1,10}", part)]
    if len(seeds) < len(parts):
        raise ConfigError(f"--seeds: expected whole numbers such as 0,1,2, got {shown(text)}")
    if len(set(seeds)) < len(seeds) or max(seeds) >= 2**31:
        raise ConfigError(f"--seeds: expected numbers below 2**31, each once, got {shown(text)}")
    return seeds


def plain_compare_config(config: CompareConfig) -> dict[str, Any]:
    """The settings as nested dicts of plain values: what `compare.yaml` of a comparison's folder holds."""
    return plain_settings(config)


def restrict(
    config: CompareConfig,
    *,
    arms: Sequence[str] | None = None,
    levels: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    locations: Locations | None = None,
) -> CompareConfig:
    """The same comparison with the arms, levels and seeds named on the command line.

    An arm that the settings do not have is the curator of that name, or `clean`. Comparisons with an arm that is left
    out are left out.

    Raises:
        ConfigError: an unknown level, or a baseline that is not among the arms.
    """
    locations = locations or Locations()
    if levels is not None:
        for level in levels:
            if level not in config.levels:
                raise ConfigError(f"--levels: expected some of {_list_of(config.levels)}, got {shown(level)}")
        config = replace(config, levels={name: config.levels[name] for name in levels})
    if arms is not None:
        chosen = {name: config.arms[name] if name in config.arms else _arm(name, None) for name in arms}
        if config.baseline not in chosen:
            raise ConfigError(
                f"--curators: expected the baseline {config.baseline} among them (or --set baseline=NAME), "
                f"got {_list_of(arms)}"
            )
        config = replace(
            config,
            arms=chosen,
            oracle=config.oracle if config.oracle in chosen else "oracle" if "oracle" in chosen else None,
            primary=[item for item in config.primary if item.arm in chosen and item.against in chosen],
        )
    if seeds is not None:
        config = replace(config, seeds=list(seeds))
    at = {arm: [level for level in names if level in config.levels] for arm, names in config.arms_at.items()}
    config = replace(config, arms_at={arm: names for arm, names in at.items() if arm in config.arms})
    _check(config, locations)
    return config


def _read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A comparison's file as plain data, the file that its `run` may name read in, and where each key was written."""
    data, where = read_layers(path)
    named = data.get("run")
    if not isinstance(named, str):
        return data, where
    base = path.parent / named
    if not is_file(base):
        raise ConfigError(
            f"{Locations(where).prefix('run')}run: expected settings, or a file with them, "
            f"got no file {shown_key(str(base))}"
        )
    run, locations = read_layers(base)
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
                raise ConfigError(f"{locations.prefix(key)}{key}: expected an arm above this one, got {shown(base)}")
            arm = merged_settings(arms[base], arm)
        arms[name] = arm
    return arms


def _check(config: CompareConfig, locations: Locations) -> None:
    for section, names in (("arms", config.arms), ("levels", config.levels)):
        if not names:
            raise ConfigError(f"{locations.prefix(section)}{section}: expected at least one, got none")
        for name in names:
            if not _NAME.fullmatch(name):
                key = f"{section}.{name}"
                expected = "expected a name of letters, digits, dots, _, + and -, at most 80"
                raise ConfigError(f"{locations.prefix(key)}{shown_key(key)}: {expected}, got {shown(name)}")
    if not config.seeds or len(set(config.seeds)) < len(config.seeds):
        raise ConfigError(
            f"{locations.prefix('seeds')}seeds: expected one or more, each once, got {shown(config.seeds)}"
        )
    _check_names(config, locations)
    for name, settings_of in config.arms.items():
        check_arm(name, settings_of, locations)
    for name, settings_of in config.levels.items():
        check_level(name, settings_of, locations)
    for level in config.levels:
        for arm in config.arms:
            resolved_run(config, level, arm, config.seeds[0], locations)


def _check_names(config: CompareConfig, locations: Locations) -> None:
    named = [("baseline", config.baseline)] + ([("oracle", config.oracle)] if config.oracle is not None else [])
    for at, item in enumerate(config.primary):
        named += [(f"primary[{at}].arm", item.arm), (f"primary[{at}].against", item.against)]
    named += [("arms_at", arm) for arm in config.arms_at]
    for key, arm in named:
        if arm not in config.arms:
            location = locations.prefix(key.partition("[")[0])
            raise ConfigError(f"{location}{key}: expected one of the arms {_list_of(config.arms)}, got {shown(arm)}")
    for arm, levels in config.arms_at.items():
        for level in levels:
            if level not in config.levels:
                key = f"arms_at.{arm}"
                levels_known = _list_of(config.levels)
                raise ConfigError(
                    f"{locations.prefix(key)}{key}: expected some of the levels {levels_known}, got {shown(level)}"
                )


def _list_of(names: Iterable[str]) -> str:
    return shown_key(", ".join(names))
