import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from geoalign.answers.boxed import answer_start
from geoalign.hidden.answer_tokens import answer_starts, rows_without_answer

TEXTS = [
    r"2 + 3 = 5, so \boxed{5}.", "Naïve café ☕🙂: the answer is 🙂 seven", "#### 1,234", "nothing at all", "",
    r"\boxed{\text{été}}", "The answer is: **B**\n",
]  # fmt: skip


# Every byte is a token, so that one character may be several; or frequent pairs are one: `}.`, ` {`, `is`.
@pytest.mark.parametrize(("trained_on", "vocabulary"), [([], 256), ([*TEXTS, "is the answer {5}"] * 3, 330)])
def test_the_token_is_the_one_that_the_tokenizers_offsets_name(trained_on, vocabulary):
    core = ByteLevelBPETokenizer()
    core.train_from_iterator(trained_on, vocab_size=vocabulary)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core._tokenizer)
    encoded = [tokenizer(text, return_offsets_mapping=True) for text in TEXTS]
    found = answer_starts(tokenizer, [one["input_ids"] for one in encoded])
    for text, one, token in zip(TEXTS, encoded, found, strict=True):
        start = answer_start(text)
        if start is None:
            assert token == -1
            continue
        # Of several tokens with bytes of the character, the last completes it: the text is longer only then.
        holding = [place for place, (first, end) in enumerate(one["offset_mapping"]) if first <= start < end]
        assert token == holding[-1], text
    assert rows_without_answer(found) == 2


def test_a_token_that_also_holds_the_mark_is_not_read():
    names = {"<unk>": 0, "so": 1, "#### ": 2, "#### 7": 3, "7": 4, " ": 5}
    core = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")
    # "so #### 7": the answer is the fourth token, or stands in the third; the state before it is read.
    assert answer_starts(tokenizer, [[1, 5, 2, 4], [1, 5, 3]]) == [3, 2]
