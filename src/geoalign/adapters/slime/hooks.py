"""The two functions that slime's rollout manager loads by path and calls in its own process."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from geoalign.adapters.settings import SECTION
from geoalign.adapters.slime.run import SlimeRun
from geoalign.errors import ConfigError

_ENGINES = ("slime", "vime", "miles")
_DEFAULT = "rollout.data_source.RolloutDataSourceWithBuffer"
# slime hands its one namespace of arguments to both functions.
_current: SlimeRun | None = None


def run_of(args: Any) -> SlimeRun:
    """The run with these arguments: the same one for the same namespace."""
    global _current
    if _current is None or _current.args is not args:
        _current = SlimeRun(args)
    return _current


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """`--custom-reward-post-process-path`: curates the list of samples in place, before slime converts it.

    Args:
        samples: the flat list of a rollout step; slime makes the training rows of it after this call.

    Returns:
        Each sample's reward as generated (NaN: none), and its advantage.

    Raises:
        UnsupportedError, InputError: the samples cannot be curated; the message has the first that cannot.
        ConfigError: a setting is wrong, or checkpoints would be written without the curator's state.
    """
    return run_of(args).curate(samples)


def data_source(args: Any) -> Any:
    """`--data-source-path`: the data source that the engine would have, whose checkpoints hold the curator's state.

    Raises:
        ConfigError: no engine, or several, are loaded, and `geoalign.data_source` names none.
    """
    run = run_of(args)
    kind = _loaded(run.settings.data_source or _default_source())

    class CuratedDataSource(kind):  # type: ignore[misc, valid-type]
        def save(self, rollout_id: int) -> None:
            run.save(rollout_id)
            super().save(rollout_id)

        def load(self, rollout_id: int | None = None) -> None:
            super().load(rollout_id)
            run.load(rollout_id)

    run.saved = True
    return CuratedDataSource(args)


def _default_source() -> str:
    loaded = [name for name in _ENGINES if name in sys.modules]
    if len(loaded) != 1:
        raise ConfigError(
            f"{SECTION}.data_source: expected a path, such as slime.{_DEFAULT}, where not exactly one of "
            f"{', '.join(_ENGINES)} is loaded; got {', '.join(loaded) or 'none'}"
        )
    return f"{loaded[0]}.{_DEFAULT}"


def _loaded(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{SECTION}.data_source: expected the path of a class, got {path!r}: {error}") from error
