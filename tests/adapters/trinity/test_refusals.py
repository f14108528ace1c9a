"""What the operator refuses when it is made, with a stand-in for the parts of Trinity that it derives from."""

import sys
from importlib import import_module
from types import ModuleType

import pytest

from geoalign import CURATORS, as_curator
from geoalign.adapters import exports
from geoalign.errors import UnsupportedError

STRATEGIES = ("replace", "amplify", "drop", "zero_weight")


@pytest.fixture
def operators(monkeypatch):
    parts = {
        "trinity.algorithm": ["ADVANTAGE_FN"],
        "trinity.algorithm.advantage_fn": ["AdvantageFn"],
        "trinity.buffer.operators": ["ExperienceOperatorV1"],
        "trinity.buffer.operators.experience_operator": ["ensure_v1_operator"],
    }
    for name in ("trinity", "trinity.buffer", *parts):
        module = ModuleType(name)
        for part in parts.get(name, ()):
            setattr(module, part, type(part, (), {}))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(exports, "version", lambda package: "0.6.0")
    monkeypatch.delitem(sys.modules, "geoalign.adapters.trinity.operators", raising=False)
    yield import_module("geoalign.adapters.trinity.operators")
    del sys.modules["geoalign.adapters.trinity.operators"]


# Fields that Experience.info may bring.
GIVEN = {"rollout_fields": {"answers": "answer", "reference_rewards": "references", "true_rewards": "truth"}}
# Those that Trinity cannot feed: a second verifier, trusted rows.
FED = sorted(set(CURATORS) - {"appeals", "labelled_probe"})
AFTER = [name for name in FED if {"weights", "advantages"} & set(as_curator(name).acts_on)]
BEFORE = [name for name in FED if name not in AFTER]


def test_what_curators_declare_sorts_them():
    assert {"denoise", "mc_grpo", "seed_grpo"} <= set(AFTER)
    assert {"geoalign", "pods", "par", "monitor"} <= set(BEFORE)


@pytest.mark.parametrize("name", AFTER)
def test_curators_after_the_advantage_are_refused_when_the_operator_is_made(operators, name):
    for curator in (name, {"type": "chain", "members": [name, "pods"]}, {"type": "chain", "members": ["pods", name]}):
        with pytest.raises(UnsupportedError, match=r"(weighs|gives) advantages.*trinity\.GeoAlignAdvantage"):
            operators.GeoAlignOperator(curator=curator, **GIVEN)
    operators.GeoAlignOperator(curator={"type": "monitor", "curator": name}, **GIVEN)


@pytest.mark.parametrize("name", BEFORE)
def test_curators_before_the_advantage_are_taken(operators, name):
    operators.GeoAlignOperator(curator=name, **GIVEN)


@pytest.mark.parametrize("name", ["geoalign", "pair_count", "confident_learning", "oracle", "tie_detector"])
def test_a_strategy_decides(operators, name):
    for strategy in STRATEGIES:
        curator = {"type": name, "strategy": strategy}
        if strategy == "zero_weight":
            with pytest.raises(UnsupportedError, match="weighs advantages"):
                operators.GeoAlignOperator(curator=curator, **GIVEN)
        else:
            operators.GeoAlignOperator(curator=curator, **GIVEN)
    with pytest.raises(UnsupportedError, match="Random weighs advantages"):
        operators.GeoAlignOperator(curator={"type": "random", "geoalign": {"strategy": "zero_weight"}})
