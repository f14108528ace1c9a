import pytest
import torch
from gated_model import save_gated_model
from tiny_models import random_model
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from geoalign.errors import ConfigError, InputError
from geoalign.lab.models.language_model import make_tokenizer
from geoalign.lab.rewards.reward_model import RewardModelScorer, load_ready_model
from geoalign.lab.rewards.settings import RewardModelConfig

TRUSTED = RewardModelConfig(trust_remote_code=True)
PROMPT = [{"role": "user", "content": "help me fix my lamp"}]
RESPONSES = ["open it.", "no", "read the book, then open the lamp and look."]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("abcdefghijklmnopqrstuvwxyz ,.", max_length=128)


@pytest.fixture
def gated(tokenizer, tmp_path, monkeypatch):
    # transformers copies code that it runs into a cache of modules.
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING", "", raising=False)
    folder = save_gated_model(tmp_path / "gated", tokenizer)
    # As it is where transformers has dropped the name.
    monkeypatch.delattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING")
    return folder


def score(scorer, responses=RESPONSES):
    return scorer.score(responses, [""] * len(responses), prompts=[PROMPT] * len(responses))


def test_the_gated_score_of_a_model_with_several_objectives(gated, tokenizer):
    with RewardModelScorer.load(gated, TRUSTED) as scorer:
        found = score(scorer)
        model = scorer._model
        for response, reward in zip(RESPONSES, found, strict=True):
            dialogue = [*PROMPT, {"role": "assistant", "content": response}]
            ids = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True, return_tensors="pt")
            with torch.no_grad():
                output = model(input_ids=ids["input_ids"])
            # Three objectives, weighed by a gate that sums to 1.
            expected = float((output.rewards[0] * output.gate[0]).sum())
            assert reward == pytest.approx(expected, abs=1e-5)
        assert max(found) - min(found) > 0.01
        assert scorer.counters["scored"] == 3


def test_code_runs_only_if_the_user_says_so(gated):
    with pytest.raises(ConfigError, match=r"reward\.model\.trust_remote_code: expected true, .* got false"):
        RewardModelScorer.load(gated)


def test_without_a_padding_token_of_its_own_such_a_model_scores_one_at_a_time(gated, tokenizer):
    model, loaded = load_ready_model(gated, TRUSTED)
    whole = score(RewardModelScorer(model, loaded, TRUSTED))
    # The padding token is the end token, which stands after every turn: no position may be looked up by it.
    model.config.pad_token_id = loaded.eos_token_id
    scorer = RewardModelScorer(model, loaded, TRUSTED)
    assert scorer.batch_size == 1
    model.config.pad_token_id = loaded.pad_token_id
    assert score(scorer) == pytest.approx(whole, abs=1e-5)


def test_a_language_model_without_a_trained_head_is_refused(tokenizer, tmp_path):
    random_model(LlamaForCausalLM, LlamaConfig, tokenizer, num_labels=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"expected all weights .* got no 'score.weight'"):
        RewardModelScorer.load(tmp_path)


def test_outputs_of_another_shape_are_refused(gated, monkeypatch):
    model, tokenizer = load_ready_model(gated, TRUSTED)
    forward = type(model).forward

    def without_score(self, *args, **values):
        output = forward(self, *args, **values)
        output.score = None  # then the logits count: three a response
        return output

    monkeypatch.setattr(type(model), "forward", without_score)
    with pytest.raises(InputError, match=r"expected one number a response, got \(3, 3\) for 3"):
        score(RewardModelScorer(model, tokenizer, TRUSTED))


def test_settings_that_do_not_go_together_are_refused():
    for values, message in (
        ({"path": "a", "url": "http://b"}, "url: expected null beside path='a', got 'http://b'"),
        ({"url": "ftp://b"}, "url: .*got 'ftp://b'"),
    ):
        with pytest.raises(ConfigError, match=message):
            RewardModelConfig(**values)
