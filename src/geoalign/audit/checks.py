"""Checks: rollouts drawn at random are labelled right or wrong, and tell the error rates of the verifier.

The labels serve the rates alone. The curator does not see them, so flags are the same with and without checks, and the
rows that a curator, `--labels` or `--second-verifier` chose never enter a rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float, Int

from geoalign.answers.verifiers import MATH_VERIFY, second_verifier
from geoalign.audit.answers import is_gold
from geoalign.audit.checked_verdicts import CheckedVerdicts, Truth, contradicted_prompts
from geoalign.audit.command import AuditRequest
from geoalign.audit.folder import CHECKS_FILE
from geoalign.audit.sample import UniformSample
from geoalign.audit.second_opinion import asked_rows
from geoalign.audit.settings import AuditConfig
from geoalign.audit.several_verifiers.judged_rows import further_verdicts
from geoalign.audit.two_verdicts import verdict_values, why_no_verdicts
from geoalign.checks.anytime import anytime_intervals
from geoalign.checks.missing_labels import rates_whatever_is_missing
from geoalign.checks.rates import CheckedRate, CheckedRates, checked_rates
from geoalign.dumps.checks_csv import (
    BY,
    NOTE,
    CheckedRow,
    ChecksFile,
    has_labels,
    is_right,
    read_checks,
    write_checks,
)
from geoalign.dumps.flagged_csv import LABEL, PERSON, ROW
from geoalign.dumps.labelled_cells import check_is_of
from geoalign.dumps.row_names import row_name
from geoalign.errors import ConfigError, InputError
from geoalign.secrets import masked

GOLD = "gold"
_KEY = "--check-with"


class Checks:
    """The checks of one audit: which rows are drawn, what is said of them, and the rates that follow.

    Attributes:
        seed: of the draw: that of the given checks, else that of the settings.
        right: 1, 0 or, without a label, NaN of each drawn row up to the last labelled one, by its index; None before
            `conclude`, and where no row has a label.
    """

    def __init__(self, request: AuditRequest, config: AuditConfig) -> None:
        """Raises ConfigError for a verifier that there is not, InputError for checks that cannot be read."""
        self._request = request
        self._given: ChecksFile | None = None if request.checks is None else read_checks(request.checks)
        self._wanted = request.draw_checks or 0
        self._judge = None
        if request.check_with not in (None, GOLD):
            self._judge = second_verifier(request.check_with, config.endpoint, key=_KEY, section="endpoint")
        self.seed = config.seed if self._given is None else self._given.seed
        # Given rows are numbered from 1 in the order of drawing: the sample reaches up to the last of them.
        self._sample = UniformSample(max([self._wanted, *self._given_rows]), self.seed)
        self._are_verdicts = False
        self.right: pandas.Series | None = None
        self._low = math.nan
        self._high = math.nan
        self._summary: dict[str, Any] = {}

    def _is_asked(self) -> bool:
        return self._wanted > 0 or self._given is not None

    @property
    def _given_rows(self) -> Mapping[int, CheckedRow]:
        """The rows of the given checks by their place in the order of drawing, from 1; none without a file."""
        return {} if self._given is None else self._given.rows

    def begin(self, rewards: Sequence[float]) -> None:
        """Takes the rewards of all files, before the first is curated.

        Raises:
            ConfigError: rows are to be drawn or read, and the rewards are no verdicts.
            InputError: a label is no number that can be.
        """
        values = set(pandas.Series(rewards, dtype=float).dropna().unique().tolist())
        verdicts = verdict_values(values)
        self._are_verdicts = verdicts is not None
        if not self._is_asked():
            return
        if verdicts is None:
            option = "--checks" if self._given is not None else "--draw-checks"
            raise ConfigError(
                f"{option}: expected two rewards, those of right and of wrong responses. {why_no_verdicts(values)}"
            )
        self._low, self._high = verdicts
        for row in self._given_rows.values():
            if row.label is not None:
                is_right(row.label, self._low, self._high, row.place)

    def add(self, rows: pandas.DataFrame) -> None:
        """Takes the rows of a file, in the order of the files; those with a reward may be drawn."""
        if self._is_asked():
            self._sample.add(rows[rows["reward"].notna()])

    def conclude(self, rows: pandas.DataFrame, folder: Path) -> CheckedVerdicts | None:
        """What the checks say of the verifier; None where no row has a label.

        Args:
            rows: all rows of all files, without their texts.
            folder: where checks.csv is written, if rows are to be drawn.
        """
        if not self._is_asked():
            return None
        self._check_population()
        drawn = self._sample.drawn()
        truths = self._given_truths(drawn)
        labellers = self._given_labellers(len(drawn))
        self._ask(drawn, truths, labellers)
        if self._wanted:
            self._write(drawn, truths, labellers, folder / CHECKS_FILE)
        last = max((place for place, truth in enumerate(truths, start=1) if truth is not None), default=0)
        used = drawn.iloc[:last]
        right = truths[:last]
        self._summary = {
            "drawn": len(drawn),
            "labelled": len(truths) - truths.count(None),
            "used": last,
            "without_label": right.count(None),
            "by": dict(Counter(by for by, truth in zip(labellers, truths, strict=True) if truth is not None)),
        }
        if not last:
            return None
        self.right = pandas.Series(right, index=used.index, dtype=float)
        return CheckedVerdicts(self._rates(rows, self.right), contradicted_prompts(used, right))

    @property
    def summary(self) -> dict[str, Any]:
        """`checks` of `summary.json`."""
        request = self._request
        return {
            "possible": self._are_verdicts,
            "file": None if request.checks is None else str(request.checks),
            "drawn": 0,
            "labelled": 0,
            "used": 0,
            "without_label": 0,
            "by": {},
            **self._summary,
            "drawn_from": self._sample.seen,
            "seed": self.seed,
            "anytime": request.anytime,
        }

    # --- the labels ---------------------------------------------------------------------------------------------------

    def _check_population(self) -> None:
        """Raises InputError where the given checks were drawn from other rollouts than those of this audit."""
        if self._given is not None and self._given.drawn_from != self._sample.seen:
            raise InputError(
                f"{self._given.path}: drawn from {self._given.drawn_from:,} rollouts with a reward, and these files "
                f"have {self._sample.seen:,}: audit the same files as when they were drawn"
            )

    def _given_truths(self, drawn: pandas.DataFrame) -> list[Truth]:
        """What the given checks say of each row that was drawn; InputError where they are of other rows."""
        truths: list[Truth] = [None] * len(drawn)
        keys = list(drawn[list(ROW)].itertuples(index=False, name=None))
        for draw, row in self._given_rows.items():
            key = keys[draw - 1]
            rollout = row_name(Path(drawn["file"].iloc[draw - 1]), key[1])
            if row.rollout != key:
                raise InputError(
                    f"{row.place}: draw {draw} is {rollout}, and this row is of another rollout. Only rows drawn at "
                    "random can tell a rate: add none, and audit the same files as when they were drawn"
                )
            check_is_of(row.cells, row.place, rollout, drawn["response"].iloc[draw - 1])
            if row.label is not None:
                truths[draw - 1] = is_right(row.label, self._low, self._high, row.place)
        return truths

    def _given_labellers(self, count: int) -> list[str]:
        """Who labelled each row that was drawn, by the given checks."""
        labellers = [PERSON] * count
        for draw, row in self._given_rows.items():
            labellers[draw - 1] = row.cells.get(BY) or PERSON
        return labellers

    def _ask(self, drawn: pandas.DataFrame, truths: list[Truth], labellers: list[str]) -> None:
        """Lets the verifier of `--check-with` label the rows without a label."""
        name = self._request.check_with
        if name is None:
            return
        places = [place for place, truth in enumerate(truths) if truth is None]
        asked = drawn.iloc[places]
        if name in (GOLD, MATH_VERIFY) and drawn["answer"].isna().all():
            raise ConfigError(f"{_KEY} {name}: expected gold answers (--field answer=NAME), got none")
        if self._judge is None:
            found = is_gold(asked)
        else:
            if name == MATH_VERIFY:
                # Math-Verify judges all spellings of an answer alike.
                asked = asked.assign(final_answer=asked["compared_answer"])
            found = [self._truth(verdict) for verdict in self._judge(asked_rows(asked))]
        for place, truth in zip(places, found, strict=True):
            truths[place] = truth
            labellers[place] = masked(name)

    def _truth(self, verdict: bool | float | None) -> Truth:
        """A reward is that of a right response if it is nearer to the higher one."""
        if verdict is None or isinstance(verdict, bool):
            return verdict
        return verdict > (self._low + self._high) / 2

    def _write(self, drawn: pandas.DataFrame, truths: Sequence[Truth], labellers: Sequence[str], path: Path) -> None:
        """Writes checks.csv: a label that was given stays as it was, a verifier's is the true reward."""
        rewards = {True: f"{self._high:g}", False: f"{self._low:g}", None: None}
        labels = [rewards[truth] for truth in truths]
        notes: list[str | None] = [None] * len(drawn)
        for draw, row in self._given_rows.items():
            notes[draw - 1] = row.cells.get(NOTE)
            if row.label is not None:
                labels[draw - 1] = row.cells[LABEL]
        verifiers = []
        for labeller, truth in zip(labellers, truths, strict=True):
            verifiers.append(None if truth is None or labeller == PERSON else labeller)
        columns: dict[str, Any] = {
            "draw": range(1, len(drawn) + 1),
            "drawn_from": self._sample.seen,
            "seed": self.seed,
            LABEL: labels,
            NOTE: notes,
            BY: verifiers,
        }
        write_checks(path, drawn.assign(**columns), redact=self._request.redact)

    # --- the rates ----------------------------------------------------------------------------------------------------

    def _rates(self, rows: pandas.DataFrame, right: pandas.Series) -> CheckedRates:
        """Both rates among all rows with a reward.

        Args:
            right: 1, 0 or NaN of each drawn row up to the last labelled one, by its index.
        """
        scored = rows[rows["reward"].notna()]
        accepted = (scored["reward"] == self._high).to_numpy()
        drawn = scored.index.get_indexer(right.index)
        # A labelled row's own label must not be in its features.
        unseen = not self._request.labels and self._request.second_verifier is None
        features = features_of(scored, accepted, probabilities=unseen)
        guesses = right_share_guesses(scored)

        def rates_of(places: Int[np.ndarray, " k"], right: Bool[np.ndarray, " k"]) -> CheckedRates:
            checked = drawn[places]
            if self._request.anytime:
                return _anytime_rates(accepted, checked, right)
            return checked_rates(accepted, checked, right, features, right_shares=guesses, seed=self.seed)

        return rates_whatever_is_missing(rates_of, accepted[drawn], right.to_numpy())


def check_keeps_labels(output: Path) -> None:
    """Raises ConfigError where a folder that an audit would replace has checks that a person labelled."""
    path = output / CHECKS_FILE
    if path.is_file() and has_labels(path):
        raise ConfigError(
            f"--output {output}: expected no labels there, got {CHECKS_FILE} with labels: move it, or choose another "
            "folder"
        )


def _anytime_rates(
    accepted: Bool[np.ndarray, " n"], checked: Int[np.ndarray, " c"], right: Bool[np.ndarray, " c"]
) -> CheckedRates:
    """Both rates with intervals that hold however often one looks; the checked rows in the order of drawing."""
    rates = []
    for in_class, error in ((~right, accepted[checked]), (right, ~accepted[checked])):
        low, high = anytime_intervals(in_class, error, rows=len(accepted))[-1].tolist()
        found = int(in_class.sum())
        errors = int((in_class & error).sum())
        estimate = errors / found if found else math.nan
        rates.append(CheckedRate(estimate, low, high, "anytime", found, errors))
    return CheckedRates(*rates)


def features_of(
    scored: pandas.DataFrame, accepted: Bool[np.ndarray, " n"], *, probabilities: bool
) -> Float[np.ndarray, "n k"]:
    """[N, K] what may tell right rows from wrong ones: the share of the row's answer in its group, the verdicts of
    further verifiers, the file's own mark of a correct response, and the probability by `denoise` that it is right.

    Args:
        scored: the rows with a reward.
        accepted: [N] their verdicts.
        probabilities: whether those of `denoise` may be used, which saw no label of these rows.
    """
    shares = _answer_counts(scored) / scored.groupby("group")["reward"].transform("size")
    columns = [shares.to_numpy(dtype=float)]
    # One that did not judge a row speaks neither for it nor against it.
    columns += list(further_verdicts(scored).fillna(0.5).to_numpy().T)
    if scored["correct"].notna().any():
        columns.append(scored["correct"].astype(float).fillna(0.5).to_numpy())
    wrong = scored["probability_wrong"]
    if probabilities and wrong.notna().any():
        columns.append(np.where(wrong.isna(), 0.5, np.where(accepted, 1 - wrong, wrong)))
    return np.column_stack(columns)


def right_share_guesses(scored: pandas.DataFrame) -> list[float]:
    """Guesses of the share of right rows that need no check: what each further verifier accepts, the share of each
    group's most frequent answer, and that of the file's marks of correct responses."""
    guesses = further_verdicts(scored).mean().tolist()
    if scored["compared_answer"].notna().any():
        most_frequent = _answer_counts(scored).groupby(scored["group"]).max().sum()
        guesses.append(float(most_frequent / len(scored)))
    if scored["correct"].notna().all():
        guesses.append(float(scored["correct"].astype(float).mean()))
    return guesses


def _answer_counts(scored: pandas.DataFrame) -> pandas.Series:
    """How many rows of the row's group give its answer; 0 for a row without one."""
    counts: pandas.Series = scored.groupby(["group", "compared_answer"])["reward"].transform("size").fillna(0)
    return counts
