"""`geoalign curate`: dumps of rollouts in; scores, what was flagged and a page out."""

from __future__ import annotations

import shutil
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.curate import CurateConfig
from geoalign.lab.config.requests import CurateRequest
from geoalign.lab.curate.curation import CurationRun
from geoalign.lab.curate.inputs import find_inputs
from geoalign.lab.curate.terminal import show_input, show_result
from geoalign.lab.dumps.formats import parse_fields
from geoalign.lab.reports.inspection import build_inspection
from geoalign.lab.store.curation import REPORT_FILE, SUMMARY_FILE, CuratedFolder
from geoalign.lab.store.files import locked
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console


def curate(config: CurateConfig, request: CurateRequest, *, console: Console | None = None) -> dict[str, Any]:
    """Curates dumps one after the other with one curator, and returns the content of `summary.json`.

    A step at a time is in memory. The inputs are only read. Every file of the output appears whole, the summary last.

    Raises:
        ConfigError: settings, formats or files that do not go together; the message says what was expected.
        InputError: a row, a field or states that are not what they should be; the message has file, line and field.
        RunFolderError: another process writes to the folder.
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
        show_input(console, source)
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
