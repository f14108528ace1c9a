"""One step of a dump: the batch that a curator reads, and what it decides as further columns of the step's frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.assignment import assign
from geoalign.curators.base import Curator
from geoalign.curators.chain import ChainConfig
from geoalign.curators.denoise import Denoise, DenoiseConfig
from geoalign.curators.denoise.rows import two_values
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.registry import CuratorSection
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.lab.analysis.consensus import CHANCE
from geoalign.lab.analysis.detection import pair_counts
from geoalign.lab.audit.inputs import Input
from geoalign.lab.audit.verdicts import are_verdicts
from geoalign.lab.store.audit import AuditTables
from geoalign.method.advantages import group_advantages
from geoalign.method.intervals import clustered_proportion
from geoalign.types import Curation, CurationDetails, Rollouts, response_keys

if TYPE_CHECKING:
    from geoalign.lab.audit.appeals import SecondOpinion

# Pairs that are kept of a step's groups without a flagged rollout.
PAIRS_PER_STEP = 20_000
NO_CONSENSUS = "This curator measures no consensus of hidden states."
NO_STATES = "There are no hidden states: geometry=none, rewards are judged by answers and identical responses alone."


def without_states(section: CuratorSection) -> CuratorSection:
    """The settings of a curator where no rollout has states: `denoise` goes by answers and identical responses."""
    if isinstance(section, ChainConfig):
        return replace(section, members=tuple(without_states(member) for member in section.members))
    if isinstance(section, DenoiseConfig) and section.geometry == "states":
        return replace(section, geometry="none")
    return section


def check_curator(name: str, curator: Curator, frame: pandas.DataFrame, *, model: bool, hidden: bool) -> None:
    """Raises ConfigError unless what a dump brings is enough for this curator; a model brings states and lengths."""
    brought = {
        "hidden": model or hidden,
        "lengths": model or frame["tokens"].notna().all(),
        "true_rewards": frame["true_reward"].notna().any(),
        "donor_ok": frame["truncated"].notna().any(),
        "trusted": frame["label"].notna().any(),
        # Can be had from a reward and a response alone.
        **dict.fromkeys(("answers", "advantages", "ids", "prompt_keys"), True),
    }
    ways = {
        "hidden": "hidden states (--hidden FILE or --model ID_OR_PATH)",
        "lengths": "lengths in tokens (--field tokens=NAME or --model ID_OR_PATH)",
        "true_rewards": "true rewards (--field true_reward=NAME)",
        "trusted": "labels (--labels FILE)",
    }
    missing = [ways.get(need, f"{need}, which no dump has") for need in curator.requires if not brought.get(need)]
    if missing:
        raise ConfigError(
            f"curator: {name} needs {' and '.join(missing)}, got none; denoise, the default, does without"
        )


class StepCurator:
    """Curates one step of a dump after the other with one curator, and adds up what the summary says of them.

    `second` judges a step's most informative rows first.
    """

    def __init__(self, session: CurationSession, second: SecondOpinion | None, *, name: str) -> None:
        self.session, self.second, self.name = session, second, name
        self.meter = ConsensusMeter(session.curator)
        self.steps: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.pairs_left_out = 0
        self._values: list[float] = []
        self._verdicts: tuple[float, float] | None = None

    def expect(self, rewards: Sequence[float]) -> None:
        """Takes the rewards of all steps: a step may show two of several values, which are then no verdicts."""
        scored = torch.tensor(rewards, dtype=torch.float64)
        scored = scored[~scored.isnan()]
        self._values, self._verdicts = scored.unique().tolist(), two_values(scored)

    def curate(
        self, frame: pandas.DataFrame, states: Float[Tensor, "b d"] | None, source: Input, tables: AuditTables
    ) -> pandas.DataFrame:
        """The step's frame with what was decided; its pairs and the density of its scores go into their tables."""
        try:
            told = frame.assign(final_answer=comparable_answers(frame))
            if self._misleads(frame["reward"]):
                told = told.assign(final_answer=None, response="")
            rollouts = make_rollouts(told, self.session.curator, states)
        except InputError as error:
            raise InputError(f"{source.hidden or source.path}: {error}") from error
        hearing = self.second and self.second.hear(frame, rollouts, self.session.curator, self._values)
        rollouts = hearing.rollouts if hearing else rollouts
        curation = self.session.curate(rollouts, details=True)
        curation = hearing.onto(curation) if hearing else curation
        self.meter.add(rollouts)
        frame, step = decided(frame, rollouts, curation, self.session.curator, name=self.name), frame["step"].iloc[0]
        pairs, left_out = pair_columns(frame, curation.details)
        tables.add_pairs(pairs)
        tables.add_density(density_columns(int(step), curation.details))
        self.counts.update(counts_of(frame))
        self.pairs_left_out += left_out
        metrics = {f"geoalign/{name}": float(value) for name, value in curation.metrics.items()}
        self.steps.append({"step": int(step), "file": str(source.path), "metrics": metrics})
        return frame

    def _misleads(self, rewards: pandas.Series) -> bool:
        """Whether `denoise` would take the two rewards of a step for verdicts, which over all steps they are not."""
        if not isinstance(self.session.curator, Denoise):
            return False
        if len(self._values) == 2 and not are_verdicts(*self._values):
            return True
        here, whole = two_values(torch.tensor(rewards.dropna().to_numpy())), self._verdicts
        if here is None:
            return False
        return whole is None or max(abs(here[0] - whole[0]), abs(here[1] - whole[1])) > (whole[1] - whole[0]) / 4


def comparable_answers(frame: pandas.DataFrame) -> pandas.Series:
    """The final answers in groups in which two or more of the rows with a reward have one; None elsewhere.

    A lone answer compares with nothing, and says nothing of the rows without one.
    """
    answered = frame["final_answer"].notna() & frame["reward"].notna()
    several = answered.groupby(frame["group"]).transform("sum") >= 2
    return frame["final_answer"].astype(object).where(several, None)


def make_rollouts(frame: pandas.DataFrame, curator: Curator, hidden: Float[Tensor, "b d"] | None = None) -> Rollouts:
    """The batch of one step, with the optional fields that the curator needs or that say which rows are unfit."""
    rewards = torch.tensor(frame["label"].fillna(frame["reward"]).to_numpy())
    groups = torch.tensor(frame["group"].to_numpy())
    needs: dict[str, Any] = {"ids": frame["id"].tolist()}
    if "hidden" in curator.requires:
        needs["hidden"] = hidden
    keyed = bool({"hidden", "response_keys"} & set(curator.reads))
    if keyed and any(frame["response"]):  # a dump may come without its texts
        needs["response_keys"] = response_keys(frame["response"])
    if "prompt_keys" in curator.reads:
        # The group where a dump has no prompts: in most formats it names one.
        names = zip(frame["prompt"], frame["group_name"], strict=True)
        needs["prompt_keys"] = response_keys(prompt or name for prompt, name in names)
    if frame["tokens"].notna().all():
        needs["lengths"] = torch.tensor(frame["tokens"].to_numpy(dtype=np.int64))
    if frame["true_reward"].notna().any():
        needs["true_rewards"] = torch.tensor(frame["true_reward"].to_numpy())
    if frame["label"].notna().any() or "trusted" in curator.requires:
        needs["trusted"] = torch.tensor(frame["label"].notna().to_numpy())
    if frame["truncated"].notna().any():
        needs["donor_ok"] = torch.tensor([flag is not True for flag in frame["truncated"]])
    if "answers" in curator.reads:
        needs["answers"] = frame["final_answer"].tolist()
    if "advantages" in curator.requires:
        needs["advantages"] = group_advantages(rewards, groups)
    return Rollouts(rewards=rewards, groups=groups, **needs)


def decided(
    frame: pandas.DataFrame, rollouts: Rollouts, curation: Curation, curator: Curator, *, name: str
) -> pandas.DataFrame:
    """A step's frame with the curator's decisions in the places of the input; its index is that of the whole output.

    `source` is the row whose content stands in a place afterwards, -1 where none does.
    """
    assignment = assign(curation, rollouts.groups, by=name)
    index = frame.index.to_numpy()
    source = np.where(assignment.kept.numpy(), index[assignment.source.numpy()], -1)
    replaced = (source >= 0) & (source != index)
    missing = torch.full((len(frame),), math.nan)
    denoises = isinstance(curator, Denoise)
    frame = frame.assign(
        score=curation.scores.cpu().double().numpy(), anomalous=curation.anomalous.cpu().numpy(), source=source,
        replacement=frame["response"].reindex(source).set_axis(frame.index).where(replaced, None),
        weight=assignment.weights.double().numpy(), new_reward=assignment.rewards.double().numpy(),
        advantage=(missing if assignment.advantages is None else assignment.advantages).double().numpy(),
        probability_wrong=(curation.scores.double().sigmoid() if denoises else missing).cpu().numpy(),
        denoised_reward=(curation.rewards.double() if denoises else missing).cpu().numpy(),
        characters=frame["response"].str.len(), trusted=frame["label"].notna(),
    )  # fmt: skip
    # The pairs that the curator formed, else those of different rewards; each is counted by both of its rows.
    if curation.details is None:
        pairs = pair_counts(rollouts.rewards.numpy(), rollouts.groups.numpy())
    else:
        ends = torch.cat([curation.details.pairs.winner, curation.details.pairs.loser]).cpu().numpy()
        pairs = np.bincount(ends, minlength=len(frame))
    groups = frame.assign(pairs=pairs).groupby("group")
    return frame.assign(
        group_pairs=groups["pairs"].transform("sum") // 2,
        group_size=groups["reward"].transform("size"),
        group_mean=groups["reward"].transform("mean"),
        group_std=groups["reward"].transform("std"),
        group_flagged=groups["anomalous"].transform("sum"),
    )


def counts_of(frame: pandas.DataFrame) -> dict[str, int]:
    groups = frame.drop_duplicates("group")["group_pairs"]
    kept, unscored = frame["source"] >= 0, frame["reward"].isna()
    counts = {
        "rows": len(frame), "groups": len(groups), "pairs": groups.sum(), "groups_without_pairs": (groups == 0).sum(),
        "scored": frame["score"].notna().sum(), "unscored": unscored.sum(), "flagged": frame["anomalous"].sum(),
        "replaced": (kept & (frame["source"] != frame.index)).sum(), "left_out": (~kept).sum(),
        "zero_weighted": (kept & (frame["weight"] == 0) & ~unscored).sum(),
        "answered": frame["final_answer"].notna().sum(),
    }  # fmt: skip
    for name, known in (("trained_on", True), ("not_trained_on", False)):
        part = frame[frame["trained_on"].eq(known)]
        flagged = {f"{name}_scored": part["score"].notna().sum(), f"{name}_flagged": part["anomalous"].sum()}
        counts |= {name: len(part), **flagged}
    return {name: int(count) for name, count in counts.items()}


def pair_columns(frame: pandas.DataFrame, details: CurationDetails | None) -> tuple[dict[str, Any], int]:
    """The columns of a step's pairs, and how many were left out: of groups without a flagged rollout whole ones are
    kept, evenly spread, up to `PAIRS_PER_STEP` pairs."""
    if details is None:
        return {}, 0
    pairs, groups, index = details.pairs, frame["group"].to_numpy(), frame.index.to_numpy()
    winner, loser = pairs.winner.cpu().numpy(), pairs.loser.cpu().numpy()
    group = groups[winner]
    flagged = np.isin(group, groups[frame["anomalous"]])
    others, sizes = np.unique(group[~flagged], return_counts=True)
    every = max(1, math.ceil(sizes.sum() / PAIRS_PER_STEP))
    chosen = others[::every][np.cumsum(sizes[::every]) <= PAIRS_PER_STEP]
    kept = np.flatnonzero(flagged | np.isin(group, chosen))
    facts = ("deviation", "raw_cosine", "projected_cosine")
    columns = {
        "step": np.full(len(kept), frame["step"].iloc[0]),
        "group": group[kept],
        "better": index[winner[kept]],
        "worse": index[loser[kept]],
        **{name: getattr(pairs, name).cpu().double().numpy()[kept] for name in facts},
    }
    # Where too few groups have pairs to judge by, the curator has no deviations.
    judged = ~np.isnan(columns["deviation"])
    return {name: values[judged] for name, values in columns.items()}, len(winner) - len(kept)


def density_columns(step: int, details: CurationDetails | None) -> dict[str, Any]:
    """The columns of the density of a step's scores; none where the curator estimates none."""
    if details is None or details.density is None:
        return {}
    density, threshold = details.density, float(details.density.threshold)
    size = len(density.grid)
    return {
        "step": [step] * size, "score": density.grid.tolist(), "density": density.density.tolist(),
        "threshold": [None if math.isnan(threshold) else threshold] * size, "peak": [float(density.peak)] * size,
    }  # fmt: skip


class ConsensusMeter:
    """Accuracy on groups never trained on, pooled over the steps of one call.

    A GeoAlign judges each step by what it learnt from the ones before. The first has none before it: where no other
    step was judged, the groups of the last one are asked by cross-fitting, with a curator of its own.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = next((member for member in _members(curator) if isinstance(member, GeoAlign)), None)
        self._judged: list[np.ndarray] = []
        self._last: Rollouts | None = None

    def add(self, rollouts: Rollouts) -> None:
        """Takes how the curator judged the new groups of the rollouts that it has just curated."""
        if self._curator is not None:
            self._take(self._curator)
            self._last = None if self._judged else rollouts  # the states of one step at a time

    def summary(self, seed: int) -> Mapping[str, Any]:
        """The numbers for `summary.json`; no accuracy, but the reason, where nothing could be judged."""
        if self._curator is None:
            return {"new_group_accuracy": None, "reason": NO_CONSENSUS}
        if self._last is not None:
            other = GeoAlign(replace(self._curator.config, scoring="cross_fit"))
            other.curate(self._last, generator=torch.Generator().manual_seed(seed))
            self._take(other)
        if not self._judged:
            reason = "No groups were kept apart to judge a consensus: too few of them have different rewards."
            return {"new_group_accuracy": None, "reason": reason}
        right, total = np.concatenate(self._judged, axis=1)
        accuracy = clustered_proportion(right, total)
        counts = {"groups": len(total), "pairs": int(total.sum()), "steps": len(self._judged)}
        return {**accuracy.named("new_group_accuracy"), "chance_accuracy": CHANCE, "level": 0.95, **counts}

    def _take(self, curator: GeoAlign) -> None:
        judged = curator.state_dict()["gate"][-1].numpy()
        if judged.shape[1]:
            self._judged.append(judged)


def _members(curator: Curator) -> list[Curator]:
    return [curator, *(inner for member in curator.members for inner in _members(member))]
