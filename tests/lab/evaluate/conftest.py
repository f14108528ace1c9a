import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from evaluating import Rewards, Scripted


@pytest.fixture
def tiny(tiny_folder):
    return tiny_folder


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
        def opened(described, config):
            return Scripted(answer, described.tokenizer)

        monkeypatch.setattr("geoalign.lab.evaluate.evaluate.open_engine", opened)

    return use


@pytest.fixture
def reward_model(monkeypatch):
    found = Rewards()

    def load(place, config):
        assert (place, config.device) == ("owner/reward", "cpu")
        return found

    monkeypatch.setattr("geoalign.lab.evaluate.evaluate.RewardModelScorer.load", load)
    return found
