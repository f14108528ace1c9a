"""A tiny model, small sets and stand-ins for what generates and scores."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save

sys.path.insert(0, str(Path(__file__).parent))
from evaluating import Rewards, Scripted


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = make_tokenizer(None, max_length=2048)
    model = make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=2, max_length=2048), tokenizer, seed=0)
    save(model, tokenizer, folder)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A benchmark of three problems and a dialogue set of two prompts."""
    problems = [{"problem": f"What is {n}+1?", "answer": str(n + 1)} for n in range(3)]
    talks = [
        {"chosen": f"\n\nHuman: hi {n}\n\nAssistant: yes", "rejected": f"\n\nHuman: hi {n}\n\nAssistant: no"}
        for n in range(2)
    ]
    for name, rows in (("aime", problems), ("talk", talks)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"aime24={tmp_path / 'aime.jsonl'}", f"helpful={tmp_path / 'talk.jsonl'}"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, int], str]], None]:
    def use(answer: Callable[[str, int], str]) -> None:
        def opened(model: Any, tokenizer: Any, config: Any) -> Scripted:
            engine = Scripted(answer)
            engine.tokenizer = tokenizer
            return engine

        monkeypatch.setattr("geoalign.lab.evaluate.command.open_engine", opened)

    return use


@pytest.fixture
def reward_model(monkeypatch: pytest.MonkeyPatch) -> Rewards:
    found = Rewards()

    def load(place: str, config: Any) -> Rewards:
        assert (place, config.device) == ("owner/reward", "cpu")
        return found

    monkeypatch.setattr("geoalign.lab.evaluate.command.RewardModelScorer.load", load)
    return found
