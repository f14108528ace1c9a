"""transformers' generate on a tiny model; vLLM's calls against a stand-in (the real one: tests/real)."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch

from geoalign.errors import ConfigError, InputError, MissingExtraError
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.evaluate.evaluate import answer_batch
from geoalign.lab.evaluate.evaluated_models import (
    DescribedModel,
    EvaluatedModel,
    describe,
    device_and_dtype,
    open_engine,
)
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.answering import ResponseRequest

PROMPTS = [[70, 71, 72], [80], [90, 91, 92, 93, 94]]


def model_at(path, revision=None):
    return EvaluatedModel(name="tiny", path=str(path), revision=revision, template_options={}, trust_remote_code=False)


@pytest.fixture
def opened(tiny_folder):
    def engine(**values):
        return open_engine(describe(model_at(tiny_folder)), EvaluateConfig(**{"device": "cpu", **values}))

    return engine


def test_responses_do_not_depend_on_what_stands_beside_them(opened):
    with opened() as engine:
        together = engine.generate(PROMPTS, [1, 2, 3], temperature=1.0, max_new_tokens=12)
        alone = [
            engine.generate([prompt], [seed], temperature=1.0, max_new_tokens=12)[0]
            for prompt, seed in zip(PROMPTS, [1, 2, 3], strict=True)
        ]
        backwards = engine.generate(PROMPTS[::-1], [3, 2, 1], temperature=1.0, max_new_tokens=12)[::-1]
    assert together == alone == backwards
    assert len({one.text for one in together}) == 3


def test_greedy_is_greedy(opened):
    with opened() as engine:
        first = engine.generate(PROMPTS, [1, 2, 3], temperature=0.0, max_new_tokens=12)
        assert engine.generate(PROMPTS, [4, 5, 6], temperature=0.0, max_new_tokens=12) == first
        # Nearly no temperature takes the likeliest token too.
        assert engine.generate(PROMPTS, [1, 2, 3], temperature=1e-6, max_new_tokens=12) == first


def test_a_model_or_a_device_that_is_not_there_is_named(opened, tmp_path):
    with pytest.raises(ConfigError, match="MODEL: expected a causal language model"):
        describe(model_at(tmp_path))
    with pytest.raises(ConfigError, match="device: expected one of this machine, got 'meta:x'"):
        opened(device="meta:x")


def test_too_many_at_a_time_names_the_setting():
    class Full:
        def generate(self, *arguments, **options):
            raise torch.OutOfMemoryError("no memory")

    problem = Problem("p", ({"role": "user", "content": "?"},), "1")
    one = EvaluationSet(name="set", kind="benchmark", problems=[problem], samples=3, max_new_tokens=12)
    requests = [ResponseRequest(problem, (1,), sample) for sample in range(3)]
    with pytest.raises(ConfigError, match=r"as fit into memory, got 3 of up to .* --resume and .* batch_size=1;"):
        answer_batch(Full(), "tiny", one, requests, None, EvaluateConfig(device="cpu"))


def test_the_type_of_the_weights_follows_the_device():
    assert device_and_dtype(EvaluateConfig(device="cpu")) == ("cpu", "float32")
    assert device_and_dtype(EvaluateConfig(device="cuda:1")) == ("cuda:1", "bfloat16")
    assert device_and_dtype(EvaluateConfig(device="cuda", dtype="float16")) == ("cuda", "float16")
    assert device_and_dtype(EvaluateConfig(engine="vllm")) == (None, "bfloat16")


class SamplingParams:
    """Takes what vLLM's takes (0.22 to 0.32), of what is used here."""

    def __init__(self, *, temperature, max_tokens, seed, detokenize):
        self.values = (temperature, max_tokens, seed, detokenize)


class StandIn:
    """Stands for vllm.LLM: answers every prompt with its own tokens, as RequestOutput does."""

    def __init__(self, **arguments):
        if arguments["model"] == "owner/broken":
            raise ValueError("no such architecture")
        self.standard_error = os.dup(2)
        if arguments["model"] == "owner/dead":
            self.die()
        self.made.append(arguments)

    def die(self):
        """As where a process of its own ends: the error says no more than that, the cause is on standard error."""
        os.write(self.standard_error, b"Traceback:\n(EngineCore pid=7) ValueError: no memory\nshut down\n")
        raise RuntimeError("Engine core initialization failed. See root cause above.")

    def generate(self, prompts, sampling_params, *, use_tqdm=True):
        assert not use_tqdm
        if self.reasons == ["dead"]:
            self.die()
        self.asked.append((prompts, sampling_params))
        answers = zip(prompts, self.reasons or ["stop"] * len(prompts), strict=False)
        outputs = [SimpleNamespace(token_ids=tuple(p["prompt_token_ids"]), finish_reason=why) for p, why in answers]
        return [SimpleNamespace(outputs=[output]) for output in outputs]


@pytest.fixture
def vllm(monkeypatch):
    kind = type("LLM", (StandIn,), {"made": [], "asked": [], "reasons": []})
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=kind, SamplingParams=SamplingParams))
    return kind


class Letters:
    """A tokenizer whose tokens are code points; 0 ends a response."""

    def decode(self, tokens, *, skip_special_tokens):
        assert skip_special_tokens
        return "".join(chr(token) for token in tokens if token)


def _vllm_engine(place="owner/model", **values):
    config = EvaluateConfig(engine="vllm", **values)
    described = DescribedModel(model_at(place, config.revision), Letters(), longest=None, fingerprint="")
    return open_engine(described, config)


def test_vllm_is_made_and_asked_as_documented(vllm):
    settings = {"tensor_parallel_size": 2, "max_model_len": 16384}
    with _vllm_engine(seed=5, revision="main", vllm=settings) as engine:
        found = engine.generate([[72, 105, 0], [72]], [11, 12], temperature=0.7, max_new_tokens=30)
    place = {"model": "owner/model", "revision": "main", "tokenizer_revision": "main", "trust_remote_code": False}
    assert vllm.made == [{**place, "dtype": "bfloat16", "seed": 5, **settings}]
    ((prompts, params),) = vllm.asked
    assert prompts == [{"prompt_token_ids": [72, 105, 0]}, {"prompt_token_ids": [72]}]
    assert [one.values for one in params] == [(0.7, 30, 11, False), (0.7, 30, 12, False)]
    assert [(one.text, one.tokens, one.truncated) for one in found] == [("Hi", 3, False), ("H", 1, False)]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [(["stop"], "expected 2 responses, got 1"), (["stop", "abort"], "row 1"), (["dead"], "got ValueError: no memory")],
)
def test_vllm_that_answers_otherwise_is_an_error(vllm, reasons, said):
    vllm.reasons = reasons
    with _vllm_engine() as engine, pytest.raises(InputError, match=said):
        engine.generate([[72], [73]], [1, 2], temperature=1.0, max_new_tokens=1)


def test_vllm_that_does_not_load_or_is_not_there(vllm, monkeypatch):
    with pytest.raises(ConfigError, match="vllm: expected a model that it loads, got 'owner/broken': no such arch"):
        _vllm_engine("owner/broken")
    with pytest.raises(ConfigError, match=r"got 'owner/dead': ValueError: no memory$"):
        _vllm_engine("owner/dead")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match="engine=vllm needs vLLM: pip install vllm"):
        _vllm_engine()
