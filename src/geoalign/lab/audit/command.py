"""`geoalign audit`: dumps of rollouts in; scores, what was flagged and a page out."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from torch import Tensor

from geoalign import __version__
from geoalign.boxed import boxed_answer
from geoalign.curators.anchors import check_reads_trusted
from geoalign.curators.registry import make_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.lab.audit.hidden_files import find_hidden_files, read_hidden
from geoalign.lab.audit.steps import (
    NO_STATES,
    ConsensusMeter,
    available_fields,
    check_curator,
    counts_of,
    decided,
    density_columns,
    make_rollouts,
    pair_columns,
    without_states,
)
from geoalign.lab.audit.terminal import show_result
from geoalign.lab.audit.verdicts import VerdictAudit
from geoalign.lab.config.audit import AuditConfig
from geoalign.lab.config.requests import AuditRequest
from geoalign.lab.dumps.formats import Layout, find_layout, parse_fields
from geoalign.lab.dumps.labels import Labels
from geoalign.lab.dumps.reading import Dump, Skipped, read_dump
from geoalign.lab.reports.inspection import build_inspection
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.curation import FILTERED_FILE, REPORT_FILE, SUMMARY_FILE, CuratedFolder, CurationTables
from geoalign.lab.store.files import locked
from geoalign.lab.store.json_files import write_json
from geoalign.lab.tasks.rows import DUMP_SUFFIXES
from geoalign.lab.terminal import Console, passing_progress, say
from geoalign.settings.loading import plain_section
from geoalign.types import Rollouts


def audit(config: AuditConfig, request: AuditRequest, *, console: Console | None = None) -> dict[str, Any]:
    """Curates dumps one after the other with one curator, and returns the content of `summary.json`.

    A file at a time is in memory. The inputs are only read. Every file of the output appears whole, the summary last.
    """
    console = console or Console(quiet=True)
    if request.hidden and request.model is not None:
        raise ConfigError("--hidden: expected without --model, got both: states come from files or from a model")
    if request.filtered and request.redact:
        raise ConfigError("--filtered: expected without --redact, got both: the filtered rollouts are texts")
    inputs = find_inputs(
        request.rollouts, name=request.format, fields=parse_fields(request.fields), hidden=request.hidden
    )
    folder = CuratedFolder(request.output)
    folder.check([*(source.path for source in inputs), *request.labels], overwrite=request.overwrite)
    for source in inputs:
        say(console, f"{source.path}: {source.layout}" + ("" if source.step is None else f", step {source.step}"))
    with locked(folder.root):
        folder.start()
        try:
            summary = CurationRun(config, request, folder, console).run(inputs)
            write_json(folder.staging / SUMMARY_FILE, summary)
            build_inspection(folder.staging)
            if request.redact and request.cache is None:
                # States give away the texts that they were computed from.
                shutil.rmtree(folder.states, ignore_errors=True)
            folder.publish()
        except BaseException:
            folder.discard()
            raise
    show_result(console, summary, folder.root, folder.root / REPORT_FILE)
    return summary


@dataclass(frozen=True)
class Input:
    """One file: how it is read, the step that its first rollout names, and where its hidden states lie."""

    path: Path
    layout: Layout
    step: int | None
    hidden: Path | None = None


def find_inputs(
    texts: Sequence[str],
    *,
    name: str | None = None,
    fields: Mapping[str, str] | None = None,
    hidden: Sequence[Path] = (),
) -> list[Input]:
    """The files that the arguments name, with their layouts, by the step that they name where all name one.

    A folder stands for the dumps in it, in the order of the numbers in their names; of a run of `geoalign train` for
    its `rollouts`, of a TRL run for its `completions`. Files of states belong to the dumps in the order of the
    arguments.
    """
    paths = [path for text in texts for path in _files(Path(text).expanduser())]
    if not paths:
        raise ConfigError("ROLLOUTS: expected at least one file of rollouts, got none")
    twice, times = Counter(path.resolve() for path in paths).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"ROLLOUTS: expected each file once, got {twice} twice")
    states: Sequence[Path | None] = find_hidden_files(hidden, paths) if hidden else [None] * len(paths)
    inputs = [
        Input(path, *find_layout(path, name=name, fields=fields), state)
        for path, state in zip(paths, states, strict=True)
    ]
    if all(source.step is not None for source in inputs):
        inputs.sort(key=lambda source: source.step or 0)
    return inputs


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for inner in ("rollouts", "completions"):
        if (path / inner).is_dir():
            path = path / inner
            break
    files = [item for item in path.iterdir() if item.is_file() and item.name.endswith(DUMP_SUFFIXES)]
    if not files:
        raise ConfigError(f"{path}: expected files that end in {', '.join(DUMP_SUFFIXES)}, got none")
    # "2.jsonl" before "10.jsonl".
    return sorted(
        files,
        key=lambda item: [part.zfill(20) if part.isdecimal() else part for part in re.split("([0-9]+)", item.name)],
    )


@dataclass
class _Totals:
    """What is added up over the files."""

    counts: Counter[str] = field(default_factory=Counter)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    repeated: list[dict[str, str]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    hidden: list[dict[str, Any]] = field(default_factory=list)
    named: dict[int, Path] = field(default_factory=dict)
    rollouts: int = 0
    groups: int = 0
    pairs_left_out: int = 0


class CurationRun:
    """One call of the command: one curator over all files in their order, a step at a time."""

    def __init__(self, config: AuditConfig, request: AuditRequest, folder: CuratedFolder, console: Console) -> None:
        self.states_note: str | None = None
        if not request.hidden and request.model is None:
            section = without_states(config.curator)
            if section is not config.curator:
                config, self.states_note = replace(config, curator=section), NO_STATES
        self.config, self.request, self.folder, self.console = config, request, folder, console
        self.session = CurationSession(make_curator(config.curator), seed=config.seed)
        self.name = config.curator.type
        if request.labels:
            check_reads_trusted(self.session.curator, setting="--labels")
        self.labels = Labels(request.labels)
        self.meter = ConsensusMeter(self.session.curator, check=config.consensus_check)
        self.totals = _Totals()
        self.audit = VerdictAudit()
        self._seen: dict[bytes, Path] = {}
        self._unjudged: Rollouts | None = None
        self._model: Any = None

    def run(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Reads, curates and writes every file."""
        request, totals = self.request, self.totals
        with CurationTables(self.folder.staging, redact=request.redact) as tables:
            for number, source in enumerate(inputs, start=1):
                dump = read_dump(
                    source.path, source.layout, step=number, skip_bad=request.skip_bad,
                    mixed_groups=request.mixed_groups,
                )  # fmt: skip
                if (earlier := self._earlier(dump)) is not None:
                    totals.repeated.append({"file": str(source.path), "same_as": str(earlier)})
                    continue
                self.labels.apply(dump)
                frame = self._curated(source, dump, tables)
                tables.add_scores(frame.reset_index(names="index"))
                if request.filtered:
                    with (self.folder.staging / FILTERED_FILE).open("ab") as file:
                        file.writelines(_filtered_lines(frame))
                totals.inputs.append(
                    {
                        "file": str(source.path),
                        "format": source.layout.format.name,
                        "fields": dict(source.layout.fields),
                        "rows": len(frame),
                        "groups": frame["group"].nunique(),
                        "group_sizes": {str(size): count for size, count in dump.group_sizes().items()},
                        "skipped": len(dump.skipped),
                    }
                )
                totals.skipped += dump.skipped
                totals.rollouts += len(frame)
        self.labels.check_all_found()
        if self._unjudged is not None:
            self.meter.cross_fit(self._unjudged, self.config.seed)
        return self._summary()

    def _earlier(self, dump: Dump) -> Path | None:
        """The dump of this call that held the same prompts, responses and rewards; None where it is the first of them.

        Only of formats whose writer is known to repeat itself (`Format.repeats`); whatever else is given twice stays.
        """
        if not dump.layout.format.repeats:
            return None
        rows = pandas.util.hash_pandas_object(dump.frame[["prompt", "response", "reward"]], index=False)
        first = self._seen.setdefault(rows.to_numpy().tobytes(), dump.path)
        return None if first == dump.path else first

    def _curated(self, source: Input, dump: Dump, tables: CurationTables) -> pandas.DataFrame:
        """The rollouts of a file with what was decided, curated by step in the order in which steps appear."""
        frame, totals = dump.frame, self.totals
        available = available_fields(frame, model=self.request.model is not None, hidden=source.hidden is not None)
        check_curator(self.name, self.session.curator, available)
        states = self._states(source, dump)
        frame["file"] = whole_text(str(source.path))
        answers = [
            boxed_answer(response) if answer is None else answer
            for answer, response in zip(frame["final_answer"], frame["response"], strict=True)
        ]
        # As objects: a column of text would make NaN of a missing answer.
        frame["final_answer"] = pandas.Series(answers, index=frame.index, dtype=object)
        parts = []
        for step in frame["step"].unique().tolist():
            self._unjudged = None  # the states of one step at a time
            if step in totals.named:
                raise ConfigError(
                    f"{source.path}: step: expected another step than {totals.named[step]}, got {step} again; "
                    "--field step= numbers the files instead"
                )
            part = frame[frame["step"] == step]
            # From a file the states of rows that were left out are there too; from the model they are not.
            chosen = part["position"].to_numpy() if source.hidden else part.index.to_numpy()
            part = part.assign(group=part["group"] + totals.groups).set_axis(part.index + totals.rollouts)
            totals.groups += part["group"].nunique()
            try:
                rollouts = make_rollouts(
                    part, self.session.curator, None if states is None else _rows_of(states, chosen)
                )
            except InputError as error:
                raise InputError(f"{source.hidden or source.path}: {error}") from error
            curation = self.session.curate(rollouts, details=True)
            self.meter.add()
            # If no step is judged by the end, the last one is asked by cross-fitting.
            self._unjudged = rollouts if self.meter.wants_check else None
            part = decided(part, rollouts, curation, self.session.curator, name=self.name)
            self.audit.add(part)
            pairs, left_out = pair_columns(part, curation.details, self.config.pairs_per_step)
            totals.pairs_left_out += left_out
            if pairs:
                tables.add_pairs(pairs)
            if density := density_columns(step, curation.details):
                tables.add_density(density)
            totals.counts.update(counts_of(part))
            metrics = {f"geoalign/{name}": float(value) for name, value in curation.metrics.items()}
            totals.steps.append({"step": step, "file": str(source.path), "metrics": metrics})
            parts.append(part)
        totals.named |= dict.fromkeys(frame["step"].unique().tolist(), source.path)
        return pandas.concat(parts).sort_index()

    def _states(self, source: Input, dump: Dump) -> Tensor | None:
        """The states of a dump, where the curator wants them; lengths in tokens, which a model's tokenizer counts, are
        filled in."""
        wanted = "hidden" in self.session.curator.requires
        if source.hidden is not None and wanted:
            if dump.positions is None:
                raise InputError(
                    f"{source.hidden}: hidden states: expected a dump whose rollouts can be counted, "
                    f"got {source.path}, where row {dump.skipped[0].line} and perhaps others hide how many there are"
                )
            tensor = self.config.hidden_tensor
            states = read_hidden(source.hidden, rows=dump.positions, dump=source.path, tensor=tensor)
            shape, dtype = list(states.shape), str(states.dtype).removeprefix("torch.")
            self.totals.hidden.append({"file": str(source.hidden), "shape": shape, "dtype": dtype})
            return states
        if self.request.model is None or not (wanted or "lengths" in self.session.curator.requires):
            return None
        from geoalign.lab.audit.hidden_model import compute_states, load_state_model
        from geoalign.lab.models.fastest_dtype import print_fastest_dtype

        if self._model is None:
            with self.console.status("Loading the model"):
                self._model = load_state_model(self.request.model, self.config)
            if self.config.dtype == "auto":
                print_fastest_dtype(self.console, self._model.device.type)
        cache = self.request.cache or self.folder.states
        with passing_progress(self.console, "Hidden states", len(dump.frame)) as update:
            computed = compute_states(
                self._model, dump, self.config, cache, progress=lambda done: update(completed=done)
            )
        self.totals.hidden.append(
            {
                "file": str(computed.path),
                "shape": list(computed.states.shape),
                "cut_rows": computed.cut_rows,
                "without_answer": computed.without_answer,
                "prompts": computed.prompts,
            }
        )
        tokens = dump.frame["tokens"]
        dump.frame["tokens"] = tokens.where(tokens.notna(), pandas.Series(computed.lengths, dtype=object))
        return computed.states if wanted else None

    def _summary(self) -> dict[str, Any]:
        totals, request = self.totals, self.request
        with self.console.status("Auditing the verdicts"):
            audited = self.audit.summary(redact=request.redact)
        skipped = [asdict(row) for row in totals.skipped]
        if request.redact:
            # What came instead may quote a text.
            skipped = [{**row, "reason": row["reason"].partition(", got ")[0]} for row in skipped]
        source = "none" if not totals.hidden else "file" if request.hidden else "model"
        hidden: dict[str, Any] = {"from": source, "files": totals.hidden}
        if self.states_note is not None:
            hidden["note"] = self.states_note
        if source == "model":
            names = ("hidden_position", "hidden_layer", "batch_size", "max_tokens", "chat_template_kwargs")
            settings = {name: getattr(self.config, name) for name in names}
            device = str(self._model.device)
            hidden |= {"model": request.model, "dtype": self._model.dtype, "device": device, **settings}
        command = {"arguments": list(request.command), "skip_bad": request.skip_bad, "output": str(self.folder.root)}
        return {
            "geoalign": __version__,
            "command": command,
            "inputs": totals.inputs,
            "skipped": skipped,
            "repeated": totals.repeated,
            "labels": self.labels.summary(),
            "curator": plain_section(self.config.curator),
            "seed": self.config.seed,
            "redacted": request.redact,
            "hidden": hidden,
            "counts": {**totals.counts, "skipped": len(skipped)},
            "pairs_per_step": self.config.pairs_per_step,
            "pairs_left_out": totals.pairs_left_out,
            "steps": totals.steps,
            "consensus": self.meter.summary(),
            **audited,
        }


def _filtered_lines(frame: pandas.DataFrame) -> Iterator[bytes]:
    """The rollouts that stay, one a line of JSON, each in its place with the response that stands there afterwards.

    A line has what says which rollout it is, and reward, weight and advantage (where there is one) after curation.
    """
    names = ["file", "line", "sample", "step", "group", "id", "prompt", "messages", "response", "replacement"]
    numbers = {"reward": "new_reward", "weight": "weight", "advantage": "advantage"}
    stays = frame[frame["source"] >= 0]
    for row in stays[[*names, *numbers.values()]].to_dict("records"):
        messages, replacement = row.pop("messages"), row.pop("replacement")
        decisions = {name: row.pop(column) for name, column in numbers.items()}
        line = row | {"prompt": messages or row["prompt"]}
        line |= {} if replacement is None else {"response": replacement}
        line |= {name: None if np.isnan(value) else value for name, value in decisions.items()}
        if line["advantage"] is None:
            del line["advantage"]
        yield json.dumps(line).encode("ascii") + b"\n"


def _rows_of(states: Tensor, rows: np.ndarray) -> Tensor:
    """The rows of a table of states: a view where they lie side by side, so that nothing is copied."""
    if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return states[rows[0] : rows[0] + len(rows)]
    return states[torch.tensor(rows)]
