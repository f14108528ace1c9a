"""The first example of the pages for TRL, with a tiny model and data set in place of those that it names."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pytest
from trl_parts import model, tokenizer

ROOT = Path(__file__).parents[3]
PAGES = ["README.md", "docs/trl.md", "docs/trl_in_five_minutes.md"]
ON_A_CPU = (
    "max_completion_length=6, use_cpu=True, bf16=False, max_steps=1, logging_steps=1, report_to='none', "
    "save_strategy='no'"
)


def first_example(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    return example[1]


def load_sums(name: str, split: str) -> datasets.Dataset:
    """A few problems in the columns of the data set that the example names."""
    sums = []
    for n in range(16):
        question = {"role": "user", "content": f"{n}+{n}="}
        sums.append({"prompt": [question], "solution": f"${2 * n}$"})
    return datasets.Dataset.from_list(sums)


def my_verifier(completions: list[list[dict[str, str]]], solution: list[str], **columns: Any) -> list[float]:
    """The reward function that a reader has: it compares texts."""
    texts = [messages[-1]["content"] for messages in completions]
    return [float(gold.strip("$") in text) for text, gold in zip(texts, solution, strict=True)]


def readers_own_module() -> ModuleType:
    """`my_project`, from which an example may import the reader's verifier."""
    module = ModuleType("my_project")
    module.my_verifier = my_verifier  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("page", PAGES)
def test_the_first_example_trains(page, tmp_path, monkeypatch):
    model().save_pretrained(tmp_path / "tiny")
    tokenizer().save_pretrained(tmp_path / "tiny")
    monkeypatch.setattr(datasets, "load_dataset", load_sums)
    monkeypatch.setitem(sys.modules, "my_project", readers_own_module())
    code = first_example(page)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    code = code.replace('"Qwen/Qwen2.5-1.5B-Instruct"', repr(str(tmp_path / "tiny")))
    code = code.replace('"runs/deepmath"', repr(str(tmp_path / "run")))
    code = code.replace("gradient_accumulation_steps=16", "gradient_accumulation_steps=2")
    code = code.replace("max_completion_length=1024", ON_A_CPU)
    names = {}
    exec(code, names)
    state = names["trainer"].state
    assert state.global_step == 1
    assert {"geoalign/changed_share", "geoalign/seconds"} <= set(state.log_history[0])
