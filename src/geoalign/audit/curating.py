"""One step of a dump: the batch that a curator reads, and what it decides as further columns of the step's frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.assignment import assign
from geoalign.answers import Equivalence
from geoalign.audit.folder import AuditTables
from geoalign.audit.inputs import Input
from geoalign.audit.new_groups import ConsensusMeter
from geoalign.audit.spellings import SpelledAnswer, flags_by_spelling, judged_by_spelling, spelling_column
from geoalign.audit.verdicts import are_verdicts
from geoalign.curators.appeals import AppealsConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.curator import Curator
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.monitor import MonitorConfig
from geoalign.curators.registry import CuratorSection
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.files.columns import Bools
from geoalign.method.advantages import group_advantages
from geoalign.noise.rows import two_values
from geoalign.statistics import pair_counts
from geoalign.types import Curation, CurationDetails, Rollouts, response_keys

if TYPE_CHECKING:
    from geoalign.audit.second_opinion import SecondOpinion

# Pairs that are kept of a step's groups without a flagged rollout.
PAIRS_PER_STEP = 20_000
NO_STATES = "No hidden states were given, so rewards were judged by answers and identical responses alone."
NO_STATES_NO_ANSWERS = (
    "No hidden states were given and no final answer was read, so rewards were judged by identical responses alone."
)


def without_states(section: CuratorSection) -> CuratorSection:
    """The settings of a curator where no rollout has states: `denoise` goes by answers and identical responses."""
    if isinstance(section, ChainConfig):
        return replace(section, members=tuple(without_states(member) for member in section.members))
    if isinstance(section, (AppealsConfig, MonitorConfig)):
        return replace(section, curator=without_states(section.curator))
    if isinstance(section, DenoiseConfig) and section.geometry == "states":
        return replace(section, geometry="none")
    return section


def check_brought(name: str, curator: Curator, frame: pandas.DataFrame, *, model: bool, hidden: bool) -> None:
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

    `second` judges a step's most informative rows first; `equal` decides on pairs of answers on which no text decides.
    `by_spelling` collects the answers whose verdict goes with their spelling, each with its step.
    """

    def __init__(
        self, session: CurationSession, second: SecondOpinion | None, *, name: str, equal: Equivalence | None = None
    ) -> None:
        self.session, self.second, self.name = session, second, name
        self._equal = equal
        self.by_spelling: list[tuple[int, SpelledAnswer]] = []
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
        step = frame["step"].iloc[0]
        spelled = self._judged_by_spelling(frame)
        self.by_spelling += [(int(step), answer) for answer in spelled]
        anomalous = curation.anomalous.cpu().numpy()
        if self._compares_answers() and self._are_verdicts():
            anomalous = flags_by_spelling(
                frame,
                spelled,
                anomalous,
                high=self._values[1],
                exclusive=self.session.curator.answer_reading == "exclusive",
            )
        frame = decided(frame, rollouts, curation, self.session.curator, name=self.name, anomalous=anomalous)
        frame["by_spelling"] = spelling_column(frame, spelled)
        pairs, left_out = pair_columns(frame, curation.details)
        tables.add_pairs(pairs)
        tables.add_density(density_columns(int(step), curation.details))
        self.counts.update(counts_of(frame))
        self.pairs_left_out += left_out
        metrics = {f"geoalign/{name}": float(value) for name, value in curation.metrics.items()}
        self.steps.append({"step": int(step), "file": str(source.path), "metrics": metrics})
        return frame

    def _compares_answers(self) -> bool:
        """Whether the curator goes by verdicts on equal answers."""
        return self.session.curator.answer_reading in ("exclusive", "shared")

    def _are_verdicts(self) -> bool:
        """Whether the rewards of all steps are the two verdicts of a verifier."""
        return len(self._values) == 2 and are_verdicts(*self._values)

    def _judged_by_spelling(self, frame: pandas.DataFrame) -> list[SpelledAnswer]:
        if not self._are_verdicts():
            return []
        return judged_by_spelling(frame, self._values[1], self._equal)

    def _misleads(self, rewards: pandas.Series) -> bool:
        """Whether a curator that compares verdicts on answers would take the two rewards of a step for verdicts, which
        over all steps they are not."""
        if not self._compares_answers():
            return False
        if len(self._values) == 2 and not are_verdicts(*self._values):
            return True
        here, whole = two_values(torch.tensor(rewards.dropna().to_numpy())), self._verdicts
        if here is None:
            return False
        return whole is None or max(abs(here[0] - whole[0]), abs(here[1] - whole[1])) > (whole[1] - whole[0]) / 4


def comparable_answers(frame: pandas.DataFrame) -> pandas.Series:
    """The answers to compare in groups in which two or more of the rows with a reward have one; None elsewhere.

    A lone answer compares with nothing, and says nothing of the rows without one.
    """
    answers = frame["compared_answer"].to_numpy(dtype=object).copy()
    answered = frame["compared_answer"].notna().to_numpy() & frame["reward"].notna().to_numpy()
    group = np.unique(frame["group"].to_numpy(), return_inverse=True)[1]
    several = np.bincount(group, weights=answered)[group] >= 2
    answers[~several] = None
    # As objects: a column of text would make NaN of a missing answer.
    return pandas.Series(answers, index=frame.index, dtype="object")


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
        needs["prompt_keys"] = response_keys(frame["problem"])
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
    frame: pandas.DataFrame, rollouts: Rollouts, curation: Curation, curator: Curator, *, name: str, anomalous: Bools
) -> pandas.DataFrame:
    """A step's frame with the curator's decisions in the places of the input; its index is that of the whole output.

    `source` is the row whose content stands in a place afterwards, -1 where none does.

    Args:
        anomalous: what is flagged. Where it is not what the curator flags, its estimates do not hold, and are NaN.
    """
    assignment = assign(curation, rollouts.groups, by=name)
    index = frame.index.to_numpy()
    source = np.where(assignment.kept.numpy(), index[assignment.source.numpy()], -1)
    replaced = (source >= 0) & (source != index)
    missing = np.full(len(frame), math.nan)
    advantages = missing if assignment.advantages is None else assignment.advantages.double().numpy()
    # Scores are then the log-odds that a reward is wrong, and rewards, in their places, the expected true ones.
    acts_on = curator.acts_on or ()
    denoises = curator.log_odds and "rewards" in acts_on and "rows" not in acts_on
    # The pairs that the curator formed, else those of different rewards; each is counted by both of its rows.
    if curation.details is None:
        pairs = pair_counts(rollouts.rewards.numpy(), rollouts.groups.numpy())
    else:
        ends = torch.cat([curation.details.pairs.winner, curation.details.pairs.loser]).cpu().numpy()
        pairs = np.bincount(ends, minlength=len(frame))
    probabilities = curation.scores.double().sigmoid().cpu().numpy() if denoises else missing
    denoised = curation.rewards.double().cpu().numpy() if denoises else missing
    overruled = anomalous != curation.anomalous.cpu().numpy()
    replacement = np.full(len(frame), None, dtype=object)
    if replaced.any():
        replacement[replaced] = frame["response"].loc[source[replaced]].to_numpy(dtype=object)
    columns = {
        "score": curation.scores.cpu().double().numpy(),
        "anomalous": anomalous,
        "source": source,
        # As objects: of texts beside None pandas would make a column with NaN.
        "replacement": pandas.Series(replacement, index=frame.index, dtype=object),
        "weight": assignment.weights.double().numpy(),
        "new_reward": assignment.rewards.double().numpy(),
        "advantage": advantages,
        "probability_wrong": np.where(overruled, math.nan, probabilities),
        "denoised_reward": np.where(overruled, math.nan, denoised),
        "characters": frame["response"].str.len().to_numpy(),
        "trusted": frame["label"].notna().to_numpy(),
        **_group_columns(frame["group"].to_numpy(), frame["reward"].to_numpy(), pairs, anomalous),
    }
    # At once: a step may be small, and there may be many.
    return pandas.concat([frame, pandas.DataFrame(columns, index=frame.index)], axis=1)


def _group_columns(
    groups: np.ndarray, rewards: np.ndarray, pairs: np.ndarray, flagged: np.ndarray
) -> dict[str, np.ndarray]:
    """Of each row its group's pairs, rows and flags, and the mean and standard deviation of the rewards there are."""
    group, size = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    scored = ~np.isnan(rewards)
    of_scored = group[scored]
    count = np.bincount(of_scored, minlength=len(size))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(of_scored, weights=rewards[scored], minlength=len(size)) / count
        deviation = rewards[scored] - mean[of_scored]
        squares = np.bincount(of_scored, weights=deviation**2, minlength=len(size))
        spread = np.sqrt(np.where(count > 1, squares / (count - 1), math.nan))
    return {
        "group_pairs": (np.bincount(group, weights=pairs)[group] // 2).astype(np.int64),
        "group_size": size[group],
        "group_mean": mean[group],
        "group_std": spread[group],
        "group_flagged": np.bincount(group, weights=flagged)[group].astype(np.int64),
    }


def counts_of(frame: pandas.DataFrame) -> dict[str, int]:
    """What `counts` of the summary adds up over steps."""
    first = np.unique(frame["group"].to_numpy(), return_index=True)[1]
    pairs = frame["group_pairs"].to_numpy()[first]
    source, index = frame["source"].to_numpy(), frame.index.to_numpy()
    kept, unscored = source >= 0, frame["reward"].isna().to_numpy()
    judged, flagged = frame["score"].notna().to_numpy(), frame["anomalous"].to_numpy()
    counts = {
        "rows": len(frame),
        "groups": len(first),
        "pairs": pairs.sum(),
        "groups_without_pairs": (pairs == 0).sum(),
        "scored": judged.sum(),
        "unscored": unscored.sum(),
        "flagged": flagged.sum(),
        "replaced": (kept & (source != index)).sum(),
        "left_out": (~kept).sum(),
        "changed": (kept & (source == index) & ~unscored & (frame["new_reward"] != frame["reward"]).to_numpy()).sum(),
        "zero_weighted": (kept & (frame["weight"].to_numpy() == 0) & ~unscored).sum(),
        "answered": frame["final_answer"].notna().sum(),
    }
    for name, known in (("trained_on", True), ("not_trained_on", False)):
        part = frame["trained_on"].eq(known).to_numpy(dtype=bool)
        counts |= {
            name: part.sum(),
            f"{name}_scored": (part & judged).sum(),
            f"{name}_flagged": (part & flagged).sum(),
        }
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
