"""The audit: files of rollouts in; a report, and a folder with its tables and page, out.

A file's rows go this way:

    options.py                  what cannot be asked for together
    inputs.py                   which files, and how each is read; then `dumps.reading` reads its rows and groups
    rounding.py                 rewards that differ by rounding alone become one value
    answers.py                  the final answer of each row, and which answers to a prompt are equal
    states.py                   hidden states, where the curator wants them
    step.py                     the curator's decisions on each step, as columns of the rows
    spellings.py                flags where a verdict goes with the spelling of an answer
    several_verifiers/          further verifiers on all rows: agreement, bounds, rates, a ranking
    two_verdicts.py             which rewards are verdicts, and which of them accepts
    verdicts.py                 the verifier's error rates: what is proved, and what a model estimates
    checks.py                   rows drawn at random and labelled, and the rates by them
    degenerate/                 whether the verifier judges at all
    golds.py                    gold answers that look wrong; gold_files.py: golds.csv, the exported data set, its sheet
    folder.py                   the tables; suspicion.py: which flagged row comes first; summary.py: numbers that are
                                read off the rows
    stored_texts.py             the texts that were written, for a reader who wants those of some rows
    results.py                  the report: all rows, each flagged one with its reason, and the summary
    words/                      the report in sentences
    terminal.py, notebook.py, page/     what shows them; inspect_log.py: a log for Inspect's viewer
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas

from geoalign import __version__
from geoalign.answers import is_mathematical
from geoalign.answers.equivalence import EqualAnswers
from geoalign.answers.verifiers import NamedVerifier
from geoalign.audit.answers import with_answers
from geoalign.audit.checks import Checks, check_keeps_labels
from geoalign.audit.command import AuditRequest
from geoalign.audit.degenerate.findings import degenerate_findings
from geoalign.audit.folder import SUMMARY_FILE, VERDICTS_FILE, AuditFolder, AuditTables
from geoalign.audit.gold_files import check_export, export_summary, write_export, write_golds
from geoalign.audit.golds import GoldAnswers, RankedGolds
from geoalign.audit.inputs import Input, find_inputs
from geoalign.audit.inspect_log import check_inspect_log, write_inspect_log
from geoalign.audit.needs import check_brought, without_states
from geoalign.audit.page.page import build_audit_page
from geoalign.audit.results import AuditReport, read_report
from geoalign.audit.rounding import replaced, rounded_verdicts
from geoalign.audit.settings import AuditConfig
from geoalign.audit.several_verifiers.asking import SeveralVerifiers
from geoalign.audit.spellings import spellings_summary
from geoalign.audit.states import HiddenStates
from geoalign.audit.step import PAIRS_PER_STEP, StepCurator
from geoalign.audit.summary import counts_of, input_entry
from geoalign.audit.verdicts import VerdictAudit
from geoalign.audit.words.next_steps import label_command, next_step
from geoalign.console.terminal import Console
from geoalign.curators.denoise import Denoise
from geoalign.curators.idle import Remedies
from geoalign.curators.labelled_rollouts import check_reads_trusted
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession
from geoalign.dumps.files import checked, dump_rows
from geoalign.dumps.formats.format import VERDICT
from geoalign.dumps.labels import Labels
from geoalign.dumps.prime_rl import annotations_of, episodes_trained_on
from geoalign.dumps.reading import Dump, Skipped, read_dump, read_rewards
from geoalign.dumps.values import short_text
from geoalign.errors import ConfigError
from geoalign.files.columns import whole_text
from geoalign.files.durable import locked
from geoalign.files.json_files import write_json
from geoalign.settings.loading import plain_section

_NO_STATES = "No hidden states were given, so rewards were judged by answers and identical responses alone."
_NO_STATES_NO_ANSWERS = (
    "No hidden states were given and no final answer was read, so rewards were judged by identical responses alone."
)
# Columns that are kept of a file once it is written, with the verdicts of further verifiers: what is counted over all.
_COUNTED = [
    "group", "group_pairs", "reward", "label", "true_reward", "new_reward", "score", "anomalous", "source", "weight",
    "correct", "trained_on", "answer", "gold_answers", "final_answer", "compared_answer", "undecided", "exclusive",
    "characters", "tokens", "truncated", "origin", "probability_wrong",
]  # fmt: skip


def run_audit(
    config: AuditConfig,
    request: AuditRequest,
    inputs: Sequence[Input] | None = None,
    *,
    console: Console | None = None,
    folder: Path | None = None,
    with_page: bool = True,
    with_texts: bool = True,
    verifiers: Sequence[NamedVerifier] = (),
) -> AuditReport:
    """Audits files one after the other with one curator, and writes the output folder.

    One file at a time is in memory while it is curated, and the inputs are only read. Every file of the output appears
    whole, the summary last: an audit that was stopped leaves a folder that the next one begins anew.

    Args:
        inputs: what `find_inputs` found; None: it looks.
        console: where progress is shown; None: nowhere.
        folder: where to write instead of the `output` that was asked for.
        with_page: whether to write the page and its figures.
        with_texts: whether the report's rows have `prompt` and `response`, as `read_report` says.
        verifiers: functions in Python that judge all rows, beside those that were asked for by name.
    """
    console = console or Console(quiet=True)
    inputs = inputs or find_inputs(request, Console(quiet=True))
    check_export(request, [source.path for source in inputs])
    check_inspect_log(request, [source.path for source in inputs])
    output = AuditFolder(folder or request.output)
    read = [*(source.path for source in inputs), *request.labels, *([request.checks] if request.checks else [])]
    output.check(read, overwrite=request.overwrite)
    check_keeps_labels(output.root)
    with locked(output.root):
        output.start()
        try:
            audit = Audit(config, request, output, console, verifiers)
            summary = audit.run(inputs)
            write_json(output.staging / SUMMARY_FILE, summary)
            report = read_report(output.staging, texts=with_texts or request.export_inspect is not None)
            if with_page:
                build_audit_page(report)
            if request.redact and request.cache is None:
                # States give away the texts that they were computed from.
                shutil.rmtree(output.states, ignore_errors=True)
            output.publish()
            if request.export is not None:
                write_export(request, summary, audit.golds, audit.ranked_golds)
            if request.export_inspect is not None:
                write_inspect_log(request.export_inspect, report, inputs)
        except BaseException:
            output.discard()
            raise
    return replace(report, folder=output.root)


class Audit:
    """One audit: its curator over all files in their order, and what is added up on the way."""

    def __init__(
        self,
        config: AuditConfig,
        request: AuditRequest,
        folder: AuditFolder,
        console: Console,
        verifiers: Sequence[NamedVerifier] = (),
    ) -> None:
        """Makes the curator, and refuses what it cannot do with labels or a second verifier."""
        curator = config.curator if request.hidden or request.model else without_states(config.curator)
        self._config = replace(config, curator=curator)
        self._request = request
        self._folder = folder
        self._console = console
        self._session = _AuditSession(as_curator(curator), seed=config.seed)
        self._session.remedies = Remedies(field="--field final_answer=NAME")
        if request.labels:
            check_reads_trusted(self._session.curator, setting="--labels")
        self._labels = Labels(request.labels)
        self._second = None
        if request.second_verifier is not None:
            from geoalign.audit.second_opinion import SecondOpinion

            self._second = SecondOpinion(request.second_verifier, request.budget, config)
            check_reads_trusted(self._session.curator, setting="--second-verifier")
        self._checks = Checks(request, config)
        self._several = SeveralVerifiers(
            request.verifiers, config, verifiers, rows=request.verifier_rows, seed=self._checks.seed
        )
        self._equal = EqualAnswers()
        self._exclusive = self._session.curator.answer_reading != "shared"
        self._verdicts = VerdictAudit(exclusive=self._exclusive)
        self._states = HiddenStates(self._config, request, self._session.curator.requires, folder.states, console)
        self._judges_without_states = curator != config.curator
        self._trained: set[Any] = set()
        self._curator: StepCurator | None = None
        # By reward the one that stands for it, where the two differ by rounding alone.
        self._rounded: dict[float, float] = {}
        # What came before the file that is read: what is counted of its rows, and which file had a step or these rows.
        self._done: list[pandas.DataFrame] = []
        self._groups = 0
        self._file_of_step: dict[int, Path] = {}
        self._file_of_rollouts: dict[bytes, Path] = {}
        # What the summary lists.
        self._inputs: list[dict[str, Any]] = []
        self._skipped: list[Skipped] = []
        self._repeated: list[dict[str, str]] = []
        self._golds: Counter[str] = Counter(golds=0, mathematical=0, several=0)
        self.golds = GoldAnswers()
        self.ranked_golds = RankedGolds(prompts=pandas.DataFrame(), accepted=math.nan)

    def run(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Reads, curates and writes every file; returns the content of `summary.json`."""
        self._trained = self._ids_trained_on(inputs)
        request = self._request
        with AuditTables(self._folder.staging, redact=request.redact, filtered=request.filtered) as tables:
            for number, source in enumerate(inputs, start=1):
                # Its texts are let go before the next file is read.
                self._add_file(source, number, inputs[number:], tables)
            tables.write_flagged()
        rows = pandas.concat(self._done)
        self._done.clear()
        with self._console.status("Asking the verifiers"):
            rows.update(self._several.ask_about_drawn_rows())
        self._equal.renew()
        self.ranked_golds = self.golds.ranked(rows, self._equal)
        if not request.redact:
            write_golds(self._folder.staging, self.golds, self.ranked_golds)
        self._equal.close()
        self._labels.check_all_found()
        assert self._curator is not None
        return self._summary(rows, self._curator)

    # --- the steps of a file ------------------------------------------------------------------------------------------

    def _add_file(self, source: Input, number: int, others: Sequence[Input], tables: AuditTables) -> None:
        """Reads, curates and writes the file of this number; `others` were not read yet."""
        dump = self._read(source, number)
        if self._curator is None:
            self._curator = self._step_curator(tables, dump, others)
        first = self._first_with_these_rollouts(dump)
        if first != dump.path:
            self._repeated.append({"file": str(source.path), "same_as": str(first)})
            return
        dump.frame["reward"] = replaced(dump.frame["reward"], self._rounded)
        self._labels.apply(dump)
        rows = self._curated(source, dump, self._curator)
        tables.add_rows(rows)
        self._checks.add(rows)
        self._several.draw_from(rows, dump.layout.fields.get("answer"))
        self._inputs.append(input_entry(source, dump, rows))
        self._skipped += dump.skipped
        verdicts = [name for name in rows if str(name).startswith(VERDICT)]
        # A copy: a part of the frame would keep all of it.
        self._done.append(rows[[*_COUNTED, *verdicts]].copy())

    def _read(self, source: Input, number: int) -> Dump:
        """A file's rollouts; those that name no step are of the file's step, or else of its number."""
        step = number if source.step is None else source.step
        return read_dump(source.path, source.layout, step=step, skip_bad=self._request.skip_bad)

    def _step_curator(self, tables: AuditTables, first: Dump, others: Sequence[Input]) -> StepCurator:
        """What curates the steps; of the files that were not read yet, only the rewards are read.

        Here the rewards of all files are together, so that rounding makes no further values in any of them.
        """
        given = first.frame["reward"].tolist()
        for source in others:
            given.extend(self._rewards_of(source))
        self._rounded = rounded_verdicts(given)
        rewards = [self._rounded.get(reward, reward) for reward in given]
        self._checks.begin(rewards)
        return StepCurator(
            self._session,
            name=self._config.curator.type,
            second=self._second,
            equal=self._equal,
            tables=tables,
            rewards=rewards,
        )

    def _rewards_of(self, source: Input) -> list[float]:
        """The rewards of a file that is read later, of the rows that will then be left."""
        if not self._request.skip_bad:
            return read_rewards(source.path, source.layout)
        rewards: list[float] = read_dump(source.path, source.layout, skip_bad=True).frame["reward"].tolist()
        return rewards

    def _first_with_these_rollouts(self, dump: Dump) -> Path:
        """The first dump of this call with the same rollouts and rewards, of a format whose writer repeats itself."""
        if not dump.layout.format.repeats:
            return dump.path
        rows = pandas.util.hash_pandas_object(dump.frame[["prompt", "response", "reward"]], index=False)
        return self._file_of_rollouts.setdefault(rows.to_numpy().tobytes(), dump.path)

    def _curated(self, source: Input, dump: Dump, curator: StepCurator) -> pandas.DataFrame:
        """The rollouts of a file with what was decided, curated step by step in the order in which steps appear."""
        self._check_file(source, dump)
        self._session.has_field_of_answers |= "final_answer" in dump.layout.fields
        states = self._states.of(source, dump)
        self._equal.renew()
        with self._console.status("Comparing answers"):
            rows = with_answers(dump.frame, self._equal)
        rows["file"] = whole_text(str(source.path))
        rows["trained_on"] = None if source.trained_on is None else rows["id"].isin(self._trained)
        with self._console.status("Asking the verifiers"):
            rows = self._several.judged(rows, dump.layout.fields.get("answer"))
        self._count_golds(rows.drop_duplicates(["step", "group"])["gold_answers"])
        rows = rows.set_axis(rows.index + sum(map(len, self._done)))
        rows["group"] = self._numbered_on(rows)
        decisions = []
        for step in rows["step"].unique().tolist():
            part = rows[rows["step"] == step]
            self.golds.add(part)
            decisions.append(curator.curate(part, None if states is None else states.of_rows(part), source))
            self._verdicts.add(part.assign(final_answer=part["compared_answer"]))
            self._several.add(part)
        decided = pandas.concat(decisions)
        # The verdicts of a second verifier are labels, beside those of the files.
        rows["label"] = decided.pop("label")
        return rows.join(decided)

    def _count_golds(self, golds_of_prompts: Iterable[tuple[str, ...]]) -> None:
        """Counts the prompts of a file with gold answers, with mathematical ones alone, and with several."""
        for golds in golds_of_prompts:
            mathematical = bool(golds) and all(map(is_mathematical, golds))
            self._golds.update(golds=bool(golds), mathematical=mathematical, several=len(golds) > 1)

    def _numbered_on(self, rows: pandas.DataFrame) -> pandas.Series:
        """The numbers of groups, unique over all steps and files: those of a file begin at 0 in each of its steps."""
        groups_of_step = rows.groupby("step", sort=False)["group"].max() + 1
        earlier = self._groups + groups_of_step.cumsum() - groups_of_step
        self._groups += int(groups_of_step.sum())
        return rows["group"] + rows["step"].map(earlier)

    def _check_file(self, source: Input, dump: Dump) -> None:
        """Raises ConfigError where the file brings too little for the curator, or a step that another file had."""
        has_model = self._request.model is not None
        has_states = source.hidden is not None
        name = self._config.curator.type
        check_brought(name, self._session.curator, dump.frame, model=has_model, hidden=has_states)
        for step in dump.frame["step"].unique().tolist():
            earlier = self._file_of_step.setdefault(step, source.path)
            if earlier != source.path:
                raise ConfigError(
                    f"{source.path}: step: expected another step than {earlier}, got {step} again; "
                    "--field step= numbers the files instead"
                )

    def _ids_trained_on(self, inputs: Sequence[Input]) -> set[Any]:
        """The ids of the rollouts that were trained on, where files of these lie beside the inputs."""
        found: set[Any] = set()
        for source in inputs:
            if source.trained_on is None:
                continue
            if annotations_of(source.path) == source.trained_on:
                found |= episodes_trained_on(source.trained_on)
                continue
            for row in dump_rows(source.trained_on):
                if self._request.skip_bad and not row.value:
                    continue
                for _, value in checked([row], source.trained_on, "line"):
                    found.add(short_text("id", value.get("id")))
        return found

    # --- the summary --------------------------------------------------------------------------------------------------

    def _summary(self, rows: pandas.DataFrame, curator: StepCurator) -> dict[str, Any]:
        """The content of `summary.json`.

        Args:
            rows: what is counted of the rollouts of all files.
            curator: what curated their steps.
        """
        request = self._request
        with self._console.status("Auditing the verdicts"):
            checked_verdicts = self._checks.conclude(
                rows.drop(columns=self._several.drawn_columns), self._folder.staging
            )
            verifier = self._verdicts.summary(checked_verdicts)
            # What rests on one right answer to a prompt is claimed of no verifier where checked rows deny it.
            is_denied = checked_verdicts is not None and checked_verdicts.contradicted_prompts > 0
            several = self._several.summary(
                exclusive=self._exclusive and not is_denied,
                seed=self._config.seed,
                redact=request.redact,
                right=self._checks.right,
            )
        by_all = self._several.verdicts()
        if by_all is not None:
            by_all.to_parquet(self._folder.staging / VERDICTS_FILE, index=False)
        counts = counts_of(rows)
        counts["trained_on_elsewhere"] = len(self._trained) - counts["trained_on"]
        skipped = [asdict(row) for row in self._skipped]
        if request.redact:
            # What came instead may quote a text.
            skipped = [{**row, "reason": row["reason"].partition(", got ")[0]} for row in skipped]
        reads = self._session.curator.reads
        degenerate = degenerate_findings(rows, exclusive=self._exclusive)
        summary = {
            "geoalign": __version__,
            "command": {
                "arguments": list(request.command),
                "skip_bad": request.skip_bad,
                "output": str(request.output),
            },
            "inputs": self._inputs,
            "skipped": skipped,
            "repeated": self._repeated,
            "labels": self._labels.summary,
            "checks": self._checks.summary,
            "appeals": None if self._second is None else self._second.summary(counts["flagged"]),
            "curator": plain_section(self._config.curator),
            "seed": self._config.seed,
            "redacted": request.redact,
            "filtered": request.filtered,
            "hidden": self._states.summary(note=self._note_on_states(counts)),
            "counts": {**counts, "skipped": len(skipped)},
            "degenerate": degenerate,
            "gold_answers": dict(self._golds),
            "suspicious_golds": self.golds.summary(self.ranked_golds, redact=request.redact),
            "equal_answers": {
                **self._equal.counters,
                "undecided_because": dict(+self._equal.undecided_because),
                "undecided_prompts": int(rows.loc[rows["undecided"], "group"].nunique()),
            },
            "pairs_per_step": PAIRS_PER_STEP,
            "pairs_left_out": curator.pairs_left_out,
            "steps": curator.steps,
            "consensus": curator.meter.summary(self._config.seed),
            "spellings": spellings_summary(curator.by_spelling, redact=request.redact),
            "verifier": verifier,
            "verifiers": several,
        }
        summary["export"] = export_summary(request, self.golds, self.ranked_golds, degenerate)
        summary["next"] = next_step(summary, reads)
        summary["label_command"] = label_command(summary) if "trusted" in reads else None
        return summary

    def _note_on_states(self, counts: Mapping[str, int]) -> str:
        """What the curator judged by instead of hidden states; empty where it had what it was set to use."""
        if not self._judges_without_states:
            return ""
        return _NO_STATES if counts["answered"] else _NO_STATES_NO_ANSWERS


class _AuditSession(CurationSession):
    """A session that leaves it to the audit's finding why `denoise` could judge nothing.

    Attributes:
        has_field_of_answers: whether a field of a file gave the responses' answers, which may be gold answers then.
    """

    has_field_of_answers = False

    def _say_answers_look_gold(self) -> None:
        if self.has_field_of_answers:
            super()._say_answers_look_gold()

    def _say_idle(self, why: str) -> None:
        if not isinstance(self.curator, Denoise):
            super()._say_idle(why)
