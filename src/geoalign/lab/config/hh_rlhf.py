"""The settings of the task on HH-RLHF; free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from geoalign.settings import setting, settings

_Source = Annotated[str, Field(min_length=1)]
_Sources = _Source | Annotated[tuple[_Source, ...], Field(min_length=1, strict=False)]

Decontaminate = Literal["report", "drop", "off"]
DECONTAMINATE_HELP = (
    "Duplicates in training, conflicting answers among them, and training rows that an evaluation set has: report "
    "them, drop them, or off."
)


@settings
class HHRLHFConfig:
    """Dialogues in the format of HH-RLHF: rows with `chosen` and `rejected`, texts that begin `\\n\\nHuman:`.

    The chosen replies are the demonstrations, the pairs train the reward model, the prompts are for RL; each from
    sources of its own where these are given. A source is a file (.jsonl, .jsonl.gz, .json, .parquet) or a hub id
    `owner/name[/folder][:config][@split]`. Prompts for RL and evaluation may also be rows with a `prompt`, a list of
    chat messages. Gold utility is unknown, unless `gold_share` has a second reward model trained: then it is its score.
    """

    train: _Sources = setting(help="Files or hub ids of the SFT split: pairs, whose chosen replies are imitated.")
    type: Literal["hh_rlhf"] = "hh_rlhf"
    pairs: _Sources | None = setting(
        default=None, help="Files or hub ids of the pairs for the reward model; null: those of `train`."
    )
    gold_share: Annotated[float, Field(gt=0, lt=1)] | None = setting(
        default=None,
        help="Share of the pairs that a second reward model learns from alone, the gold model; null: there is none.",
    )
    held_out: Annotated[float, Field(gt=0, lt=1)] = setting(
        default=0.1, help="Share of a reward model's pairs that are kept for its test, at most 1,024 pairs."
    )
    rl: _Sources | None = setting(
        default=None, help="Files or hub ids whose prompts are for RL; null: those of `train`."
    )
    rl_prompts: Annotated[int, Field(ge=1)] | None = setting(
        default=None,
        help="Keep the last so many different prompts of `train` for RL, and the rest for SFT; null: all for both.",
    )
    evaluation: dict[str, _Sources] = setting(
        default_factory=dict,
        help="Evaluation sets: name to files or hub ids; their prompts alone are used. The paper: helpful, harmless.",
    )
    max_characters: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Leave out dialogues longer than this, prompt and reply together; null: none."
    )
    limit: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Use the first so many usable rows of each source; null: all."
    )
    decontaminate: Decontaminate = setting(default="report", help=DECONTAMINATE_HELP)

    @model_validator(mode="after")
    def _one_source_of_prompts(self) -> HHRLHFConfig:
        if self.rl is not None and self.rl_prompts is not None:
            raise ValueError(f"rl_prompts: expected null where `rl` has the prompts for RL, got {self.rl_prompts}")
        return self
