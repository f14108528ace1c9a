import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from geoalign.errors import InputError
from geoalign.lab.models.draws import drawn_tokens, seed_of, uniforms


def _draws(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_a_draw_takes_the_token_at_which_the_cumulated_probability_exceeds_it():
    # Probabilities 0.1, 0.2, 0.3, 0.4 cumulate to 0.1, 0.3, 0.6, 1.
    scores = torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4])).repeat(6, 1)
    found = drawn_tokens(scores, _draws(0.0, 0.05, 0.15, 0.35, 0.65, 1 - 2**-53), 1.0)
    assert found.tolist() == [0, 0, 1, 2, 3, 3]


def test_a_token_without_probability_is_never_taken():
    never = -torch.inf
    scores = torch.tensor([[never, 0.0, never, 0.0, never]]).repeat(4, 1)
    found = drawn_tokens(scores, _draws(0.0, 0.49, 0.51, 1 - 2**-53), 1.0)
    assert found.tolist() == [1, 1, 3, 3]


@given(st.integers(0, 2**31 - 1), st.floats(0.1, 3.0))
def test_evenly_spread_draws_take_every_token_as_often_as_it_is_likely(seed, temperature):
    scores = torch.randn(1, 7, generator=torch.Generator().manual_seed(seed))
    count = 400
    draws = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens = drawn_tokens(scores.repeat(count, 1), draws, temperature)
    found = torch.bincount(tokens, minlength=7) / count
    expected = torch.softmax(scores[0].double() / temperature, dim=-1)
    assert torch.allclose(found.double(), expected, atol=1.01 / count)


def test_small_probabilities_are_told_apart():
    # In float32 the cumulated probabilities of the last two, 5e-10 each, are both 1.
    scores = torch.log(torch.tensor([1 - 1e-9, 5e-10, 5e-10])).repeat(3, 1)
    found = drawn_tokens(scores, _draws(0.9, 1 - 7.5e-10, 1 - 2.5e-10), 1.0)
    assert found.tolist() == [0, 1, 2]


def test_logits_that_are_no_numbers_are_an_error():
    with pytest.raises(InputError, match="logits: expected numbers, got NaN"):
        drawn_tokens(torch.tensor([[0.0, torch.nan]]), _draws(0.5), 1.0)


def test_a_response_draws_by_its_name_and_the_seed_alone():
    first = seed_of(0, "aime24", "7", 0)
    assert first == seed_of(0, "aime24", "7", 0)
    others = [
        seed_of(1, "aime24", "7", 0),
        seed_of(0, "aime25", "7", 0),
        seed_of(0, "aime24", "8", 0),
        seed_of(0, "aime24", "7", 1),
        seed_of(0, "aime247", "", 0),
        seed_of(0, "", "aime247", 0),
    ]
    assert len({first, *others}) == 7
    assert all(0 <= one < 2**63 for one in others)


def test_rows_of_uniform_numbers_depend_on_their_own_seed():
    both = uniforms([3, 4], 20)
    assert torch.equal(both[0], uniforms([3], 20)[0])
    assert torch.equal(both[1], uniforms([4], 20)[0])
    assert not torch.equal(both[0], both[1])
    assert torch.equal(uniforms([3], 50)[0, :20], both[0])
    assert both.min() >= 0
    assert both.max() < 1
