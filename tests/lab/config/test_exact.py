"""No text or boolean stands for a number, no number or text for a boolean, no number with decimals for a whole one."""

from __future__ import annotations

from typing import Any

import pytest

from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.config.run import EvaluationConfig
from geoalign.method.projector import ProjectorConfig


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RewardConfig, {"flip": True}),
        (RewardConfig, {"flip": "0.1"}),
        (RewardConfig, {"timeout": float("inf")}),
        (RewardConfig, {"timeout": float("nan")}),
        (PODSConfig, {"m": True}),
        (PODSConfig, {"m": 4.0}),
        (GeoAlignConfig, {"observe_only": 1}),
        (GeoAlignConfig, {"observe_only": "yes"}),
        (GeoAlignConfig, {"projector": {"layers": True}}),
        (GeoAlignConfig, {"projector": '{"layers": true}'}),
        (GeoAlignConfig, {"projector": "[" * 100_000}),
        (EvaluationConfig, {"samples": {"a": True}}),
    ],
)
def test_other_kinds_of_values_are_refused(kind: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        kind(**values)


def test_what_means_the_same_is_taken() -> None:
    assert RewardConfig(flip=1).flip == 1.0
    assert GeoAlignConfig(projector='{"layers": 2}').projector == ProjectorConfig(layers=2)
    assert GeoAlignConfig(projector={"layers": 2}).projector == ProjectorConfig(layers=2)
    assert GeoAlignConfig(projector="none").projector is None
    assert ChainConfig(members=[PODSConfig(m=2)]).members == (PODSConfig(m=2),)
