"""The curator of one training, with its random state, the number of its calls, and its file in checkpoints.

The adapters of all engines and `geoalign audit` hold one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from geoalign.answers import answers_by_class
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.curator import Curator
from geoalign.curators.idle import Remedies, why_idle
from geoalign.curators.labelled_rollouts import LabelledRollouts, check_takes_labelled, with_labelled, without_labelled
from geoalign.curators.monitor import Monitor
from geoalign.curators.registry import as_curator
from geoalign.curators.saved_settings import other_settings, settings_of
from geoalign.errors import ConfigError, InputError
from geoalign.method.advantages import advantage_cosine, group_advantages
from geoalign.method.ties import tied_rewards
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)
STATE_FILE = "geoalign_state.safetensors"
_STATE = {"curator", "curator_class", "curator_settings", "generator", "calls", "labelled_rollouts"}
# What an adapter reads off its engine whenever a curator requires it; the other fields are the user's to give.
ENGINE_FIELDS = ("hidden", "lengths", "logprobs", "ids", "advantages", "donor_ok", "prompt_keys", "response_keys")


class CurationSession:
    """Curates the batches of one training in order.

    Attributes:
        curator: the curator, which may keep a state from batch to batch; with `monitor` as one that only watches.
        generator: of every random draw of the curator, on the CPU. The process's global generators are left alone:
            other threads draw from them.
        labelled: rollouts with true rewards; the curator sees them with every batch, where the engine can show them.
        calls: batches curated so far. The caller counts: in several processes all of them, though one alone decides.
        remedies: what a user can do, in the engine's words, where the curator cannot act.

    Args:
        curator: a curator, or what `as_curator` makes one of.

    Raises:
        ConfigError: the curator makes no use of labelled rollouts, or none can be made of what is given.
    """

    def __init__(
        self, curator: Any, *, seed: int, labelled: LabelledRollouts | None = None, monitor: bool = False
    ) -> None:
        chosen = as_curator(curator)
        if labelled is not None:
            check_takes_labelled(chosen)
        self.curator: Curator = Monitor(curator=chosen) if monitor else chosen
        self.remedies = Remedies()
        # Whether a batch with rewards has come: only for the first one is it logged why the curator could not act.
        self._had_rewards = False
        self.labelled = labelled
        self.generator = Generator().manual_seed(seed)
        self.calls = 0

    @property
    def name(self) -> str:
        """The curator's class, for messages and files."""
        return type(self.curator).__name__

    def missing_fields(self, given: Iterable[str]) -> list[str]:
        """The fields that the curator requires and neither the engine nor the user (`given`) brings."""
        known = {*ENGINE_FIELDS, *given, *(() if self.labelled is None else ("trusted",))}
        return [name for name in self.curator.requires if name not in known]

    def curate(self, rollouts: Rollouts, *, details: bool = False, labelled: Rollouts | None = None) -> Curation:
        """The curation of one batch, in the calling thread, which may be another than the engine's.

        To the metrics of a curator that scores rows it adds `anomalous`, how many of them look wrong, and where true
        rewards are known the cosines of `agreement`.

        Args:
            details: as in `Curator.curate`; there are none with labelled rollouts.
            labelled: the labelled rollouts as the engine reads them under its present policy.

        Raises:
            InputError: the curator returns other than a score a row, or a labelled rollout in the batch.
        """
        given = rollouts if labelled is None else with_labelled(rollouts, labelled)
        if given.answers is not None and "answers" in self.curator.reads:
            given = replace(given, answers=answers_by_class(given.answers, given.groups.tolist()))
        with torch.enable_grad():
            curation = self.curator.curate(given, generator=self.generator, details=details and labelled is None)
        if len(curation.scores) != len(given):
            raise InputError(f"Curation.scores: expected {len(given)} rows, got {len(curation.scores)}")
        has_rewards = not bool(rollouts.rewards.isnan().all())
        if has_rewards and not self._had_rewards:
            self._had_rewards = True
            self._warn_if_idle(given, curation)
        if labelled is not None:
            curation = without_labelled(curation, len(rollouts))
        if self.curator.scores_rows:
            curation = curation.with_metrics(anomalous=float(curation.anomalous.sum()))
        return curation.with_metrics(**agreement(curation, rollouts))

    def _warn_if_idle(self, rollouts: Rollouts, curation: Curation) -> None:
        """Logs why the curator could not act on the first batch with rewards, and what to do, if there is a reason."""
        if "answers" in self.curator.reads and _look_gold(rollouts):
            self._say_answers_look_gold()
        why = why_idle(self.curator, rollouts, curation, self.remedies)
        if why is not None:
            self._say_idle(why)

    def _say_answers_look_gold(self) -> None:
        _LOG.warning("answers: expected one a response, got one for all of each prompt: are they gold answers?")

    def _say_idle(self, why: str) -> None:
        _LOG.warning("%s could not act on the first batch: %s", self.name, why)

    def save(self, path: str | Path) -> None:
        """Writes the curator's state, the generator's and the number of calls; makes the folder where it is missing."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        state = {
            "curator_class": self.name,
            "curator_settings": settings_of(self.curator),
            "curator": self.curator.state_dict(),
            "generator": self.generator.get_state(),
            "calls": self.calls,
            "labelled_rollouts": self._digest,
        }
        save_state(path, state)

    @property
    def _digest(self) -> str | None:
        return None if self.labelled is None else self.labelled.digest()

    def load(self, path: str | Path, *, setting: str, otherwise: str) -> None:
        """Restores what `save` wrote.

        Args:
            setting: the engine's setting that asks for it, for messages.
            otherwise: what to do without such a file, for messages.

        Raises:
            InputError: there is no such file, or it is of another curator or other labelled rollouts.
            ConfigError: the curator was saved with other settings; the message names each, with both values.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{setting}: expected {path.name} in {path.parent}, got none; {otherwise}")
        state = load_state(path)
        if set(state) != _STATE:
            raise InputError(
                f"{setting}: expected the state of a curator with {', '.join(sorted(_STATE))}, got one with "
                f"{', '.join(sorted(state))} in {path}: it is of another version, or of something else; {otherwise}"
            )
        saved_class = state["curator_class"]
        if saved_class != self.name:
            raise InputError(
                f"{setting}: expected the state of {self.name}, got one of {saved_class} in {path}; {otherwise}"
            )
        saved_labelled = state["labelled_rollouts"]
        if saved_labelled != self._digest:
            raise InputError(
                f"labelled_rollouts: expected those of {path} (sha256 {saved_labelled or 'none'}), got others "
                f"({self._digest or 'none'}); {otherwise}"
            )
        # Asked here too, for a curator whose own state says nothing of its settings.
        differences = other_settings(state["curator_settings"], settings_of(self.curator))
        if differences:
            raise ConfigError(f"{setting}: the curator in {path} has other settings: {differences}; {otherwise}")
        self.curator.load_state_dict(state["curator"])
        self.generator.set_state(state["generator"])
        self.calls = int(state["calls"])


def _look_gold(rollouts: Rollouts) -> bool:
    """Whether the responses of every prompt gave one answer, and yet got different rewards."""
    if rollouts.answers is None or None in rollouts.answers:
        return False
    groups = rollouts.groups.tolist()
    rewards = tied_rewards(rollouts.rewards, rollouts.groups).tolist()
    prompts = len(set(groups))
    different_answers = len(set(zip(groups, rollouts.answers, strict=True)))
    different_rewards = len(set(zip(groups, rewards, strict=True)))
    return 1 < prompts == different_answers < different_rewards


def agreement(curation: Curation, rollouts: Rollouts) -> dict[str, float]:
    """Cosines to the advantages of the true rewards: of the curated advantages, and of the observed rewards'.

    Empty where no row's true reward is known. Advantages are GRPO's, or the curation's own: an engine that scales them
    by another rule changes lengths of groups, hardly directions.
    """
    true = rollouts.true_rewards
    if true is None or bool(true.isnan().all()):
        return {}
    groups = rollouts.groups
    advantages = curation.advantages
    if advantages is None:
        advantages = group_advantages(curation.rewards, groups[curation.source])
    curated = (advantages * curation.weights).nan_to_num(0.0)
    # Rows without a true reward teach nothing either way.
    unknown = true.isnan() | rollouts.rewards.isnan()
    true = true.to(rollouts.rewards).masked_fill(unknown, torch.nan)
    observed = group_advantages(rollouts.rewards, groups)
    return {
        "advantage_cosine": advantage_cosine(curated, curation.source, true, groups),
        "observed_advantage_cosine": advantage_cosine(observed, torch.arange(len(true)), true, groups),
    }
