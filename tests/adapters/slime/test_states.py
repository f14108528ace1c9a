"""Hidden states as SGLang returns them."""

import pytest
import torch

from geoalign.adapters.slime import generated_state
from geoalign.errors import InputError

# Three tokens were generated: from the prompt, and by two steps.
STATES = [[[9.0, 9.0], [8.0, 8.0]], [1.0, 2.0], [3.0, 4.0]]


def test_the_state_that_predicted_the_last_token_or_the_answer():
    assert generated_state(STATES, 3).tolist() == [3.0, 4.0]
    assert generated_state(STATES, 3, answer_start=1).tolist() == [1.0, 2.0]
    assert generated_state([torch.zeros(2, 2), torch.ones(2, dtype=torch.bfloat16)], 2).dtype == torch.float32


@pytest.mark.parametrize(
    ("tokens", "start", "message"),
    [(4, -1, "expected one of the prompt and 3 steps, got 3"), (3, 0, "got 0"), (3, 3, "got 3")],
)
def test_what_cannot_be_read(tokens, start, message):
    with pytest.raises(InputError, match=message):
        generated_state(STATES, tokens, start)
    with pytest.raises(InputError, match=r"expected a state \[d\] of step 1, got shape \[1, 2\]"):
        generated_state([[[0.0]], [[1.0, 2.0]]], 2)
