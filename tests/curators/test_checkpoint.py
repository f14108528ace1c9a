import math
import os

import pytest
import torch
from safetensors.torch import save_file

from geoalign.curators.checkpoint import load_state, save_state
from geoalign.errors import InputError


def test_round_trip(tmp_path):
    shared = torch.arange(6.0).view(2, 3)
    state = {
        "calls": 3,
        "rate": 0.1,
        "infinite": math.inf,
        "on": True,
        "name": "Grüße, 世界 \u2028",
        "nothing": None,
        "empty": {},
        "tensors": {"a/b": shared, "view": shared.t(), "none": torch.zeros(0, 4), "half": torch.ones(2).bfloat16()},
        "list": [1, "two", None, {"deep": [torch.tensor(True), torch.tensor(5)]}],
        "generator": torch.Generator().manual_seed(7).get_state(),
    }
    save_state(tmp_path / "state.safetensors", state)
    back = load_state(tmp_path / "state.safetensors")
    assert list(back) == list(state)
    for key in ("calls", "rate", "infinite", "on", "name", "nothing", "empty"):
        assert back[key] == state[key]
        assert type(back[key]) is type(state[key])
    for name, value in state["tensors"].items():
        assert torch.equal(back["tensors"][name], value)
        assert back["tensors"][name].dtype == value.dtype
    assert back["list"][:3] == [1, "two", None]
    assert back["list"][3]["deep"][0].dtype == torch.bool
    assert back["list"][3]["deep"][1].shape == ()
    torch.Generator().set_state(back["generator"])


@pytest.mark.parametrize("name", ["w" * length for length in range(1, 9)])
def test_loaded_tensors_lie_where_torch_puts_its_own(tmp_path, name):
    """At an address of the file's choosing, sums over a tensor differ in the last bit from the run that saved it."""
    save_state(tmp_path / "s", {name: torch.ones(1), "after": torch.ones(100)})
    assert all(tensor.data_ptr() % 64 == 0 for tensor in load_state(tmp_path / "s").values())


def test_no_tensor_at_all(tmp_path):
    save_state(tmp_path / "state.safetensors", {"calls": 1})
    assert load_state(tmp_path / "state.safetensors") == {"calls": 1}


def test_saved_tensors_are_copies_and_carry_no_gradient(tmp_path):
    weight = torch.ones(3, requires_grad=True)
    save_state(tmp_path / "s", {"w": weight})
    assert not load_state(tmp_path / "s")["w"].requires_grad


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": {1: 2}}, r"state\['a'\]: expected str keys"),
        ({"a": [0, object()]}, r"state\['a'\]\[1\]: expected a tensor.*got object"),
        ({"__tensor__": 1}, "other than '__tensor__'"),
        ({"f": {1, 2}}, "got set"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, state, words):
    with pytest.raises(InputError, match=words):
        save_state(tmp_path / "state", state)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    save_state(tmp_path / "state", {"calls": 1})

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_state(tmp_path / "state", {"calls": 2})
    assert load_state(tmp_path / "state") == {"calls": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"expected a file .*missing"):
        load_state(tmp_path / "missing")
    (tmp_path / "cut").write_bytes(b"\x10\x00\x00")
    with pytest.raises(InputError, match="expected a whole safetensors file"):
        load_state(tmp_path / "cut")
    save_state(tmp_path / "whole", {"w": torch.zeros(100)})
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:-50])
    with pytest.raises(InputError, match="expected a whole safetensors file"):
        load_state(tmp_path / "half")
    save_file({"w": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(InputError, match="expected the state of a curator"):
        load_state(tmp_path / "foreign")
    save_file({}, tmp_path / "future", metadata={"geoalign_state": '{"schema_version": 99, "tree": {}}'})
    with pytest.raises(InputError, match="expected schema version 1, got 99"):
        load_state(tmp_path / "future")
