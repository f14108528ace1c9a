"""An audit as a log of Inspect, which `inspect view` shows; read and written by Inspect's own package.

The audit of one Inspect log becomes a copy of it with one score more on each sample. Any other becomes a log of its
own, in which a prompt is a sample and each of its rollouts an epoch.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geoalign import __version__
from geoalign.audit.command import AuditRequest
from geoalign.audit.inputs import Input
from geoalign.audit.results import AuditReport
from geoalign.dumps.formats.inspect_ai import INSPECT, SCORER
from geoalign.errors import ConfigError, InputError, MissingExtraError
from geoalign.files.durable import sync_folder
from geoalign.text import one_line

_SUFFIXES = (".eval", ".json")
# The score of a rollout's own reward, in a log that is made of rows.
_REWARD = "reward"
# What stands for the model there, which a file of rollouts does not name.
_MODEL = "rollouts"


def check_inspect_log(request: AuditRequest, inputs: Sequence[Path]) -> None:
    """Raises ConfigError where the log cannot be written, MissingExtraError where Inspect is not installed."""
    path = request.export_inspect
    if path is None:
        return
    if request.redact:
        raise ConfigError("--export-inspect: expected without --redact, got both: the log has texts")
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"--export-inspect {path}: expected a file that ends in {' or '.join(_SUFFIXES)}")
    if path.resolve().is_relative_to(request.output.resolve()):
        raise ConfigError(f"--export-inspect {path}: expected a file outside of the audit's folder {request.output}")
    if any(path.resolve() == source.resolve() for source in inputs):
        raise ConfigError(f"--export-inspect {path}: expected another file than the inputs")
    if path.exists() and not request.overwrite:
        raise ConfigError(f"--export-inspect {path}: it is there already: --overwrite replaces it")
    if not path.parent.is_dir():
        raise ConfigError(f"--export-inspect {path}: there is no folder {path.parent}")
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"--export-inspect needs the package inspect_ai: pip install inspect-ai ({one_line(error)})"
        ) from error


def write_inspect_log(path: Path, report: AuditReport, inputs: Sequence[Input]) -> None:
    """Writes the log: a copy where one Inspect log was audited, else one that is made of the rows."""
    from inspect_ai.log import write_eval_log

    is_one_log = len(inputs) == 1 and inputs[0].layout.format is INSPECT
    log = _copied(inputs[0].path, report) if is_one_log else _made(report, inputs)
    _add_result(log, report)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".inspect-") as folder:
        written = Path(folder, path.name)
        write_eval_log(log, str(written))
        written.replace(path)
    sync_folder(path.parent)


def _copied(path: Path, report: AuditReport) -> Any:
    """The audited log with a score more on each sample that was audited."""
    from inspect_ai.log import read_eval_log

    try:
        # The path of standard input shows its name alone.
        log = read_eval_log(os.fspath(path))
    except Exception as error:
        raise InputError(f"--export-inspect: Inspect cannot read {path}: {one_line(error)}") from error
    rows = {row.id: row for row in report.rows.itertuples()}
    found = 0
    for sample in log.samples or []:
        row = rows.get(f"{sample.id}/{sample.epoch}")
        if row is not None:
            sample.scores = {**(sample.scores or {}), SCORER: _score(row)}
            found += 1
    if found != len(report.rows):
        raise InputError(
            f"--export-inspect: {found} of {len(report.rows)} audited rows are samples of {path}, by the field id. "
            "Leave out --field id="
        )
    return log


def _made(report: AuditReport, inputs: Sequence[Input]) -> Any:
    """A log of the audited rows: each group is a sample, by its number from 1, and each of its rollouts an epoch."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats

    numbers = (report.rows["group"] + 1).unique().tolist()
    names = ", ".join(source.path.name for source in inputs[:3]) + (", ..." if len(inputs) > 3 else "")
    newest = max(source.path.stat().st_mtime for source in inputs)
    created = datetime.fromtimestamp(newest, tz=UTC).isoformat()
    spec = EvalSpec(
        created=created,
        task=f"geoalign audit of {names}",
        dataset=EvalDataset(name=names, samples=len(numbers), sample_ids=numbers),
        model=_MODEL,
        config=EvalConfig(epochs=int(report.rows["group_size"].max())),
        packages={"geoalign": __version__},
    )
    stats = EvalStats(started_at=created, completed_at=created)
    return EvalLog(status="success", eval=spec, stats=stats, samples=list(_samples(report)))


def _samples(report: AuditReport) -> Iterator[Any]:
    """The rollouts as samples of Inspect, in the order of the input."""
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    epochs = report.rows.groupby("group").cumcount() + 1
    row: Any
    for row, epoch in zip(report.rows.itertuples(), epochs, strict=True):
        output = ModelOutput.from_content(_MODEL, row.response, "max_tokens" if row.truncated == 1 else "stop")
        scores = {SCORER: _score(row)}
        if not math.isnan(row.reward):
            scores = {_REWARD: Score(value=row.reward, answer=_text(row.final_answer)), **scores}
        yield EvalSample(
            id=row.group + 1,
            epoch=epoch,
            input=row.prompt,
            target=_target(row),
            messages=[ChatMessageUser(content=row.prompt), output.message],
            output=output,
            scores=scores,
            metadata={"file": row.file, "line": row.line, "step": row.step, "id": row.id},
        )


def _target(row: Any) -> str | list[str]:
    """The gold answer of a row, or several, each of which is right."""
    if row.gold_answers is not None and len(row.gold_answers) > 1:
        return list(row.gold_answers)
    return _text(row.answer) or ""


def _score(row: Any) -> Any:
    """What the audit says of a rollout as a score of Inspect: values by name, and the reason as its explanation."""
    from inspect_ai.scorer import Score

    values = {
        # A number: the viewer shows True in green, as it does for right answers.
        "flagged": int(row.anomalous),
        "score": row.score,
        "probability_wrong": row.probability_wrong,
        "new_reward": row.new_reward,
    }
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    return Score(value=known, answer=_text(row.final_answer), explanation=_text(row.why))


def _add_result(log: Any, report: AuditReport) -> None:
    """Puts the share of flagged rollouts among the log's results, which the viewer shows above the samples."""
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    results = log.results or EvalResults(total_samples=len(report.rows), completed_samples=len(report.rows))
    share = EvalMetric(name="flagged", value=float(report.rows["anomalous"].mean()))
    others = [score for score in results.scores if score.scorer != SCORER]
    results.scores = [*others, EvalScore(name=SCORER, scorer=SCORER, metrics={share.name: share})]
    log.results = results


def _text(value: Any) -> str | None:
    """A text, or None where the table has none."""
    return value if isinstance(value, str) else None
