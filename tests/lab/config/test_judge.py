import subprocess
import sys

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


def test_the_local_rule_has_no_settings() -> None:
    assert load_judge_config(None, None, local=True) is None
    for url, model, overrides in ((URL, None, []), (None, "m", []), (None, None, ["timeout=1"])):
        with pytest.raises(ConfigError, match="--local: expected alone"):
            load_judge_config(url, model, overrides, local=True)


@pytest.mark.parametrize("values", [(None, None), (URL, None), (None, "m")])
def test_address_and_model_are_needed_together(values: tuple[str | None, str | None]) -> None:
    with pytest.raises(ConfigError, match="expected --base-url and --model, or --local"):
        load_judge_config(*values)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("timeot=3", "--set timeot=3: timeot: unknown key: expected timeout, the nearest known key; got 'timeot'"),
        ("timeout=0", "--set timeout=0: timeout: expected greater than 0, got 0"),
        ("concurrency=0", "concurrency: "),
        ("request.x=.nan", "request.x: expected a finite decimal number"),
    ],
)
def test_wrong_settings_are_named(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config(URL, "m", [override])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://host/v1", "http://", "http:///v1", "http://u:p@host/v1", "https://host/v1?key=x",
     "https://host/v1#x"],
)  # fmt: skip
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        load_judge_config(url, "m")


def test_the_judge_loads_no_torch() -> None:
    code = "import sys, geoalign.lab.config.judge, geoalign.lab.judge; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
