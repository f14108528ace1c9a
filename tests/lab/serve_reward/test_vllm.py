"""Against a server that has vLLM's formats; vLLM itself was not run."""

import math

import pytest
from fastapi import FastAPI, Request, Response

from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.models.models import make_tokenizer
from geoalign.lab.rewards.served_model import ServedRewardModel

PROMPT = [{"role": "user", "content": "abc"}]


class FakeVLLM:
    """The endpoints of a served classifier with one label: its raw output is the length of the text."""

    def __init__(self, *, longest=60):
        self.app, self.bodies, self.answer = FastAPI(), [], None
        self.app.get("/v1/models")(self.models)
        self.app.post("/classify")(self.classify)
        self.app.post("/pooling")(self.pooling)
        self.longest = longest

    async def models(self):
        card = {"id": "org/model", "object": "model", "owned_by": "vllm", "max_model_len": self.longest}
        return {"object": "list", "data": [card]}

    def read(self, body):
        self.bodies.append(body)
        if any(len(text) > 500 for text in body["input"]):
            message = "This model's maximum context length is 60 tokens."
            return Response(f'{{"error": {{"message": "{message}", "code": 400}}}}', status_code=400)
        return None

    async def classify(self, request: Request):
        body = await request.json()
        if refused := self.read(body):
            return refused
        if self.answer is not None:
            return self.answer
        data = [
            {"index": index, "label": "LABEL_0", "probs": [float(len(text))], "num_classes": 1}
            for index, text in enumerate(body["input"])
        ]
        # In whatever order: `index` says what belongs where.
        return {"id": "classify-1", "object": "list", "created": 1, "model": "org/model", "data": data[::-1]}

    async def pooling(self, request: Request):
        body = await request.json()
        if refused := self.read(body):
            return refused
        if self.answer is not None:
            return self.answer
        data = [
            {"index": index, "object": "pooling", "data": [float(len(text))]}
            for index, text in enumerate(body["input"])
        ]
        return {"id": "pool-1", "object": "list", "created": 1, "model": "org/model", "data": data}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    made = make_tokenizer("abcdefghijklmnopqrstuvwxyz ", max_length=200)
    made.save_pretrained(folder)
    return str(folder), made


def client(url, tokenizer, api="vllm", **values):
    return ServedRewardModel(RewardModelConfig(url=url, api=api, tokenizer=tokenizer[0], patience=5, **values))


def score(model, responses):
    return model.score(responses, [""] * len(responses), prompts=[PROMPT] * len(responses))


@pytest.mark.parametrize("api", ["vllm", "vllm_pooling"])
def test_dialogues_are_sent_in_the_chat_template_and_raw_outputs_come_back(serve, tokenizer, api):
    fake = FakeVLLM()
    with client(serve(app=fake.app).url, tokenizer, api, batch_size=2) as model:
        model.check()
        found = score(model, ["a", "bb", "ccc"])
    texts = [
        tokenizer[1].apply_chat_template([*PROMPT, {"role": "assistant", "content": text}], tokenize=False)
        for text in ("a", "bb", "ccc")
    ]
    assert [body["input"] for body in fake.bodies] == [texts[:2], texts[2:]]
    assert found == [float(len(text)) for text in texts]
    for body in fake.bodies:
        assert (body["model"], body["add_special_tokens"], body["use_activation"]) == ("org/model", False, False)
        assert body.get("task") == ("classify" if api == "vllm_pooling" else None)


def test_what_is_too_long_is_left_out_of_the_request(serve, tokenizer):
    fake = FakeVLLM()
    with client(serve(app=fake.app).url, tokenizer) as model:
        found = score(model, ["a", "b" * 600, "c"])
        assert [math.isnan(value) for value in found] == [False, True, False]
        assert model.counters == {"scored": 2, "too_long": 1, "empty": 0, "not_finite": 0, "unreachable": 0}
    with client(serve(app=fake.app).url, tokenizer, max_length=1) as model:
        assert math.isnan(score(model, ["a"])[0])  # the shorter limit counts; nothing is asked
    assert len(fake.bodies) == 1


def test_of_one_output_per_token_the_last_counts(serve, tokenizer):
    fake = FakeVLLM()
    fake.answer = {"data": [{"index": 0, "data": [[0.5], [-2.0]]}, {"index": 1, "data": [[0.5], [3.0], [4.0]]}]}
    with client(serve(app=fake.app).url, tokenizer, "vllm_pooling") as model:
        assert score(model, ["a", "b"]) == [-2.0, 4.0]


def results(*probs):
    return {"data": [{"index": index, "probs": one, "num_classes": len(one)} for index, one in enumerate(probs)]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (results([0.4, 0.6], [0.1, 0.9]), r"expected one output a response, got \[0.4, 0.6\]"),
        (results([1.0], [1.0]), "expected raw outputs, got 1.0 for each of 2 responses"),
        (results([1.0]), "expected 2 results"),
        ({"data": [{"index": 0, "probs": [1.0]}, {"index": 0, "probs": [2.0]}]}, "expected the results 0 to 1"),
        (results(["1"], [2.0]), "expected a number or null"),
        (results([True], [2.0]), "expected a number or null"),
        (results([], [2.0]), "expected one output a response"),
        ({"data": [{"index": [0], "probs": [1.0]}, {"index": {}, "probs": [2.0]}]}, "expected the results 0 to 1"),
        ({"data": [{"index": False, "probs": [1.0]}, {"index": True, "probs": [2.0]}]}, "expected the results 0 to 1"),
        ({"data": [{"index": 0, "probs": 1.0}, {"index": 1, "probs": None}]}, "expected one output a response"),
        ({"data": [1.0, 2.0]}, "expected 2 results"),
        ({"data": None}, "expected 2 results"),
        ({"error": "x"}, "expected 2 results"),
    ],
)
def test_answers_that_mean_something_else_are_errors(serve, tokenizer, answer, message):
    fake = FakeVLLM()
    fake.answer = answer
    with client(serve(app=fake.app).url, tokenizer) as model, pytest.raises(ServiceError, match=message):
        score(model, ["a", "b"])


def test_the_message_of_a_refusal_is_passed_on(serve, tokenizer):
    fake = FakeVLLM(longest=100_000)
    with (
        client(serve(app=fake.app).url, tokenizer) as model,
        pytest.raises(ServiceError, match="HTTP 400: This"),
    ):
        score(model, ["b" * 600])


def test_a_server_of_another_kind_and_a_missing_tokenizer_are_named(serve, tokenizer, tmp_path):
    with (
        client(serve(app=FastAPI()).url, tokenizer) as model,
        pytest.raises(ConfigError, match="models: expected"),
    ):
        model.check()
    with (
        client(serve(app=FakeVLLM().app).url, (str(tmp_path / "none"), None)) as model,
        pytest.raises(ConfigError, match=r"reward\.model\.tokenizer: expected a tokenizer"),
    ):
        model.check()


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {"data": []},
        {"data": [5]},
        {"data": {"id": "a"}},
        {"data": [{"id": 5}]},
        {"data": [{"id": "a", "max_model_len": True}]},
        {"data": [{"id": "a", "max_model_len": -1}]},
        {"data": [{"id": "a", "max_model_len": "60"}]},
    ],
)
def test_a_list_of_models_that_is_none_is_an_error(serve, tokenizer, reply):
    app = FastAPI()

    @app.get("/v1/models")
    async def models():
        return reply

    with client(serve(app=app).url, tokenizer) as model, pytest.raises(ServiceError, match="expected vLLM's list"):
        score(model, ["a"])
