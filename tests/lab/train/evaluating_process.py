"""`evaluating_process.py RUN FOLDER`: one of several processes that evaluate RUN's final model into FOLDER."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.progress import Progress

from geoalign.console.terminal import Console
from geoalign.lab.models.answering import answer_together
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train import evaluations
from geoalign.lab.train.observed_reward import reward_source
from geoalign.lab.train.plan import make_plan
from geoalign.lab.train.read_settings import parse_run_config


def main(trained: RunFolder, folder: RunFolder) -> None:
    config = parse_run_config(trained.read_config())
    plan = make_plan(config, folder, Console(quiet=True))
    texts: list[str] = []

    def recorded(*arguments: Any, **options: Any) -> Any:
        answers = answer_together(*arguments, **options)
        texts.extend(answer.response for answer in answers)
        return answers

    evaluations.answer_together = recorded  # type: ignore[assignment]
    with reward_source(plan) as source, Progress(disable=True) as progress:
        respondent = evaluations.saved_respondent(plan, source, trained.final)
        evaluations.evaluate_policy(plan, respondent, stage="rl", step=2, progress=progress)
    (folder.root / f"texts-{plan.processes.rank}.json").write_text(json.dumps(texts))


if __name__ == "__main__":
    main(*(RunFolder(Path(folder)) for folder in sys.argv[1:]))
