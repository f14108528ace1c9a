"""Options of `geoalign audit` that cannot be together, and files that are not there; no torch, so that it is said at
once."""

from __future__ import annotations

from geoalign.audit.command import AuditRequest
from geoalign.errors import ConfigError


def check_options(request: AuditRequest) -> None:
    """Raises ConfigError for options that cannot be together or need another, and for a file of labels or checks that
    is not there."""
    if request.hidden and request.model is not None:
        raise ConfigError("--hidden: expected without --model, got both: states come from files or from a model")
    if request.filtered and request.redact:
        raise ConfigError("--filtered: expected without --redact, got both: the filtered rollouts are texts")
    for path in request.labels:
        if not path.is_file():
            raise ConfigError(f"--labels {path}: expected a flagged.csv with labels, got none there")
    if request.checks is not None and not request.checks.is_file():
        raise ConfigError(
            f"--checks {request.checks}: expected a checks.csv as --draw-checks writes it, got none there"
        )
    has_checks = request.checks is not None
    if request.check_with is not None and not has_checks and request.draw_checks is None:
        raise ConfigError("--check-with: expected --draw-checks N or --checks FILE, which say what it labels, got none")
    _check_companions(request)
    if request.anytime and not has_checks and request.check_with is None:
        raise ConfigError("--anytime: expected labelled checks (--checks FILE or --check-with WHO), got none")


def _check_companions(request: AuditRequest) -> None:
    """Raises ConfigError for an option that says something of another one which is not there."""
    if request.budget is not None and request.second_verifier is None:
        raise ConfigError(
            "--budget: expected with --second-verifier WHO, whose rows it counts, got it alone; --verifier-rows counts "
            "those of --verifiers, and --draw-checks those for you to label"
        )
    if request.export is None and request.export_relabel:
        raise ConfigError("--export-relabel: expected with --export FILE, got it alone")
    if request.export is None and request.export_above is not None:
        raise ConfigError("--export-above: expected with --export FILE, got it alone")
    if request.cache is not None and request.model is None:
        raise ConfigError("--cache: expected with --model ID_OR_PATH, whose states it keeps, got it alone")
