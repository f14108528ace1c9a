import math

import pytest
import torch

from geoalign import Curation, Rollouts
from geoalign.errors import InputError
from geoalign.types import response_keys

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def rollouts(**changes):
    fields = {"rewards": torch.tensor([0.0, 1.0, 2.0]), "groups": torch.tensor([0, 0, 1]), **changes}
    return Rollouts(**fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": [0.0, 1.0]}, "rewards: expected a torch.Tensor, got list"),
        ({"rewards": torch.zeros(3, dtype=torch.int)}, "rewards: expected dtype float, got torch.int32"),
        ({"rewards": torch.zeros(3, 1)}, r"rewards: expected 1 dimension\(s\), got shape \(3, 1\)"),
        ({"rewards": torch.tensor([0.0, math.inf, 1.0])}, "got inf in row 1"),
        ({"groups": torch.zeros(2, dtype=torch.int)}, "groups: expected 3 rows as rewards, got 2"),
        ({"groups": torch.zeros(3)}, "groups: expected dtype int, got torch.float32"),
        ({"hidden": torch.zeros(3)}, "hidden: expected 2 dimension"),
        ({"hidden": torch.zeros(4, 2)}, "hidden: expected 3 rows as rewards, got 4"),
        ({"hidden": torch.tensor([[0.0, 0.0], [0.0, math.nan], [0.0, 0.0]])}, "hidden.*nan in row 1, column 1"),
        ({"hidden": torch.tensor([[0.0, 0.0], [0.0, 0.0], [-math.inf, 0.0]])}, "hidden.*-inf in row 2, column 0"),
        ({"donor_ok": torch.zeros(3)}, "donor_ok: expected dtype bool"),
        ({"lengths": torch.zeros(3, dtype=torch.bool)}, "lengths: expected dtype int, got torch.bool"),
        ({"answers": "abc"}, "answers: expected a list of str, got str"),
        ({"answers": ["a", 1, None]}, "answers: expected str or None, got int in row 1"),
        ({"ids": ["a", "b"]}, "ids: expected 3 rows as rewards, got 2"),
        ({"ids": ["a", None, "b"]}, "ids: expected str, got NoneType in row 1"),
    ],
)
def test_bad_fields(changes, message):
    with pytest.raises(InputError, match=message):
        rollouts(**changes)


def test_large_finite_states_are_accepted():
    # Their sum overflows float32; every entry is finite all the same.
    assert rollouts(hidden=torch.full((3, 2), 3e38)).hidden is not None


def test_take():
    taken = rollouts(ids=["a", "b", "c"], hidden=torch.eye(3)).take(torch.tensor([2, 0, 2]))
    assert taken.rewards.tolist() == [2.0, 0.0, 2.0]
    assert taken.ids == ["c", "a", "c"]
    assert taken.hidden.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    with pytest.raises(InputError, match=r"expected rows 0\.\.2, got 3 at position 1"):
        rollouts().take(torch.tensor([0, 3]))


def test_gradients_stop_at_the_border():
    hidden = torch.zeros(3, 2, requires_grad=True)
    assert not rollouts(hidden=hidden).hidden.requires_grad


def test_curation_checks_its_shapes():
    whole = {
        "source": torch.tensor([0, 1]),
        "rewards": torch.zeros(2),
        "weights": torch.ones(2),
        "scores": torch.zeros(3),
        "anomalous": torch.zeros(3, dtype=torch.bool),
    }
    assert Curation(**whole).with_metrics(a=1.0).metrics == {"a": 1.0}
    with pytest.raises(InputError, match="as many output rows"):
        Curation(**whole).replaced.sum()
    for change, message in (
        ({"weights": torch.ones(3)}, "weights: expected shape"),
        ({"anomalous": torch.zeros(2, dtype=torch.bool)}, "anomalous: expected shape"),
        ({"source": torch.tensor([0, 3])}, r"expected rows 0\.\.2, got 3 at position 1"),
    ):
        with pytest.raises(InputError, match=message):
            Curation(**{**whole, **change})


def test_half_precision_numbers_become_float32():
    values = torch.tensor([0.125, 0.25, 0.5])
    for dtype in (torch.bfloat16, torch.float16):
        made = rollouts(rewards=values.to(dtype), true_rewards=values.to(dtype), advantages=values.to(dtype))
        for name in ("rewards", "true_rewards", "advantages"):
            assert getattr(made, name).dtype == torch.float32
            assert torch.equal(getattr(made, name), values)
    assert rollouts(rewards=values.double()).rewards.dtype == torch.float64
    assert rollouts(hidden=torch.zeros(3, 2).bfloat16()).hidden.dtype == torch.bfloat16


def test_response_keys():
    keys = response_keys([[1, 2], [12], [1, 2], [], "12", "\ud800"])
    assert keys[0] == keys[2]
    assert len(keys.unique()) == 4
    assert (keys >= 0).all()
    assert torch.equal(keys, response_keys([[1, 2], [12], [1, 2], [], "12", "\ud800"]))
    with pytest.raises(InputError, match="response_keys: expected 3 rows"):
        rollouts(response_keys=keys)


def test_a_missing_field_is_named_with_the_setting_that_gives_it():
    givers = "second_verifier gives second_rewards, the adapter itself gives hidden"
    with pytest.raises(InputError, match=rf"Appeals needs .* second_rewards, hidden: .*{givers}"):
        rollouts().require("second_rewards", "hidden", by="Appeals")
