"""PF-PPO: rollouts drawn by the rank of their reward."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, identity, reward_weights
from geoalign.curators.batches import Group, groups_of, subset
from geoalign.errors import InputError
from geoalign.method.advantages import group_advantages
from geoalign.method.sampling_weights import batch_weights, buffer_weights, filtered_pair, paper_weights
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class PFPPOConfig:
    """The settings of `PFPPO` (arXiv 2409.06957); its two variants stand in the registry under names of their own."""

    variant: Literal["br", "bw"] = setting(default="br", help="Best and random, or best and worst.")
    mode: Literal["paper", "filter", "reweight", "verl"] = setting(
        default="paper",
        help="Draws within the group, two rows of the group, or draws over the batch (library only).",
    )
    draws: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Rows drawn per group in mode 'paper'; null: as many as the group has."
    )
    weighting: Literal["pow", "max_min", "max_random"] | None = setting(
        default=None, help="Weights of mode 'verl'; null: max_random for br, max_min for bw."
    )


@settings
class PFPPOBestRandomConfig(PFPPOConfig):
    """The settings of `pf_ppo_br`."""

    type: ClassVar[str] = "pf_ppo_br"

    variant: Literal["br"] = setting(default="br", help="Best and random.")


@settings
class PFPPOBestWorstConfig(PFPPOConfig):
    """The settings of `pf_ppo_bw`."""

    type: ClassVar[str] = "pf_ppo_bw"

    variant: Literal["bw"] = setting(default="bw", help="Best and worst.")


class PFPPO(Curator[PFPPOConfig]):
    """Policy filtration (arXiv 2409.06957): draws the best rollout of a group most often, beside random or worst ones.

    `variant` "br" (best and random) or "bw" (best and worst); `mode`:
    - "paper": `draws` rows of each group with replacement (None: as many as it has rewards), BR: best 1/2, every other
      1/(2(n-1)); BW: best 1/2, worst 1/2. Without importance correction, before the advantage.
    - "filter": two rows of each group, none twice: the first best and another one (BR) or the first worst (BW).
    - "reweight": the authors' replay buffer: draws over the whole batch with weights 0.4 and 0.1 (BR) or 1 (BW).
    - "verl": draws over the whole batch whatever the groups, with the weights named by `weighting`.

    The last two draw after the advantage: rows bring theirs along (`advantages` where given, GRPO's otherwise), across
    groups; so they run in the library only. A row with `donor_ok` False takes nobody's place, one without a reward is
    never drawn.

    Raises:
        InputError: `draws` is larger than a group; the message names the group.
    """

    config_class: ClassVar[type[Any]] = PFPPOConfig

    def __init__(self, config: PFPPOConfig | None = None, **settings: Any) -> None:
        if config is None and type(self) is PFPPO:
            # Settings of the variant's own class, so that its registered name can be told from them.
            kinds: dict[Any, type[PFPPOConfig]] = {"br": PFPPOBestRandomConfig, "bw": PFPPOBestWorstConfig}
            config, settings = kinds.get(settings.get("variant", "br"), PFPPOConfig)(**settings), {}
        super().__init__(config, **settings)
        if self.config.mode in ("reweight", "verl"):
            self.library_only = (
                f"mode={self.config.mode!r} draws rows across groups, and an engine's groups are those of one prompt; "
                "use mode='paper' or 'filter'"
            )

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Draws the rows; "filter" with variant "bw" draws nothing from `generator`."""
        groups = groups_of(rollouts)
        if self.config.mode == "paper":
            return self._drawn_in_groups(rollouts, groups, generator)
        if self.config.mode == "filter":
            kept = [
                group.rows[filtered_pair(group.rewards, self.config.variant, generator)]
                for group in groups
                if len(group.rows)
            ]
            return subset(rollouts, kept, {})
        return self._drawn_from_batch(rollouts, groups, generator)

    def _drawn_in_groups(self, rollouts: Rollouts, groups: list[Group], generator: torch.Generator | None) -> Curation:
        source = torch.arange(len(rollouts))
        drawn, without = [], 0
        for group in groups:
            size = len(group.rows) if self.config.draws is None else self.config.draws
            if size > group.size:
                raise InputError(
                    f"PFPPO: expected draws of at most the {group.size} rollouts of a group, got {size} in group "
                    f"{group.name}"
                )
            if not len(group.rows):
                continue
            weights = paper_weights(group.rewards, self.config.variant, generator)
            fit = _without_unfit(weights, group.rows, rollouts)
            if fit is None:
                # Nobody may take another's place: the group stays as it is.
                without += 1
                drawn.append(group.rows)
                continue
            chosen = torch.multinomial(fit, size, replacement=True, generator=generator)
            if size == len(group.rows):
                chosen = _own_places_first(chosen)
                source[group.rows] = group.rows[chosen]
            drawn.append(group.rows[chosen])
        metrics = {"groups_without_donor": float(without)}
        if self.config.draws is not None and sum(map(len, drawn)) < len(rollouts):
            return subset(rollouts, drawn, metrics)
        taken = _taken(rollouts, source)
        return replace(taken, metrics={**metrics, "replaced": float(taken.replaced.sum())})

    def _drawn_from_batch(self, rollouts: Rollouts, groups: list[Group], generator: torch.Generator | None) -> Curation:
        groups = [group for group in groups if len(group.rows)]
        if not groups:
            return identity(rollouts)
        # Over sorted groups, so that the order of the rows does not matter.
        rows = torch.cat([group.rows for group in groups])
        if self.config.mode == "verl":
            default: Any = "max_random" if self.config.variant == "br" else "max_min"
            weights = batch_weights(rollouts.rewards.cpu()[rows], self.config.weighting or default)
        else:
            weights = torch.cat([buffer_weights(group.rewards, self.config.variant) for group in groups])
        fit = _without_unfit(weights, rows, rollouts)
        if fit is None:
            return replace(identity(rollouts), metrics={"without_donor": 1.0})
        source = rows[torch.multinomial(fit, len(rollouts), replacement=True, generator=generator)]
        advantages = rollouts.advantages
        if advantages is None:
            advantages = group_advantages(rollouts.rewards, rollouts.groups)
        taken = _taken(rollouts, source)
        names = rollouts.groups.cpu()
        metrics = {
            "across_groups": float((names[source] != names).sum()),
            "distinct_rows": float(len(source.unique())),
        }
        return replace(taken, advantages=advantages[taken.source], metrics=metrics)


class PFPPOBestRandom(PFPPO):
    """PF-PPO with `variant="br"`: the registry's `pf_ppo_br`."""

    config_class = PFPPOBestRandomConfig


class PFPPOBestWorst(PFPPO):
    """PF-PPO with `variant="bw"`: the registry's `pf_ppo_bw`."""

    config_class = PFPPOBestWorstConfig


def _without_unfit(
    weights: Float[Tensor, " n"], rows: Int[Tensor, " n"], rollouts: Rollouts
) -> Float[Tensor, " n"] | None:
    """The weights without the rows that may not take another's place; None if nothing is left to draw."""
    if rollouts.donor_ok is None:
        return weights
    fit = weights * rollouts.donor_ok.cpu()[rows]
    return fit if bool(fit.any()) else None


def _own_places_first(chosen: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The same draws, arranged so that what was drawn stays in its own place, once."""
    arranged = torch.arange(len(chosen))
    drawn = torch.zeros(len(chosen), dtype=torch.bool)
    drawn[chosen] = True
    counts = torch.bincount(chosen, minlength=len(chosen))
    arranged[~drawn] = torch.repeat_interleave(arranged, (counts - 1).clamp(min=0))
    return arranged


def _taken(rollouts: Rollouts, source: Int[Tensor, " b"]) -> Curation:
    """The curation of as many rows as there were, with these in their places."""
    source = source.to(rollouts.rewards.device)
    rewards = rollouts.rewards[source]
    return replace(identity(rollouts), source=source, rewards=rewards, weights=reward_weights(rewards))
