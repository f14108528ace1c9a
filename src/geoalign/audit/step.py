"""One step of a dump: the batch that a curator reads, and its decisions as further columns of the step's rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from geoalign.audit.two_verdicts import verdict_values
from geoalign.curators.curator import Curator
from geoalign.curators.session import CurationSession
from geoalign.errors import InputError
from geoalign.files.columns import Bools
from geoalign.method.advantages import group_advantages
from geoalign.method.ties import tied_rewards
from geoalign.noise.rows import two_values
from geoalign.statistics import pair_counts
from geoalign.types import Curation, CurationDetails, Rollouts, response_keys

if TYPE_CHECKING:
    from geoalign.audit.second_opinion import SecondOpinion

# Pairs that are kept of a step's groups without a flagged rollout.
PAIRS_PER_STEP = 20_000


class StepCurator:
    """Curates one step after the other with one curator.

    Attributes:
        steps: the step's number, file and metrics, for `summary.json`.
        by_spelling: the answers whose verdict goes with their spelling, each with its step.
        meter: the consensus of hidden states over all steps.
        pairs_left_out: how many pairs of hidden states were not kept.
    """

    def __init__(
        self,
        session: CurationSession,
        *,
        name: str,
        second: SecondOpinion | None,
        equal: Equivalence | None,
        tables: AuditTables,
        rewards: Sequence[float],
    ) -> None:
        """Takes what all steps share.

        Args:
            name: the curator's name, for messages.
            second: judges a step's most informative rows first.
            equal: decides on pairs of answers on which no text decides.
            tables: where pairs of hidden states and densities of scores are written.
            rewards: those of all steps. A step may show two of several values, which are then no verdicts.
        """
        self.steps: list[dict[str, Any]] = []
        self.by_spelling: list[tuple[int, SpelledAnswer]] = []
        self.meter = ConsensusMeter(session.curator)
        self.pairs_left_out = 0
        self._session = session
        self._name = name
        self._second = second
        self._equal = equal
        self._tables = tables
        scored = torch.tensor(rewards, dtype=torch.float64)
        scored = scored[~scored.isnan()]
        self._values: list[float] = scored.unique().tolist()
        self._two_values = two_values(scored)
        self._are_verdicts = len(self._values) == 2 and verdict_values(self._values) is not None
        # Whether the curator goes by verdicts on equal answers.
        self._compares_answers = session.curator.answer_reading in ("exclusive", "shared")

    def curate(self, rows: pandas.DataFrame, states: Float[Tensor, "b d"] | None, source: Input) -> pandas.DataFrame:
        """The curator's decisions and the flags, as columns of the step's rows; the texts are not copied.

        Args:
            rows: with `final_answer` and `compared_answer`; groups and index are unique over all steps.
            states: of each row, if the curator needs them.
        """
        step = int(rows["step"].iloc[0])
        rollouts = self._rollouts(rows, states, source)
        hearing = None
        if self._second is not None:
            hearing = self._second.hear(rows, rollouts, self._session.curator, self._values)
            rollouts = hearing.rollouts
        curation = self._session.curate(rollouts, details=True)
        if hearing is not None:
            curation = hearing.onto(curation)
        self.meter.add(rollouts)

        spelled = judged_by_spelling(rows, self._values[1], self._equal) if self._are_verdicts else []
        self.by_spelling += [(step, answer) for answer in spelled]
        flagged = self._flags(rows, spelled, curation)
        decisions = _decisions(rows, rollouts, curation, self._session.curator, name=self._name, flagged=flagged)
        decisions["by_spelling"] = spelling_column(rows, spelled)

        if curation.details is not None:
            self._write_details(rows, flagged, curation.details)
        metrics = {f"geoalign/{name}": float(value) for name, value in curation.metrics.items()}
        self.steps.append({"step": step, "file": str(source.path), "metrics": metrics})
        return decisions

    def _rollouts(self, rows: pandas.DataFrame, states: Tensor | None, source: Input) -> Rollouts:
        """The batch that the curator reads; without answers and responses where it would take scores for verdicts."""
        readable = rows.assign(final_answer=comparable_answers(rows))
        if self._compares_answers and self._look_like_verdicts_only_here(rows["reward"]):
            readable = readable.assign(final_answer=None, response="")
        try:
            return make_rollouts(readable, self._session.curator, states)
        except InputError as error:
            raise InputError(f"{source.hidden or source.path}: {error}") from error

    def _look_like_verdicts_only_here(self, rewards: pandas.Series) -> bool:
        """Whether the rewards of a step could be taken for two verdicts, which over all steps they are not."""
        if len(self._values) == 2 and not self._are_verdicts:
            return True
        here = two_values(torch.tensor(rewards.dropna().to_numpy()))
        if here is None:
            return False
        if self._two_values is None:
            return True
        low, high = self._two_values
        return max(abs(here[0] - low), abs(here[1] - high)) > (high - low) / 4

    def _flags(self, rows: pandas.DataFrame, spelled: Sequence[SpelledAnswer], curation: Curation) -> Bools:
        """What is flagged: what the curator flags, but for verdicts that go with the spelling of an answer."""
        flagged: Bools = curation.anomalous.cpu().numpy()
        if not self._compares_answers or not self._are_verdicts:
            return flagged
        exclusive = self._session.curator.answer_reading == "exclusive"
        return flags_by_spelling(rows, spelled, flagged, high=self._values[1], exclusive=exclusive)

    def _write_details(self, rows: pandas.DataFrame, flagged: Bools, details: CurationDetails) -> None:
        """Writes the step's pairs of hidden states and the density of its scores into their tables."""
        pairs = _kept_pairs(rows, flagged, details)
        self.pairs_left_out += len(details.pairs.winner) - len(pairs)
        # Where too few groups have pairs to judge by, the curator has no deviations.
        self._tables.add_pairs(pairs[pairs["deviation"].notna()])
        if details.density is not None:
            density = pandas.DataFrame(
                {
                    "step": rows["step"].iloc[0],
                    "score": details.density.grid.tolist(),
                    "density": details.density.density.tolist(),
                    "threshold": float(details.density.threshold),
                    "peak": float(details.density.peak),
                }
            )
            self._tables.add_density(density)


def comparable_answers(rows: pandas.DataFrame) -> pandas.Series:
    """The answers to compare in groups in which two or more of the rows with a reward have one; None elsewhere.

    A lone answer compares with nothing, and says nothing of the rows without one.
    """
    answered = rows["compared_answer"].notna() & rows["reward"].notna()
    several = answered.groupby(rows["group"]).transform("sum") >= 2
    # As objects: a column of text would make NaN of a missing answer.
    answers = rows["compared_answer"].to_numpy(dtype=object).copy()
    answers[~several.to_numpy()] = None
    return pandas.Series(answers, index=rows.index, dtype="object")


def make_rollouts(rows: pandas.DataFrame, curator: Curator, hidden: Float[Tensor, "b d"] | None = None) -> Rollouts:
    """The batch of one step, with the optional fields that the curator needs or that say which rows are unfit."""
    rewards = torch.tensor(rows["label"].fillna(rows["reward"]).to_numpy())
    groups = torch.tensor(rows["group"].to_numpy())
    fields: dict[str, Any] = {}
    if "hidden" in curator.requires:
        fields["hidden"] = hidden
    compares_responses = "hidden" in curator.reads or "response_keys" in curator.reads
    if compares_responses and any(rows["response"]):  # a dump may come without its texts
        fields["response_keys"] = response_keys(rows["response"])
    if "prompt_keys" in curator.reads:
        fields["prompt_keys"] = response_keys(rows["problem"])
    if rows["tokens"].notna().all():
        fields["lengths"] = torch.tensor(rows["tokens"].to_numpy(dtype=np.int64))
    if rows["true_reward"].notna().any():
        fields["true_rewards"] = torch.tensor(rows["true_reward"].to_numpy())
    if rows["label"].notna().any() or "trusted" in curator.requires:
        fields["trusted"] = torch.tensor(rows["label"].notna().to_numpy())
    if rows["truncated"].notna().any():
        fields["donor_ok"] = torch.tensor([flag is not True for flag in rows["truncated"]])
    if "answers" in curator.reads:
        fields["answers"] = rows["final_answer"].tolist()
        fields["shared_answers"] = torch.tensor(~rows["exclusive"].to_numpy(dtype=bool))
    if "advantages" in curator.requires:
        fields["advantages"] = group_advantages(rewards, groups)
    return Rollouts(rewards=rewards, groups=groups, ids=rows["id"].tolist(), **fields)


def _decisions(
    rows: pandas.DataFrame, rollouts: Rollouts, curation: Curation, curator: Curator, *, name: str, flagged: Bools
) -> pandas.DataFrame:
    """What the curator decided, as columns in the places of the input.

    `source` is the index of the row whose content stands in a place afterwards, -1 where none does.

    Args:
        flagged: what is flagged. Where that is not what the curator flags, its estimates do not hold, and are NaN.
    """
    index = rows.index.to_numpy()
    unknown = np.full(len(rows), math.nan)
    assignment = assign(curation, rollouts.groups, by=name)
    source = np.where(assignment.kept.numpy(), index[assignment.source.numpy()], -1)
    replaced = (source >= 0) & (source != index)
    replacement = np.full(len(rows), None, dtype=object)
    if replaced.any():
        replacement[replaced] = rows["response"].loc[source[replaced]].to_numpy(dtype=object)
    advantages = unknown if assignment.advantages is None else assignment.advantages.double().numpy()

    probabilities = unknown
    denoised = unknown
    acts_on = curator.acts_on or ()
    if curator.log_odds and "rewards" in acts_on and "rows" not in acts_on:
        # Scores are the log-odds that a reward is wrong, and rewards, in their places, the expected true ones.
        overruled = flagged != curation.anomalous.cpu().numpy()
        probabilities = np.where(overruled, math.nan, curation.scores.double().sigmoid().cpu().numpy())
        denoised = np.where(overruled, math.nan, curation.rewards.double().cpu().numpy())

    columns = {
        "score": curation.scores.cpu().double().numpy(),
        "anomalous": flagged,
        "source": source,
        # As objects: of texts beside None pandas would make a column with NaN.
        "replacement": pandas.Series(replacement, index=rows.index, dtype=object),
        "weight": assignment.weights.double().numpy(),
        "new_reward": assignment.rewards.double().numpy(),
        "advantage": advantages,
        "probability_wrong": probabilities,
        "denoised_reward": denoised,
        "characters": rows["response"].str.len().to_numpy(),
        "label": rows["label"],
        "trusted": rows["label"].notna().to_numpy(),
        **_group_columns(rows, _pairs_of_rows(rollouts, curation.details), flagged),
    }
    return pandas.DataFrame(columns, index=rows.index)


def _pairs_of_rows(rollouts: Rollouts, details: CurationDetails | None) -> np.ndarray:
    """[b] In how many pairs each row is: those that the curator formed, else those of different rewards in a group."""
    if details is None:
        rewards = tied_rewards(rollouts.rewards, rollouts.groups)
        return pair_counts(rewards.numpy(), rollouts.groups.numpy())
    ends = torch.cat([details.pairs.winner, details.pairs.loser]).cpu().numpy()
    return np.bincount(ends, minlength=len(rollouts))


def _group_columns(rows: pandas.DataFrame, pairs: np.ndarray, flagged: Bools) -> dict[str, np.ndarray]:
    """Of each row its group's pairs, rows and flags, and the mean and standard deviation of the rewards there are."""
    groups = rows["group"].to_numpy()
    rewards = rows["reward"].to_numpy()
    group, size = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    scored = ~np.isnan(rewards)
    group_of_scored = group[scored]
    count = np.bincount(group_of_scored, minlength=len(size))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group_of_scored, weights=rewards[scored], minlength=len(size)) / count
        deviation = rewards[scored] - mean[group_of_scored]
        squares = np.bincount(group_of_scored, weights=deviation**2, minlength=len(size))
        spread = np.sqrt(np.where(count > 1, squares / (count - 1), math.nan))
    return {
        # Each pair is counted by both of its rows.
        "group_pairs": (np.bincount(group, weights=pairs)[group] // 2).astype(np.int64),
        "group_size": size[group],
        "group_mean": mean[group],
        "group_std": spread[group],
        "group_flagged": np.bincount(group, weights=flagged)[group].astype(np.int64),
    }


def _kept_pairs(rows: pandas.DataFrame, flagged: Bools, details: CurationDetails) -> pandas.DataFrame:
    """The pairs of a step that are written: all of groups with a flagged rollout, and of the others whole groups,
    evenly spread, up to `PAIRS_PER_STEP` pairs."""
    index = rows.index.to_numpy()
    groups = rows["group"].to_numpy()
    pairs = details.pairs
    winner = pairs.winner.cpu().numpy()
    loser = pairs.loser.cpu().numpy()
    table = pandas.DataFrame(
        {
            "step": rows["step"].iloc[0],
            "group": groups[winner],
            "better": index[winner],
            "worse": index[loser],
            "deviation": pairs.deviation.cpu().double().numpy(),
            "raw_cosine": pairs.raw_cosine.cpu().double().numpy(),
            "projected_cosine": pairs.projected_cosine.cpu().double().numpy(),
        }
    )
    of_flagged = table["group"].isin(groups[flagged])
    others, sizes = np.unique(table["group"][~of_flagged], return_counts=True)
    every = max(1, math.ceil(sizes.sum() / PAIRS_PER_STEP))
    chosen = others[::every][np.cumsum(sizes[::every]) <= PAIRS_PER_STEP]
    return table[of_flagged | table["group"].isin(chosen)]
