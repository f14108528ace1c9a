"""The functions that slime's rollout manager loads by path, and the curator of one training in its process."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from geoalign.adapters.assignment import Assignment, assign
from geoalign.adapters.decision import decide, final_advantages, make_session, metrics_to_log, refuse
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import GOLD_ANSWERS, SECTION, SlimeSettings, read_section
from geoalign.adapters.slime.samples import (
    assign_samples,
    group_ids,
    normalised_rewards,
    read_rollouts,
    reward_of,
    rollout_rows,
    verifier_rows,
)
from geoalign.curators.curator import identity
from geoalign.errors import ConfigError
from geoalign.types import Rollouts

_LOG = logging.getLogger(__name__)
# Where `log(args, metrics, step_key)` is: slime 0.3, miles, slime 0.2 and vime.
_TRACKERS = ("observability.logging_utils", "utils.tracking_utils.tracking", "utils.logging_utils")
_ENGINES = ("slime", "vime", "miles")
_DEFAULT = "rollout.data_source.RolloutDataSourceWithBuffer"
# Their advantage of every token is the normalised reward.
ESTIMATORS = ("grpo", "gspo", "cispo")


class SlimeRun:
    """Curates the batches of one training in order; `saved`: a data source of ours saves its state with checkpoints."""

    def __init__(self, args: Any) -> None:
        self.args = args
        place = "in the file of --custom-config-path"
        section = getattr(args, SECTION, None)
        self.settings = read_section(SlimeSettings, section, engine="slime", path=SECTION, place=place)
        check_arguments(args)
        how = f"{SECTION}.rollout_fields with {{need}}: <entry of Sample.metadata>"
        self.session = make_session(self.settings, how=how)
        self.session.remedies = replace(self.session.remedies, enlarge=self._larger_batch)
        self._second_verifier = verifier_of_settings(self.settings, self.session, gold=("label",), path=SECTION)
        reads_labels = self.settings.data_source is None and GOLD_ANSWERS not in self.settings.rollout_fields
        if self._second_verifier is not None and reads_labels and args.label_key is None:
            # Without --label-key no sample has a label.
            self._second_verifier.check_gold([{}])
        check_drops(args, self.session.name, drops=self.session.curator.drops_rows)
        self.saved = False

    def curate(self, samples: list[Any]) -> tuple[list[float], list[float]]:
        """Makes the list of samples the curated one; returns each sample's raw reward and advantage.

        The raw reward, which the engine only logs, is that of the position as generated (`_logged_rewards`).
        """
        check_saving(self.args, self.settings, self.saved)
        rows = rollout_rows(samples)
        members = [[samples[row] for row in one] for one in rows]
        raw = [reward_of(rollout, self.args.reward_key) for rollout in members]
        rollouts = self._read(members, raw)
        decision = decide(self.session, rollouts)
        assignment = decision.assignment
        check_drops(self.args, self.session.name, drops=assignment.dropped)
        found = final_advantages(assignment, lambda: self._normalised(assignment, rollouts))
        advantages = found.masked_fill(~assignment.active, 0.0).tolist()
        self._log(samples[0], metrics_to_log(decision.metrics, self.session.curator, self.settings.log_metrics))
        placed = assign_samples(samples, rows, assignment)
        if bool(assignment.replaced.any()):
            samples[:] = [sample for own in placed for sample in own]
            rows = rollout_rows(samples)
        return _logged_rewards(_each(rows, raw, len(samples))), _each(rows, advantages, len(samples))

    def _larger_batch(self, factor: float) -> str:
        """The settings that make batches larger by this factor."""
        return f"raise --rollout-batch-size to {math.ceil(self.args.rollout_batch_size * factor)}"

    def _read(self, members: list[list[Any]], rewards: list[float]) -> Rollouts:
        groups = group_ids(members, self.args.n_samples_per_prompt)
        rollouts = read_rollouts(members, groups, rewards, self.session.curator, self.settings)
        if self._second_verifier is not None:
            verifier = self._second_verifier.field(lambda asked: verifier_rows(members, asked))
            rollouts = replace(rollouts, second_rewards=verifier)
        if "advantages" not in self.session.curator.reads:
            return rollouts
        before = assign(identity(rollouts), groups)
        return replace(rollouts, advantages=self._normalised(before, rollouts))

    def _normalised(self, assignment: Assignment, rollouts: Rollouts) -> torch.Tensor:
        return normalised_rewards(
            assignment.rewards,
            rollouts.groups,
            assignment.active,
            normalise=self.args.rewards_normalization,
            by_std=self.args.grpo_std_normalization,
        )

    def save(self, rollout_id: int) -> None:
        """Writes the curator's state beside the data source's of the same checkpoint."""
        self.session.save(_state_file(self.args.save, rollout_id))

    def load(self, rollout_id: int | None) -> None:
        """Restores the curator's state; does nothing where there is no earlier training."""
        if not self.settings.resume or self.args.load is None or rollout_id is None or rollout_id < 0:
            return
        self.session.load(
            _state_file(self.args.load, rollout_id),
            setting="--load",
            otherwise=f"set {SECTION}.resume to false to begin with a new curator",
        )

    def _log(self, sample: Any, metrics: dict[str, float]) -> None:
        _LOG.info("rollout batch %d: %s", self.session.calls, metrics)
        log = tracker_of(type(sample).__module__.partition(".")[0])
        if log is not None:
            log(self.args, {**metrics, "geoalign/batch": self.session.calls}, "geoalign/batch")


def tracker_of(engine: str) -> Callable[[Any, dict[str, Any], str], None] | None:
    """The engine's own function for metrics; None where it has none of these names."""
    for name in _TRACKERS:
        try:
            found: Callable[[Any, dict[str, Any], str], None] = import_module(f"{engine}.{name}").log
        except ModuleNotFoundError:
            continue
        return found
    return None


def _state_file(folder: str, rollout_id: int) -> Path:
    return Path(folder) / "rollout" / f"geoalign_{rollout_id}.safetensors"


def _each(rows: list[list[int]], values: list[float], size: int) -> list[float]:
    of_row = {row: value for members, value in zip(rows, values, strict=True) for row in members}
    return [of_row.get(row, math.nan) for row in range(size)]


def _logged_rewards(raw: list[float]) -> list[float]:
    """The rewards with the mean of the scored samples in the place of NaN: the engine logs their mean
    (`rollout/raw_reward`), which is that of the scored samples then; NaN where none is."""
    scored = [reward for reward in raw if not math.isnan(reward)]
    mean = sum(scored) / len(scored) if scored else math.nan
    return [mean if math.isnan(reward) else reward for reward in raw]


def check_arguments(args: Any) -> None:
    """Raises UnsupportedError where slime would not take the normalised rewards for the advantages."""
    own = getattr(args, "custom_advantage_function_path", None)
    refuse(
        {
            f"--advantage-estimator {args.advantage_estimator}: curated batches have advantages of their own, which "
            f"{', '.join(ESTIMATORS)} take over; set one of them": args.advantage_estimator not in ESTIMATORS,
            "--normalize-advantages: it would shift the advantages of all rows, those without weight among them; leave "
            "it out": args.normalize_advantages,
            f"--custom-advantage-function-path {own}: expected none, so that curated advantages stay": own is not None,
        }
    )


def check_drops(args: Any, curator: str, *, drops: bool) -> None:
    """Raises UnsupportedError where a curator of this name `drops` rows, and slime's loss cannot leave them out."""
    by_tokens = getattr(args, "calculate_per_token_loss", False)
    refuse(
        {
            f"{curator} drops rows, and slime's loss divides by --global-batch-size rollouts; set "
            "--calculate-per-token-loss, or let the curator replace or weigh rows": drops and not by_tokens
        }
    )


def check_saving(args: Any, settings: SlimeSettings, wrapped: bool) -> None:
    """Raises ConfigError where checkpoints would be written without the curator's state."""
    if args.save is None or not settings.resume:
        return
    otherwise = f"or set {SECTION}.resume to false to train without the curator's state in checkpoints"
    if not wrapped:
        raise ConfigError(
            f"--data-source-path: expected geoalign.adapters.slime.data_source, got {args.data_source_path} (a data "
            f"source of your own goes to {SECTION}.data_source); {otherwise}"
        )
    if not args.rollout_global_dataset:
        raise ConfigError(f"--disable-rollout-global-dataset: no data source is saved then; leave it out, {otherwise}")


# slime hands its one namespace of arguments to both functions.
_current: SlimeRun | None = None


def run_of(args: Any) -> SlimeRun:
    """The run with these arguments: the same one for the same namespace."""
    global _current
    if _current is None or _current.args is not args:
        _current = SlimeRun(args)
    return _current


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """`--custom-reward-post-process-path`: curates the list of samples in place, before slime converts it.

    Args:
        samples: the flat list of a rollout step; slime makes the training rows of it after this call.

    Returns:
        Each sample's reward as generated, for the engine's log (of an unscored one the mean of the others), and its
        advantage.

    Raises:
        UnsupportedError, InputError: the samples cannot be curated; the message has the first that cannot.
        ConfigError: a setting is wrong, or checkpoints would be written without the curator's state.
    """
    return run_of(args).curate(samples)


def data_source(args: Any) -> Any:
    """`--data-source-path`: the data source that the engine would have, whose checkpoints hold the curator's state."""
    run = run_of(args)
    kind = _loaded(run.settings.data_source or _default_source())

    class CuratedDataSource(kind):  # type: ignore[misc, valid-type]
        def save(self, rollout_id: int) -> None:
            run.save(rollout_id)
            super().save(rollout_id)

        def load(self, rollout_id: int | None = None) -> None:
            super().load(rollout_id)
            run.load(rollout_id)

    run.saved = True
    return CuratedDataSource(args)


def _default_source() -> str:
    loaded = [name for name in _ENGINES if name in sys.modules]
    if len(loaded) != 1:
        raise ConfigError(
            f"{SECTION}.data_source: expected a path, such as slime.{_DEFAULT}, where not exactly one of "
            f"{', '.join(_ENGINES)} is loaded; got {', '.join(loaded) or 'none'}"
        )
    return f"{loaded[0]}.{_DEFAULT}"


def _loaded(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{SECTION}.data_source: expected the path of a class, got {path!r}: {error}") from error
