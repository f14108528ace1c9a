"""What makes a class of settings: frozen, validated, free of torch, and a standard dataclass.

So `TrlParser` and `HfArgumentParser` read it; pydantic validates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import wraps
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass as _pydantic_dataclass
from pydantic_core import ArgsKwargs, InitErrorDetails, PydanticCustomError
from typing_extensions import dataclass_transform

from geoalign.errors import ConfigError
from geoalign.settings.problems import explain, refuse_secrets

_Settings = TypeVar("_Settings")

# Kinds of numbers.
Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Several = Annotated[int, Field(ge=2)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
OpenShare = Annotated[float, Field(gt=0, lt=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
AnyShare = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Workers = Annotated[int, Field(ge=1, le=1024)]
# A text that is not empty.
Name = Annotated[str, Field(min_length=1)]
# Options that are passed on to another package; YAML's empty section `grpo:` has none.
Options = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]


def setting(*, help: str, **default: Any) -> Any:
    """One field of settings: `dataclasses.field` with a text that says what it is."""
    return field(**default, metadata={"help": help})


def default_type(name: str) -> BeforeValidator:
    """For the annotation of a union of which `type` picks one: the kind where a section names none, or is empty."""

    def with_type(value: Any) -> Any:
        if value is None or (isinstance(value, Mapping) and "type" not in value):
            return {"type": name, **(value or {})}
        return value

    return BeforeValidator(with_type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, setting))
def settings(cls: type[_Settings]) -> type[_Settings]:
    """Makes a class of settings: a frozen, keyword-only dataclass, validated, unknown keys refused.

    Numbers are finite; no text or boolean stands for a number, and no number or text for a boolean. What is wrong is a
    ConfigError, which names the setting. Where a class is the type of a field, a mapping stands for its settings.
    """
    cls._from_section = model_validator(mode="wrap")(_from_section)  # type: ignore[attr-defined]
    config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
    validated: Any = _pydantic_dataclass(cls, frozen=True, kw_only=True, config=config)
    validated.__init__ = _with_plain_errors(cls.__name__, validated.__init__)
    return validated


@classmethod  # type: ignore[misc]
def _from_section(cls: Any, value: Any, validated: Callable[[Any], Any]) -> Any:
    """Settings out of a constructor's arguments, out of a section (a mapping, or nothing at all), or as they are."""
    if isinstance(value, ArgsKwargs):
        _check_names(cls, value.kwargs or {})
        return validated(value)
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping | None):
        raise PydanticCustomError("section", "expected a section of settings")
    # Not by a call, which would turn pydantic's errors into ours before they know the section.
    made = cls.__new__(cls)
    cls.__pydantic_validator__.validate_python(ArgsKwargs((), dict(value or {})), self_instance=made)
    return made


def _check_names(cls: Any, values: Mapping[str, Any]) -> None:
    """Raises ValidationError for a name that is no setting of a class; the error has the known ones."""
    known = [item.name for item in fields(cls)]
    for name in values:
        if name not in known:
            problem = PydanticCustomError("unknown_key", "unknown key", {"known": known})
            error = InitErrorDetails(type=problem, loc=(name,), input=name)
            raise ValidationError.from_exception_data(cls.__name__, [error])


def _with_plain_errors(name: str, validated: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a class of settings, whose errors are ConfigErrors of one line."""

    @wraps(validated)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        refuse_secrets(values, path=name)
        try:
            validated(self, *args, **values)
        except ValidationError as error:
            raise ConfigError(explain(error, values, path=name)) from error

    return checked
