import pytest

from geoalign.errors import ConfigError
from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.evaluate.settings import EvaluateConfig, load_evaluate_config


def test_by_default_each_benchmark_is_answered_as_often_as_in_the_paper():
    config = EvaluateConfig()
    assert {name: config.samples_of(name, one) for name, one in BENCHMARKS.items()} == {
        "aime24": 8, "aime25": 8, "amc23": 4, "math500": 1, "minerva": 1, "olympiadbench": 1,
    }  # fmt: skip
    assert config.samples_of("helpful", None) == 1
    assert config.temperature == 1.0


def test_pass_at_k_takes_the_numbers_of_the_figure():
    config = EvaluateConfig(pass_at_k=True)
    found = [config.samples_of(name, one) for name, one in BENCHMARKS.items()]
    assert found == [64, 64, 32, 1, 1, 1]


def test_samples_that_are_given_come_first():
    assert EvaluateConfig(temperature=0).samples_of("aime24", BENCHMARKS["aime24"]) == 1
    assert EvaluateConfig(samples=3).samples_of("aime24", BENCHMARKS["aime24"]) == 3
    some = EvaluateConfig(samples={"aime24": 2, "helpful": 5}, pass_at_k=True)
    assert some.samples_of("aime24", BENCHMARKS["aime24"]) == 2
    assert some.samples_of("aime25", BENCHMARKS["aime25"]) == 64
    assert (some.samples_of("helpful", None), some.samples_of("harmless", None)) == (5, 1)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], None),
        (["4"], 4),
        (["4", "4"], 4),
        (["aime24=16", "amc23 = 2"], {"aime24": 16, "amc23": 2}),
        (["my.set=3", "a=b=2"], {"my.set": 3, "a=b": 2}),
        (["aime24=64", "8"], {"aime24": 64, "*": 8}),
        (["8", "aime24=64"], {"aime24": 64, "*": 8}),
    ],
)
def test_samples_on_the_command_line(texts, expected):
    assert load_evaluate_config(EvaluateRequest(["m"], samples=texts)).samples == expected


@pytest.mark.parametrize("texts", [["x"], ["=1"], ["a="], ["1.5"], ["0"], ["true"], ["8", "4"], ["a=8", "a=4"]])
def test_samples_that_are_none_are_refused(texts):
    with pytest.raises(ConfigError, match="expected"):
        load_evaluate_config(EvaluateRequest(["m"], samples=texts))


def test_samples_by_set_are_a_setting_too():
    request = EvaluateRequest(["m"], overrides=["samples.aime24=64", "samples.*=8"])
    assert load_evaluate_config(request).samples == {"aime24": 64, "*": 8}
    with pytest.raises(ConfigError, match=r"--samples and --set samples\.aime24 both say how many responses there are"):
        load_evaluate_config(EvaluateRequest(["m"], samples=["4"], overrides=request.overrides))


def test_set_is_laid_over_the_options():
    config = load_evaluate_config(EvaluateRequest(["m"], max_new_tokens=8, overrides=["max_new_tokens=4"]))
    assert config.max_new_tokens == 4
    with pytest.raises(ConfigError, match="--greedy is temperature 0: leave --temperature out"):
        load_evaluate_config(EvaluateRequest(["m"], greedy=True, temperature=0.7))


def test_what_is_said_twice_alike_is_no_contradiction():
    request = EvaluateRequest(["m"], greedy=True, temperature=0.0, overrides=["temperature=0"])
    assert load_evaluate_config(request).temperature == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"greedy": True, "samples": ["aime24=2"]}, "--samples aime24=2: samples: expected 1 with temperature=0"),
        ({"greedy": True, "pass_at_k": True}, "--pass-at-k: pass_at_k: expected false with temperature=0"),
        ({"samples": ["8"], "pass_at_k": True}, "--samples 8: samples: expected numbers for sets by name beside pass"),
    ],
)
def test_options_that_do_not_go_together_are_named_as_they_were_typed(given, words):
    with pytest.raises(ConfigError) as error:
        load_evaluate_config(EvaluateRequest(["m"], **given))
    assert str(error.value).startswith(words)


def test_settings_of_the_command_line_and_of_set():
    overrides = ["engine=vllm", "vllm.max_model_len=4096", "reward.model.path=some/model",
                 "chat_template_kwargs.enable_thinking=false"]  # fmt: skip
    config = load_evaluate_config(EvaluateRequest(["m"], temperature=0.6, overrides=overrides))
    assert (config.temperature, config.engine, config.vllm) == (0.6, "vllm", {"max_model_len": 4096})
    assert config.reward.model.path == "some/model"
    assert config.chat_template_kwargs == {"enable_thinking": False}
    assert (config.batch, EvaluateConfig().batch, EvaluateConfig(batch_size=5).batch) == (1024, 32, 5)


@pytest.mark.parametrize(
    ("given", "overrides", "said"),
    [
        ({}, ["samplse=3"], "samplse: unknown key: expected samples"),
        ({"temperature": float("nan")}, [], "temperature: expected"),
        ({"samples": ["2"], "greedy": True}, [], "samples: expected 1 with temperature=0"),
        ({}, ["engine=vllm", "device=cuda"], "device: expected null with engine=vllm"),
        ({}, ["vllm.max_model_len=9"], "vllm: expected nothing with engine=transformers"),
        ({}, ["engine=vllm", "vllm.seed=9"], "vllm: expected no seed, "),
        ({}, ["reward.model.path=x", "reward.model.url=http://y"], "reward.model.url: expected null beside path"),
        ({}, ["samples={aime24: 0}"], "samples.aime24: expected"),
    ],
)
def test_wrong_settings_are_named(given, overrides, said):
    with pytest.raises(ConfigError) as error:
        load_evaluate_config(EvaluateRequest(["m"], overrides=overrides, **given))
    assert said in str(error.value)
