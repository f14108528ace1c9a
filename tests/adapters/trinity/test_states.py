import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from trinity_parts import tiny

from geoalign.adapters.settings import TrinitySettings
from geoalign.adapters.trinity.states import StateModel, take_given_states, token_rows
from geoalign.errors import InputError, UnsupportedError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny().save_pretrained(folder)
    return str(folder)


def test_given_states_are_taken_out_of_the_info(experience):
    rows = [
        experience(0, 0, info={"geoalign_hidden": [0.0, 1.0], "tag": 0}),
        experience(0, 1, info={"geoalign_hidden": [1.0, 1.0], "tag": 1}),
    ]
    assert take_given_states(rows).tolist() == [[0, 1], [1, 1]]
    assert [row.info for row in rows] == [{"tag": 0}, {"tag": 1}]
    assert take_given_states(rows) is None


def test_an_unscored_row_and_one_without_a_token_of_the_policy_may_lack_a_state(experience):
    states = ([0.0, 1.0], None, [4.0, 1.0], None)
    rows = [experience(0, run, info={"geoalign_hidden": state}) for run, state in enumerate(states)]
    rows[1].reward = None
    rows[3].action_mask = torch.zeros(4, dtype=torch.bool)
    # The mean of the states of the same task.
    assert take_given_states(rows).tolist() == [[0, 1], [2, 1], [4, 1], [2, 1]]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, r"in every scored experience or in none, got none in 1 of 2, the first 0/0/1/0/"),
        ([1.0], "expected numbers, one or equally many"),
        ("text", "expected numbers"),
    ],
)
def test_bad_given_states(experience, state, message):
    rows = [
        experience(0, 0, info={"geoalign_hidden": [0.0, 1.0]}),
        experience(0, 1, info={"geoalign_hidden": state}),
    ]
    with pytest.raises(InputError, match=message):
        take_given_states(rows)


def test_the_response_ends_with_the_last_generated_token(experience):
    row = experience(prompt=2, response=4)  # tokens 0..5
    assert token_rows(row, "mean") == ([0, 1], [2, 3, 4, 5])
    row.action_mask = torch.tensor([True, False, True, False])  # a tool's answer between, and one at the end
    assert token_rows(row, "predicting") == ([0, 1], [2, 3, 4])
    with pytest.raises(UnsupportedError, match="hidden_position 'mean'"):
        token_rows(row, "mean")
    row.action_mask = torch.zeros(4, dtype=torch.bool)  # masked because it is truncated
    assert token_rows(row, "mean") == ([0, 1], [2, 3, 4, 5])
    # A truncated prompt.
    row.prompt_length = 6
    row.action_mask = torch.zeros(3, dtype=torch.bool)
    assert token_rows(row, "predicting") == ([0, 1, 2, 3, 4], [5])


@pytest.mark.parametrize("position", ["predicting", "final", "mean"])
def test_states_are_those_of_the_model(experience, saved, position):
    model = StateModel(TrinitySettings(model_path=saved, hidden_position=position, batch_size=2))
    rows = [
        experience(0, 0),
        experience(1, 0, prompt=5, response=2),
        experience(2, 0, response=1),
    ]
    found = model.states(rows)[0]
    assert found.dtype == torch.float32
    for row, state in zip(rows, found, strict=True):
        with torch.no_grad():
            all_states = tiny().model(input_ids=row.tokens[None]).last_hidden_state[0]
        mean = all_states[row.prompt_length :].mean(0)
        wanted = {"predicting": all_states[-2], "final": all_states[-1], "mean": mean}
        torch.testing.assert_close(state, wanted[position], rtol=1e-5, atol=1e-5)


def test_states_before_the_answer_and_of_several_layers(experience, tmp_path):
    tiny().save_pretrained(tmp_path)
    words = {"<unk>": 0, "answer": 1, "is": 2, **{f"w{number}": number for number in range(3, 400)}}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>").save_pretrained(tmp_path)
    settings = TrinitySettings(model_path=str(tmp_path), hidden_position="answer_start", hidden_layer=[0, 1.0])
    rows = [experience(0, 0), experience(1, 0, prompt=3, response=4)]
    rows[0].tokens = torch.arange(10, 10 + len(rows[0].tokens))
    rows[1].tokens = torch.tensor([3, 4, 5, 1, 2, 9, 8])  # "answer is w9 w8": the answer begins after the fifth token
    found, without = StateModel(settings).states(rows)
    assert without == 1
    for row, state, place in zip(rows, found, (-2, 4), strict=True):
        with torch.no_grad():
            hidden = tiny().model(input_ids=row.tokens[None], output_hidden_states=True).hidden_states
        wanted = torch.cat([hidden[0][0, place], hidden[-1][0, place]])
        torch.testing.assert_close(state, wanted, rtol=1e-5, atol=1e-5)


def test_a_layer_that_the_model_lacks_is_refused_as_it_is_loaded(saved):
    with pytest.raises(InputError, match="hidden_layer: expected at most 1, the model's depth, got 7"):
        StateModel(TrinitySettings(model_path=saved, hidden_layer=7))


def test_new_weights(experience, saved):
    model = StateModel(TrinitySettings(model_path=saved))
    rows = [experience(0, 0), experience(0, 1)]
    before, _ = model.states(rows)
    other = tiny(seed=1)
    model.load(other.state_dict(), 7)
    assert model.version == 7
    assert not torch.allclose(model.states(rows)[0], before)
    with torch.no_grad():
        wanted = other.model(input_ids=rows[0].tokens[None]).last_hidden_state[0, -2]
    torch.testing.assert_close(model.states(rows)[0][0], wanted, rtol=1e-5, atol=1e-5)


def test_weights_of_another_model_change_nothing(experience, saved):
    model = StateModel(TrinitySettings(model_path=saved))
    before, _ = model.states([experience()])
    with pytest.raises(InputError, match=r"weights of version 3: .*, got another shape of .*: \[400, 32\]"):
        model.load(tiny(hidden_size=32).state_dict(), 3)
    weights = tiny(seed=1).state_dict()
    del weights["model.norm.weight"]
    with pytest.raises(InputError, match=r"another shape of model\.norm\.weight: none"):
        model.load(weights, 3)
    assert model.version == 0
    assert torch.equal(model.states([experience()])[0], before)


def test_tied_weights_may_be_absent(saved, tmp_path):
    tiny(tie_word_embeddings=True).save_pretrained(tmp_path)
    model = StateModel(TrinitySettings(model_path=str(tmp_path)))
    weights = tiny(seed=1, tie_word_embeddings=True).state_dict()
    weights.pop("lm_head.weight")
    model.load(weights, 1)
    assert torch.equal(model.model.lm_head.weight, model.model.model.embed_tokens.weight)
    assert torch.equal(model.model.lm_head.weight, weights["model.embed_tokens.weight"])
