"""Labelled rollouts inside TRL: the curator sees them with states of the policy of the moment; nothing else does."""

import pytest
import torch
from trl import GRPOTrainer
from trl_parts import (
    LABELLED,
    PROMPTS,
    RESPONSES,
    Recording,
    Scripted,
    curated_batch,
    curation,
    data,
    model,
    same_weights,
    tokenizer,
    trainer,
    weights_of,
)

from geoalign.adapters.trl import LabelledRollouts
from geoalign.curators.geoalign import GeoAlign
from geoalign.errors import ConfigError
from geoalign.hidden.extract import extract_states, extract_states_from_texts


def watching():
    return Scripted(curation, requires=("hidden", "trusted"))


def test_the_batch_is_trained_on_alone_and_the_states_are_those_of_the_policy_of_the_moment(tmp_path):
    """A curator that changes nothing: bit for bit TRL's own weights, however many labelled rollouts it is shown."""
    extra = {"labelled_rollouts": LABELLED, "hidden_position": "mean", "log_metrics": "all"}
    made = trainer(tmp_path / "labelled_run", watching(), cls=Recording, extra=extra)
    made.train()
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer)
    plain.train()
    assert same_weights(weights_of(plain), weights_of(made))
    assert [len(rollouts) for rollouts in made.curator.seen] == [8 + 24] * 2
    for step in made.steps:
        assert len(step.rollouts) == len(step.curation.source) == len(step.curation.scores) == 8
        assert step.rollouts.trusted is None
    logged = [entry for entry in made.state.log_history if "geoalign/labelled_rollouts" in entry]
    assert [entry["geoalign/labelled_rollouts"] for entry in logged] == [24] * 2
    of_first_batch, of_second_batch = made.curator.seen
    first = of_first_batch.hidden[8:]
    second = of_second_batch.hidden[8:]
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
    labelled = LabelledRollouts(chats, RESPONSES, LABELLED.rewards, PROMPTS, truncated=[True] + [False] * 23)
    made = trainer(tmp_path, watching(), dataset=data(conversational=True), extra={"labelled_rollouts": labelled})
    curated_batch(made)
    core = tokenizer()
    prompts = [core(f"<u>{prompt}<a>", add_special_tokens=False)["input_ids"] for prompt in PROMPTS]
    # The template's markers are single tokens; the tokenizer of these tests splits them into letters.
    texts = core.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    assert texts[0] == "<u>0+0=<a>"
    responses = [[*core(text)["input_ids"], core.eos_token_id] for text in RESPONSES]
    responses[0].pop()  # it was cut off: no end
    expected = extract_states(model(), prompts, responses)
    torch.testing.assert_close(made.curator.seen[0].hidden[8:], expected.states, atol=1e-5, rtol=1e-5)
    assert made.curator.seen[0].lengths[8:10].tolist() == [2, 5]


def test_answers_of_labelled_rollouts(tmp_path):
    def seen(labelled, field):
        extra = {"labelled_rollouts": labelled, "rollout_fields": {"answers": field}}
        made = trainer(tmp_path, Scripted(curation, requires=("trusted",)), extra=extra)
        curated_batch(made)
        return made.curator.seen[0].answers

    found = seen(LABELLED, lambda rows: [row["completion"][:1] for row in rows])
    assert len(found) == 8 + 24
    assert found[8:12] == ["2", "4", "t", "t"]
    given = LabelledRollouts(PROMPTS, RESPONSES, LABELLED.rewards, PROMPTS, answers=["own", None] * 12)
    assert seen(given, "gold")[8:10] == ["own", None]
    for field in ("gold", lambda rows: [row["gold"] for row in rows]):
        with pytest.raises(ConfigError, match=r"labelled_rollouts: expected answers, .* data set .*'gold'"):
            seen(LABELLED, field)


@pytest.mark.parametrize(
    ("curator", "message"),
    [(None, r"with a curator .*, got none"), (GeoAlign(), r"a curator that reads trusted rewards.* got GeoAlign")],
)
def test_refused_by_name(tmp_path, curator, message):
    with pytest.raises(ConfigError, match=f"labelled_rollouts: expected {message}"):
        trainer(tmp_path, curator, extra={"labelled_rollouts": LABELLED})
