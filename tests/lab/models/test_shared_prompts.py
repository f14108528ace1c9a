"""K rollouts of a prompt share one pass over it: the same responses, and no pass over the repeated prompts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.models.shared_prompts import generate_sharing_prompts, sharing_prompts

GREEDY = {"do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6, "pad_token_id": 0}


@pytest.fixture(scope="module")
def model() -> Any:
    settings = TinyModelConfig(hidden_size=32, layers=2, heads=2)
    return make_tiny_model(settings, make_tokenizer("0123456789+=", max_length=128), seed=0).eval()


def prompts(lengths: list[int], repeats: int, width: int = 24) -> dict[str, torch.Tensor]:
    """Left-padded random prompts of these lengths, each `repeats` times in a row."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(6, 18, (len(lengths), width), generator=generator)
    mask = (torch.arange(width) >= width - torch.tensor(lengths)[:, None]).long()
    once = {"input_ids": ids * mask, "attention_mask": mask}
    return {name: rows.repeat_interleave(repeats, 0) for name, rows in once.items()}


@contextmanager
def passes(model: Any) -> Iterator[list[int]]:
    """The tokens, padding included, of each pass through a model's first layer."""
    tokens: list[int] = []
    first = model.model.layers[0]
    hook = first.register_forward_hook(lambda module, given, out: tokens.append(given[0].shape[0] * given[0].shape[1]))
    yield tokens
    hook.remove()


def test_responses_are_those_of_generate_and_prompts_are_passed_once(model: Any) -> None:
    given = prompts([24, 17, 20], repeats=4)
    with passes(model) as alone:
        expected = model.generate(**given, **GREEDY)
    with passes(model) as shared:
        made = generate_sharing_prompts(model.generate, model, **given, **GREEDY)
    assert torch.equal(made, expected)
    # 12 rows x 24 tokens, then 5 of each row; shared: 3 x 23 for the cache, the last token of each row, then 5.
    assert sum(alone) == 12 * 24 + 12 * 5
    assert sum(shared) == 3 * 23 + 12 * 1 + 12 * 5


@pytest.mark.parametrize(
    "given",
    [
        prompts([24, 20, 18], repeats=1),
        {name: value[[0, 1, 2]] for name, value in prompts([24, 20], repeats=2).items()},  # twice and once
        prompts([12, 9], repeats=4, width=12),  # short
    ],
)
def test_what_cannot_be_shared_goes_to_generate_as_it_is(model: Any, given: dict[str, torch.Tensor]) -> None:
    rows, width = given["input_ids"].shape
    with passes(model) as passed:
        made = generate_sharing_prompts(model.generate, model, **given, **GREEDY)
    assert sum(passed) == rows * width + rows * 5
    assert torch.equal(made, model.generate(**given, **GREEDY))


@pytest.mark.parametrize("setting", [{"cache_implementation": "static"}, {"use_cache": False}])
def test_a_cache_that_was_chosen_stays(model: Any, setting: dict[str, Any]) -> None:
    given = prompts([24, 20], repeats=2)
    for options in ({**GREEDY, **setting}, {"generation_config": GenerationConfig(**GREEDY, **setting)}):
        with passes(model) as passed:
            made = generate_sharing_prompts(model.generate, model, **given, **options)
        assert sum(passed) >= 4 * 24
        assert torch.equal(made, model.generate(**given, **GREEDY))


def test_a_model_shares_for_the_block_only(model: Any) -> None:
    given = prompts([24, 20], repeats=4)
    with sharing_prompts(model), passes(model) as shared:
        model.generate(**given, **GREEDY)
    with passes(model) as alone:
        model.generate(**given, **GREEDY)
    assert sum(shared) < sum(alone)
    assert "generate" not in vars(model)
