"""One call of `geoalign curate`: one curator over all files in their order, a step at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from geoalign import __version__
from geoalign.curators.anchors import check_reads_trusted
from geoalign.curators.registry import make_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.curate import CurateConfig
from geoalign.lab.config.requests import CurateRequest
from geoalign.lab.curate.audit import VerdictAudit
from geoalign.lab.curate.denoised import NO_STATES, denoised_rewards, without_states, wrong_probabilities
from geoalign.lab.curate.hidden_files import read_hidden
from geoalign.lab.curate.inputs import Input
from geoalign.lab.curate.labels import Labels
from geoalign.lab.curate.steps import (
    ConsensusMeter,
    CuratedStep,
    available_fields,
    check_curator,
    counts_of,
    curate_step,
    make_rollouts,
    metrics_of,
)
from geoalign.lab.curate.tables import density_columns, filtered_lines, pair_columns, score_rows
from geoalign.lab.dumps.reading import Dump, Repeats, Skipped, group_sizes, read_dump
from geoalign.lab.dumps.rows import Row
from geoalign.lab.progress import passing_progress
from geoalign.lab.store.curation import FILTERED_FILE, CuratedFolder
from geoalign.lab.store.curation_tables import CurationTables
from geoalign.lab.terminal import Console
from geoalign.settings.loading import plain_section
from geoalign.types import Rollouts


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
    """One call of the command."""

    def __init__(self, config: CurateConfig, request: CurateRequest, folder: CuratedFolder, console: Console) -> None:
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
        self.repeats = Repeats()
        self._unjudged: Rollouts | None = None
        self._model: Any = None

    def run(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Reads, curates and writes every file."""
        request, staging = self.request, self.folder.staging
        with CurationTables(staging, redact=request.redact) as tables:
            for number, source in enumerate(inputs, start=1):
                dump = read_dump(
                    source.path, source.layout, skip_bad=request.skip_bad, mixed_groups=request.mixed_groups
                )
                if (earlier := self.repeats.earlier(dump)) is not None:
                    self.totals.repeated.append({"file": str(source.path), "same_as": str(earlier)})
                    continue
                dump, steps = self._curated(source, self.labels.applied(dump, number), number)
                first = self.totals.rollouts
                tables.add_scores(score_rows(dump, steps, first))
                if request.filtered:
                    with (staging / FILTERED_FILE).open("ab") as file:
                        file.writelines(filtered_lines(dump, score_rows(dump, steps, first)))
                for step in steps:
                    self.audit.add(step.step, step.rows, step.groups, [first + member for member in step.members])
                    pairs, left_out = pair_columns(step, first, self.config.pairs_per_step)
                    self.totals.pairs_left_out += left_out
                    if pairs:
                        tables.add_pairs(pairs)
                    if density := density_columns(step):
                        tables.add_density(density)
                self._count(source, dump, steps)
        self.labels.check_all_found()
        if self._unjudged is not None:
            self.meter.cross_fit(self._unjudged, self.config.seed)
        return self._summary()

    def _curated(self, source: Input, dump: Dump, number: int) -> tuple[Dump, list[CuratedStep]]:
        """The steps of one file, curated in the order in which they appear."""
        lengths = self.request.model is not None
        hidden = bool(source.hidden) or lengths
        available = available_fields(dump.rows, hidden=hidden, lengths=lengths)
        check_curator(self.name, self.session.curator, available)
        dump, states = self._states(source, dump)
        steps = []
        for named, members in dump.batches:
            self._unjudged = None  # the states of one step at a time
            step = number if named is None else named
            if step in self.totals.named:
                raise ConfigError(
                    f"{source.path}: step: expected another step than {self.totals.named[step]}, got {step} again; "
                    "--field step= numbers the files instead"
                )
            rows = [dump.rows[member] for member in members]
            groups = self._numbered([row.group for row in rows])
            rollouts = self._rollouts(source, rows, groups, states, members)
            curated = curate_step(self.session, rollouts, name=self.name)
            self.meter.add()
            # If no step is judged by the end, the last one is asked by cross-fitting.
            self._unjudged = rollouts if self.meter.wants_check else None
            curator, curation = self.session.curator, curated[0]
            beliefs = wrong_probabilities(curator, curation), denoised_rewards(curator, curation)
            steps.append(CuratedStep(step, rows, members, groups, *curated, *beliefs))
        self.totals.named |= dict.fromkeys((step.step for step in steps), source.path)
        return dump, steps

    def _rollouts(
        self, source: Input, rows: Sequence[Row], groups: Sequence[int], states: Tensor | None, members: Sequence[int]
    ) -> Rollouts:
        chosen = None
        if states is not None:
            # From a file the states of rows that were left out are there too; from the model they are not.
            state_rows = [row.position for row in rows] if source.hidden else list(members)
            chosen = _rows_of(states, state_rows)
        try:
            return make_rollouts(rows, groups, self.session.curator, hidden=chosen)
        except InputError as error:
            raise InputError(f"{source.hidden or source.path}: {error}") from error

    def _states(self, source: Input, dump: Dump) -> tuple[Dump, Tensor | None]:
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
            return dump, states
        if self.request.model is None or not (wanted or "lengths" in self.session.curator.requires):
            return dump, None
        from geoalign.lab.curate.hidden_model import compute_states, load_state_model
        from geoalign.lab.models.fastest_dtype import print_fastest_dtype

        if self._model is None:
            with self.console.status("Loading the model"):
                self._model = load_state_model(self.request.model, self.config)
            if self.config.dtype == "auto":
                print_fastest_dtype(self.console, self._model.device.type)
        cache = self.request.cache or self.folder.states
        with passing_progress(self.console, "Hidden states", len(dump.rows)) as update:
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
        rows = tuple(
            replace(row, tokens=length) if row.tokens is None else row
            for row, length in zip(dump.rows, computed.lengths, strict=True)
        )
        return replace(dump, rows=rows), computed.states if wanted else None

    def _numbered(self, groups: Sequence[str]) -> list[int]:
        """Numbers for the groups of a step, by first appearance, unique over all steps."""
        numbers: dict[str, int] = {}
        for group in groups:
            numbers.setdefault(group, self.totals.groups + len(numbers))
        self.totals.groups += len(numbers)
        return [numbers[group] for group in groups]

    def _count(self, source: Input, dump: Dump, steps: Sequence[CuratedStep]) -> None:
        totals = self.totals
        for step in steps:
            totals.counts.update(counts_of(step))
            totals.steps.append({"step": step.step, "file": str(source.path), "metrics": metrics_of(step.curation)})
        totals.inputs.append(
            {
                "file": str(source.path),
                "format": source.layout.format.name,
                "fields": dict(source.layout.fields),
                "rows": len(dump.rows),
                "groups": sum(len(set(step.groups)) for step in steps),
                "group_sizes": {str(size): count for size, count in group_sizes(dump.rows, dump.batches).items()},
                "skipped": len(dump.skipped),
            }
        )
        totals.skipped += dump.skipped
        totals.rollouts += len(dump.rows)

    def _summary(self) -> dict[str, Any]:
        totals, request = self.totals, self.request
        with self.console.status("Auditing the verdicts"):
            audited = self.audit.summary(redact=request.redact)
        skipped = [asdict(row) for row in totals.skipped]
        if request.redact:
            # What came instead may quote a text.
            skipped = [{**row, "reason": row["reason"].partition(", got ")[0]} for row in skipped]
        source = "file" if request.hidden else "model" if totals.hidden else "none"
        hidden: dict[str, Any] = {"from": source if totals.hidden else "none", "files": totals.hidden}
        if self.states_note is not None:
            hidden["note"] = self.states_note
        if totals.hidden and source == "model":
            names = (
                "hidden_position",
                "hidden_layer",
                "batch_size",
                "max_tokens",
                "chat_template_kwargs",
            )
            settings = {name: getattr(self.config, name) for name in names}
            device = str(self._model.device)
            hidden |= {"model": request.model, "dtype": self._model.dtype, "device": device, **settings}
        return {
            "geoalign": __version__,
            "command": {
                "arguments": list(request.command),
                "skip_bad": request.skip_bad,
                "output": str(self.folder.root),
            },
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


def _rows_of(states: Tensor, rows: Sequence[int]) -> Tensor:
    """The rows of a table of states: a view where they lie side by side, so that nothing is copied."""
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return states[rows[0] : rows[0] + len(rows)]
    return states[torch.tensor(rows)]
