"""A tiny model, small sets and stand-ins for what generates and scores."""

import json
import sys
from pathlib import Path

import pytest

from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save

sys.path.insert(0, str(Path(__file__).parent))
from evaluating import Rewards, Scripted


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = make_tokenizer(None, max_length=2048)
    model = make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=2, max_length=2048), tokenizer, seed=0)
    save(model, tokenizer, folder)
    return folder


@pytest.fixture
def files(tmp_path):
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
def scripted(monkeypatch):
    def use(answer):
        def opened(model, tokenizer, config):
            engine = Scripted(answer)
            engine.tokenizer = tokenizer
            return engine

        monkeypatch.setattr("geoalign.lab.evaluate.command.open_engine", opened)

    return use


@pytest.fixture
def reward_model(monkeypatch):
    found = Rewards()

    def load(place, config):
        assert (place, config.device) == ("owner/reward", "cpu")
        return found

    monkeypatch.setattr("geoalign.lab.evaluate.command.RewardModelScorer.load", load)
    return found
