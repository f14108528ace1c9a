"""The command, as a process of its own: started, killed without warning, started again."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from tiny_models import saved_classifier
from typer.testing import CliRunner

from geoalign.errors import ConfigError
from geoalign.lab.cli import app
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.served_model import ServedRewardModel

PROMPT = [{"role": "user", "content": "help me"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_classifier(tmp_path_factory.mktemp("model"), "abcdefghijklmnopqrstuvwxyz ", max_length=64)


def start(model, port, *options, token="secret"):
    return subprocess.Popen(
        [sys.executable, "-m", "geoalign", "serve-reward", "--model", str(model), "--port", str(port), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "REWARD_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.slow
def test_a_server_killed_and_started_again_in_the_middle_of_a_batch(model, monkeypatch):
    port = free_port()
    monkeypatch.setenv("REWARD_TOKEN", "secret")
    settings = RewardModelConfig(
        url=f"http://127.0.0.1:{port}", token_env="REWARD_TOKEN", batch_size=1, patience=120, timeout=30
    )
    responses = ["abc xyz"[: 1 + number % 7] + "q" * (number % 40) for number in range(400)] + ["too long " * 20]
    prompts, answers = [PROMPT] * len(responses), [""] * len(responses)
    first = start(model, port, "--token-env", "REWARD_TOKEN")
    second = []

    def kill_and_restart(client):
        while not 20 < client.seen < 350:
            time.sleep(0.002)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        second.append(start(model, port, "--token-env", "REWARD_TOKEN"))

    with ServedRewardModel(settings) as client, RewardModelScorer.load(model) as scorer:
        client.score(["a"], [""], prompts=[PROMPT])  # waits until the server is up
        client.seen = 0
        ask = client._protocol.ask

        def counted(rows, counters):
            client.seen += 1
            return ask(rows, counters)

        monkeypatch.setattr(client._protocol, "ask", counted)
        thread = threading.Thread(target=kill_and_restart, args=(client,))
        thread.start()
        found = client.score(responses, answers, prompts=prompts)
        thread.join()
        here = scorer.score(responses, answers, prompts=prompts)
    second[0].terminate()
    assert "Reward model" in second[0].communicate(timeout=30)[0]
    assert second[0].returncode in (0, -signal.SIGTERM)
    assert found[:-1] == pytest.approx(here[:-1], abs=1e-5)
    assert found[-1] != found[-1]
    assert client.counters == {"scored": 401, "too_long": 1, "empty": 0, "not_finite": 0, "unreachable": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "host: expected a loopback address"),
        (["--token-env", "NO_SUCH_TOKEN"], r"token-env: .* \$NO_SUCH_TOKEN, got none"),
        (["--dtype", "int8"], "dtype"),
        ([], "expected a sequence classifier with its tokenizer, got '/nowhere'"),
    ],
)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(app, ["serve-reward", "--model", "/nowhere", *options], catch_exceptions=False)
