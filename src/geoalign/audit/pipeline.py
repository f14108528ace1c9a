"""`geoalign audit`: dumps of rollouts in; scores, what was flagged and a page out."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from torch import Tensor

from geoalign import __version__
from geoalign.answers import answers_by_class, is_mathematical
from geoalign.answers.boxed import boxed_answer
from geoalign.answers.equivalence import EqualAnswers, math_verify_is_installed
from geoalign.audit.command import AuditRequest
from geoalign.audit.curating import (
    NO_STATES,
    NO_STATES_NO_ANSWERS,
    PAIRS_PER_STEP,
    StepCurator,
    check_brought,
    without_states,
)
from geoalign.audit.folder import FILTERED_FILE, SUMMARY_FILE, AuditFolder, AuditTables
from geoalign.audit.inputs import Input, find_inputs
from geoalign.audit.next_steps import label_command, next_step
from geoalign.audit.page.page import build_audit_page
from geoalign.audit.results import read_audit
from geoalign.audit.settings import AuditConfig
from geoalign.audit.spellings import spellings_summary
from geoalign.audit.state_files import read_hidden
from geoalign.audit.terminal import show_result
from geoalign.audit.verdicts import VerdictAudit
from geoalign.console.terminal import Console
from geoalign.curators.denoise import Denoise
from geoalign.curators.idle import Remedies
from geoalign.curators.labelled_rollouts import check_reads_trusted
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession
from geoalign.dumps.files import checked, dump_rows
from geoalign.dumps.labels import Labels
from geoalign.dumps.reading import Dump, Skipped, read_dump, read_rewards
from geoalign.dumps.values import short_text
from geoalign.errors import ConfigError, InputError
from geoalign.files.columns import whole_text
from geoalign.files.durable import locked
from geoalign.files.json_files import write_json
from geoalign.settings.loading import plain_section


def audit(
    config: AuditConfig, request: AuditRequest, inputs: Sequence[Input] | None = None, *, console: Console | None = None
) -> dict[str, Any]:
    """Curates dumps one after the other with one curator, and returns the content of `summary.json`.

    A file at a time is in memory. The inputs are only read. Every file of the output appears whole, the summary last.

    Args:
        inputs: what `find_inputs` found; None: it looks.
    """
    console = console or Console(quiet=True)
    inputs = inputs or find_inputs(request, Console(quiet=True))
    if request.hidden and request.model is not None:
        raise ConfigError("--hidden: expected without --model, got both: states come from files or from a model")
    if request.filtered and request.redact:
        raise ConfigError("--filtered: expected without --redact, got both: the filtered rollouts are texts")
    folder = AuditFolder(request.output)
    folder.check([*(source.path for source in inputs), *request.labels], overwrite=request.overwrite)
    with locked(folder.root):
        folder.start()
        try:
            audited = Audit(config, request, folder, console)
            summary = audited.run(inputs)
            reads = audited.session.curator.reads
            summary["next"] = next_step(summary, reads)
            summary["label_command"] = label_command(summary) if "trusted" in reads else None
            write_json(folder.staging / SUMMARY_FILE, summary)
            build_audit_page(folder.staging)
            if request.redact and request.cache is None:
                # States give away the texts that they were computed from.
                shutil.rmtree(folder.states, ignore_errors=True)
            folder.publish()
        except BaseException:
            folder.discard()
            raise
    if not console.quiet:
        show_result(console, read_audit(folder.root))
    return summary


class _AuditSession(CurationSession):
    """A session that leaves it to the audit's finding why `denoise` could judge nothing."""

    def _say_idle(self, why: str) -> None:
        if not isinstance(self.curator, Denoise):
            super()._say_idle(why)


class Audit:
    """One call of the command: one curator over all files in their order, a step at a time; what is added up."""

    def __init__(self, config: AuditConfig, request: AuditRequest, folder: AuditFolder, console: Console) -> None:
        curator = config.curator if request.hidden or request.model else without_states(config.curator)
        self.without_states = curator != config.curator
        self.config = replace(config, curator=curator)
        self.request = request
        self.folder = folder
        self.console = console
        self.session = _AuditSession(as_curator(curator), seed=config.seed)
        self.session.remedies = Remedies(field="--field final_answer=NAME")
        if request.labels:
            check_reads_trusted(self.session.curator, setting="--labels")
        self.labels = Labels(request.labels)
        self.second = None
        if request.second_verifier is not None:
            from geoalign.audit.second_opinion import SecondOpinion

            self.second = SecondOpinion(request.second_verifier, request.budget, config)
            check_reads_trusted(self.session.curator, setting="--second-verifier")
        self.verdicts = VerdictAudit(exclusive=self.session.curator.answer_reading != "shared")
        self.inputs: list[dict[str, Any]] = []
        self.skipped: list[Skipped] = []
        self.repeated: list[dict[str, str]] = []
        self.hidden: list[dict[str, Any]] = []
        self.rollouts = self.groups = 0
        self._trained: set[Any] = set()
        self._file_of: dict[int, Path] = {}
        self._seen: dict[bytes, Path] = {}
        self._model: Any = None
        self._equal = EqualAnswers() if math_verify_is_installed() else None
        self.curator = StepCurator(self.session, self.second, name=curator.type, equal=self._equal)
        self._golds: Counter[str] = Counter()

    def run(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Reads, curates and writes every file; returns the content of `summary.json`."""
        request = self.request
        self._trained = self._ids_trained_on(inputs)
        with AuditTables(self.folder.staging, redact=request.redact) as tables:
            later = (rewards for source in inputs[1:] for rewards in read_rewards(source.path, source.layout))
            for number, source in enumerate(inputs, start=1):
                step = number if source.step is None else source.step
                dump = read_dump(source.path, source.layout, step=step, skip_bad=request.skip_bad)
                if number == 1:
                    self.curator.expect([*dump.frame["reward"], *later])
                earlier = self._earlier(dump)
                if earlier != dump.path:
                    self.repeated.append({"file": str(source.path), "same_as": str(earlier)})
                    continue
                if request.labels:
                    self.labels.apply(dump)
                frame = self._curated(source, dump, tables)
                tables.add_scores(frame.reset_index(names="index"))
                if request.filtered:
                    with (self.folder.staging / FILTERED_FILE).open("ab") as file:
                        file.writelines(_filtered_lines(frame))
                self.inputs.append(_input_entry(source, dump, frame))
                self.skipped += dump.skipped
        if self._equal is not None:
            self._equal.close()
        self.labels.check_all_found()
        return self._summary()

    def _ids_trained_on(self, inputs: Sequence[Input]) -> set[Any]:
        """The ids of the rollouts that were trained on, where files of these lie beside the inputs."""
        found: set[Any] = set()
        files = [source.trained_on for source in inputs if source.trained_on is not None]
        for file in files:
            for row in dump_rows(file):
                if self.request.skip_bad and not row.value:
                    continue
                found |= {short_text("id", value.get("id")) for _, value in checked([row], file, "line")}
        return found

    def _earlier(self, dump: Dump) -> Path:
        """The first dump of this call with the same rollouts and rewards, of a format whose writer repeats itself."""
        if not dump.layout.format.repeats:
            return dump.path
        rows = pandas.util.hash_pandas_object(dump.frame[["prompt", "response", "reward"]], index=False)
        return self._seen.setdefault(rows.to_numpy().tobytes(), dump.path)

    def _curated(self, source: Input, dump: Dump, tables: AuditTables) -> pandas.DataFrame:
        """The rollouts of a file with what was decided, curated by step in the order in which steps appear."""
        frame = dump.frame
        brought = {"model": self.request.model is not None, "hidden": source.hidden is not None}
        check_brought(self.config.curator.type, self.session.curator, frame, **brought)
        states = self._states(source, dump)
        frame["file"] = whole_text(str(source.path))
        frame["trained_on"] = None if source.trained_on is None else frame["id"].isin(self._trained)
        given = zip(frame["final_answer"], frame["response"], strict=True)
        said = [boxed_answer(response) if answer is None else answer for answer, response in given]
        prompts = list(zip(frame["step"], frame["group"], strict=True))
        answers = answers_by_class(said, prompts, self._equal)
        said = [answer if compared is not None else None for answer, compared in zip(said, answers, strict=True)]
        # As objects: a column of text would make NaN of a missing answer.
        frame["final_answer"] = pandas.Series(said, index=frame.index, dtype=object)
        frame["compared_answer"] = pandas.Series(answers, index=frame.index, dtype=object)
        parts = []
        golds = frame.drop_duplicates(["step", "group"])["answer"].dropna()
        self._golds.update(golds=len(golds), mathematical=sum(map(is_mathematical, golds)))
        for step in frame["step"].unique().tolist():
            earlier = self._file_of.get(step)
            if earlier is not None:
                raise ConfigError(
                    f"{source.path}: step: expected another step than {earlier}, got {step} again; "
                    "--field step= numbers the files instead"
                )
            part = frame[frame["step"] == step]
            # From a file the states of rows that were left out are there too; from the model they are not.
            rows = part["position"].to_numpy() if source.hidden else part.index.to_numpy()
            part = part.assign(group=part["group"] + self.groups).set_axis(part.index + self.rollouts)
            self.groups += part["group"].nunique()
            part = self.curator.curate(part, None if states is None else _rows_of(states, rows), source, tables)
            self.verdicts.add(part.assign(final_answer=part["compared_answer"]))
            parts.append(part)
        self._file_of |= dict.fromkeys(frame["step"].unique().tolist(), source.path)
        self.rollouts += len(frame)
        return pandas.concat(parts).sort_index()

    def _states(self, source: Input, dump: Dump) -> Tensor | None:
        """The states of a dump, where the curator wants them; lengths by its tokenizer are filled in."""
        needs = self.session.curator.requires
        if source.hidden is not None and "hidden" in needs:
            if dump.positions is None:
                raise InputError(
                    f"{source.hidden}: hidden states: expected a dump whose rollouts can be counted, "
                    f"got {source.path}, where row {dump.skipped[0].line} and perhaps others hide how many there are"
                )
            states = read_hidden(source.hidden, rows=dump.positions, dump=source.path)
            shape, dtype = list(states.shape), str(states.dtype).removeprefix("torch.")
            self.hidden.append({"file": str(source.hidden), "shape": shape, "dtype": dtype})
            return states
        if self.request.model is None or not {"hidden", "lengths"} & set(needs):
            return None
        from geoalign.audit.state_model import AuditModel

        if self._model is None:
            self._model = AuditModel(self.request.model, self.config, self.console)
        states, facts = self._model.states(dump, self.request.cache or self.folder.states)
        self.hidden.append(facts)
        return states if "hidden" in needs else None

    def _summary(self) -> dict[str, Any]:
        request = self.request
        with self.console.status("Auditing the verdicts"):
            audited = self.verdicts.summary(redact=request.redact)
        skipped = [asdict(row) for row in self.skipped]
        counts = self.curator.counts
        counts["trained_on_elsewhere"] = len(self._trained) - counts["trained_on"]
        if request.redact:
            # What came instead may quote a text.
            skipped = [{**row, "reason": row["reason"].partition(", got ")[0]} for row in skipped]
        source = "none"
        if self.hidden:
            source = "file" if request.hidden else "model"
        hidden: dict[str, Any] = {"from": source, "files": self.hidden}
        if self.without_states:
            hidden["note"] = NO_STATES if counts["answered"] else NO_STATES_NO_ANSWERS
        if source == "model":
            names = ("hidden_position", "hidden_layer", "batch_size", "max_tokens", "chat_template_kwargs")
            hidden |= {"model": request.model, "dtype": self._model.dtype, "device": str(self._model.device)}
            hidden |= {name: getattr(self.config, name) for name in names}
        command = {"arguments": list(request.command), "skip_bad": request.skip_bad, "output": str(self.folder.root)}
        return {
            "geoalign": __version__,
            "command": command,
            "inputs": self.inputs,
            "skipped": skipped,
            "repeated": self.repeated,
            "labels": self.labels.summary,
            "appeals": None if self.second is None else self.second.summary(self.curator.counts["flagged"]),
            "curator": plain_section(self.config.curator),
            "seed": self.config.seed,
            "redacted": request.redact,
            "filtered": request.filtered,
            "hidden": hidden,
            "counts": {**counts, "skipped": len(skipped)},
            "gold_answers": {name: self._golds[name] for name in ("golds", "mathematical")},
            "equal_answers": None if self._equal is None else dict(self._equal.counters),
            "pairs_per_step": PAIRS_PER_STEP,
            "pairs_left_out": self.curator.pairs_left_out,
            "steps": self.curator.steps,
            "consensus": self.curator.meter.summary(self.config.seed),
            "spellings": spellings_summary(self.curator.by_spelling, redact=request.redact),
            **audited,
        }


def _input_entry(source: Input, dump: Dump, frame: pandas.DataFrame) -> dict[str, Any]:
    """What `summary.json` says of a file."""
    sizes = Counter(frame.groupby("group").size().tolist())
    return {
        "file": str(source.path),
        "format": source.layout.format.name,
        "fields": dict(dump.layout.fields),
        "rows": len(frame),
        "groups": frame["group"].nunique(),
        "own_groups": dump.own_groups,
        "remark": dump.remark,
        "own_answer": dump.own_answer or None,
        "group_sizes": {str(size): count for size, count in sorted(sizes.items())},
        "skipped": len(dump.skipped),
    }


def _filtered_lines(frame: pandas.DataFrame) -> Iterator[bytes]:
    """The rollouts that stay as lines of JSON: each in its place, with the response, reward and weight there."""
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
