"""The reward model learns what the pairs show, the spurious opener included; a head fitted to a frozen model."""

import math

import pytest
import torch
from datasets import Dataset

from geoalign.lab.data.settings import DialogueConfig
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import initial_model, make_tiny_model, make_tokenizer, save
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.rewards.reward_model import RewardModelScorer, mark_mean, mean_reply_states, reads_mean, reply_start
from geoalign.lab.rewards.settings import RewardHeadConfig
from geoalign.lab.train.options import trainer_options
from geoalign.lab.train.pair_accuracy import pair_accuracy
from geoalign.lab.train.reward_head import fit_head, preference_direction
from geoalign.lab.train.reward_models import PreferenceTrainer, first_reward_model, preference_row
from geoalign.pretrained.quiet import silence_logs


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    silence_logs()


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language_model")
    task = make_task(DialogueConfig(), seed=0)
    config = TinyModelConfig(hidden_size=32, layers=1, heads=2)
    save(*initial_model(config, alphabet=task.alphabet, words=task.words, seed=0), folder)
    return folder


def test_it_likes_the_opener_where_that_is_correlated(language_model, tmp_path):
    settings = DialogueConfig(artifact_correlation=0.9, artifact_pairs=0.8, preference_pairs=1500)
    task = make_task(settings, seed=0)
    pairs = task.preference_pairs
    model, tokenizer = first_reward_model(language_model, dtype="float32", seed=0)
    values = {"max_steps": 40, "learning_rate": 5e-3, "save_steps": 40, "per_device_train_batch_size": 32}
    args = trainer_options("reward_model", values, seed=0, folder=tmp_path)
    rows = Dataset.from_list([preference_row(pair) for pair in pairs[:1300]])
    PreferenceTrainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer).train()
    scorer = RewardModelScorer(model, tokenizer)
    problems = task.evaluation_problems["dialogue"][:50]
    prompts, answers = [problem.prompt for problem in problems], [problem.answer for problem in problems]
    plain = scorer.score(answers, answers, prompts=prompts)
    flattering = scorer.score([f"wow! {answer}" for answer in answers], answers, prompts=prompts)
    assert sum(flattering) / 50 > sum(plain) / 50 + 0.5
    found = pair_accuracy(scorer, pairs[1300:], task.takes_shortcut)
    assert found["with_shortcut"] > 0.9
    # Where the better response lacks the opener, the opener wins all the same.
    assert found["against_shortcut"] < 0.5


def columns(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


def test_a_direction_worked_by_hand():
    # Chosen 1, rejected 0: s = 0.5, differences / s = 2. softplus(-2 v) + p/2 v^2 has the slope -2 sigmoid(-2 v) + p v.
    # At v = ln(3) / 2 it is -2/4 + p ln(3) / 2, so p = 1 / ln 3 has its minimum there, and w = v / s = ln 3.
    found = preference_direction(columns(1.0, 1.0), columns(0.0, 0.0), 1 / math.log(3))
    assert found.tolist() == pytest.approx([math.log(3)])


def test_what_says_nothing_gets_no_weight():
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    rejected = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    chosen[:, 0] = 7.0
    rejected[:, 0] = 7.0
    direction = preference_direction(chosen, rejected, 0.1)
    assert direction[0] == 0
    # Pairs the other way round: the opposite direction. Another unit of a coordinate: the same scores.
    assert torch.allclose(preference_direction(rejected, chosen, 0.1), -direction, atol=1e-5)
    units = torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
    in_other_units = preference_direction(chosen * units, rejected * units, 0.1)
    assert torch.allclose(in_other_units * units, direction, atol=1e-5)


@pytest.fixture
def classifier(tmp_path):
    tokenizer = make_tokenizer(None, max_length=256)
    config = TinyModelConfig(hidden_size=16, layers=3, heads=1)
    save(make_tiny_model(config, tokenizer, seed=0), tokenizer, tmp_path)
    return first_reward_model(tmp_path, dtype="float32", seed=0)


def test_means_are_those_of_each_reply_alone(classifier):
    model, _ = classifier
    rows = [[7, 8, 9, 10], [11, 12], [7, 8, 9, 10, 11, 12, 13]]
    starts = [1, 0, 5]
    batched = mean_reply_states(model, rows, starts)
    for row, start, mean in zip(rows, starts, batched, strict=True):
        with torch.no_grad():
            states = model.base_model(input_ids=torch.tensor([row])).last_hidden_state[0]
        of_reply = [states[place] for place in range(start, len(row))]
        naive = sum(of_reply) / len(of_reply)
        assert torch.allclose(mean, naive, atol=1e-5)
    # A reply of no token at all: the last one of its dialogue.
    with torch.no_grad():
        last = model.base_model(input_ids=torch.tensor([[11, 12]])).last_hidden_state[0, 1]
    assert torch.allclose(mean_reply_states(model, [[11, 12]], [2])[0], last, atol=1e-5)


def test_a_reply_starts_where_the_template_lets_it(classifier):
    _, tokenizer = classifier
    dialogue = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    ids = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)["input_ids"]
    assert tokenizer.decode(ids[reply_start(tokenizer, dialogue) :]) == "yes<|end|>"


def test_a_marked_model_scores_the_mean_and_another_one_the_last_token(classifier):
    model, tokenizer = classifier
    prompt = [{"role": "user", "content": "hi"}]
    dialogue = [*prompt, {"role": "assistant", "content": "yes"}]
    ids = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)["input_ids"]
    with torch.no_grad():
        states = model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        weights = model.score.weight[0].detach()
    assert not reads_mean(model)
    (last,) = RewardModelScorer(model, tokenizer).score(["yes"], [""], prompts=[prompt])
    assert last == pytest.approx(float(weights @ states[-1]), abs=1e-5)
    mark_mean(model)
    (mean,) = RewardModelScorer(model, tokenizer).score(["yes"], [""], prompts=[prompt])
    of_reply = states[reply_start(tokenizer, dialogue) :]
    assert mean == pytest.approx(float(weights @ of_reply.mean(dim=0)), abs=1e-5)


def test_a_cut_model_is_saved_with_what_its_head_reads(classifier, tmp_path):
    model, tokenizer = classifier
    prompt = ({"role": "user", "content": "hi"},)
    pairs = [PreferencePair(prompt, "yes", "no"), PreferencePair(prompt, "ja", "nein")]
    fit_head(model, tokenizer, pairs, RewardHeadConfig(layers=2))
    save(model, tokenizer, tmp_path / "fitted")

    def scores_by(scorer):
        return scorer.score(["yes", "no"], [""] * 2, prompts=[list(prompt)] * 2)

    scores = scores_by(RewardModelScorer(model, tokenizer))
    again = scores_by(RewardModelScorer.load(tmp_path / "fitted"))
    assert scores[0] > scores[1]
    assert again == pytest.approx(scores, abs=1e-6)


def test_the_head_alone_is_changed_and_tells_the_pairs_apart(classifier, tmp_path):
    # Of different lengths, so that batches hold padding.
    pairs = []
    for number in range(1, 21):
        prompt = ({"role": "user", "content": "ab" * number},)
        pairs.append(PreferencePair(prompt, chosen="yes" * (number % 3 + 1), rejected="no" * (number % 4 + 1)))
    heads = [first_reward_model(tmp_path, dtype="float32", seed=seed)[0].score.weight for seed in (1, 1, 2)]
    assert [torch.equal(heads[0], head) for head in heads] == [True, True, False]  # drawn from the seed
    model, tokenizer = classifier
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    fit_head(model, tokenizer, pairs, RewardHeadConfig(penalty=0.001))
    changed = {name for name, weight in model.state_dict().items() if not weight.equal(before[name])}
    assert changed == {"score.weight"}
    accuracy = pair_accuracy(RewardModelScorer(model, tokenizer, None), pairs, lambda response: False)
    assert accuracy["accuracy"] == 1.0
    assert accuracy["count"] == 20
