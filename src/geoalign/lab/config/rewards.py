"""The settings of the rewards: frozen, validated, free of torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.settings import setting, settings

_Share = Annotated[float, Field(ge=0, le=1)]
_Function = Annotated[str, Field(pattern=r"^.+:[A-Za-z_][A-Za-z0-9_]*$")] | None


@settings
class RewardConfig:
    """How responses are scored, and the deliberate corruption of their rewards.

    With `function` a verifier of the user's gives the rewards of RL, as it is; the task's own reward stays the truth,
    by which rollouts are logged and evaluations scored. Otherwise RL learns from the task's own reward, corrupted.
    `flip` is for binary rewards (verified answers: 1 where the last boxed answer equals the gold one, else 0),
    `extremes` for continuous ones (a reward model), `shortcut` for both.
    """

    function: _Function = setting(
        default=None,
        help=(
            "Reward of RL by a reward function of TRL's form, MODULE:NAME or PATH.py:NAME (its code is run); null: the "
            "task's own."
        ),
    )
    appeals: _Function = setting(
        default=None,
        help="Second verifier of the curator `appeals`, likewise; null: the task's own reward.",
    )
    flip: _Share = setting(default=0.0, help="Share of the rollouts whose binary reward is flipped.")
    extremes: _Share = setting(
        default=0.0,
        help=(
            "Share of the rollouts whose continuous reward goes to the opposite end of its group: below the group's "
            "mean to its maximum, otherwise to its minimum."
        ),
    )
    fixed_share: bool = setting(
        default=False,
        help=(
            "`flip` and `extremes` hit just this share of every prompt's rollouts (a remainder by lot), as in the "
            "paper; false: each rollout independently."
        ),
    )
    jitter: _Share = setting(
        default=0.001,
        help=(
            "Corrupted continuous rewards lie beyond the group's extreme by up to this share of its spread, so that "
            "they are tied with none; 0: exactly on it."
        ),
    )
    shortcut: _Share = setting(
        default=0.0,
        help="Share of the rollouts which take the task's recognisable shortcut that are rewarded, right or wrong.",
    )
    references: Annotated[int, Field(ge=1)] = setting(
        default=10,
        help="Responses of the starting model per prompt, for curators that compare rewards with its own.",
    )
    model: RewardModelConfig = setting(
        default_factory=RewardModelConfig,
        help="A learned reward model: which one, and how it scores.",
    )
    max_unscored: Annotated[float, Field(gt=0, le=1)] = setting(
        default=0.5,
        help="Largest share of a batch that may stay unscored; beyond it the run stops, ready to go on.",
    )
    timeout: Annotated[float, Field(gt=0)] = setting(
        default=5.0, help="Seconds for one answer; then it counts as wrong and as a time-out."
    )
    workers: Annotated[int, Field(ge=1, le=1024)] = setting(
        default=2, help="Processes that verify answers; started when first needed."
    )
    max_answer_length: Annotated[int, Field(ge=1, le=10_000)] = setting(
        default=1000, help="Longer boxed answers, in characters, count as wrong unread."
    )
