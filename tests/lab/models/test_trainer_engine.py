"""Evaluations by the trainer's own engine, with a stand-in for vLLM's."""

import inspect
from types import SimpleNamespace

import pytest
from trl.generation.vllm_generation import VLLMGeneration

from geoalign.lab.models.engines import Generated, TrainerEngine, end_tokens, engine_of


class Echo:
    def __init__(self):
        self.temperature = 0.7
        self.top_p = 0.9
        self.top_k = 50
        self.min_p = 0.1
        self.repetition_penalty = 1.1
        self.max_completion_length = 99
        self.synced = 0
        self.calls = []

    def sync_weights(self):
        self.synced += 1

    def generate(self, prompts, images, num_generations):
        settings = {name: value for name, value in vars(self).items() if name not in ("synced", "calls")}
        self.calls.append({"images": images, "num_generations": num_generations, **settings})
        if not prompts:
            raise RuntimeError("nothing to generate")
        completions = [ids[::-1] for ids in prompts]
        return prompts, completions, [[[0.0] for _ in ids] for ids in completions], None


def trainer_with(engine):
    tokenizer = SimpleNamespace(eos_token_id=9, decode=lambda ids, skip_special_tokens: ",".join(map(str, ids)))
    return SimpleNamespace(
        vllm_generation=engine,
        _last_loaded_step=-1,
        state=SimpleNamespace(global_step=0),
        model=SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=8)),
        processing_class=tokenizer,
    )


def test_settings_of_the_evaluation_hold_while_it_generates():
    engine = Echo()
    before = dict(vars(engine))
    trainer = TrainerEngine(trainer_with(engine))
    # Ends with the first of two tokens, the tokenizer's 9 and the model's 8.
    prompts = [[8, 4, 9, 2, 3], [4], [8, 4]]
    found = trainer.generate(prompts, [0, 1, 2], temperature=0.5, max_new_tokens=7)
    assert found == [Generated("3,2,9", 3, False), Generated("4", 1, True), Generated("4,8", 2, False)]
    asked = {"images": None, "num_generations": 1, "max_completion_length": 7}
    drawn = {"temperature": 0.5, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    assert engine.calls == [asked | drawn]
    left = {name: value for name, value in vars(engine).items() if name not in ("synced", "calls")}
    assert left == {name: before[name] for name in left}


def test_weights_are_sent_once_for_each_step():
    engine = Echo()
    trainer = trainer_with(engine)
    found = engine_of(trainer)
    for step, synced in ((0, 1), (0, 1), (3, 2)):
        trainer.state.global_step = step
        found.generate([[1]], [0], temperature=1.0, max_new_tokens=1)
        assert engine.synced == synced
        assert trainer._last_loaded_step == step


def test_trl_has_what_is_used_of_it():
    assert {"prompts", "images", "num_generations"} <= set(inspect.signature(VLLMGeneration.generate).parameters)
    assert hasattr(VLLMGeneration, "sync_weights")
    known = set(inspect.signature(VLLMGeneration.__init__).parameters)
    names = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length"}
    assert names <= known


@pytest.mark.parametrize(
    ("named", "own", "expected"),
    [
        ([7, 9], 7, {7, 9}),
        (5, 7, {5, 7}),
        (None, 7, {7}),
        (None, None, set()),
    ],
)
def test_every_token_that_ends_a_response_counts(named, own, expected):
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=named))
    assert end_tokens(model, SimpleNamespace(eos_token_id=own)) == expected
