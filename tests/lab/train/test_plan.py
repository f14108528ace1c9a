"""The plan of a training: which prompts it uses in which order, prompts that are too long, layers of the model."""

import io
from typing import Any

import pytest
from transformers import LlamaConfig

from geoalign.answers.messages import rendered, token_ids
from geoalign.console.terminal import Console
from geoalign.errors import ConfigError
from geoalign.lab.data.task import Demonstration, Problem
from geoalign.lab.models.language_model import make_tokenizer
from geoalign.lab.models.settings import PretrainedModelConfig, TinyModelConfig
from geoalign.lab.train.options import generation_shape, trainer_options
from geoalign.lab.train.plan import check_depth, plan_prompts, prompt_lengths, short_enough
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.settings import RunConfig

TOKENIZER = make_tokenizer("abc", max_length=64)


def grpo(tmp_path: Any, **values: Any) -> Any:
    return trainer_options(
        "grpo", {"per_device_train_batch_size": 8, "num_generations": 4, **values}, seed=3, folder=tmp_path
    )


def test_prompts_are_laid_out_epoch_after_epoch(tmp_path: Any) -> None:
    options = grpo(tmp_path, max_steps=10)  # 5 generations x 4 prompts = 20 places
    order, updates = plan_prompts(options, generation_shape(options), problems=9)  # 2 generations an epoch
    assert updates == 10
    assert len(order) == 20
    epochs = [order[start : start + 8] for start in (0, 8)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert epochs[0] != epochs[1]
    longer = grpo(tmp_path, max_steps=12)
    assert plan_prompts(longer, generation_shape(longer), problems=9)[0][:20] == order
    with pytest.raises(ConfigError, match=r"grpo\.num_train_epochs: expected at least one update, got 0"):
        plan_prompts(grpo(tmp_path, num_train_epochs=0), generation_shape(options), problems=9)


def problems(*texts: str) -> list[Problem]:
    return [Problem(text, ({"role": "user", "content": text},), "") for text in texts]


def test_lengths_are_those_of_the_chat_template() -> None:
    short, long = problems("a", "abcabc")
    assert prompt_lengths([], TOKENIZER, {}) == []
    first, second = prompt_lengths([short, long], TOKENIZER, {})
    assert second == first + 5
    assert first == len(token_ids([rendered(short.prompt, TOKENIZER)], TOKENIZER)[0])


def test_prompts_within_the_limit_stay_in_their_order() -> None:
    def kept(items: Any, limit: int) -> list[Any]:
        config = parse_run_config({"max_prompt_length": limit})
        return short_enough(items, config, TOKENIZER, Console(file=said, width=100), what="prompts")

    said, items = io.StringIO(), problems("abc", "abcabc", "a", "abcab")
    edge = prompt_lengths(items[:1], TOKENIZER, {})[0]
    assert [item.id for item in kept(items, edge)] == ["abc", "a"]
    assert said.getvalue() == f"2 of 4 prompts left out: more than max_prompt_length = {edge} tokens\n"
    assert len(kept([Demonstration(item.prompt, "b" * 50) for item in items], edge)) == 2
    with pytest.raises(ConfigError, match="max_prompt_length: expected a limit that some of the 2 prompts keep, got 2"):
        kept(problems("abc", "abcab"), 2)


@pytest.fixture
def saved(tmp_path):
    LlamaConfig(num_hidden_layers=3, hidden_size=16, num_attention_heads=2).save_pretrained(tmp_path)
    return PretrainedModelConfig(path=str(tmp_path))


def test_layers_that_are_there_pass_and_others_are_refused(saved):
    check_depth(RunConfig(model=saved, hidden_layer=[0, 3, 0.5]))
    check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=2))
    # The last layer needs no depth: nothing is read.
    check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere")))
    with pytest.raises(ConfigError, match=r"hidden_layer: expected at most 3, .* got 4"):
        check_depth(RunConfig(model=saved, hidden_layer=[1, 4]))
    with pytest.raises(ConfigError, match="hidden_layer: expected at most 2, the model's depth, got 3"):
        check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=3))
    with pytest.raises(ConfigError, match=r"model\.path: expected a model, got '/nowhere'"):
        check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere"), hidden_layer=1))
