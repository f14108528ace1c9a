"""What adapters call outside of a curator, on a GPU (`pretend_gpu`); inside TRL: trl/test_gpu.py."""

import pytest
import torch
from pretend_gpu import PRETENDED, on_gpu, pretend_gpu
from trl_parts import model, tokenizer

from geoalign.adapters.assignment import assign
from geoalign.adapters.grpo_trainer.scaled_advantages import advantages_by_function, scaled_advantages
from geoalign.adapters.slime.samples import normalised_rewards
from geoalign.curators.baselines.subsets import PODS
from geoalign.curators.curator import identity
from geoalign.hidden.extract import extract_states_from_texts
from geoalign.hidden.positions import packed_states
from geoalign.types import Rollouts

REWARDS = torch.tensor([1.0, 0.0, torch.nan, 3.0, 2.0, 2.5])
GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


def placed(rewards, groups, *, keep=False):
    rollouts = Rollouts(rewards=rewards, groups=groups)
    placed = assign(identity(rollouts) if keep else PODS(m=2).curate(rollouts), groups)
    return torch.stack([placed.rewards, placed.weights, placed.source, placed.kept, placed.replaced])


def states_of_texts(rewards, groups):
    return extract_states_from_texts(model().to(rewards.device), tokenizer(), ["1+1=", "2"], ["2", "34"]).states


# Where the packed responses of two rows begin and end, in tokens.
OFFSETS = (0, 4, 6)


def packed(rewards, groups, *position):
    """States packed one after the other, with the offsets as they come: on the GPU."""
    return packed_states(rewards[:, None].nan_to_num(), groups.new_tensor(OFFSETS), groups[2:4] + 1, *position)


FUNCTIONS = {
    "place": placed,
    "place all": lambda r, g: placed(r, g, keep=True),
    "trl": lambda r, g: scaled_advantages(r, 3, scale_rewards="batch"),
    "trl by function": lambda r, g: advantages_by_function(r[:, None], torch.ones(1), 3),
    "swift": lambda r, g: scaled_advantages(r, 3, estimator="rloo", scale_rewards="batch"),
    "slime": lambda r, g: normalised_rewards(r, g, ~r.isnan(), normalise=True, by_std=True),
    "packed": lambda r, g: packed(r, g, "mean"),
    # Answers come from the tokenizer: on the CPU.
    "packed answers": lambda r, g: packed(r, g, "answer_start", torch.tensor([-1, 1])),
    "extract": states_of_texts,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    expected = FUNCTIONS[name](REWARDS, GROUPS)
    with pretend_gpu() as gpu:
        found = FUNCTIONS[name](on_gpu(REWARDS), on_gpu(GROUPS))
        # The states of texts come back to the CPU.
        assert found.device == (torch.device("cpu") if name == "extract" else gpu)
        torch.testing.assert_close(found.cpu(), expected, equal_nan=True)


@PRETENDED
def test_the_pretence_refuses_what_a_gpu_refuses():
    generator = torch.Generator()
    with pretend_gpu() as gpu:
        here, there = torch.ones(3), torch.arange(3, device=gpu)
        refused = {
            "same device": lambda: here + there,
            "__getitem__.*same device": lambda: here[there],
            "stack.*same device": lambda: torch.stack([here.sum(), there.sum()]),
            "numpy": there.numpy,
            "generator": lambda: torch.randperm(3, device=gpu, generator=generator),
        }
        for words, call in refused.items():
            with pytest.raises((RuntimeError, TypeError), match=words):
                call()
        # A number and an index of the CPU may meet a tensor of the GPU: 2 * 3.
        product = there * here.sum()
        assert product[torch.tensor([2])].cpu().numpy().tolist() == [6.0]
