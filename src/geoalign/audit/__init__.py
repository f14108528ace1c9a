"""Audits of rollouts that exist already: which rewards look wrong, and what is certain about the verifier.

The package is a function as well::

    from geoalign import audit

    report = audit("rollouts.jsonl")

The report is a `geoalign.audit.results.AuditReport`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geoalign.audit.results import AuditReport

Files = str | Path | Sequence[str | Path]
Verifiers = str | Callable[..., Any] | Sequence[str | Callable[..., Any]] | Mapping[str, str | Callable[..., Any]]


class AuditPackage(ModuleType):
    """The package with a call: importing one of its modules puts the package at the name `geoalign.audit`."""

    def __call__(
        self,
        rollouts: Files,
        *,
        output: str | Path | None = None,
        curator: str | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        fields: Mapping[str, str] | None = None,
        format: str | None = None,
        labels: Files = (),
        second_verifier: str | None = None,
        verifiers: Verifiers = (),
        verifier_rows: int | Mapping[str, int] | None = None,
        budget: str | None = None,
        draw_checks: int | None = None,
        checks: str | Path | None = None,
        check_with: str | None = None,
        anytime: bool = False,
        hidden: Files = (),
        model: str | None = None,
        cache: str | Path | None = None,
        skip_bad: bool = False,
        redact: bool = False,
        filtered: bool = False,
        export: str | Path | None = None,
        export_relabel: bool = False,
        export_above: float | None = None,
        export_inspect: str | Path | None = None,
        overwrite: bool = False,
        trust_remote_code: bool = False,
    ) -> AuditReport:
        """Finds the rewards that look wrong in files of rollouts, and what is certain about the verifier.

        It does what the command `geoalign audit` does, and its arguments are the command's options (docs/audit.md).

        Args:
            rollouts: one or several files of rollouts, or folders of them, in step order.
            output: a new folder for the tables and the page, as the command writes them. None: nothing is kept.
            curator: what judges the rollouts: a name, or its settings with its name as `type`. None: `denoise`.
            settings: other settings of an audit (docs/reference/settings.md), such as {"hidden_position": "mean"}.
            fields: which field of the files holds a role, such as {"reward": "score"}.
            format: the format of the files. None: it is recognised.
            labels: files of true rewards that people gave: labels.csv, or flagged.csv with a filled column `label`.
            second_verifier: checks the most informative rows: "math_verify", a command, or an address https://host/v1.
            budget: rows, or share of rows, that it checks in each step. None: 10%.
            verifiers: judge all rows: names as `second_verifier` takes them, "module:name" among them, or functions in
                TRL's form; a dict gives each a name.
            verifier_rows: let them judge so many rows, drawn at random; a dict says it for some by their names.
            draw_checks: so many rows are drawn at random and written as checks.csv into `output`, to be labelled.
            checks: a labelled checks.csv, for error rates with 95% intervals.
            check_with: labels the drawn rows: "gold" (the file's gold answers), or as `second_verifier`.
            anytime: give intervals by checks that hold however often one looks.
            hidden: files with the hidden states of the rows, or a folder of them.
            model: a model that computes hidden states.
            cache: where computed states are kept. None: in the output folder.
            skip_bad: leave out rows that cannot be read, and list them in the summary.
            redact: keep no prompts, responses and answers.
            filtered: also write filtered.jsonl into `output`, the remaining rollouts with their new rewards.
            export: also write the data set without suspicious gold answers there, and datasheet.md beside it.
            export_relabel: give prompts with suspicious gold answers the proposed answer there, instead of leaving
                them out.
            export_above: from this score on a gold answer is suspicious there. None: 0.5.
            export_inspect: also write a log for `inspect view` there, a file that ends in .eval or .json.
            overwrite: replace an earlier audit in `output`.
            trust_remote_code: run the Python code that comes with the model.

        Raises:
            ConfigError: arguments that cannot be, or that do not fit the files.
            InputError: a file that cannot be read; the message names it, the line and the field.
        """
        # With torch: importing the package alone is quick.
        from geoalign.audit.command import AuditRequest
        from geoalign.audit.pipeline import run_audit
        from geoalign.audit.settings import audit_config
        from geoalign.audit.several_verifiers.asking import python_verifiers
        from geoalign.errors import ConfigError

        if draw_checks is not None and output is None and check_with is None:
            raise ConfigError("draw_checks: expected `output`, a folder for checks.csv, got none")
        given = dict(settings or {})
        if curator is not None:
            given["curator"] = {"type": curator} if isinstance(curator, str) else dict(curator)
        if trust_remote_code:
            given["trust_remote_code"] = True
        config = audit_config(given)
        names, functions = python_verifiers(verifiers)
        request = AuditRequest(
            rollouts=[str(path) for path in _paths(rollouts)],
            fields=[f"{role}={name}" for role, name in (fields or {}).items()],
            format=format,
            labels=_paths(labels),
            second_verifier=second_verifier,
            verifiers=names,
            verifier_rows=_rows_of_verifiers(verifier_rows),
            budget=budget,
            draw_checks=draw_checks,
            checks=None if checks is None else Path(checks),
            check_with=check_with,
            anytime=anytime,
            hidden=_paths(hidden),
            model=model,
            cache=None if cache is None else Path(cache),
            skip_bad=skip_bad,
            redact=redact,
            filtered=filtered,
            export=None if export is None else Path(export),
            export_relabel=export_relabel,
            export_above=export_above,
            export_inspect=None if export_inspect is None else Path(export_inspect),
            overwrite=overwrite,
        )
        if output is not None:
            return run_audit(config, replace(request, output=Path(output)), verifiers=functions)
        with TemporaryDirectory(prefix="geoalign-audit-") as temporary:
            report = run_audit(config, request, folder=Path(temporary, "audit"), with_page=False, verifiers=functions)
            return replace(report, folder=None)


def _rows_of_verifiers(rows: int | Mapping[str, int] | None) -> list[str]:
    """`verifier_rows` as the command takes it."""
    if rows is None:
        return []
    return [f"{name}={number}" for name, number in rows.items()] if isinstance(rows, Mapping) else [str(rows)]


def _paths(files: Files) -> list[Path]:
    """One path or several as a list."""
    return [Path(files)] if isinstance(files, (str, Path)) else [Path(path) for path in files]


# `geoalign.audit` before one of its modules was imported is looked up here by its name.
audit = sys.modules[__name__]
audit.__class__ = AuditPackage
