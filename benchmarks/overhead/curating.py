"""The step that the overhead benchmark measures, the cost of a call, and that of curating a batch of full size."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from benchmarks.stages import stages_timed, synchronise
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.method.projector import ProjectorConfig
from geoalign.testing.synthetic import synthetic_rollouts
from geoalign.types import Rollouts


@dataclass(frozen=True)
class Options:
    """A step of GRPO, and how it is measured.

    All rollouts are equally long, as long as they may get. `rows` of them are passed through the model (None: all), the
    rest of the batch counts as so many more of the same. `model`: a folder with a model in the place of one with
    random weights. The command line says what the others are.

    Raises:
        ConfigError: a number is out of range or does not go with the others.
    """

    architecture: str = "qwen3-1.7b"
    model: str | None = None
    groups: int = 96
    size: int = 16
    prompt: int = 256
    response: int = 1024
    micro_batch: int = 4
    rows: int | None = None
    repeats: int = 3
    warmups: int = 1
    device: str = "cpu"
    rewards: Literal["continuous", "binary"] = "continuous"
    checkpointing: bool = True
    policy: bool = True
    generation: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "cuda"):
            raise ConfigError(f"device: expected cpu or cuda (which GPU: CUDA_VISIBLE_DEVICES), got {self.device!r}")
        least = {"groups": 1, "size": 2, "prompt": 2, "response": 1, "micro_batch": 1, "repeats": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name}: expected at least {value}, got {getattr(self, name)}")
        for name in ("warmups", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        if self.rollouts % self.micro_batch:
            raise ConfigError(f"micro_batch: expected a divisor of {self.rollouts} rollouts, got {self.micro_batch}")
        if self.rows is not None and not (0 < self.rows <= self.rollouts and self.rows % self.micro_batch == 0):
            raise ConfigError(
                f"rows: expected whole micro-batches of {self.micro_batch}, at most {self.rollouts}, got {self.rows}"
            )

    @property
    def rollouts(self) -> int:
        return self.groups * self.size

    @property
    def passed(self) -> int:
        return self.rows or self.rollouts

    @property
    def tokens(self) -> int:
        return self.prompt + self.response


@dataclass(frozen=True)
class Cost:
    """What one part of a step costs: seconds of each repeat, peak extra megabytes (NaN: not measured).

    `scale`: the seconds are this many times those measured, because only a share of the batch was passed through.
    """

    seconds: tuple[float, ...]
    megabytes: float = math.nan
    scale: float = 1.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def scaled(self, factor: float) -> Cost:
        """The cost of `factor` times as much of the same; memory stays, because the pieces follow one another."""
        return Cost(tuple(factor * value for value in self.seconds), self.megabytes, self.scale * factor)


def measure(call: Callable[[int], object], *, repeats: int, warmups: int, device: torch.device) -> Cost:
    """Calls with 0, 1, 2, ...: first to warm up, then as often to measure.

    Memory is what torch's allocator held at most, above what it held before; on a CPU it is not measured.
    """
    for number in range(warmups):
        call(number)
    seconds, extra = [], math.nan
    for number in range(warmups, warmups + repeats):
        synchronise(device)
        before = _start_of_peak(device)
        started = time.perf_counter()
        call(number)
        synchronise(device)
        seconds.append(time.perf_counter() - started)
        if device.type == "cuda":
            found = (torch.cuda.max_memory_allocated(device) - before) / 2**20
            extra = found if math.isnan(extra) else max(extra, found)
    return Cost(tuple(seconds), extra)


def _start_of_peak(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


@dataclass(frozen=True)
class Architecture:
    """The numbers of a Qwen3 model that decide its cost; the vocabulary is both input and (tied) output."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int

    def config(self, *, tokens: int) -> Qwen3Config:
        """transformers' config, for sequences of up to `tokens` tokens."""
        values = asdict(self)
        return Qwen3Config(
            **values,
            architectures=["Qwen3ForCausalLM"],  # by which vLLM knows the model
            tie_word_embeddings=True,
            max_position_embeddings=tokens,
            # The last ids, so that every architecture has them; none of them is drawn for a rollout.
            pad_token_id=self.vocab_size - 1,
            eos_token_id=self.vocab_size - 2,
            bos_token_id=None,
            dtype="float32",
        )


# From the public configs of Qwen/Qwen3-1.7B and Qwen/Qwen3-4B.
ARCHITECTURES: dict[str, Architecture] = {
    "qwen3-1.7b": Architecture(2048, 28, 16, 8, 128, 6144, 151_936),
    "qwen3-4b": Architecture(2560, 36, 32, 8, 128, 9728, 151_936),
    # To see the benchmark run on a CPU.
    "tiny": Architecture(64, 2, 4, 2, 16, 128, 320),
}


def architecture_of(options: Options) -> Architecture:
    """The numbers of the architecture that is named, or of the model in the folder."""
    if options.model is None:
        return ARCHITECTURES[options.architecture]
    config = AutoConfig.from_pretrained(options.model)
    numbers: dict[str, Any] = {field.name: getattr(config, field.name, None) for field in fields(Architecture)}
    numbers["head_dim"] = numbers["head_dim"] or config.hidden_size // config.num_attention_heads
    return Architecture(**numbers)


def make_policy(options: Options) -> Any:
    """The model in the folder, or one with random weights, fp32; the caller's generators stay as they were."""
    device = torch.device(options.device)
    if options.model is not None:
        return AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).to(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
        torch.manual_seed(options.seed)
        return Qwen3ForCausalLM(architecture_of(options).config(tokens=options.tokens))


Setting = Literal["paper", "default"]


@dataclass(frozen=True)
class CurationCost:
    """The cost of curating one batch, and what there was to do."""

    setting: Setting  # "paper" (all groups in every step, no cap) or "default" (the library's)
    early_stop: bool  # whether training may stop at the target accuracy
    device: str  # where it ran
    cost: Cost  # of whole calls
    # median seconds of each stage, the device waited for after each, and "rest"; empty for Denoise
    stages: dict[str, float]
    pairs: float  # of the measured calls, in the mean, as steps and replaced; NaN for Denoise
    steps: float
    replaced: float
    curator: Literal["geoalign", "denoise"] = "geoalign"

    @property
    def label(self) -> str:
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
    width = architecture_of(options).hidden_size
    kind: dict[str, Any] = {"states": "compressible", "rewards": options.rewards, "corruption": 0.0}
    made = synthetic_rollouts(options.groups, options.size, width, seed=options.seed + number, **kind).rollouts
    assert made.hidden is not None
    return Rollouts(rewards=made.rewards.to(device), groups=made.groups.to(device), hidden=made.hidden.to(device))


def _config(setting: Setting, early_stop: bool) -> GeoAlignConfig:
    config = GeoAlignConfig.preset("paper", task="math") if setting == "paper" else GeoAlignConfig()
    if early_stop:
        return config
    projector = config.projector
    assert isinstance(projector, ProjectorConfig)
    return replace(config, projector=replace(projector, target_accuracy=None))
