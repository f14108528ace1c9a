"""One call of a curator on a batch of full size: GeoAlign whole and stage by stage, Denoise whole."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import Literal

import torch

from benchmarks.overhead.architectures import architecture_named
from benchmarks.overhead.options import Options
from benchmarks.overhead.timing import Cost, measure
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.lab.bench.stages import stages_timed
from geoalign.lab.bench.synthetic import synthetic_rollouts
from geoalign.method.projector import ProjectorConfig
from geoalign.types import Rollouts

Setting = Literal["paper", "default"]


@dataclass(frozen=True)
class CurationCost:
    """The cost of curating one batch, and what there was to do.

    Attributes:
        setting: "paper" (all groups in every step, no cap) or "default" (the library's).
        early_stop: whether training may stop at the target accuracy.
        device: where it ran.
        cost: of whole calls.
        stages: median seconds of each stage, the device waited for after each, and "rest"; empty for Denoise.
        pairs, steps, replaced: of the measured calls, in the mean; NaN for Denoise, which has none of them.
        curator: "geoalign", or "denoise" (default settings; there is no early stop).
    """

    setting: Setting
    early_stop: bool
    device: str
    cost: Cost
    stages: dict[str, float]
    pairs: float
    steps: float
    replaced: float
    curator: Literal["geoalign", "denoise"] = "geoalign"

    @property
    def label(self) -> str:
        """Device, curator and settings, for a table."""
        if self.curator == "denoise":
            return f"{self.device}, denoise"
        return f"{self.device}, {self.setting}, {'early stop' if self.early_stop else 'all steps'}"


def denoise_cost(options: Options, *, device: str) -> CurationCost:
    """As `curation_cost` for Denoise, which keeps its fits and the window of recent batches from call to call."""
    batches = [_batch(options, number, device) for number in range(options.warmups + options.repeats)]
    curator, draw = Denoise(), torch.Generator().manual_seed(options.seed)

    def curate(number: int) -> None:
        curator.curate(batches[number], generator=draw)

    cost = measure(curate, repeats=options.repeats, warmups=options.warmups, device=torch.device(device))
    return CurationCost("default", False, device, cost, {}, math.nan, math.nan, math.nan, "denoise")


def curation_cost(options: Options, *, device: str, setting: Setting, early_stop: bool) -> CurationCost:
    """Curates batch after batch with one curator, as a training does: the projector starts from where it stood.

    The states are synthetic and as wide as the architecture's, with one direction of quality in all batches; no reward
    is corrupted, so that the target accuracy can be reached.
    """
    count = options.warmups + options.repeats
    batches = [_batch(options, number, device) for number in range(count)]
    where = torch.device(device)
    config = _config(setting, early_stop)
    curator, draw = GeoAlign(config), torch.Generator().manual_seed(options.seed)
    metrics: list[dict[str, float]] = []

    def curate(number: int) -> None:
        metrics.append(curator.curate(batches[number], generator=draw).metrics)

    cost = measure(curate, repeats=options.repeats, warmups=options.warmups, device=where)
    metrics = metrics[options.warmups :]
    curator, draw = GeoAlign(config), torch.Generator().manual_seed(options.seed)
    seconds: list[dict[str, float]] = []
    for batch in batches:
        with stages_timed(where) as found:
            curator.curate(batch, generator=draw)
        seconds.append(found)
    stages = {name: statistics.median(one[name] for one in seconds[options.warmups :]) for name in seconds[0]}

    def mean(name: str) -> float:
        return statistics.fmean(one[name] for one in metrics)

    return CurationCost(
        setting, early_stop, device, cost, stages, mean("pairs"), mean("projector_steps"), mean("replaced")
    )


def _batch(options: Options, number: int, device: str) -> Rollouts:
    width = architecture_named(options.architecture).hidden_size
    made = synthetic_rollouts(
        options.groups,
        options.size,
        width,
        seed=options.seed + number,
        states="compressible",
        rewards=options.rewards,
        corruption=0.0,
    ).rollouts
    assert made.hidden is not None
    return Rollouts(rewards=made.rewards.to(device), groups=made.groups.to(device), hidden=made.hidden.to(device))


def _config(setting: Setting, early_stop: bool) -> GeoAlignConfig:
    config = GeoAlignConfig.preset("paper", task="math") if setting == "paper" else GeoAlignConfig()
    if early_stop:
        return config
    projector = config.projector
    assert isinstance(projector, ProjectorConfig)
    return replace(config, projector=replace(projector, target_accuracy=None))
