"""A whole comparison: plan, warm start, runs, table, report."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.status import Status

from geoalign.console.terminal import Console, say_paragraph
from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.durable import locked
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.compare.conclude import conclude
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import PlannedRun, planned_runs, warm_start_run
from geoalign.lab.compare.pool import WorkerProcess, run_all
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.reading import last_step
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import Locations

_LOOK_SECONDS = 0.2
# Exit code of a worker for an error of this package, which is reported as such.
_OWN_ERROR = 2


def compare(
    config: CompareConfig,
    root: Path,
    *,
    resume: bool = False,
    locations: Locations | None = None,
    console: Console | None = None,
) -> dict[str, str]:
    """Starts or resumes a comparison in the folder `root`; writes its table and report.

    Finished runs are never made again; failed ones are tried again. A resumed comparison may have more arms, levels or
    seeds than before, or fewer: the table is that of the plan now given.

    Args:
        locations: where each setting was written, for error messages.

    Returns:
        The error of each run that failed, by the name of its cell.
    """
    console = console or Console()
    folder = ComparisonFolder(root)
    folder.check_vacant(resume=resume)
    with locked(folder.root):
        folder.check_vacant(resume=resume)
        plan = planned_runs(config, locations)
        todo = [planned for planned in plan if not folder.finished(planned)]
        for planned in todo:
            folder.check_unfinished(planned)
        if not config.keep_runs and not folder.keeps_runs():
            # Run folders that a killed comparison did not come to remove.
            for planned in plan:
                if planned not in todo:
                    folder.discard(planned)
        failed: dict[str, str] = {}
        if todo:
            failed = _run(folder, config, plan, todo, console)
        else:
            folder.initialise(config)
            console.print(f"All {len(plan)} runs are finished: nothing is trained.", highlight=False)
        conclude(folder, console)
    return failed


def _run(
    folder: ComparisonFolder,
    config: CompareConfig,
    plan: Sequence[PlannedRun],
    todo: Sequence[PlannedRun],
    console: Console,
) -> dict[str, str]:
    """Prepares and trains the runs `todo` of a plan; the error of each that failed, by the name of its cell."""
    cores = _cores()
    workers = config.workers or cores
    # Not by how many runs are left: the number of threads may change the last bits of a run.
    threads = max(1, cores // workers)
    workers = min(workers, len(todo))
    shapes = _prepare(folder, config, plan, todo, console, threads=cores)
    finished = len(plan) - len(todo)
    before = f" {finished} finished before." if finished else ""
    many = "s" if threads > 1 else ""
    say_paragraph(console, f"{len(todo)} runs, {workers} at a time, {threads} thread{many} each.{before}")
    return run_all(
        folder,
        todo,
        console,
        output=plain_settings(config.run)["output"] | {"folder": None, "rollouts": True, "details_every": None},
        shapes=shapes,
        base_seed=config.run.seed,
        workers=workers,
        threads=threads,
        keep_runs=config.keep_runs,
    )


def _prepare(
    folder: ComparisonFolder,
    config: CompareConfig,
    plan: Sequence[PlannedRun],
    todo: Sequence[PlannedRun],
    console: Console,
    *,
    threads: int,
) -> Mapping[str, Mapping[str, int]]:
    """Checks every run's settings and makes the shared warm starts in one process, unless an earlier start has; the
    shapes."""
    seeds = list(dict.fromkeys(planned.warm_start_seed for planned in plan))
    starts = [plain_settings(warm_start_run(config, seed)) for seed in seeds]
    folders = [folder.warm_start(seed, config.run.seed) for seed in seeds]
    shapes = folder.prepared_shapes(starts)
    if all(planned.key in shapes for planned in todo):
        folder.initialise(config)
        return shapes
    folder.checked.unlink(missing_ok=True)
    job = {
        "kind": "prepare",
        "warm_starts": [{"settings": start, "folder": str(path)} for start, path in zip(starts, folders, strict=True)],
        "checked": str(folder.checked),
        "runs": {planned.key: {"name": planned.cell.name, "settings": planned.settings} for planned in todo},
    }
    words = "warm start that all runs share" if len(seeds) == 1 else f"{len(seeds)} warm starts that the seeds share"
    say_paragraph(
        console,
        f"Checking the settings, then the {words}: minutes, as a rule. Where it stands: geoalign status {folder.root}",
    )
    with console.status("") as status:
        process = WorkerProcess(job, log=folder.shared_log, threads=threads)
        try:
            code = _watch(folder, folders, config, process, status)
        finally:
            process.stop()
    if code != 0:
        if code == _OWN_ERROR:
            raise ConfigError(process.error())
        raise RunFolderError(f"{process.error()} (more in {folder.shared_log})")
    shapes |= read_json(folder.checked)
    write_json(folder.prepared, {"settings": starts, "runs": shapes})
    folder.checked.unlink()
    return shapes


def _watch(
    folder: ComparisonFolder, warm_starts: Sequence[Path], config: CompareConfig, process: WorkerProcess, status: Status
) -> int:
    """Waits for the warm starts' end; meanwhile, once the settings are checked, makes the folder a comparison's."""
    begun = False
    while True:
        code = process.exit_code()
        if not begun and folder.checked.is_file():
            folder.initialise(config)
            begun = True
        if code is not None:
            return code
        begun_in = [path for path in warm_starts if path.is_dir()]
        step = last_step(RunFolder(begun_in[-1]).metrics, stage="sft") if begun_in else 0
        status.update(f"step {step} of the warm start, {process.seconds:.0f} s" if step else f"{process.seconds:.0f} s")
        time.sleep(_LOOK_SECONDS)


def _cores() -> int:
    """The cores that this process may use: a container or a scheduler may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
