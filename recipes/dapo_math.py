"""DAPO-Math-17k as TRL, verl or ms-swift read it, and its scorer for each: prompts and verdicts of `geoalign train`.

    python recipes/dapo_math.py verl data/dapo_verl          # train.parquet, and val.parquet with the benchmarks
    python recipes/dapo_math.py trl data/dapo_trl            # train.parquet
    python recipes/dapo_math.py swift data/dapo_swift        # train.jsonl

It runs in the environment of the engine that it writes for: `pip install -e '.[trl]'`, `'.[verl,cli]'` or
`'.[swift,cli]'`. `--set task.train=FILE --set task.evaluation.aime24=FILE ...` reads files instead of the hub
(docs/data.md). The scorers need math-verify next to the engine: 1 where the last \\boxed{} equals the gold answer, else
0. They compare in processes of their own, because engines call them in threads, where math-verify's time limits fail.
"""

from __future__ import annotations

import argparse
import functools
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from geoalign.answers.boxed import boxed_answer
from geoalign.answers.messages import response_text
from geoalign.answers.verified import VerifiedReward
from geoalign.lab.data.task import Problem

SETTINGS = Path(__file__).parents[1] / "configs" / "full" / "math_1.7b" / "geoalign.yaml"


def verl_row(problem: Problem, number: int, source: str) -> dict[str, Any]:
    """A problem in verl's format; `math_dapo` as data_source would choose verl's own scorer."""
    return {
        "data_source": source,
        "prompt": list(problem.prompt),
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": problem.answer},
        "extra_info": {"index": number, "id": problem.id},
    }


ROWS: dict[str, Callable[[Problem, int, str], dict[str, Any]]] = {
    "trl": lambda problem, number, source: {"prompt": list(problem.prompt), "answer": problem.answer},
    "verl": verl_row,
    "swift": lambda problem, number, source: {"messages": list(problem.prompt), "solution": problem.answer},
}


def write(engine: str, folder: Path, changes: Sequence[str]) -> list[str]:
    """Writes the problems of the settings for an engine; returns the names of the files, and what was left out."""
    from geoalign.lab.data.tasks import make_task
    from geoalign.lab.train.read_settings import load_run_config

    config = load_run_config(SETTINGS, changes).config
    task = make_task(config.task, seed=config.seed)
    sets = {"train": [(problem, "dapo_math_17k") for problem in task.train_problems]}
    if engine == "verl":  # a benchmark's problems as often as `geoalign train` answers each
        times = {name: config.evaluation.samples_of(name, last=False) for name in task.evaluation_problems}
        every = task.evaluation_problems.items()
        sets["val"] = [(problem, name) for name, problems in every for problem in problems for _ in range(times[name])]
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, problems in sets.items():
        rows = [ROWS[engine](problem, number, source) for number, (problem, source) in enumerate(problems)]
        path = folder / f"{name}.{'jsonl' if engine == 'swift' else 'parquet'}"
        if engine == "swift":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        else:
            import pyarrow as pa
            from pyarrow import parquet

            parquet.write_table(pa.Table.from_pylist(rows), path)
        written.append(f"{path}: {len(rows)} rows")
    return [*task.notes, *written]


_alone = threading.Lock()


@functools.cache
def _scorer() -> VerifiedReward:
    return VerifiedReward(workers=4)


def score(responses: Sequence[str], answers: Sequence[str]) -> list[float]:
    """1.0 or 0.0 for each response; the scorer's processes start with the first one."""
    with _alone:  # verl asks from several threads
        return _scorer().score(responses, answers)


def verified(completions: Sequence[Any], answer: Sequence[str], **columns: Any) -> list[float]:
    """TRL's reward function: `--reward_funcs recipes.dapo_math.verified`."""
    return score([response_text(completion) for completion in completions], answer)


def compute_score(data_source: str, solution_str: str, ground_truth: str, **more: Any) -> dict[str, Any]:
    """verl's: `reward.custom_reward_function.path=recipes/dapo_math.py`; `+geoalign.rollout_fields.answers=answer`."""
    return {"score": score([solution_str], [ground_truth])[0], "answer": boxed_answer(solution_str) or ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ROWS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in geoalign train")
    options = parser.parse_args()
    print(*write(options.engine, options.folder, options.set), sep="\n")


if __name__ == "__main__":
    main()
