"""A model folder whose Python code would run: it does not, whatever is answered on the standard input."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from harness import Outcome, run

from geoalign.pretrained.from_pretrained import OwnCodeError, from_pretrained

CODE = """
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast

Path({mark!r}).write_text("ran")


class OwnConfig(LlamaConfig):
    model_type = "own_code_model"


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig


class OwnReward(LlamaForSequenceClassification):
    config_class = OwnConfig


class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "own.py").write_text(CODE.format(mark=str(tmp_path / "ran")))
    classes = {
        "AutoConfig": "own.OwnConfig",
        "AutoModelForCausalLM": "own.OwnModel",
        "AutoModelForSequenceClassification": "own.OwnReward",
        "AutoTokenizer": ["own.OwnTokenizer", None],
    }
    settings = {"model_type": "own_code_model", "auto_map": classes, "architectures": ["OwnModel"]}
    (folder / "config.json").write_text(json.dumps(settings))
    tokenizer = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def answering_yes(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Outcome:
    """Runs a command with a "y" for every question on the standard input."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    return run(*arguments)


COMMANDS = {
    "train": ["train", "model.yaml", "--output", "out"],
    "reward model": ["train", "reward.yaml", "--output", "out"],
    "audit": ["audit", "dump.jsonl", "--output", "out", "--model", "model"],
    "evaluate": ["evaluate", "model", "--output", "out", "--benchmark", "aime24=aime.jsonl"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_runs_the_code_of_a_model(model: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    here = model.parent
    (here / "model.yaml").write_text(yaml.safe_dump({"model": {"type": "pretrained", "path": "model"}}))
    (here / "reward.yaml").write_text(yaml.safe_dump({"reward": {"model": {"path": "model"}}}))
    rows = [{"prompt": "2+2", "response": str(n), "reward": float(n % 2)} for n in range(8)]
    (here / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (here / "aime.jsonl").write_text(json.dumps({"id": "1", "problem": "2+2?", "answer": "4"}) + "\n")
    outcome = answering_yes(monkeypatch, *command)
    assert not (here / "ran").exists()
    assert outcome.broken() == []
    assert outcome.code == 2
    assert "trust_remote_code: expected true, because" in outcome.err
    assert "'model' comes with Python code of its own" in outcome.err
    assert "[y/N]" not in outcome.out + outcome.err


def test_code_runs_where_the_setting_allows_it(model: Path) -> None:
    from transformers import AutoConfig

    with pytest.raises(OwnCodeError, match=r"^model\.trust_remote_code: expected true"):
        from_pretrained(AutoConfig, model, trust_remote_code=False, setting="model.trust_remote_code")
    assert not (model.parent / "ran").exists()
    config = from_pretrained(AutoConfig, model, trust_remote_code=True, setting="model.trust_remote_code")
    assert type(config).__name__ == "OwnConfig"
    assert (model.parent / "ran").read_text() == "ran"


@pytest.mark.parametrize("option", ["sft.trust_remote_code", "grpo.model_init_kwargs.trust_remote_code"])
def test_no_option_of_trl_goes_past_the_setting(option: str) -> None:
    outcome = run("train", "--dry-run", "--set", f"{option}=true")
    assert outcome.broken() == []
    assert f"{option}: expected to be left out (use model.trust_remote_code)" in outcome.err


NOTHING = SimpleNamespace(summary={})


def test_the_flag_is_the_setting(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model.parent / "dump.jsonl").write_text('{"prompt": "a", "response": "b", "reward": 1}')
    seen = []
    monkeypatch.setattr("geoalign.audit.pipeline.run_audit", lambda config, *_, **__: seen.append(config) or NOTHING)
    monkeypatch.setattr("geoalign.audit.terminal.show_report", lambda *_: None)
    monkeypatch.setattr("geoalign.lab.evaluate.evaluate.evaluate", lambda *given, **__: seen.append(given[0]))
    assert run("audit", "dump.jsonl", "--output", "out", "--model", "model", "--trust-remote-code").code == 0
    assert run("evaluate", "model", "--trust-remote-code").code == 0
    assert [config.trust_remote_code for config in seen] == [True, True]


def loads_unasked(node: ast.AST, file: Path) -> bool:
    """Whether a call loads a model past `geoalign.pretrained.from_pretrained`, or without saying whether its code may
    run."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "from_pretrained":
        # peft's adapters are weights alone.
        adapters = isinstance(called.value, ast.Attribute) and called.value.attr == "PeftModel"
        return not adapters and file.name != "from_pretrained.py"
    given = {keyword.arg for keyword in node.keywords}
    name = called.id if isinstance(called, ast.Name) else ""
    return name == "pipeline" or (name == "from_pretrained" and not given & {"trust_remote_code", None})


def test_no_model_is_loaded_without_the_setting() -> None:
    source = Path(__file__).parents[2] / "src" / "geoalign"
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not loads_unasked(node, file), f"{file.relative_to(source)}, line {getattr(node, 'lineno', 0)}"
