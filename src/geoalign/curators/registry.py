"""The curators by name: the built-in ones and those of other packages. Importing it loads no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

from pydantic import PlainValidator, TypeAdapter
from pydantic_core import PydanticCustomError, PydanticKnownError

from geoalign.errors import ConfigError
from geoalign.settings.loading import load_settings
from geoalign.settings.problems import nearest
from geoalign.text import quote

if TYPE_CHECKING:
    from geoalign.curators.curator import Curator

ENTRY_POINT_GROUP = "geoalign.curators"

BUILT_IN = {
    "grpo": "geoalign.curators.baselines.reshaped_advantages:GRPO",
    "geoalign": "geoalign.curators.geoalign:GeoAlign",
    "denoise": "geoalign.curators.denoise:Denoise",
    "geoalign_released": "geoalign.curators.baselines.released:GeoAlignReleased",
    "pf_ppo_br": "geoalign.curators.baselines.subsets:PFPPOBestRandom",
    "pf_ppo_bw": "geoalign.curators.baselines.subsets:PFPPOBestWorst",
    "par": "geoalign.curators.baselines.reshaped_rewards:PAR",
    "pods": "geoalign.curators.baselines.subsets:PODS",
    "variance_filter": "geoalign.curators.baselines.subsets:VarianceFilter",
    "seed_grpo": "geoalign.curators.baselines.seed_grpo:SeedGRPO",
    "s_grpo": "geoalign.curators.baselines.reshaped_advantages:SGRPO",
    "cppo": "geoalign.curators.baselines.subsets:CPPO",
    "mc_grpo": "geoalign.curators.baselines.reshaped_advantages:MCGRPO",
    "quantile": "geoalign.curators.baselines.reshaped_advantages:QuantileBaseline",
    "noise_corrected": "geoalign.curators.baselines.reshaped_advantages:NoiseCorrected",
    "nearest_centroid": "geoalign.curators.baselines.probes:NearestCentroid",
    "confident_learning": "geoalign.curators.baselines.probes:ConfidentLearning",
    "score_agreement": "geoalign.curators.baselines.probes:ScoreAgreement",
    "appeals": "geoalign.curators.appeals:Appeals",
    "monitor": "geoalign.curators.monitor:Monitor",
    "labelled_probe": "geoalign.curators.baselines.labelled:LabelledProbe",
    "answer_mean": "geoalign.curators.baselines.reshaped_rewards:AnswerMean",
    "majority_vote": "geoalign.curators.baselines.reshaped_rewards:MajorityVote",
    "olr": "geoalign.curators.baselines.label_refinement:OLR",
    "rank_trim": "geoalign.curators.baselines.controls:RankTrim",
    "tie_detector": "geoalign.curators.baselines.controls:TieDetector",
    "pair_count": "geoalign.curators.baselines.controls:PairCount",
    "reward_distance": "geoalign.curators.baselines.controls:RewardDistance",
    "random": "geoalign.curators.baselines.controls:Random",
    "oracle": "geoalign.curators.baselines.controls:Oracle",
    "chain": "geoalign.curators.chain:Chain",
}


class _Curators(Mapping[str, Any]):
    """Names to curator classes; a class is imported when it is first asked for."""

    def _locations(self) -> dict[str, Any]:
        installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
        return {**installed, **BUILT_IN}

    def __getitem__(self, name: str) -> Any:
        # Installed packages are searched only for other names: that takes a while.
        locations: Mapping[str, Any] = BUILT_IN if name in BUILT_IN else self._locations()
        if name not in locations:
            near = nearest(name, locations) if isinstance(name, str) else None
            hint = f" (nearest: {near})" if near else ""
            raise ConfigError(f"curator: expected one of {', '.join(sorted(locations))}{hint}; got {quote(name)}")
        location = locations[name]
        if isinstance(location, str):
            module, _, attribute = location.partition(":")
            return getattr(import_module(module), attribute)
        curator_class: type[Curator[Any]] = location.load()
        declared = getattr(curator_class.config_class, "type", None)
        if declared != name:
            settings = curator_class.config_class.__name__
            raise ConfigError(f"curator {name}: expected {settings}.type to be {name!r}, got {quote(declared)}")
        return curator_class

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._locations()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._locations()))

    def __len__(self) -> int:
        return len(self._locations())


CURATORS: Mapping[str, type[Curator[Any]]] = _Curators()
"""Every curator's class by its name: the built-in ones, and those that installed packages bring."""


@runtime_checkable
class CuratorSettings(Protocol):
    """The settings of a curator; `type` is the name under which the curator is known."""

    type: ClassVar[str]


def default_curator(name: str = "denoise") -> CuratorSettings:
    """A curator's settings, all at their defaults."""
    return cast("CuratorSettings", CURATORS[name].config_class())


def as_curator(value: object, *, setting: str = "curator") -> Curator[Any]:
    """The curator that a user means, wherever one is taken: by name, as a dict, by its settings, or the curator itself.

    Args:
        value: a name ("denoise"); a dict as a section of YAML, `{"type": "denoise", "window": 3}`; settings,
            `DenoiseConfig(window=3)`; or a `Curator`, which is returned as it is.
        setting: where it was given, for messages.

    Raises:
        ConfigError: none of these; an unknown name (the message lists the known ones, and the nearest); or a setting
            that is unknown or out of range.
    """
    # By its name, as the curators themselves: importing this module loads no torch.
    curator_class: type[Curator[Any]] = import_module("geoalign.curators.curator").Curator
    if isinstance(value, curator_class):
        return value
    if isinstance(value, type) and issubclass(value, curator_class):
        raise ConfigError(f"{setting}: expected a curator, got its class: write {value.__name__}()")
    config = as_curator_settings(value, setting=setting)
    return CURATORS[config.type](config)


def as_curator_settings(value: object, *, setting: str = "curator") -> CuratorSettings:
    """The settings of a curator that a user means: by name, as a dict with its `type`, or the settings themselves."""
    if isinstance(value, (str, Mapping)):
        return cast("CuratorSettings", load_settings(CuratorSection, value, path=setting))
    if not isinstance(getattr(value, "type", None), str):
        ways = "a name such as 'denoise', a dict with its `type`, its settings, or a Curator"
        raise ConfigError(f"{setting}: expected a curator ({ways}), got {type(value).__name__}")
    config = cast("CuratorSettings", value)
    # Settings may name a curator that is not registered; the error comes when their curator is made.
    if config.type in CURATORS and not isinstance(config, CURATORS[config.type].config_class):
        raise ConfigError(f"{setting}: no curator takes settings of type {type(value).__name__}")
    return config


def _settings_of(value: Any) -> CuratorSettings:
    """The settings that a `curator:` section means: a mapping with its `type`, a name alone, or settings themselves.

    Only the module of the curator that is named is imported.
    """
    section = {} if value is None else {"type": value} if isinstance(value, str) else value
    if isinstance(section, Mapping):
        name = section.get("type", "denoise")
        if not isinstance(name, str) or name not in CURATORS:
            known = {"discriminator": "'type'", "tag": str(name), "expected_tags": ", ".join(map(repr, CURATORS))}
            raise PydanticKnownError("union_tag_invalid", known)
        settings = {key: item for key, item in section.items() if key != "type"}
        return cast("CuratorSettings", TypeAdapter(CURATORS[name].config_class).validate_python(settings))
    name = getattr(section, "type", None)
    if not isinstance(name, str) or (name in CURATORS and not isinstance(section, CURATORS[name].config_class)):
        raise PydanticCustomError("curator", "expected a section of settings")
    return cast("CuratorSettings", section)


if TYPE_CHECKING:
    CuratorSection = CuratorSettings
else:
    CuratorSection = Annotated[CuratorSettings, PlainValidator(_settings_of)]
"""What the setting `curator` may be, in YAML and in Python."""
