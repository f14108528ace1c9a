"""Secrets in settings and on the command line: refused by name, told how to give them, and never shown or written."""

from pathlib import Path

import pytest
import yaml
from harness import Outcome, run

from geoalign.errors import ConfigError
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.settings import PretrainedModelConfig
from geoalign.lab.rewards.settings import RewardModelConfig
from geoalign.lab.train.read_settings import load_run_config, parse_run_config
from geoalign.lab.train.settings import RunConfig
from geoalign.secrets import find_secret, has_credentials, is_secret, masked

SECRET = "correct-horse-battery"
JUDGE = ["judge", "a", "b", "--model", "m"]
URL = f"https://user:{SECRET}@host:8000/v1"


SECRETS = [
    "hub_token", "token", "push_to_hub_token", "use_auth_token", "grpo.model_init_kwargs.token", "api_key", "apiKey",
    "WANDB_API_KEY", "password", "client_secret", "access-key", "Authorization", "refreshToken", "x-auth-token",
    "swanlab_token", "api_keys", "passwords", "headers.Authorization", "passphrase",
]  # fmt: skip
OTHERS = [
    "eos_token", "pad_token", "max_tokens", "tokenizer", "token_env", "api_key_variable", "skip_special_tokens",
    "include_num_input_tokens_seen", "keyword", "image_token", "pad_token_id", "token_level_rewards", "tokens",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS + OTHERS)
def test_names_of_secrets_and_of_other_things(name):
    assert is_secret(name, "text") == (name in SECRETS)


def test_a_number_is_no_token_but_may_be_a_password():
    assert parse_run_config({"grpo": {"some_token": 3}}).grpo == {"some_token": 3}
    assert load_run_config(None, ["grpo.some_token=3"]).config.grpo["some_token"] == 3
    assert find_secret({"curator": {"type": "monitor", "bounds": {"share_of_another_token": [0, 0.1]}}}) is None
    with pytest.raises(ConfigError, match="got a secret"):
        parse_run_config({"grpo": {"password": 1234}})


def held(outcome: Outcome, folder: Path) -> list[str]:
    found = [str(path) for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]
    return found + (["output"] if SECRET in outcome.out + outcome.err else [])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["train", "--set", f"grpo.hub_token={SECRET}"], "HF_TOKEN"),
        (["train", "--set", f"grpo.x=[{{password: {SECRET}}}]"], "an environment variable"),
        (["train", "--set", f"reward.model.url={URL}"], "reward.model.url: expected an address without user"),
        (["train", "--set", "model.type=pretrained", "--set", f"model.path={URL}"], "model.path: expected an address"),
        (["train", "--set", f"grpo.run_name=https://host/?api_key={SECRET}"], "grpo.run_name: expected an address"),
        (["compare", "--curators", "grpo", "--set", f"run.grpo.hub_token={SECRET}"], "HF_TOKEN"),
        (["evaluate", "m/m", "--set", "engine=vllm", "--set", f"vllm.hf_token={SECRET}"], "HF_TOKEN"),
        ([*JUDGE, "--base-url", URL], "base_url: expected an address without user"),
        ([*JUDGE, "--base-url", "http://h/v1", "--set", f"request.api_key={SECRET}"], "left out"),
        (["audit", URL], "***@host"),
    ],
    ids=lambda value: " ".join(value).replace(SECRET, "S")[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_secret_on_the_command_line(tmp_path, monkeypatch, command, says):
    monkeypatch.chdir(tmp_path)
    outcome = run(*command, *([] if "--dry-run" in command else ["--output", "out"]))
    assert outcome.broken() == []
    assert outcome.code == 2
    assert says in outcome.err
    assert held(outcome, tmp_path) == []


def test_a_secret_in_a_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"reward_model": {"model_init_kwargs": {"token": SECRET}}}))
    with pytest.raises(ConfigError, match=r"run\.yaml, line 3: .*: expected") as caught:
        load_run_config(path)
    assert SECRET not in str(caught.value)


def test_settings_made_in_python_hold_no_secret_either():
    for make in (
        lambda: RunConfig(grpo={"hub_token": SECRET}),
        lambda: PretrainedModelConfig(path=URL),
        lambda: RewardModelConfig(url=URL),
        lambda: EvaluateConfig(engine="vllm", vllm={"hf_token": SECRET}),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert SECRET not in str(caught.value)


def test_what_is_no_secret_passes():
    config = parse_run_config({"grpo": {"hub_token": None, "push_to_hub": False}, "sft": {"eos_token": "<end>"}})
    assert config.sft == {"eos_token": "<end>"}


def test_masks():
    assert masked(f"a {URL} b") == "a https://***@host:8000/v1 b"
    assert masked(f"--set grpo.hub_token={SECRET}: x") == "--set grpo.hub_token=*** x"
    assert masked("hf_" + "a" * 34) == "***"
    assert masked("owner/name@split lr=1e-3 max_tokens=5") == "owner/name@split lr=1e-3 max_tokens=5"
    assert has_credentials("http://user@host")
    assert not has_credentials("http://host/a@b?q=1")
