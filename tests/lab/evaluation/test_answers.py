import math
from types import SimpleNamespace

import pytest
import torch

from geoalign.lab.data.task import Problem
from geoalign.lab.models.accuracy import evaluation_values
from geoalign.lab.models.answering import Sampling, answer_together, prompts_of, requests_of
from geoalign.lab.models.engines import TransformersEngine
from geoalign.lab.models.process_setup import Processes


def evaluated(model, tokenizer, problems, source, *, batch_size, max_new_tokens, **options):
    """The values of an evaluation's line, and its answers as `rows`."""
    samples = options.get("samples", 1)
    answers = answer_together(
        options.get("engine") or TransformersEngine(model, tokenizer),
        requests_of(prompts_of(problems, tokenizer), samples),
        source,
        Sampling(options.get("seed", 0), "set", options.get("temperature", 0.0), max_new_tokens),
        options.get("processes", Processes()),
        max_unscored=1.0,
        what="the set",
        batch_size=batch_size,
        progress=options.get("progress", lambda done: None),
    )
    known = options.get("gold_utility", lambda problem, response: None)
    gold = [known(answer.prompt.problem, answer.response) for answer in answers]
    return SimpleNamespace(rows=answers, **evaluation_values(answers, samples, binary=source.binary, gold=gold))


def _problems(count):
    # Of different lengths, so that a batch holds padding.
    return [
        Problem(f"p{number}", ({"role": "user", "content": f"{10**number}+{number}="},), str(10**number + number))
        for number in range(count)
    ]


class Script:
    """Stands for a model: writes a fixed response to each prompt and notes how it was asked."""

    device = torch.device("cpu")
    training = True

    def __init__(self, tokenizer, response_to):
        self.tokenizer, self.response_to, self.calls = tokenizer, response_to, []
        self.part = torch.nn.Dropout()

    def modules(self):
        return iter([self.part])

    def eval(self):
        self.part.eval()

    def generate(self, *, input_ids, attention_mask, max_new_tokens, **options):
        assert not self.part.training
        self.calls.append(options)
        end, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        rows = []
        for ids, mask in zip(input_ids, attention_mask, strict=True):
            assert mask.tolist() == sorted(mask.tolist()), "padding stands on the left"
            prompt = self.tokenizer.decode(ids[mask.bool()], skip_special_tokens=True)
            tokens = self.tokenizer(self.response_to(prompt), add_special_tokens=False)["input_ids"] + [end]
            rows.append((tokens + [pad] * max_new_tokens)[:max_new_tokens])
        return torch.cat([input_ids, torch.tensor(rows)], dim=1)


class Exact:
    binary = True

    def score(self, responses, answers, *, prompts=None):
        return [float(response == f"\\boxed{{{answer}}}") for response, answer in zip(responses, answers, strict=True)]


def _even_only(prompt):
    first, second = prompt.rstrip("=").split("+")
    return f"\\boxed{{{int(first) + int(second)}}}" if int(second) % 2 == 0 else "\\boxed{0}"


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_accuracy_counts_the_responses_that_are_correct(tokenizer, batch_size):
    seen, options = [], {"batch_size": batch_size, "max_new_tokens": 20}
    model = Script(tokenizer, _even_only)
    result = evaluated(model, tokenizer, _problems(5), Exact(), progress=seen.append, **options)
    # Numbers 0, 2 and 4 of 0..4 are even.
    assert (result.correct, result.count, result.accuracy) == (3, 5, 0.6)
    assert [(row.prompt.problem.id, row.correct) for row in result.rows] == [(f"p{n}", n % 2 == 0) for n in range(5)]
    assert result.rows[0].response == r"\boxed{1}"
    # Nine characters and the end.
    assert (result.rows[0].generated.tokens, result.rows[0].generated.truncated) == (10, False)
    assert seen[-1] == 5


class Length:
    """A continuous source: the length of the response; none for an empty one. Notes its prompts."""

    binary = False

    def __init__(self):
        self.prompts = []

    def score(self, responses, answers, *, prompts=None):
        self.prompts += prompts
        return [float(len(response)) if response else math.nan for response in responses]


def test_a_continuous_reward_has_a_mean_and_no_accuracy(tokenizer):
    source, texts = Length(), {0: "1", 1: "", 2: "12345"}
    model = Script(tokenizer, lambda prompt: texts[int(prompt.rstrip("=").split("+")[1])])

    def gold(problem, response):
        return None if problem.id == "p1" else len(response) / 10

    result = evaluated(model, tokenizer, _problems(3), source, batch_size=2, max_new_tokens=20, gold_utility=gold)
    # Lengths 1 and 5; the empty response has no score, and p1 no gold utility: (0.1 + 0.5) / 2.
    assert result.reward == 3.0
    assert result.gold_utility == pytest.approx(0.3)
    assert (result.accuracy, result.correct, result.pass_at_k, result.count) == (None, None, None, 3)
    assert source.prompts == [list(problem.prompt) for problem in _problems(3)]


DRAWN = {"max_new_tokens": 8, "samples": 2, "temperature": 1.0, "seed": 1}


def _responses(model, tokenizer, batch_size=3, problems=slice(4)):
    result = evaluated(model, tokenizer, _problems(4)[problems], Exact(), batch_size=batch_size, **DRAWN)
    return [row.response for row in result.rows]


def test_an_evaluation_leaves_no_trace(model, tokenizer):
    model.train()
    model.model.layers[1].eval()
    modes = [module.training for module in model.modules()]
    before = torch.get_rng_state()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    side = tokenizer.padding_side = "right"
    _responses(model, tokenizer)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)
    assert tokenizer.padding_side == side
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_what_is_drawn_depends_on_neither_the_batch_nor_the_problems_beside_it(model, tokenizer):
    together = _responses(model, tokenizer, batch_size=8)
    assert _responses(model, tokenizer, batch_size=1) == together
    assert _responses(model, tokenizer, problems=slice(2, 3)) == together[4:6]


class OneOf(Processes):
    """One of several processes that come one after another: what the earlier ones made is kept in `made`."""

    def gather(self, items):
        MADE.append(items)
        return [item for part in MADE for item in part]


MADE = []


@pytest.mark.parametrize("count", [2, 3])
def test_several_processes_give_the_answers_of_one(model, tokenizer, count):
    options = {"batch_size": 3, **DRAWN}
    alone = evaluated(model, tokenizer, _problems(4), Length(), **options)
    assert len({row.response for row in alone.rows}) == 8
    MADE.clear()
    for rank in range(count):
        shared = evaluated(model, tokenizer, _problems(4), Length(), processes=OneOf(rank, count), **options)
    assert [len(part) for part in MADE] == {2: [4, 4], 3: [3, 3, 2]}[count]
    assert shared == alone
