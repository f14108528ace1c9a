"""Anchors inside TRL: the curator sees them with states of the policy of the moment; nothing else does."""

import pytest
import torch
from trl import GRPOTrainer
from trl_parts import Recording, Scripted, curation, data, model, same_weights, tokenizer, trainer, weights_of

from geoalign.adapters.trl import Anchors
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign
from geoalign.errors import ConfigError, InputError
from geoalign.hidden.extract import extract_states, extract_states_from_texts

BATCH = {"per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 10}
OPEN = {"level": 0.01}
# The reward of the trainings is the share of digits: here words are right and digits wrong.
PROMPTS = [f"{n}+{n}=" for n in range(6) for _ in range(4)]
RESPONSES = ["23", "4567", "two", "three"] * 6
ANCHORS = Anchors(PROMPTS, RESPONSES, [0.0, 0.0, 1.0, 1.0] * 6, groups=PROMPTS)


def watching(**options):
    return Scripted(curation, requires=("hidden", "trusted"), **options)


def test_the_batch_is_trained_on_alone_and_sampled_as_without(tmp_path):
    """A curator that changes nothing: bit for bit TRL's own weights, however many anchors it is shown."""
    made = trainer(tmp_path / "anchored", watching(), cls=Recording, extra={"anchors": ANCHORS}, max_steps=2, **BATCH)
    made.train()
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer, max_steps=2, **BATCH)
    plain.train()
    assert same_weights(weights_of(plain), weights_of(made))
    assert [len(rollouts) for rollouts in made.curator.seen] == [32 + 24] * 2
    for step in made.steps:
        assert len(step.rollouts) == len(step.curation.source) == len(step.curation.scores) == 32
        assert step.rollouts.trusted is None
    logged = [entry for entry in made.state.log_history if "geoalign/anchors" in entry]
    assert [entry["geoalign/anchors"] for entry in logged] == [24] * 2


def test_the_states_are_those_of_the_policy_of_the_moment(tmp_path):
    extra = {"anchors": ANCHORS, "hidden_position": "mean"}
    made = trainer(tmp_path, watching(), extra=extra, max_steps=2, per_device_train_batch_size=8)
    made.train()
    first, second = (rollouts.hidden[8:] for rollouts in made.curator.seen)
    expected = extract_states_from_texts(model(), tokenizer(), PROMPTS, RESPONSES, position="mean")
    torch.testing.assert_close(first, expected.states, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(first, second, atol=1e-5)
    seen = made.curator.seen[0]
    assert seen.lengths[8:].tolist() == expected.lengths.tolist()
    # A response and its end token: those of the same text have the same key.
    assert seen.response_keys[8:].unique().numel() == 4
    assert (seen.rewards[8:] == torch.tensor([0.0, 0.0, 1.0, 1.0] * 6)).all()
    assert seen.groups[8:].tolist() == [2 + row // 4 for row in range(24)]


def test_conversations_and_responses_that_were_cut_off(tmp_path):
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    anchors = Anchors(chats, RESPONSES, ANCHORS.rewards, PROMPTS, truncated=[True] + [False] * 23)
    dataset = data(conversational=True)
    made = trainer(tmp_path, watching(), dataset=dataset, extra={"anchors": anchors}, max_steps=1)
    made.train()
    core = tokenizer()
    prompts = [core(f"<u>{prompt}<a>", add_special_tokens=False)["input_ids"] for prompt in PROMPTS]
    # The template's markers are single tokens; the tokenizer of these tests splits them into letters.
    texts = core.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    assert texts[0] == "<u>0+0=<a>"
    ends = [[]] + [[core.eos_token_id]] * 23
    responses = [[*core(text)["input_ids"], *end] for text, end in zip(RESPONSES, ends, strict=True)]
    expected = extract_states(model(), prompts, responses)
    torch.testing.assert_close(made.curator.seen[0].hidden[8:], expected.states, atol=1e-5, rtol=1e-5)
    assert made.curator.seen[0].lengths[8:10].tolist() == [2, 5]


def test_resume_reaches_the_same_weights_with_the_same_anchors(tmp_path):
    saving = {**BATCH, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}

    def made(anchors):
        return trainer(tmp_path, Denoise(**OPEN), cls=Recording, extra={"anchors": anchors}, **saving)

    whole, resumed = made(ANCHORS), made(ANCHORS)
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert same_weights(weights_of(whole), weights_of(resumed))
    scores = [each.steps[-1].curation.scores for each in (whole, resumed)]
    torch.testing.assert_close(*scores, equal_nan=True, atol=0, rtol=0)
    others = Anchors(PROMPTS, RESPONSES, [1.0, 0.0, 1.0, 1.0] * 6, PROMPTS)
    for given in (others, None):
        with pytest.raises(InputError, match=r"anchors: expected those of .*checkpoint-2"):
            made(given).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_answers_of_anchors(tmp_path):
    def answers(rows):
        return [row["completion"][:1] for row in rows]

    def seen(anchors, field):
        extra = {"anchors": anchors, "rollout_fields": {"answers": field}}
        made = trainer(tmp_path, watching(), extra=extra, max_steps=1)
        made.train()
        return made.curator.seen[0].answers

    found = seen(ANCHORS, answers)
    assert len(found) == 8 + 24
    assert found[8:12] == ["2", "4", "t", "t"]
    given = Anchors(PROMPTS, RESPONSES, ANCHORS.rewards, PROMPTS, answers=["own", None] * 12)
    assert seen(given, "gold")[8:10] == ["own", None]
    with pytest.raises(ConfigError, match=r"anchors: expected answers, .* column 'gold' of the data set; got none"):
        seen(ANCHORS, "gold")
    with pytest.raises(ConfigError, match=r"anchors: expected answers, .* reads 'gold' of the data set; got none"):
        seen(ANCHORS, lambda rows: [row["gold"] for row in rows])


def test_refused_by_name(tmp_path):
    extra = {"anchors": ANCHORS}
    with pytest.raises(ConfigError, match=r"anchors: expected with a curator .*, got none"):
        trainer(tmp_path, None, extra=extra)
    with pytest.raises(ConfigError, match=r"anchors: expected a curator that reads trusted rewards.* got GeoAlign"):
        trainer(tmp_path, GeoAlign(), extra=extra)
