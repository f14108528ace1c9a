"""What makes a class of settings: frozen, validated, free of torch, and a standard dataclass.

So `TrlParser` and `HfArgumentParser` read it; pydantic validates it.
"""

from __future__ import annotations

from dataclasses import field
from functools import wraps
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as _pydantic_dataclass
from typing_extensions import dataclass_transform

from geoalign.errors import ConfigError
from geoalign.settings.secrets import refuse_secrets
from geoalign.text import escape, one_line, quote

_Settings = TypeVar("_Settings")
_MOST_PROBLEMS = 5

# Kinds of numbers.
Count = Annotated[int, Field(ge=1)]
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


def setting(*, help: str, **default: Any) -> Any:
    """One field of settings: `dataclasses.field` with a text that says what it is."""
    return field(**default, metadata={"help": help})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, setting))
def settings(cls: type[_Settings]) -> type[_Settings]:
    """Makes a class of settings: a frozen, keyword-only dataclass, validated, unknown keys refused.

    Numbers are finite; no text or boolean stands for a number, and no number or text for a boolean.
    """
    config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
    made: Any = _pydantic_dataclass(cls, frozen=True, kw_only=True, config=config)
    validated = made.__init__

    @wraps(validated)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        for name, value in values.items():
            refuse_secrets(value, path=f"{cls.__name__}.{name}")
        try:
            validated(self, *args, **values)
        except ValidationError as error:
            raise ConfigError(problems(cls.__name__, error)) from error

    made.__init__ = checked
    return made


def problems(name: str, error: ValidationError) -> str:
    """One line a problem: where, what was expected, what came."""
    lines = []
    for problem in error.errors()[:_MOST_PROBLEMS]:
        where = escape(".".join([name, *(str(part) for part in problem["loc"])]))
        lines.append(f"{where}: {one_line(problem['msg'])}; got {quote(problem['input'])}")
    left_out = error.error_count() - _MOST_PROBLEMS
    return "\n".join([*lines, *([f"and {left_out:,} more"] if left_out > 0 else [])])
