import math
from types import SimpleNamespace

import pytest
import torch

from geoalign.answers.verified import VerifiedReward
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.models.accuracy import evaluation_values
from geoalign.lab.models.answering import ResponseRequest, Sampling, answer, answer_together, requests_of
from geoalign.lab.models.engines import Generated, TransformersEngine
from geoalign.lab.models.process_setup import Processes


def evaluated(model, tokenizer, problems, source, *, batch_size, max_new_tokens, **options):
    """The values of an evaluation's line, and its `rows`."""
    evaluation_set = EvaluationSet(
        name="set",
        kind="benchmark" if source.binary else "dialogue",
        problems=problems,
        samples=options.get("samples", 1),
        max_new_tokens=max_new_tokens,
    )
    rows = answer_together(
        TransformersEngine(model, tokenizer),
        requests_of(evaluation_set, tokenizer),
        source,
        model="model",
        evaluation_set=evaluation_set,
        sampling=Sampling(options.get("seed", 0), "set", options.get("temperature", 0.0)),
        processes=options.get("processes", Processes()),
        max_unscored=1.0,
        batch_size=batch_size,
        progress=options.get("progress", lambda done: None),
    )
    gold = options.get("gold", [None] * len(rows))
    return SimpleNamespace(rows=rows, **evaluation_values(evaluation_set, rows, gold))


def _problems(count):
    # Of different lengths, so that a batch holds padding.
    problems = []
    for number in range(count):
        power = 10**number
        asked = {"role": "user", "content": f"{power}+{number}="}
        problems.append(Problem(f"p{number}", (asked,), str(power + number)))
    return problems


class Script:
    """Stands for a model: writes a fixed response to each prompt and notes how it was asked."""

    device = torch.device("cpu")
    training = True

    def __init__(self, tokenizer, response_to):
        self.tokenizer = tokenizer
        self.response_to = response_to
        self.calls = []
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
    first, second = map(int, prompt.rstrip("=").split("+"))
    answer = first + second if second % 2 == 0 else 0
    return f"\\boxed{{{answer}}}"


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_accuracy_counts_the_responses_that_are_correct(tokenizer, batch_size):
    seen = []
    model = Script(tokenizer, _even_only)
    options = {"batch_size": batch_size, "max_new_tokens": 20}
    result = evaluated(model, tokenizer, _problems(5), Exact(), progress=seen.append, **options)
    # Numbers 0, 2 and 4 of 0..4 are even.
    assert (result.correct, result.count, result.accuracy) == (3, 5, 0.6)
    assert [row.id for row in result.rows] == ["p0", "p1", "p2", "p3", "p4"]
    assert [row.correct for row in result.rows] == [True, False, True, False, True]
    assert result.rows[0].response == r"\boxed{1}"
    # Nine characters and the end.
    assert (result.rows[0].tokens, result.rows[0].truncated) == (10, False)
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
    gold = [0.1, None, 0.5]
    result = evaluated(model, tokenizer, _problems(3), source, batch_size=2, max_new_tokens=20, gold=gold)
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


def test_a_row_says_why_its_answer_was_not_read():
    """Whatever is scored beside it: the reason is that of the response."""
    texts = [r"\boxed{1}", "no box", r"\boxed{2}", r"\boxed{" + "1+" * 600 + "1}"]
    problem = Problem("p", ({"role": "user", "content": "?"},), "1")
    evaluation_set = EvaluationSet(name="s", kind="benchmark", problems=[problem], samples=4, max_new_tokens=9)
    engine = SimpleNamespace(generate=lambda *_, **__: [Generated(text, 1, False) for text in texts])
    requests = [ResponseRequest(problem, (1,), sample) for sample in range(4)]
    with VerifiedReward(workers=1) as source:
        rows = answer(
            engine, requests, source, model="m", evaluation_set=evaluation_set, sampling=Sampling(0, "s", 1.0)
        )
    assert [(row.sample, row.reward, row.correct, row.reason) for row in rows] == [
        (0, 1.0, True, None),
        (1, 0.0, False, "no_answer"),
        (2, 0.0, False, None),
        (3, 0.0, False, "refused"),
    ]
