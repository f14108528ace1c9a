import re
import subprocess
import sys
from typing import Any

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.config.judge import JudgeConfig, load_judge_config

URL = "http://localhost:8000/v1"


def test_settings_from_the_command_line() -> None:
    found = load_judge_config(
        f"{URL}/", "m", ["temperature=1", "request.seed=3", "request.max_tokens=null", "token_env=KEY"]
    )
    assert found == JudgeConfig(
        base_url=URL, model="m", temperature=1.0, request={"seed": 3, "max_tokens": None}, token_env="KEY"
    )


def test_local_rules_have_no_settings() -> None:
    assert load_judge_config(None, None, local=True) is None
    for values in ((URL, None), (None, "m")):
        with pytest.raises(ConfigError, match="--local: expected alone"):
            load_judge_config(*values, local=True)
    with pytest.raises(ConfigError, match="--local: expected alone"):
        load_judge_config(None, None, ["timeout=1"], local=True)


@pytest.mark.parametrize("values", [(None, None), (URL, None), (None, "m")])
def test_address_and_model_are_needed_together(values: tuple[str | None, str | None]) -> None:
    with pytest.raises(ConfigError, match="expected --base-url and --model, or --local"):
        load_judge_config(*values)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("timeot=3", "--set timeot=3: timeot: unknown key: expected timeout, the nearest known key; got 'timeot'"),
        ("model=x", "--set model=x: model: unknown key"),
        ("timeout=0", "--set timeout=0: timeout: expected greater than 0, got 0"),
        ("retries=true", "--set retries=true: retries: expected a whole number, got True"),
        ("timeout=.inf", "--set timeout=.inf: timeout: expected a finite decimal number"),
        ("concurrency=0", "concurrency: "),
        ("temperature=-1", "temperature: "),
        ("malformed_retries=-1", "malformed_retries: "),
        ("request.messages=x", "expected none of model, messages, stream, n"),
        ("request.x=.nan", "request.x: expected a finite decimal number"),
        ("timeout", "--set: expected section.key=value"),
    ],
)
def test_wrong_settings_are_named(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config(URL, "m", [override])
    assert said in str(caught.value)
    assert "JudgeConfig" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://u:p@host/v1",
        "https://host/v1?key=x",
        "https://host/v1#x",
        "http://host:99999/v1",
        "http://[::1/v1",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        JudgeConfig(base_url=url, model="m")


@pytest.mark.parametrize("value", [{"x": {1}}, {"x": float("inf")}, {"x": "\ud800"}])
def test_what_json_cannot_hold_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=re.escape("request")):
        JudgeConfig(base_url=URL, model="m", request=value)


def test_the_judge_loads_no_torch() -> None:
    code = "import sys, geoalign.lab.config.judge, geoalign.lab.judge; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
