"""What goes over the wire between the reward server and its clients: JSON objects, checked field by field."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_Text = Annotated[str, Field(strict=True)]


class Message(BaseModel):
    """One turn of a dialogue."""

    model_config = ConfigDict(extra="forbid")

    role: Annotated[str, Field(strict=True, min_length=1, max_length=64)]
    content: _Text


class ScoreRequest(BaseModel):
    """Responses to score, each with the messages of its prompt."""

    model_config = ConfigDict(extra="forbid")

    prompts: list[list[Message]]
    responses: list[_Text]


class ScoreReply(BaseModel):
    """One score per response, null where it has none; `unscored` counts the nulls by reason."""

    scores: list[float | None]
    unscored: dict[str, int]


class Health(BaseModel):
    """What a client needs to know of a server; answered without a token."""

    status: Literal["ok"] = "ok"
    server: Literal["geoalign"] = "geoalign"
    version: str
    max_batch: int
    max_bytes: int
