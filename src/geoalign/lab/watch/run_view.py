"""A run on a terminal: what is newest, its history as sparklines, how long it will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from geoalign.lab.store.logs import Evaluation
from geoalign.lab.text import duration, harmless, percent, short, whole
from geoalign.lab.watch.history import History, Stage
from geoalign.lab.watch.run import WatchedRun
from geoalign.lab.watch.sparkline import sparkline
from geoalign.lab.watch.status import Status

STAGES = {"sft": "warm start", "reward_model": "reward model", "gold_model": "gold model", "rl": "GRPO"}
# Narrower terminals get no sparklines.
_SPARKS_FROM = 64
_LABEL, _NARROWEST_SPARK, _WIDEST_SPARK = 11, 12, 40
# Evaluation sets that are shown; a line says how many more there are.
_SETS = 6
_RECENT = 20


@dataclass(frozen=True)
class Screen:
    """What can be shown: columns, and characters that the terminal's encoding has."""

    width: int
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Row:
    """A quantity: its name, its value in words, and its history (none: no sparkline)."""

    name: str
    value: str
    history: Sequence[float] = ()


def run_view(run: WatchedRun, screen: Screen) -> RenderableType:
    """The whole view of a run."""
    status = run.status()
    parts: list[RenderableType] = [
        Text(harmless(run.folder.root, screen.encoding), style="bold", overflow="fold"),
        Text(headline(run, status, screen), overflow="fold"),
        Text(status_line(status, run), style=_STYLES[status.state], overflow="fold"),
    ]
    rows = run_rows(run, screen)
    if rows:
        parts += [Text(""), _table(rows, screen)]
    if run.left_out:
        parts.append(Text(f"{run.left_out:,} unreadable lines are left out", style="yellow"))
    if run.history.unusable:
        note = f"{run.history.unusable:,} values that are no numbers, infinite or beyond 1e100 are left out"
        parts.append(Text(note, style="yellow", overflow="fold"))
    return Group(*parts)


_STYLES = {
    "absent": "yellow", "waiting": "yellow", "running": "green", "stopped": "red", "unknown": "yellow",
    "finished": "green", "removed": "yellow",
}  # fmt: skip


def headline(run: WatchedRun, status: Status, screen: Screen) -> str:
    """The curator, the stage and the step."""
    curator = f"curator {harmless(run.curator, screen.encoding, 40)}"
    stage = run.history.current
    if stage is None:
        return curator if run.curator != "unknown" else "nothing known yet"
    total = run.total_steps(stage)
    of = "" if total is None else f" of {total:,}"
    name = STAGES.get(stage) or harmless(stage, screen.encoding, 40)
    parts = [curator, f"{name}: step {run.history.stages[stage].step:,}{of}"]
    left = run.seconds_left(stage)
    if status.state != "finished" and left:
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts)


def status_line(status: Status, run: WatchedRun) -> str:
    """The state of the run, in a sentence."""
    ago = "no line yet" if status.age is None else f"last line {duration(status.age)} ago"
    process = "" if status.process is None else f" (process {status.process})"
    return {
        "absent": "waiting: there is no such folder yet",
        "waiting": f"waiting: nothing is written yet{process and ', process ' + str(status.process) + ' is there'}",
        "running": f"running{process}, {ago}",
        "stopped": f"stopped before its end: no process holds the run{process and ', last one' + process}; {ago}; "
        f"geoalign train --resume resumes it",
        "unknown": f"not finished; no lock file says whether it runs; {ago}",
        "finished": f"finished, {ago}",
        "removed": "the folder is gone; a comparison removes it when the run has its result",
    }[status.state]


def run_rows(run: WatchedRun, screen: Screen) -> list[Row]:
    """The rows of the table: of the newest stage, then the evaluations."""
    stage = run.history.stages.get(run.history.current or "")
    if stage is None:
        rows = []
    elif run.history.current == "rl":
        rows = _reward(stage) + _flagged(stage) + _consensus(stage) + _speed(stage) + _policy(stage)
    else:
        rows = _policy(stage)
    return rows + _evaluations(run.history, screen)


def _reward(stage: Stage) -> list[Row]:
    rows = []
    for name, label in (("reward", "reward"), ("curated", "curated"), ("true", "true")):
        value = stage.newest(name)
        if value is not None:
            rows.append(Row(label, short(value), stage.history(name)))
    return rows


def _flagged(stage: Stage) -> list[Row]:
    flagged, scored = stage.newest("flagged"), stage.newest("scored")
    if flagged is None:
        return []
    share = f" of {whole(scored)} scored ({percent(flagged / scored)})" if scored else ""
    # Which of these there is depends on what the curator does with a flagged rollout.
    done = [("replaced", "replaced"), ("zero_weighted", "weight 0"), ("dropped", "left out")]
    acted = [(label, name) for name, label in done if stage.sums.get(name)] or [("replaced", "replaced")]
    rows = [Row("flagged", f"{whole(flagged)}{share}", stage.history("flagged"))]
    for label, name in acted:
        value = stage.newest(name)
        if value is not None:
            rows.append(Row(label, f"{whole(value)}; {whole(stage.sums[name])} so far", stage.history(name)))
    return rows


def _consensus(stage: Stage) -> list[Row]:
    accuracy, chance = stage.newest("new_groups"), stage.newest("chance")
    if accuracy is None:
        return []
    chance = 0.5 if chance is None else chance
    low, high = stage.newest("new_groups_low"), stage.newest("new_groups_high")
    ends = "" if low is None or high is None else f" ({short(low)} to {short(high)})"
    rows = [Row("consensus", f"{short(accuracy)}{ends}, chance {short(chance)}", stage.history("new_groups"))]
    lows = stage.history("new_groups_low")[-_RECENT:]
    if lows:
        above = sum(value > chance for value in lows)
        rows.append(Row("", f"clear of chance in {above} of the last {len(lows)}"))
    return rows


def _speed(stage: Stage) -> list[Row]:
    pace = stage.seconds_per_step()
    if pace is None:
        return []
    curation = stage.newest("curation_seconds")
    curating = "" if curation is None else f", curation {duration(curation)} a generation"
    return [Row("speed", f"{duration(pace)} a step{curating}", stage.history("seconds"))]


def _policy(stage: Stage) -> list[Row]:
    rows = []
    for name, label in (("loss", "loss"), ("kl", "KL"), ("accuracy", "accuracy"), ("tokens", "length")):
        value = stage.newest(name)
        if value is None:
            continue
        shown, clipped = short(value), stage.newest("clipped")
        if name == "tokens":
            shown += " tokens" + ("" if clipped is None else f", {percent(clipped)} cut short")
        rows.append(Row(label, shown, stage.history(name)))
    return rows


def _evaluations(history: History, screen: Screen) -> list[Row]:
    sets: dict[str, list[Evaluation]] = {}
    for evaluation in history.evaluations:
        sets.setdefault(evaluation.set, []).append(evaluation)
    rows = [_evaluation(name, of_set, screen) for name, of_set in list(sets.items())[:_SETS]]
    if len(sets) > _SETS:
        rows.append(Row("", f"{len(sets) - _SETS} more evaluation sets"))
    return rows


def _evaluation(name: str, evaluations: Sequence[Evaluation], screen: Screen) -> Row:
    last = evaluations[-1]
    key = "accuracy" if "accuracy" in last.values else "reward"
    values = [evaluation.values[key] for evaluation in evaluations if key in evaluation.values]
    label = f"eval {harmless(name, screen.encoding, 24)}"
    if not values:
        return Row(label, f"no value (step {last.step:,})")
    return Row(label, f"{evaluated(last)} (step {last.step:,}; first {_shown(key, values[0])})", values)


def evaluated(evaluation: Evaluation) -> str:
    """The values of an evaluation in words."""
    names = {"accuracy": "accuracy", "reward": "reward", "gold_utility": "gold"}
    shown = [f"{names[key]} {_shown(key, evaluation.values[key])}" for key in names if key in evaluation.values]
    return ", ".join(shown) or "no value"


def _shown(key: str, value: float) -> str:
    return percent(value) if key == "accuracy" else short(value)


def _table(rows: Sequence[Row], screen: Screen) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=False)
    table.add_column(style="dim", overflow="fold", min_width=min(_LABEL, screen.width // 3))
    table.add_column(overflow="fold")
    wide = screen.width >= _SPARKS_FROM
    names, values = (max(map(cell_len, texts)) for texts in zip(*((row.name, row.value) for row in rows), strict=True))
    space = screen.width - max(_LABEL, names) - values - 6
    # Rather than lose the sparklines, long names and values are broken into lines.
    width = min(_WIDEST_SPARK, max(_NARROWEST_SPARK, space)) if wide else 0
    if wide:
        table.add_column(style="cyan", no_wrap=True)
    for row in rows:
        cells = [Text(row.name), Text(row.value)]
        if wide:
            cells.append(Text(sparkline(row.history, width, screen.encoding)))
        table.add_row(*cells)
    return table
