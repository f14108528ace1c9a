"""From a YAML file and the command line to the typed settings of a comparison, and back to plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.arms import check_arm, check_level, locations_below, resolved_run
from geoalign.lab.config.compare import CLEAN, CLEAN_ARM, DEFAULTS, CompareConfig, PrimaryComparison
from geoalign.lab.config.layers import is_file, read_layers
from geoalign.lab.config.loading import override_setting, parse_run_config
from geoalign.settings.loading import check_keys, plain_settings
from geoalign.settings.locations import Locations
from geoalign.settings.secrets import refuse_secrets
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
        data["arms"] = {name: _arm(str(name), value, Locations(where)) for name, value in data["arms"].items()}
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
    refuse_secrets(data, locations)
    check_keys(data, [item.name for item in fields(CompareConfig)], "", locations)
    values = {name: value for name, value in data.items() if value is not None or name in ("oracle", "workers")}
    values["run"] = parse_run_config(_mapping("run", data.get("run"), locations), locations_below(locations, "run"))
    arms = _mapping("arms", data.get("arms"), locations)
    values["arms"] = {str(name): _arm(str(name), value, locations) for name, value in arms.items()}
    if "levels" in values:
        levels = _mapping("levels", values["levels"], locations)
        values["levels"] = {str(n): dict(_mapping(f"levels.{n}", value, locations)) for n, value in levels.items()}
    if "primary" in values:
        values["primary"] = [
            _primary(at, item, locations) for at, item in enumerate(_list("primary", values, locations))
        ]
    if "oracle" not in values and CompareConfig.__dataclass_fields__["oracle"].default not in values["arms"]:
        values["oracle"] = None
    config = _construct(values, locations)
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
    plain: dict[str, Any] = {item.name: getattr(config, item.name) for item in fields(CompareConfig)}
    plain["run"] = plain_settings(config.run)
    plain["primary"] = [{"arm": item.arm, "against": item.against} for item in config.primary]
    return plain


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
        chosen = {name: config.arms[name] if name in config.arms else _arm(name, None, locations) for name in arms}
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


def _arm(name: str, value: Any, locations: Locations) -> dict[str, Any]:
    if value is None:
        return deepcopy(CLEAN_ARM) if name == CLEAN else {"curator": {"type": name}}
    return dict(_mapping(f"arms.{name}", value, locations))


def _primary(at: int, value: Any, locations: Locations) -> PrimaryComparison:
    if isinstance(value, PrimaryComparison):
        return value
    key = f"primary[{at}]"
    if not isinstance(value, Mapping):
        raise ConfigError(f"{locations.prefix('primary')}{key}: expected arm and against, got {shown(value)}")
    check_keys(value, ["arm", "against"], key, locations)
    if missing := [name for name in ("arm", "against") if not isinstance(value.get(name), str)]:
        raise ConfigError(f"{locations.prefix('primary')}{key}.{missing[0]}: expected the name of an arm, got none")
    return PrimaryComparison(**value)


def _construct(values: Mapping[str, Any], locations: Locations) -> CompareConfig:
    try:
        return CompareConfig(**values)
    except ConfigError as error:
        raise ConfigError(_with_location(str(error), locations)) from error


def _with_location(message: str, locations: Locations) -> str:
    """pydantic's "CompareConfig.seeds.1: ..." with the location of the key instead of the class."""
    key = message.removeprefix("CompareConfig.").partition(":")[0]
    return f"{locations.prefix(key)}{message.removeprefix('CompareConfig.')}"


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


def _mapping(key: str, value: Any, locations: Locations) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{locations.prefix(key)}{shown_key(key)}: expected a section of settings, got {shown(value)}"
        )
    return value


def _list(key: str, values: Mapping[str, Any], locations: Locations) -> list[Any]:
    if not isinstance(values[key], list):
        raise ConfigError(f"{locations.prefix(key)}{key}: expected a list, got {shown(values[key])}")
    return values[key]
