"""Evaluations with a console of their own, and what stands for a model or a reward model."""

import io
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.requests import EvaluateRequest
from geoalign.lab.config.rewards import RewardModelConfig, ScoringConfig
from geoalign.lab.evaluate.command import evaluate
from geoalign.lab.evaluation.results import EvaluationScores
from geoalign.lab.generation.engines import Generated


def run(
    models: Sequence[Path | str],
    benchmarks: Sequence[str],
    dialogues: Sequence[str],
    output: Path,
    *,
    checkpoints: bool = False,
    resume: bool = False,
    save_responses: Path | None = None,
    **values: Any,
) -> tuple[EvaluationScores, str]:
    config = EvaluateConfig(**{"device": "cpu", "max_new_tokens": 8, "batch_size": 5, **values})
    console = Console(file=io.StringIO(), width=100)
    request = EvaluateRequest(
        models=[str(model) for model in models],
        benchmarks=benchmarks,
        dialogues=dialogues,
        output=output,
        checkpoints=checkpoints,
        resume=resume,
        save_responses=save_responses,
    )
    found = evaluate(config, request, console=console)
    assert isinstance(console.file, io.StringIO)
    return found, console.file.getvalue()


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted((output / "rows").rglob("*.parquet")):
        with path.open("rb") as file:
            rows += pq.read_table(file).to_pylist()
    return rows


class Scripted:
    """Stands for a loaded model: answers by the number of the sample, which it counts itself."""

    def __init__(self, answer: Callable[[str, int], str]) -> None:
        self.answer, self.asked = answer, {}  # type: ignore[var-annotated]
        self.tokenizer: Any = None

    def generate(self, prompts: Any, seeds: Any, *, temperature: float, max_new_tokens: int) -> list[Generated]:
        found = []
        for ids in prompts:
            text = self.tokenizer.decode(ids)
            sample = self.asked[text] = self.asked.get(text, -1) + 1
            found.append(Generated(self.answer(text, sample), 7, sample == 0))
        return found

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def right_until(counts: dict[str, int]) -> Callable[[str, int], str]:
    """Of the responses to "What is N+1?" the first `counts[N]` are right."""

    def answer(prompt: str, sample: int) -> str:
        number = prompt.partition("What is ")[2].partition("+")[0]
        right = int(number) + 1
        return f"so \\boxed{{{right if sample < counts[number] else 999}}}"

    return answer


class Rewards:
    """A reward model: the length of the response; NaN for one of a letter."""

    binary = False

    def __init__(self) -> None:
        self.counters = {"scored": 0, "too_long": 0}
        self.closed = False

    def score(self, responses: Any, answers: Any, *, prompts: Any = None) -> list[float]:
        assert [message["role"] for message in prompts[0]] == ["user"]
        scores = [math.nan if len(text) == 1 else float(len(text)) for text in responses]
        self.counters["too_long"] += sum(map(math.isnan, scores))
        return scores

    def __enter__(self) -> "Rewards":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


REWARD = ScoringConfig(model=RewardModelConfig(path="owner/reward"))


def run_folder(root: Path, tiny: Path, steps: Sequence[int], *, final: bool, last: bool = True) -> Path:
    """A run folder as `geoalign train` leaves it, with copies of one model."""
    import yaml

    rl = root / "checkpoints" / "rl"
    for step in steps:
        shutil.copytree(tiny, rl / f"checkpoint-{step}")
        state = {"global_step": step, "max_steps": steps[-1] if last else steps[-1] + 1}
        (rl / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
        (rl / f"checkpoint-{step}" / "COMPLETE.json").write_text(json.dumps({"step": step}))
    if final:
        shutil.copytree(tiny, root / "checkpoints" / "final")
        (root / "summary.json").write_text(json.dumps({"steps": steps[-1] + 1 if steps else 7}))
    root.mkdir(parents=True, exist_ok=True)
    model = {"type": "pretrained", "path": "x", "chat_template_kwargs": {"enable_thinking": False}}
    (root / "config.yaml").write_text(yaml.safe_dump({"model": model}))
    (root / "versions.json").write_text(json.dumps({"schema_version": 1}))
    return root
