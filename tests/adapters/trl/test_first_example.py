"""The example of docs/trl.md, with a tiny model in place of the one that it names, and one update."""

import re
from pathlib import Path

from trl_parts import model, tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "trl.md"
ON_A_CPU = "use_cpu=True, bf16=False, max_steps=1, max_completion_length=6, report_to='none', save_strategy='no'"


def test_the_first_example_trains(tmp_path):
    model().save_pretrained(tmp_path / "tiny")
    tokenizer().save_pretrained(tmp_path / "tiny")
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    code = code.replace('"Qwen/Qwen3-0.6B"', repr(str(tmp_path / "tiny")))
    code = code.replace('"runs/mine"', repr(str(tmp_path / "run")))
    code = code.replace("gradient_accumulation_steps=16", f"gradient_accumulation_steps=2, {ON_A_CPU}")
    names = {}
    exec(code, names)
    state = names["trainer"].state
    assert state.global_step == 1
    assert "geoalign/anomalous_share" in state.log_history[0] or "geoalign/changed_share" in state.log_history[0]
