"""The settings of the curators: frozen, validated, free of torch.

Every class is a standard dataclass (so `TrlParser` and `HfArgumentParser` read it) that pydantic validates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass as _pydantic_dataclass
from typing_extensions import dataclass_transform

from geoalign.errors import ConfigError
from geoalign.settings.exact import check_exact, strict_json
from geoalign.settings.secrets import refuse_secrets
from geoalign.settings.shown import shown, shown_key, shown_text

_Settings = TypeVar("_Settings")
_MOST_PROBLEMS = 5


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def settings(cls: type[_Settings]) -> type[_Settings]:
    """Makes a class of settings: a frozen, keyword-only dataclass, validated, unknown keys refused.

    Numbers are finite; no text or boolean stands for a number, and no number or text for a boolean. What was given by
    keyword stands in `_given`, beside the fields: it is no part of equality, dumps or `asdict`.
    """
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    made: Any = _pydantic_dataclass(cls, frozen=True, kw_only=True, config=config)
    validated = made.__init__

    @wraps(validated)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        for name, value in values.items():
            refuse_secrets(value, path=f"{cls.__name__}.{name}")
        try:
            validated(self, *args, **values)
            check_exact(cls.__name__, values, self)
        except ValidationError as error:
            raise ConfigError(problems(cls.__name__, error)) from error
        object.__setattr__(self, "_given", frozenset(values))

    made.__init__ = checked
    return made


def problems(name: str, error: ValidationError) -> str:
    """One line a problem: where, what was expected, what came."""
    lines = []
    for problem in error.errors()[:_MOST_PROBLEMS]:
        where = shown_key(".".join([name, *(str(part) for part in problem["loc"])]))
        lines.append(f"{where}: {shown_text(problem['msg'])}; got {shown(problem['input'])}")
    left_out = error.error_count() - _MOST_PROBLEMS
    return "\n".join([*lines, *([f"and {left_out:,} more"] if left_out > 0 else [])])


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class ProjectorConfig:
    """The projector M of Eq. 4 and its training.

    Widths are reduced to fit a small hidden size d (`hidden_dim` to d, `output_dim` to d).
    """

    layers: Annotated[int, Field(ge=1)] = field(default=3, metadata=_help("Linear layers of the projector."))
    hidden_dim: Annotated[int, Field(ge=1)] = field(default=512, metadata=_help("Width of the hidden layers."))
    output_dim: Annotated[int, Field(ge=2)] = field(default=512, metadata=_help("Width of the projected space."))
    steps: Annotated[int, Field(ge=0)] = field(default=50, metadata=_help("Training steps per call."))
    learning_rate: Annotated[float, Field(gt=0)] = field(
        default=1e-3, metadata=_help("Initial Adam learning rate; falls to zero along a cosine.")
    )
    holdout: Annotated[float, Field(ge=0, lt=1)] = field(
        default=0.1, metadata=_help("Share of the pairs held out, for the early stop only.")
    )
    target_accuracy: Annotated[float, Field(gt=0, le=1)] | None = field(
        default=0.95, metadata=_help("Stop once the held-out pairs reach this accuracy; null: never stop early.")
    )
    early_stop: Literal["refit", "paper"] = field(
        default="refit",
        metadata=_help(
            "refit: stop at target_accuracy or once 3 looks (15 steps) bring no gain, then train anew on all pairs for "
            "as many steps; paper: stop at target_accuracy only, and leave the held-out pairs out."
        ),
    )
    folds: Annotated[int, Field(ge=2)] = field(default=2, metadata=_help("Folds of the cross-fitted scoring."))
    warm_start: bool = field(default=True, metadata=_help("Keep the weights from one call to the next."))
    groups_per_step: Annotated[int, Field(ge=1)] | Literal["auto"] | None = field(
        default="auto", metadata=_help("Groups drawn for each step; null: all; auto: so that a step stays small.")
    )


def _from_json(value: Any) -> Any:
    """Lets a command line give a nested setting as JSON: '{"layers": 2}', or 'none'."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in ("none", "null"):
        return None
    try:
        loaded = strict_json(value)
    except json.JSONDecodeError:
        loaded = value
    if not isinstance(loaded, dict):
        raise ValueError(f"expected a JSON object such as '{{\"layers\": 2}}' or 'none', got {shown(value)}")
    return ProjectorConfig(**loaded)


if TYPE_CHECKING:
    _Projector = ProjectorConfig | None
else:
    # `str` stands in the union, second, for command lines: HfArgumentParser knows no nested settings and reads the type
    # `X | str | None` as text. It never survives validation.
    _Projector = Annotated[ProjectorConfig | str | None, BeforeValidator(_from_json)]


@settings
class GeoAlignConfig:
    """The settings of `GeoAlign` (Algorithm 1 and Eqs. 2 to 8)."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = field(
        default=0.05, metadata=_help("A score is anomalous where the density falls below alpha times its peak.")
    )
    aggregation: Literal["sum", "mean", "excess"] = field(
        default="sum",
        metadata=_help("GDI: sum (Eq. 7), mean, or sum in excess of the batch's mean, of a rollout's pair deviations."),
    )
    strategy: Literal["replace", "zero_weight", "drop", "amplify"] = field(
        default="replace", metadata=_help("What happens to anomalous rollouts.")
    )
    tail: Literal["pointwise", "first_crossing"] = field(
        default="pointwise",
        metadata=_help("Flag each sparse score right of the mode, or everything beyond the first sparse point."),
    )
    max_fraction: Annotated[float, Field(gt=0, le=1)] | None = field(
        default=0.2, metadata=_help("At most this share of the scored rollouts is anomalous; null: no cap.")
    )
    min_scores: Annotated[int, Field(ge=2)] = field(
        default=32, metadata=_help("With fewer scored rollouts nothing is flagged.")
    )
    top_m: Annotated[int, Field(ge=1)] | None = field(
        default=None, metadata=_help("Pair only the m best with the m worst rollouts of a group; null: all pairs.")
    )
    margin_weighted_prototype: bool = field(
        default=True, metadata=_help("Weigh pairs by their reward margin in the prototype (Eq. 5).")
    )
    projector: _Projector = field(
        default_factory=ProjectorConfig,
        metadata=_help("Projector settings as JSON; 'none': score raw unit displacements."),
    )
    scoring: Literal["in_sample", "cross_fit"] = field(
        default="in_sample", metadata=_help("Score with a projector trained on all groups, or on the other folds.")
    )
    observe_only: bool = field(default=False, metadata=_help("Score and log, change nothing."))
    start_step: Annotated[int, Field(ge=0)] = field(
        default=0, metadata=_help("Calls that only observe before the first intervention.")
    )
    consensus_gate: Annotated[float, Field(gt=0, lt=1)] | None = field(
        default=None,
        metadata=_help("Act only where the accuracy on new groups is above chance at this confidence; null: always."),
    )
    gate_window: Annotated[int, Field(ge=1)] = field(
        default=5, metadata=_help("Calls whose new groups are pooled for the consensus gate.")
    )

    @classmethod
    def preset(cls, name: str, *, task: str, **overrides: Any) -> GeoAlignConfig:
        """The paper's settings for `task` "math" or "dialogue"; keywords override single values.

        `preset("paper", task=...)`: alpha 0.05 / 0.12, early stop at accuracy 0.95 / 0.85 alone, no cap, no minimum
        count beyond what a density needs, all groups in every step.

        `projector` overrides single values too: a mapping, `projector={"layers": 4}`, those that it names; a
        `ProjectorConfig` those that it was made with by keyword, so `ProjectorConfig(layers=4)` keeps the paper's early
        stop and `ProjectorConfig(layers=4, target_accuracy=None)` does not. One that was not made by keywords (read
        from a file, say) overrides where it differs from the package's defaults. None: no projector.

        Raises:
            ConfigError: an unknown preset or task; a value out of range.
        """
        if name != "paper":
            raise ConfigError(f"preset: expected 'paper', got {name!r}")
        values = {"math": (0.05, 0.95), "dialogue": (0.12, 0.85)}
        if task not in values:
            raise ConfigError(f"task: expected one of {sorted(values)}, got {task!r}")
        alpha, target_accuracy = values[task]
        projector = {"target_accuracy": target_accuracy, "groups_per_step": None, "early_stop": "paper"}
        if "projector" in overrides:
            overrides["projector"] = _merged(projector, overrides["projector"])
        preset = {"alpha": alpha, "max_fraction": None, "min_scores": 2, "projector": projector}
        return cls(**{**preset, **overrides})


def _merged(preset: dict[str, Any], override: Any) -> Any:
    """The values of a preset's projector, and over them those that the override sets; None stays None."""
    try:
        override = _from_json(override)
    except ValueError as error:
        raise ConfigError(f"projector: {error}") from error
    if isinstance(override, Mapping):
        return {**preset, **override}
    if not isinstance(override, ProjectorConfig):
        return override
    defaults = ProjectorConfig()
    differing = {one.name for one in fields(override) if getattr(override, one.name) != getattr(defaults, one.name)}
    return {**preset, **{name: getattr(override, name) for name in getattr(override, "_given", differing)}}


@settings
class GeoAlignReleasedConfig:
    """The settings of `GeoAlignReleased`: the values of the authors' released code."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = field(default=0.05, metadata=_help("Density share of the threshold."))
    output_dim: Annotated[int, Field(ge=2)] = field(default=512, metadata=_help("Width of the projected space."))
    dropout: Annotated[float, Field(ge=0, lt=1)] = field(default=0.1, metadata=_help("Dropout while training."))
    min_epochs: Annotated[int, Field(ge=1)] = field(default=50, metadata=_help("Epochs before an early stop."))
    max_epochs: Annotated[int, Field(ge=1)] = field(default=100, metadata=_help("Epochs at most."))
    batch_size: Annotated[int, Field(ge=1)] = field(default=1024, metadata=_help("Pairs per training batch."))
    learning_rate: Annotated[float, Field(gt=0)] = field(default=1e-4, metadata=_help("Initial Adam learning rate."))
    holdout: Annotated[float, Field(gt=0, lt=1)] = field(default=0.1, metadata=_help("Share of pairs held out."))
    target_accuracy: Annotated[float, Field(gt=0, le=1)] = field(
        default=0.95, metadata=_help("Early stop after min_epochs at this held-out accuracy.")
    )
    max_fraction: Annotated[float, Field(gt=0, le=1)] = field(
        default=0.2, metadata=_help("At most this share of the rollouts is anomalous.")
    )
    min_scores: Annotated[int, Field(ge=2)] = field(
        default=100, metadata=_help("With fewer scores nothing is flagged.")
    )

    @model_validator(mode="after")
    def _epochs_in_order(self) -> GeoAlignReleasedConfig:
        if self.max_epochs < self.min_epochs:
            raise ValueError(f"max_epochs: expected at least min_epochs = {self.min_epochs}, got {self.max_epochs}")
        return self


@settings
class IdentityConfig:
    """The settings of `GRPO`, the curator that changes nothing: none."""
