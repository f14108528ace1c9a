"""The files about gold answers: golds.csv in the output folder, and an exported data set with its datasheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

from geoalign.audit.command import AuditRequest
from geoalign.audit.folder import GOLDS_FILE
from geoalign.audit.golds import SUSPICIOUS, GoldAnswers, JudgedProblem, RankedGolds
from geoalign.audit.words.datasheet import datasheet
from geoalign.audit.words.degenerate import degenerate
from geoalign.dumps.flagged_csv import safe
from geoalign.errors import ConfigError
from geoalign.files.durable import write_atomically

DATASHEET_FILE = "datasheet.md"
_COLUMNS = ("problem", "score", "gold", "proposed", "share", "copies", "rollouts", "gold_copies", "votes", "prompt")


def check_export(request: AuditRequest, inputs: Sequence[Path]) -> None:
    """Raises ConfigError where an export cannot be, or would replace what is not its own."""
    if request.export is None:
        return
    path = request.export
    if request.redact:
        raise ConfigError("--export: expected without --redact, got both: the exported prompts are texts")
    least_score = _least_score(request)
    if not 0 <= least_score <= 1:
        raise ConfigError(f"--export-above: expected a score from 0 to 1, got {least_score:g}")
    if path.suffix != ".jsonl":
        raise ConfigError(f"--export {path}: expected a file that ends in .jsonl")
    if path.resolve().is_relative_to(request.output.resolve()):
        raise ConfigError(f"--export {path}: expected a file outside of the audit's folder {request.output}")
    for written in (path, path.with_name(DATASHEET_FILE)):
        if any(written.resolve() == source.resolve() for source in inputs):
            raise ConfigError(f"--export {path}: expected another file than the inputs, got {written}")
        if written.exists() and not request.overwrite:
            raise ConfigError(f"--export {path}: {written} is there already: --overwrite replaces it")
    if not path.parent.is_dir():
        raise ConfigError(f"--export {path}: there is no folder {path.parent}")


def write_golds(folder: Path, golds: GoldAnswers, ranked: RankedGolds) -> None:
    """Writes golds.csv, the most suspicious first; nothing where no answer rivals a gold answer."""
    if ranked.prompts.empty:
        return
    with (folder / GOLDS_FILE).open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for row in ranked.prompts.to_dict("records"):
            cells = _cells(row, golds.problems[row["problem"]])
            writer.writerow([safe(cell) if isinstance(cell, str) else cell for cell in cells])


def _cells(row: Mapping[Any, Any], problem: JudgedProblem) -> list[Any]:
    """One line of golds.csv."""
    votes = [f"{name} {accepted}/{judged}" for name, (accepted, judged) in row["votes"].items()]
    cells = {
        **row,
        "problem": problem.name,
        "score": f"{row['score']:.4f}",
        "gold": problem.gold,
        "share": f"{row['share']:.4f}",
        "votes": "; ".join(votes),
        "prompt": problem.prompt if isinstance(problem.prompt, str) else json.dumps(problem.prompt),
    }
    return [cells[name] for name in _COLUMNS]


def write_export(request: AuditRequest, summary: Mapping[str, Any], golds: GoldAnswers, ranked: RankedGolds) -> None:
    """Writes the data set, a line for each problem, and its datasheet beside it."""
    assert request.export is not None
    lines = [json.dumps(line) for line in exported_problems(request, golds, ranked)]
    write_atomically(request.export, "".join(f"{line}\n" for line in lines))
    write_atomically(request.export.with_name(DATASHEET_FILE), datasheet(summary))


def exported_problems(request: AuditRequest, golds: GoldAnswers, ranked: RankedGolds) -> list[dict[str, Any]]:
    """The lines of the data set: `prompt`, `answer`, and the columns that say where the problem is from.

    Where the ranking is not to be trusted, every problem stays with its gold answer.
    """
    doubted = _doubted(request, ranked)
    proposed = dict(zip(doubted["problem"], doubted["proposed"], strict=True))
    lines = []
    for number, problem in enumerate(golds.problems):
        if number in proposed and not request.export_relabel:
            continue
        gold = list(problem.golds) if len(problem.golds) > 1 else problem.gold
        answer = proposed.get(number, gold)
        lines.append({"prompt": problem.prompt, "answer": answer, **problem.origin})
    return lines


def _doubted(request: AuditRequest, ranked: RankedGolds) -> pandas.DataFrame:
    """The prompts that are left out, or given the proposed answer; none where the ranking is not to be trusted."""
    suspicious = ranked.suspicious(_least_score(request))
    return suspicious if ranked.is_trusted else suspicious.head(0)


def _least_score(request: AuditRequest) -> float:
    """The score from which on a gold answer is suspicious in the export."""
    return SUSPICIOUS if request.export_above is None else request.export_above


def export_summary(
    request: AuditRequest, golds: GoldAnswers, ranked: RankedGolds, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """`export` of `summary.json`; None where nothing is exported.

    Args:
        found: the summary's `degenerate`.
    """
    if request.export is None:
        return None
    lines = exported_problems(request, golds, ranked)
    return {
        "file": str(request.export),
        "prompts": len(lines),
        "suspicious": len(ranked.suspicious(_least_score(request))),
        "above": _least_score(request),
        "changed": len(_doubted(request, ranked)),
        "relabelled": request.export_relabel,
        "without_gold": sum(line["answer"] is None for line in lines),
        "symptoms": degenerate({"degenerate": found}),
    }
