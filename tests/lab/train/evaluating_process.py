"""`evaluating_process.py RUN FOLDER`: one of several processes that evaluate RUN's final model into FOLDER."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.progress import Progress

from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.evaluation.answers import answer_together
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.terminal import Console
from geoalign.lab.train import evaluations
from geoalign.lab.train.reward_source import reward_source
from geoalign.lab.train.run import make_run


def main(trained: RunFolder, folder: RunFolder) -> None:
    config = parse_run_config(trained.read_config())
    run = make_run(config, folder, Console(quiet=True))
    texts: list[str] = []

    def recorded(*arguments: Any, **options: Any) -> Any:
        answers = answer_together(*arguments, **options)
        texts.extend(answer.response for answer in answers)
        return answers

    evaluations.answer_together = recorded  # type: ignore[assignment]
    with reward_source(run) as source, Progress(disable=True) as progress:
        respondent = evaluations.saved_respondent(run, source, trained.final)
        for step in (2, 4):
            evaluations.evaluate(run, respondent, stage="rl", step=step, progress=progress)
    (folder.root / f"texts-{run.processes.rank}.json").write_text(json.dumps(texts))


if __name__ == "__main__":
    main(*(RunFolder(Path(folder)) for folder in sys.argv[1:]))
