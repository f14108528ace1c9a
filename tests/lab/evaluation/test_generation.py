from types import SimpleNamespace

import pytest

from geoalign.lab.generation.engines import end_tokens, response_length


@pytest.mark.parametrize(
    ("named", "own", "expected"), [([7, 9], 7, {7, 9}), (5, 7, {5, 7}), (None, 7, {7}), (None, None, set())]
)
def test_every_token_that_ends_a_response_counts(named, own, expected):
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=named))
    assert end_tokens(model, SimpleNamespace(eos_token_id=own)) == expected


def test_a_response_ends_at_the_first_end_token():
    # Qwen3 ends with either of two tokens, and pads with the second.
    tokens = [4, 4, 9, 9, 9]
    assert response_length(tokens, frozenset({7, 9})) == (3, True)
    assert response_length(tokens, frozenset({7})) == (5, False)
