"""The settings of `geoalign audit` and `geoalign judge` from the command line."""

import pytest

from geoalign.audit.settings import load_audit_config
from geoalign.curators.baselines.controls import PairCountConfig
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.denoise import DenoiseConfig
from geoalign.endpoint.settings import JudgeConfig
from geoalign.errors import ConfigError
from geoalign.lab.judge.settings import load_judge_config

URL = "http://localhost:8000/v1"


def test_curator_and_settings() -> None:
    # A file does not say that an answer was asked for.
    assert load_audit_config().curator == DenoiseConfig(unanswered="kept")
    assert load_audit_config(None, ["curator.unanswered=wrong"]).curator == DenoiseConfig()
    config = load_audit_config("pair_count", ["curator.alpha=0.2", "batch_size=3", "prompts=text"])
    assert isinstance(config.curator, PairCountConfig)
    assert (config.curator.alpha, config.batch_size, config.prompts) == (0.2, 3, "text")
    assert load_audit_config(None, ["curator.type=pods", "curator.m=3"]).curator == PODSConfig(m=3)
    assert load_audit_config("geoalign", ["curator.projector.steps=5"]).curator.projector.steps == 5
    chain = load_audit_config("chain", ["curator.members=[{type: pair_count}, {type: pods, m: 2}]"]).curator
    assert chain.members == (PairCountConfig(), PODSConfig(m=2))


@pytest.mark.parametrize(
    ("curator", "setting", "message"),
    [
        ("pair", "seed=1", r"--curator pair: curator.type: expected one of .*got 'pair'"),
        ("geoalign", "curator.alhpa=1", r"curator.alhpa: unknown key: expected curator.alpha"),
        (None, "prompts=raw", r"prompts: expected 'auto', 'chat' or 'text', got 'raw'"),
        ("chain", "curator.members={type: pods}", r"curator.members: expected a list"),
        ("chain", "curator.members=[{type: podz}]", r"curator.members.0.type: expected one of .*nearest: pods"),
    ],
)
def test_wrong_settings_of_an_audit_are_named(curator, setting, message) -> None:
    with pytest.raises(ConfigError, match=message):
        load_audit_config(curator, [setting])


def test_the_judge() -> None:
    overrides = ["temperature=1", "request.seed=3", "request.max_tokens=null", "token_env=KEY"]
    assert load_judge_config(f"{URL}/", "m", overrides) == JudgeConfig(
        base_url=URL, model="m", temperature=1.0, request={"seed": 3, "max_tokens": None}, token_env="KEY"
    )
    assert load_judge_config(None, None, local=True) is None


@pytest.mark.parametrize(
    ("url", "model", "overrides", "local", "said"),
    [
        (URL, None, [], True, "--local: expected alone"),
        (URL, None, [], False, "expected --base-url and --model, or --local"),
        (URL, "m", ["timeot=3"], False, "--set timeot=3: timeot: unknown key: expected timeout, the nearest known key"),
        *(
            (url, "m", [], False, "base_url")
            for url in ("localhost:8000", "ftp://host/v1", "http:///v1", "http://u:p@host/v1", "https://host/v1?key=x")
        ),
    ],
)
def test_wrong_settings_of_the_judge_are_named(url, model, overrides, local, said) -> None:
    with pytest.raises(ConfigError) as caught:
        load_judge_config(url, model, overrides, local=local)
    assert said in str(caught.value)
