import pytest
import torch

from geoalign.errors import InputError
from geoalign.hidden.positions import packed_states, response_states

# Two rows of 3 and 5 tokens, their responses of 1 and 3; the state of a token is its number.
LENGTHS, RESPONSES = torch.tensor([3, 5]), torch.tensor([1, 3])
PACKED = torch.arange(8.0)[:, None].repeat(1, 2)
PADDED = torch.tensor([[0.0, 1, 2, 90, 91], [3, 4, 5, 6, 7]])[:, :, None].repeat(1, 1, 2)


@pytest.mark.parametrize(
    ("position", "expected"), [("final", [2.0, 7.0]), ("predicting", [1.0, 6.0]), ("mean", [2.0, 6.0])]
)
def test_both_layouts_agree(position, expected):
    packed = packed_states(PACKED, torch.tensor([0, 3, 8]), RESPONSES, position)
    padded = response_states(PADDED, LENGTHS - RESPONSES, RESPONSES, position)
    assert packed[:, 0].tolist() == expected
    assert torch.equal(packed, padded)


def test_no_row_reads_the_one_before():
    with pytest.raises(InputError, match="a sequence of one token"):
        packed_states(PACKED, torch.tensor([0, 7, 8]), torch.tensor([3, 1]), "predicting")
