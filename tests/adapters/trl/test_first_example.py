"""The first examples of README.md and docs/trl.md, with a tiny model in place of the one that they name, and one update."""

import re
from pathlib import Path

import datasets
import pytest
from trl_parts import model, tokenizer

ROOT = Path(__file__).parents[3]
ON_A_CPU = "use_cpu=True, bf16=False, max_steps=1, max_completion_length=6, report_to='none', save_strategy='no'"
# In the form of trl-lib/DeepMath-103K, which the README's example loads.
SUMS = [{"prompt": [{"role": "user", "content": f"{n}+1="}], "solution": str(n + 1)} for n in range(32)]


@pytest.mark.parametrize("page", ["README.md", "docs/trl.md"])
def test_the_first_example_trains(tmp_path, monkeypatch, page):
    model().save_pretrained(tmp_path / "tiny")
    tokenizer().save_pretrained(tmp_path / "tiny")
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: datasets.Dataset.from_list(SUMS))
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[1]
    code = code.replace('"Qwen/Qwen3-0.6B"', repr(str(tmp_path / "tiny")))
    code = code.replace("gradient_accumulation_steps=16", f"gradient_accumulation_steps=2, {ON_A_CPU}")
    names = {}
    exec(code, names)
    state = names["trainer"].state
    assert state.global_step == 1
    assert "geoalign/anomalous_share" in state.log_history[0] or "geoalign/changed_share" in state.log_history[0]
