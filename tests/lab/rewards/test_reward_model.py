import copy
import math

import pytest
import torch
from tiny_models import random_classifier

from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.settings import DialogueConfig
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import make_tokenizer
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.settings import RewardModelConfig

TASK = make_task(DialogueConfig(preference_pairs=60), seed=1)
PROMPTS = [list(pair.prompt) for pair in TASK.preference_pairs]
RESPONSES = [pair.chosen for pair in TASK.preference_pairs]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(TASK.alphabet, words=TASK.words, max_length=64)


@pytest.fixture
def model(tokenizer):
    sizes = {"intermediate_size": 48, "num_hidden_layers": 2, "dtype": "float32"}
    return random_classifier(tokenizer, eos_token_id=tokenizer.eos_token_id, **sizes)


def score(scorer, responses=RESPONSES, prompts=PROMPTS):
    return scorer.score(responses, [""] * len(responses), prompts=prompts)


def test_batches_change_nothing(model, tokenizer):
    together = score(RewardModelScorer(model, tokenizer, RewardModelConfig(batch_size=16)))
    model.train()
    scorer = RewardModelScorer(model, tokenizer)
    assert score(scorer) == score(scorer)  # the same call, the same bits: dropout is off
    alone = [score(scorer, [response], [prompt])[0] for response, prompt in zip(RESPONSES, PROMPTS, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)
    assert max(together) - min(together) > 0.1
    assert len({len(response) for response in RESPONSES}) > 5  # so that there was something to pad and to sort


@pytest.mark.parametrize("padded", [True, False])
def test_a_score_is_the_logit_at_the_end_of_the_dialogue(model, tokenizer, padded):
    if not padded:  # the end token stands in for it, and is read as one of the dialogue's
        model.config.pad_token_id = None
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.pad_token = None
    # Written out: prompt, reply, end token; the head on the last token's state.
    ids = tokenizer("<|user|>help me fix my lamp<|reply|>lamp: open.<|end|>", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        state = model.model(input_ids=ids).last_hidden_state[0, -1]
        expected = float(model.score(state))
    prompt = [{"role": "user", "content": "help me fix my lamp"}]
    assert score(RewardModelScorer(model, tokenizer), ["lamp: open."], [prompt]) == pytest.approx([expected], abs=1e-6)


def test_what_cannot_be_scored_is_nan_and_counted(model, tokenizer):
    scorer = RewardModelScorer(model, tokenizer, RewardModelConfig(max_length=12))
    found = score(scorer, ["lamp.", "open, " * 20, "lamp."], [PROMPTS[0]] * 3)
    assert [math.isnan(value) for value in found] == [False, True, False]
    assert scorer.counters == {"scored": 2, "too_long": 1, "empty": 0, "not_finite": 0}
    # Without a limit of its own, the model's: 64 tokens.
    scorer = RewardModelScorer(model, tokenizer)
    found = score(scorer, ["open, " * 20, "open, " * 40], [PROMPTS[0]] * 2)
    assert [math.isnan(value) for value in found] == [False, True]


def test_a_model_without_a_number_gives_nan(model, tokenizer):
    torch.nn.init.constant_(model.score.weight, math.inf)
    scorer = RewardModelScorer(model, tokenizer)
    assert all(math.isnan(value) for value in score(scorer))
    assert scorer.counters["not_finite"] == len(RESPONSES)


def test_it_loads_what_was_saved(model, tokenizer, tmp_path):
    expected = score(RewardModelScorer(model, tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with RewardModelScorer.load(tmp_path) as scorer:
        assert score(scorer) == expected
    with pytest.raises(ConfigError, match="expected a sequence classifier"):
        RewardModelScorer.load(tmp_path / "nothing")


def test_a_model_or_a_call_that_cannot_score_is_refused_by_name(model, tokenizer):
    scorer = RewardModelScorer(model, tokenizer)
    with pytest.raises(InputError, match="prompts: expected the chat messages"):
        scorer.score(["a"], [""])
    assert scorer.score([], [], prompts=[]) == []
    assert all(map(math.isfinite, scorer.score(["\ud800"], [""], prompts=PROMPTS[:1])))  # half of a surrogate pair
    untold = make_tokenizer(TASK.alphabet, max_length=64)
    untold.chat_template = None
    with pytest.raises(InputError, match="chat template"):
        RewardModelScorer(model, untold)
    model.config.num_labels = 2
    with pytest.raises(InputError, match="expected one label, got 2"):
        RewardModelScorer(model, tokenizer)
    with pytest.raises(ConfigError, match=r"reward\.model\.device: expected one of this machine, got 'nowhere:7'"):
        RewardModelScorer(random_classifier(tokenizer), tokenizer, RewardModelConfig(device="nowhere:7"))
