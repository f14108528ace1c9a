"""The settings of the rewards: frozen, validated, free of torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from geoalign.endpoint.settings import Address
from geoalign.settings import (
    AnyShare,
    Count,
    Name,
    NotNegative,
    Options,
    Positive,
    PositiveShare,
    Workers,
    setting,
    settings,
)
from geoalign.text import quote


@settings
class RewardHeadConfig:
    """Reward models whose head alone is fitted, on the mean state of a reply in the frozen model.

    It takes one pass over the pairs, and the rest of the model stays as the warm start left it.
    """

    penalty: Positive = setting(
        default=1.0, help="L2 penalty: half of it times the squared length of the direction, in standard deviations."
    )
    layers: Count | None = setting(default=None, help="Keep only this many layers of the model, the lowest; null: all.")


@settings
class RewardModelConfig:
    """Where the reward model comes from, and how it scores responses.

    With neither `path` nor `url` the run trains one on its task's preference pairs, where the task has some. With
    either, it trains none, and any task may be scored by it.
    """

    path: Name | None = setting(default=None, help="A ready reward model: folder or hub id.")
    revision: Name | None = setting(default=None, help="Branch, tag or commit of the model on the hub.")
    trust_remote_code: bool = setting(
        default=False, help="Run the Python code that comes with the model (or `tokenizer`), as ArmoRM needs."
    )
    batch_size: Count = setting(default=64, help="Responses scored at a time.")
    device: str | None = setting(default=None, help="Device of the reward model; null: that of training.")
    dtype: Literal["float32", "bfloat16", "float16"] = setting(default="float32", help="Type of its weights in memory.")
    max_length: Count | None = setting(
        default=None, help="Longest dialogue in tokens; longer ones are not scored. null: what it can take."
    )
    url: Address | None = setting(default=None, help="Address of a vLLM server that scores.")
    api: Literal["vllm", "vllm_pooling"] = setting(
        default="vllm", help="The server's endpoint: vLLM's /classify, or vLLM's /pooling."
    )
    tokenizer: Name | None = setting(
        default=None, help="For a server: folder or hub id with its chat template; null: the served model's name."
    )
    token_env: Name | None = setting(
        default=None, help="Environment variable with the server's bearer token; null: none is sent."
    )
    timeout: Positive = setting(default=120.0, help="Seconds for one request.")
    patience: NotNegative = setting(
        default=600.0, help="Seconds that a batch waits for a server that is down; then its rest stays unscored."
    )

    @property
    def ready(self) -> bool:
        """Whether the reward model is there already, so that the run trains none."""
        return self.path is not None or self.url is not None

    @model_validator(mode="after")
    def _go_together(self) -> Any:
        if self.path is not None and self.url is not None:
            raise ValueError(f"url: expected null beside path={quote(self.path)}, got {quote(self.url)}")
        return self


@settings
class ScoringConfig:
    """How responses are scored: by a learned reward model, or against their answers."""

    model: RewardModelConfig = setting(
        default_factory=RewardModelConfig, help="A learned reward model: which one, and how it scores."
    )
    max_unscored: PositiveShare = setting(
        default=0.5, help="Largest share of a batch that may stay unscored; beyond it the run stops and can be resumed."
    )
    timeout: Positive = setting(default=5.0, help="Seconds for one answer; then it counts as wrong and as a time-out.")
    workers: Workers = setting(default=2, help="Processes that verify answers; started when first needed.")


@settings
class RewardConfig(ScoringConfig):
    """How responses are scored, and the deliberate corruption of their rewards.

    With `function` a verifier of the user's gives the rewards of RL, as it is; the task's own reward stays the truth,
    by which rollouts are logged and evaluations scored. Otherwise RL learns from the task's own reward, corrupted.
    `flip` is for binary rewards (verified answers: 1 where the last boxed answer equals the gold one, else 0),
    `extremes` for continuous ones (a reward model), `shortcut` for both.
    """

    function: Name | None = setting(
        default=None,
        help=(
            "RL learns from this reward function of TRL's form, MODULE:NAME or PATH.py:NAME (its code is run), or from "
            "math_verify, a command or https://host/v1; null: the task's own."
        ),
    )
    second_verifier: Name | None = setting(
        default=None,
        help=(
            "Judges the rows that `appeals` asks about: math_verify, MODULE:NAME, a command or https://host/v1; null: "
            "the task's own reward."
        ),
    )
    second_verifier_seconds: Positive = setting(
        default=60.0, help="Seconds for the questions of one batch; what is not answered by then stays as it is."
    )
    endpoint: Options = setting(
        default_factory=dict, help="For `https://...` above: model, max_tokens, ... as in `geoalign judge`."
    )
    flip: AnyShare = setting(default=0.0, help="Share of the rollouts whose binary reward is flipped.")
    extremes: AnyShare = setting(
        default=0.0,
        help=(
            "Share of the rollouts whose continuous reward goes to the opposite end of its group: below the group's "
            "mean to its maximum, otherwise to its minimum."
        ),
    )
    fixed_share: bool = setting(
        default=False,
        help=(
            "`flip` and `extremes` hit exactly their share of every prompt's rollouts (rounded at random), as in the "
            "paper; false: each rollout independently."
        ),
    )
    jitter: AnyShare = setting(
        default=0.001,
        help=(
            "Corrupted continuous rewards lie beyond the group's extreme by up to this share of its spread, so that "
            "they are tied with none; 0: exactly on it."
        ),
    )
    shortcut: AnyShare = setting(
        default=0.0,
        help="Share of the rollouts which take the task's recognisable shortcut that are rewarded, right or wrong.",
    )
    references: Count = setting(
        default=10, help="Reference responses per prompt from the starting model, for curators that use their rewards."
    )
