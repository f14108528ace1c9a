import pytest
import torch

from geoalign.method import groups
from geoalign.method.groups import canonical_order


def test_order_by_hand():
    rewards = torch.tensor([1.0, 0.0, torch.nan, 1.0, 2.0, 2.0])
    ids = torch.tensor([7, 7, 7, 3, 3, 3])
    hidden = torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [5.0, 0.0], [2.0, 2.0], [1.0, 2.0]])
    rows = canonical_order(rewards, ids, hidden)
    # Group 3: reward 1, then two of reward 2 with sums 3 and 4. Group 7: rewards 0, 1, NaN.
    assert rows.order.tolist() == [3, 5, 4, 1, 0, 2]
    assert rows.offsets.tolist() == [0, 3, 6]
    assert rows.sizes.tolist() == [3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 2, 7, 300])
def test_chunks_change_no_bit(monkeypatch, dtype, rows):
    hidden = torch.randn(rows, 1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    whole = hidden.sum(dim=1, dtype=torch.float64)
    for chunk in (1, 1500, 2000, 10_000, 1 << 24):
        monkeypatch.setattr(groups, "_CHUNK", chunk)
        assert torch.equal(groups.row_sums(hidden), whole)


def test_no_copy_of_the_states_is_made():
    hidden = torch.ones(2000, 2000)  # its float64 copy would be twice as large
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        canonical_order(torch.zeros(2000), torch.zeros(2000, dtype=torch.int64), hidden)
    assert max(event.self_cpu_memory_usage for event in profile.events()) < hidden.nbytes
