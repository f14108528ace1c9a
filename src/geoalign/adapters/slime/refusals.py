"""What the adapter refuses of slime's arguments, by name."""

from __future__ import annotations

from typing import Any

from geoalign.adapters.slime.settings import SECTION, SlimeSettings
from geoalign.errors import ConfigError, UnsupportedError

ESTIMATORS = ("grpo", "gspo", "cispo")


def check_arguments(args: Any) -> None:
    """Raises UnsupportedError where slime would not take the normalised rewards for the advantages."""
    if args.advantage_estimator not in ESTIMATORS:
        raise UnsupportedError(
            f"--advantage-estimator {args.advantage_estimator}: curated batches have advantages of their own, which "
            f"{', '.join(ESTIMATORS)} take over; set one of them"
        )
    if args.normalize_advantages:
        raise UnsupportedError(
            "--normalize-advantages: it would shift the advantages of all rows, those without weight among them; leave "
            "it out"
        )
    path = getattr(args, "custom_advantage_function_path", None)
    if path is not None:
        raise UnsupportedError(
            f"--custom-advantage-function-path {path}: expected none, so that curated advantages stay"
        )


def check_drops(args: Any, curator: str) -> None:
    """Raises UnsupportedError where dropped rows cannot be left out of the loss's normaliser."""
    if not getattr(args, "calculate_per_token_loss", False):
        raise UnsupportedError(
            f"{curator} drops rows, and slime's loss divides by --global-batch-size rollouts; set "
            "--calculate-per-token-loss, or let the curator replace or weigh rows"
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
        raise ConfigError(
            f"--disable-rollout-global-dataset: slime then saves no data source; leave it out, {otherwise}"
        )
