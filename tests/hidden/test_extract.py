import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from geoalign.errors import InputError
from geoalign.hidden import BackboneTap, backbone_of, extract_states, extract_states_from_texts
from geoalign.hidden.extract import prompt_token_ids


def qwen():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=40, max_position_embeddings=64, **shape, **heads))


def gpt2():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=64))


PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [5, 6]]
RESPONSES = [[1, 2], [3, 4, 5, 6], [7], [8, 9, 10]]


@pytest.mark.parametrize("make", [qwen, gpt2])
@pytest.mark.parametrize("position", ["final", "predicting", "mean"])
def test_batches_match_single_rows(make, position):
    model = make()
    model.config.pad_token_id = -1  # as of old Llamas; no row of the embedding
    found = extract_states(model, PROMPTS, RESPONSES, position=position, batch_size=3)
    assert found.states.shape == (4, 16)
    assert found.lengths.tolist() == [2, 4, 1, 3]
    assert found.cut_rows == 0
    model.eval()
    for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        with torch.no_grad():
            output = model(input_ids=torch.tensor([prompt + response]), output_hidden_states=True)
        states = output.hidden_states[-1][0]
        wanted = {"final": states[-1], "predicting": states[-2], "mean": states[len(prompt) :].mean(0)}[position]
        torch.testing.assert_close(found.states[row], wanted, atol=2e-5, rtol=1e-4)


def test_the_model_keeps_its_mode_module_by_module():
    model = gpt2()
    model.train()
    model.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    first = extract_states(model, PROMPTS, RESPONSES)
    assert [module.training for module in model.modules()] == before
    # Dropout (0.1 in GPT-2) was off: the same states again.
    assert torch.equal(first.states, extract_states(model, PROMPTS, RESPONSES).states)


def test_long_rows_keep_their_end_and_are_counted():
    model = qwen()
    found = extract_states(model, PROMPTS, RESPONSES, position="final", max_tokens=4)
    # Rows 0 (5 tokens), 1 (5), 2 (6) and 3 (5) are all longer than 4.
    assert found.cut_rows == 4
    expected = extract_states(model, [[6, 7], [], [11, 12, 13], [6]], RESPONSES, position="final")
    torch.testing.assert_close(found.states, expected.states)
    longer = extract_states(model, [[5]], [list(range(1, 11))], position="mean", max_tokens=4)
    assert longer.lengths.tolist() == [4]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"responses": RESPONSES[:3]}, "expected 4 rows as prompt_ids, got 3"),
        ({"responses": [[1], [], [2], [3]]}, "got none in row 1"),
        ({"prompts": [], "responses": []}, "at least one row"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_tokens": 1}, "max_tokens"),
        ({"position": "first"}, "hidden_position"),
        ({"prompts": [[1], [], [1], [1]], "responses": [[1], [2], [3], [4]]}, "a sequence of one token in row 1"),
    ],
)
def test_bad_input_is_named(changes, words):
    values = {"prompts": PROMPTS, "responses": RESPONSES, **changes}
    prompts, responses = values.pop("prompts"), values.pop("responses")
    with pytest.raises(InputError, match=words):
        extract_states(qwen(), prompts, responses, **values)


def test_backbone_through_wrappers():
    model = qwen()

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = model

    assert backbone_of(Wrapped()) is model.model
    assert backbone_of(model) is model.model
    with pytest.raises(InputError, match="base_model_prefix"):
        backbone_of(torch.nn.Linear(2, 2))


def test_tap_records_each_pass():
    model = qwen()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    with BackboneTap(model) as tap:
        output = model(input_ids=ids, output_hidden_states=True)
        model(input_ids=ids[:1])
    assert [tuple(states.shape) for states in tap.states] == [(2, 3, 16), (1, 3, 16)]
    assert torch.equal(tap.states[0], output.hidden_states[-1])
    assert not tap.states[0].requires_grad


def tokenizer():
    names = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz </>"]
    core = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def test_the_state_before_the_answer_of_rows_that_are_cut():
    model = qwen()
    prompts, responses = [[5, 6, 7], [8, 9], [5]], [[1, 2, 3], [3, 4, 5, 6, 7], [4, 4, 4, 4, 4]]
    # At most 4 tokens. Row 0 loses prompt only: its answer, the third token, is predicted by token 2. Row 1 loses its
    # first response token; the answer is then its first one, and nothing is left before it. In row 2 the answer is cut.
    given = {"position": "answer_start", "answer_starts": [2, 1, 0], "batch_size": 2}
    found = extract_states(model, prompts, responses, max_tokens=4, **given)
    expected = extract_states(model, [[7], [], []], [[1, 2], [4, 5, 6, 7], [4, 4, 4, 4]], position="predicting")
    final = extract_states(model, [[7]], [[1, 2]], position="final")
    torch.testing.assert_close(found.states[0], final.states[0])
    torch.testing.assert_close(found.states[1:], expected.states[1:])
    with pytest.raises(InputError, match="answer_starts: expected 3 rows as response_ids, got 1"):
        extract_states(model, prompts, responses, position="answer_start", answer_starts=[1])
    with pytest.raises(InputError, match="'answer_start': expected answer_starts"):
        extract_states(model, prompts, responses, position="answer_start")


def test_answers_are_found_in_texts():
    model, words = qwen(), tokenizer()
    at = {"position": "answer_start", "end_of_sequence": False}
    found = extract_states_from_texts(model, words, ["ab"], ["answer is c"], **at)
    expected = extract_states_from_texts(model, words, ["ab"], ["answer is "], position="final", end_of_sequence=False)
    torch.testing.assert_close(found.states, expected.states)


def test_texts():
    model, words = qwen(), tokenizer()
    found = extract_states_from_texts(model, words, ["ab", "c"], ["de", ""], position="final")
    # "de" and the end token; an empty text is an end token alone.
    assert found.lengths.tolist() == [3, 1]
    ids = [[words.convert_tokens_to_ids(list("ab")), words.convert_tokens_to_ids(["c"])]]
    expected = extract_states(model, ids[0], [[*words.convert_tokens_to_ids(list("de")), 2], [2]], position="final")
    torch.testing.assert_close(found.states, expected.states)
    # Text that looks like a special token is text, of as many tokens as it has characters.
    for text in ("de", "</s>"):
        bare = extract_states_from_texts(model, words, ["ab"], [text], end_of_sequence=False)
        assert bare.lengths.tolist() == [len(text)]
    words.add_special_tokens({"bos_token": "<s>"})
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    # A chat template may have written it.
    assert prompt_token_ids(words, "<s>ab") == prompt_token_ids(words, "ab") == [1, *ids[0][0]]
    words.eos_token = None
    with pytest.raises(InputError, match="end_of_sequence"):
        extract_states_from_texts(model, words, ["a"], ["b"])
