import pytest
import torch

from geoalign.errors import InputError
from geoalign.hidden.positions import packed_states, response_states

# Two rows of five positions; the state at position t of row r is (10 r + t, 1).
STATES = torch.tensor([[[10.0 * row + column, 1.0] for column in range(5)] for row in range(2)])


def test_by_hand():
    # Row 0: response in columns 2 to 4. Row 1: response in column 3 only.
    start, length = torch.tensor([2, 3]), torch.tensor([3, 1])
    final = response_states(STATES, start, length, "final")
    assert final.tolist() == [[4.0, 1.0], [13.0, 1.0]]
    predicting = response_states(STATES, start, length, "predicting")
    assert predicting.tolist() == [[3.0, 1.0], [12.0, 1.0]]
    mean = response_states(STATES, start, length, "mean")
    assert mean.tolist() == [[3.0, 1.0], [13.0, 1.0]]  # (2 + 3 + 4) / 3 = 3


def test_packed_rows_have_the_states_of_padded_ones():
    # Row 0: three tokens, the last one its response. Row 1: five, of which three are.
    packed, length = torch.cat([STATES[0, :3], STATES[1]]), torch.tensor([1, 3])
    for position in ("final", "predicting", "mean"):
        found = packed_states(packed, torch.tensor([0, 3, 8]), length, position)
        assert torch.equal(found, response_states(STATES, torch.tensor([2, 2]), length, position))
    with pytest.raises(InputError, match="a sequence of one token"):
        packed_states(packed, torch.tensor([0, 7, 8]), torch.tensor([3, 1]), "predicting")


def test_the_state_before_the_answer():
    # Row 0: response in columns 2 to 4, its answer from its third token on, column 4: the state in column 3.
    # Row 1: response in columns 2 to 4 without an answer: the state that predicted the last token, column 3.
    start, length = torch.tensor([2, 2]), torch.tensor([3, 3])
    found = response_states(STATES, start, length, "answer_start", torch.tensor([2, -1]))
    assert found.tolist() == [[3.0, 1.0], [13.0, 1.0]]
    # An answer that begins with the response: the last token of the prompt.
    found = response_states(STATES, start, length, "answer_start", torch.tensor([0, 1]))
    assert found.tolist() == [[1.0, 1.0], [12.0, 1.0]]


def test_a_response_with_tool_output():
    # Row 0: response in columns 1 to 4, of which the model wrote 1 and 3. Row 1: in columns 3 and 4, it wrote 4.
    start, length = torch.tensor([1, 3]), torch.tensor([4, 2])
    written = torch.tensor([[True, False, True, False], [False, True, False, False]])
    found = {place: response_states(STATES, start, length, place, None, written) for place in ("final", "predicting")}
    assert found["final"].tolist() == [[3.0, 1.0], [14.0, 1.0]]
    assert found["predicting"].tolist() == [[2.0, 1.0], [13.0, 1.0]]
    mean = response_states(STATES, start, length, "mean", None, written)
    assert mean.tolist() == [[2.0, 1.0], [14.0, 1.0]]  # (1 + 3) / 2 = 2
    # Row 0: an answer from its third token on, column 3: the state in column 2. Row 1 has none.
    anchor = response_states(STATES, start, length, "answer_start", torch.tensor([2, -1]), written)
    assert anchor.tolist() == [[2.0, 1.0], [13.0, 1.0]]
    with pytest.raises(InputError, match="at least 1 token per response, got 0 in row 1"):
        response_states(STATES, start, length, "final", None, written & torch.tensor([[True], [False]]))


@pytest.mark.parametrize(
    ("start", "answers", "words"),
    [
        ([2, 2], None, "expected answer_starts, where answers begin, got none"),
        ([2, 2], [0, 3], r"answer_starts: expected a token of the response, 0\.\.2, or -1, got 3 in row 1"),
        ([2, 2], [-2, 0], r"answer_starts: .*got -2 in row 0"),
        ([2, 0], [0, 0], "'answer_start': expected a token before the first one of the answer, .* in row 1"),
    ],
)
def test_bad_answers_are_named(start, answers, words):
    given = None if answers is None else torch.tensor(answers)
    with pytest.raises(InputError, match=words):
        response_states(STATES, torch.tensor(start), torch.tensor([3, 3]), "answer_start", given)


def test_half_precision_is_averaged_in_float32():
    # 300 copies of 1.0 and then 0.5: a sum in bfloat16 sticks at 256.
    states = torch.ones(1, 301, 1, dtype=torch.bfloat16)
    states[0, -1] = 0.5
    mean = response_states(states, torch.tensor([0]), torch.tensor([301]), "mean")
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx(300.5 / 301, rel=1e-6)


@pytest.mark.parametrize(
    ("start", "length", "position", "words"),
    [
        ([2, 2], [1, 0], "final", "at least 1 token per response, got 0 in row 1"),
        ([2, 4], [1, 2], "final", r"columns 4\.\.5 in row 1"),
        ([-1, 2], [1, 2], "mean", r"columns -1\.\.-1 in row 0"),
        ([2, 0], [1, 1], "predicting", "a sequence of one token in row 1"),
        ([2, 0], [1, 1], "last", "hidden_position: expected one of predicting, final, mean, answer_start; got 'last'"),
    ],
)
def test_bad_input_names_the_row(start, length, position, words):
    with pytest.raises(InputError, match=words):
        response_states(STATES, torch.tensor(start), torch.tensor(length), position)
