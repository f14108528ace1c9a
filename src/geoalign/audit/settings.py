"""The settings of `geoalign audit`, which curates dumps of rollouts without a trainer; free of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.pretrained.settings import LoadedModelConfig
from geoalign.settings import Count, Options, Seed, setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition
from geoalign.settings.layers import Typed, overridden
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations


def _audit_curator() -> CuratorSection:
    """`denoise`, which concludes nothing from a missing answer: a file does not say whether one was asked for, and an
    answer may stand where it is not read."""
    settings: Any = default_curator("denoise")
    section: CuratorSection = replace(settings, unanswered="kept")
    return section


@settings
class AuditConfig(LoadedModelConfig):
    """How dumps of rollouts are curated; which ones, and where their hidden states are, is said on the command line."""

    curator: CuratorSection = setting(
        default_factory=_audit_curator, help="What judges the rollouts; of `denoise`, `unanswered` is `kept` here."
    )
    seed: Seed = setting(default=0, help="Seed of every random draw.")
    hidden_position: HiddenPosition = setting(default="predicting", help="Where in a response its state is read.")
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: a number, or a share of the depth (0.5); a list: several."
    )
    prompts: Literal["auto", "chat", "text"] = setting(
        default="auto",
        help=(
            "How the model reads prompts that are texts: as one message of the user in its chat template, or as they "
            "stand; auto: chat where the format keeps bare questions, text where it keeps rendered prompts."
        ),
    )
    chat_template_kwargs: Options = setting(
        default_factory=dict, help="Arguments of the chat template, such as enable_thinking: false."
    )
    batch_size: Count = setting(default=16, help="Rollouts per forward pass; 1 to 16 for long ones.")
    max_tokens: Annotated[int, Field(ge=2)] | None = setting(
        default=None, help="Longer rollouts keep their last tokens; null: as many as the model can take."
    )
    endpoint: Options = setting(
        default_factory=dict, help="For `--second-verifier https://...`: model, max_tokens, ... as in `geoalign judge`."
    )


def load_audit_config(
    curator: str | None = None, overrides: Sequence[str] = (), *, trust_remote_code: bool = False
) -> AuditConfig:
    """The settings from the command line.

    Args:
        curator: the curator's name; None: `denoise`.
        overrides: each `a.b=c` of `--set`.
        trust_remote_code: whether a model's code may run.
    """
    options: list[Typed] = []
    if curator is not None:
        options.append(Typed("curator.type", curator, f"--curator {curator}"))
    if trust_remote_code:
        options.append(Typed("trust_remote_code", True, "--trust-remote-code"))
    values, locations = overridden(overrides, options, default_types={"curator": "denoise"})
    return audit_config(values, Locations(locations))


def audit_config(values: Mapping[str, Any], locations: Locations | None = None) -> AuditConfig:
    """The settings from plain data; ConfigErrors name the key, and where `locations` say that it was written."""
    curator = values.get("curator", {})
    if isinstance(curator, Mapping):
        curator = {"type": "denoise", **curator}
        if curator["type"] == "denoise":
            curator.setdefault("unanswered", "kept")
    config: AuditConfig = load_settings(AuditConfig, {**values, "curator": curator}, locations or Locations({}))
    return config
