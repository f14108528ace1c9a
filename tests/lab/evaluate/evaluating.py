"""Evaluations with a console of their own, and what stands for a model or a reward model."""

import io
import json
import math
import shutil

import pyarrow.parquet as pq
import yaml
from rich.console import Console

from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.evaluate.evaluate import evaluate
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.engines import Generated
from geoalign.lab.rewards.settings import RewardModelConfig, ScoringConfig


def run(models, benchmarks, dialogues, output, *, checkpoints=False, resume=False, save_responses=None, **values):
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
    return evaluate(config, request, console=console), console.file.getvalue()


def rows_of(output):
    return [row for path in sorted((output / "rows").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


class Scripted:
    """Stands for a loaded model: answers by the number of the sample, which it counts itself."""

    def __init__(self, answer, tokenizer):
        self.answer = answer
        self.tokenizer = tokenizer
        self.asked = {}

    def generate(self, prompts, seeds, *, temperature, max_new_tokens):
        found = []
        for ids in prompts:
            text = self.tokenizer.decode(ids)
            sample = self.asked[text] = self.asked.get(text, -1) + 1
            found.append(Generated(self.answer(text, sample), 7, sample == 0))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def right_until(counts):
    """Of the responses to "What is N+1?" the first `counts[N]` are right."""

    def answer(prompt, sample):
        number = prompt.partition("What is ")[2].partition("+")[0]
        right = int(number) + 1
        return f"so \\boxed{{{right if sample < counts[number] else 999}}}"

    return answer


class Rewards:
    """A reward model: the length of the response; NaN for one of a letter."""

    binary = False

    def __init__(self):
        self.counters = {"scored": 0, "too_long": 0}
        self.closed = False

    def score(self, responses, answers, *, prompts=None):
        assert [message["role"] for message in prompts[0]] == ["user"]
        scores = [math.nan if len(text) == 1 else float(len(text)) for text in responses]
        self.counters["too_long"] += sum(map(math.isnan, scores))
        return scores

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


REWARD = ScoringConfig(model=RewardModelConfig(path="owner/reward"))


def run_folder(root, tiny, steps, *, final, last=True):
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
