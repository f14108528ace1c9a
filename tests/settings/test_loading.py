from pathlib import Path
from typing import Any

import pytest
import yaml

from geoalign.curators.baselines.reshaped_advantages import IdentityConfig
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.data.settings import ArithmeticConfig, MathConfig
from geoalign.lab.models.settings import PretrainedModelConfig, TinyModelConfig
from geoalign.lab.rewards.settings import RewardConfig
from geoalign.lab.train.read_settings import load_run_config, parse_run_config
from geoalign.lab.train.settings import EvaluationConfig, RunConfig
from geoalign.method.projector import ProjectorConfig
from geoalign.settings.layers import read_layers
from geoalign.settings.loading import plain_settings


def written(tmp_path: Path, text: str, name: str = "run.yaml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_and_an_empty_one_give_the_defaults(tmp_path: Path) -> None:
    assert load_run_config().config == RunConfig()
    assert load_run_config(written(tmp_path, "# nothing\n")).config == RunConfig()


def test_type_picks_the_kind_of_a_section_and_left_out_is_the_default_one(tmp_path: Path) -> None:
    text = "model: {type: pretrained, path: some/model}\ntask: {type: math, train: [a]}\ncurator: {type: grpo}\n"
    config = load_run_config(written(tmp_path, text)).config
    assert config.model == PretrainedModelConfig(path="some/model")
    assert config.task == MathConfig(train=("a",))
    assert config.curator == IdentityConfig()
    text = "model: {layers: 1}\ntask: {digits: 1}\ncurator: {states: 3}\n"
    config = load_run_config(written(tmp_path, text)).config
    assert config.model == TinyModelConfig(layers=1)
    assert config.task == ArithmeticConfig(digits=1)
    assert config.curator == DenoiseConfig(states=3)
    text = "sft: null\ncurator: {type: geoalign, alpha: 0.1, projector: {steps: 3}}\n"
    config = load_run_config(written(tmp_path, text)).config
    assert config.curator == GeoAlignConfig(alpha=0.1, projector={"steps": 3})
    assert (config.curator.projector.steps, config.curator.projector.layers) == (3, 3)
    text = "sft: null\ncurator: {type: geoalign, projector: null}\n"
    config = load_run_config(written(tmp_path, text)).config
    assert (config.sft, config.curator.projector) == (None, None)


def test_overrides_win_in_their_order(tmp_path: Path) -> None:
    path = written(tmp_path, "grpo: {learning_rate: 0.1}\nseed: 3\n")
    config = load_run_config(path, ["grpo.learning_rate=1e-4", "seed=5", "seed=6", "reward.flip=0.1"]).config
    assert config.grpo == {"learning_rate": 1e-4}
    assert config.seed == 6
    assert config.reward.flip == 0.1


def test_another_type_in_an_override_starts_the_section_anew(tmp_path: Path) -> None:
    path = written(tmp_path, "curator: {type: geoalign, alpha: 0.1}\n")
    assert load_run_config(path, ["curator.type=grpo"]).config.curator == IdentityConfig()
    same = load_run_config(path, ["curator.type=geoalign"]).config.curator
    assert same == GeoAlignConfig(alpha=0.1)
    other = load_run_config(path, ["curator.type=geoalign_released", "curator.alpha=0.2"]).config.curator
    assert (type(other).__name__, other.alpha) == ("GeoAlignReleasedConfig", 0.2)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("curator:\n  widow: 3\n", ["line 2", "curator.widow", "curator.window", "'widow'"]),
        (
            "seed: 1\ncurator:\n  type: geoalign\n  projector:\n    step: 1\n",
            ["line 5", "curator.projector.step", "projector.steps"],
        ),
        ("evaluation: {evry: 3}\n", ["line 1", "evaluation.evry", "evaluation.every"]),
        ("alpha: 0.1\n", ["line 1", "alpha: unknown key"]),
        ("currator: {}\n", ["line 1", "currator", "expected curator"]),
        ("curator: {type: geoaling}\n", ["line 1", "curator.type", "nearest: geoalign", "'geoaling'"]),
        ("curator: {type: [1, 2]}\n", ["line 1", "curator.type", "[1, 2]"]),
        ("task: {type: maths}\n", ["line 1", "task.type", "nearest: math"]),
        ("task: {train: x}\n", ["line 1", "task.train: unknown key"]),
        ("seed: 1\ncurator: {type: geoalign, alpha: 1.5}\n", ["line 2", "curator.alpha", "less than 1", "1.5"]),
        ("hidden_position: last\n", ["line 1", "hidden_position", "'final'", "'last'"]),
        ("hidden_layer: 1.2\n", ["line 1", "hidden_layer", "a share of the depth in (0, 1]", "1.2"]),
        ("hidden_layer: true\n", ["line 1", "hidden_layer", "expected a layer's number", "True"]),
        ("grpo: 3\n", ["line 1", "grpo", "section", "3"]),
        ("curator: 3\n", ["line 1", "curator", "section", "3"]),
        ("curator: geoaling\n", ["line 1", "curator: expected one of", "nearest: geoalign", "'geoaling'"]),
        ("model: {type: pretrained}\n", ["model.path"]),
        ("- 1\n", ["mapping", "list"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_run_config(path)
    for part in [str(path) if "model: {type: pretrained}" not in text else "", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("curator.widow=1", ["--set curator.widow=1", "curator.window"]),
        ("curator.alpha", ["section.key=value"]),
        ("=1", ["section.key=value"]),
        ("seed.x=1", ["section", "3"]),
        ("seed=[1", ["--set seed=[1: expected YAML"]),
    ],
)
def test_wrong_overrides(tmp_path: Path, override: str, parts: list[str]) -> None:
    path = written(tmp_path, "seed: 3\n")
    with pytest.raises(ConfigError) as caught:
        load_run_config(path, [override])
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "overrides", [[], ["curator.type=grpo"], ["sft=null"], ["task.type=math", "task.train=x.jsonl"]]
)
def test_the_resolved_settings_read_back_as_the_same(overrides: list[str]) -> None:
    config = load_run_config(None, overrides).config
    plain = yaml.safe_load(yaml.safe_dump(plain_settings(config)))
    assert plain["curator"]["type"] == ("grpo" if "curator.type=grpo" in overrides else "denoise")
    assert parse_run_config(plain) == config
    assert plain_settings(parse_run_config(plain)) == plain


def test_every_shipped_config_is_valid() -> None:
    configs = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))
    # Of the full-size ones, `common` is what others build on and `launch` is accelerate's.
    configs = [path for path in configs if path.parent.name not in ("common", "launch")]
    # These are settings of an adapter, which its own tests read.
    configs = [path for path in configs if path.name != "swift_dapo_math.yaml"]
    runs = [path for path in configs if "arms" not in yaml.safe_load(path.read_text())]
    # Those that only build on another comparison.
    runs = [path for path in runs if path.parent.name != "evidence"]
    assert 0 < len(runs) < len(configs)  # the others are comparisons
    for path in runs:
        load_run_config(path)


def test_a_file_lies_over_its_base_section_by_section(tmp_path: Path) -> None:
    written(tmp_path, "seed: 1\ngrpo: {beta: 0.1, epsilon: 0.3}\n", "parts/a.yaml")
    written(tmp_path, "base: parts/a.yaml\ngrpo: {beta: 0.2}\n", "b.yaml")
    top = written(tmp_path, "base: b.yaml\nseed: 3\n", "c.yaml")
    data, places = read_layers(top, default_types={})
    assert data == {"seed": 3, "grpo": {"beta": 0.2, "epsilon": 0.3}}
    assert places["seed"] == f"{top}, line 2"
    assert places["grpo.beta"] == f"{tmp_path / 'b.yaml'}, line 2"
    assert places["grpo.epsilon"] == f"{tmp_path / 'parts/a.yaml'}, line 2"
    assert "base" not in places


@pytest.mark.parametrize(
    ("base", "named", "message"),
    [
        ("seed: 1\n\ncurator: {alfa: 0.1}", "a.yaml", "a.yaml, line 3: curator.alfa"),  # into the base
        ("base: b.yaml", "a.yaml", "a.yaml, line 1: base: expected a file that does not build on this one"),
        *(("", name, "b.yaml, line 2: base: expected a file beside b.yaml") for name in ("gone.yaml", "3", "[a]", ".")),
    ],
)
def test_what_is_wrong_with_a_base_is_named_there(tmp_path: Path, base: str, named: str, message: str) -> None:
    written(tmp_path, base, "a.yaml")
    with pytest.raises(ConfigError, match=message):
        load_run_config(written(tmp_path, f"seed: 1\nbase: {named}\n", "b.yaml"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RewardConfig, {"flip": True}), (RewardConfig, {"flip": "0.1"}), (RewardConfig, {"timeout": float("inf")}),
        (RewardConfig, {"timeout": float("nan")}), (PODSConfig, {"m": True}), (PODSConfig, {"m": 4.0}),
        (GeoAlignConfig, {"projector": {"warm_start": 1}}),
        (GeoAlignConfig, {"projector": {"layers": True}}), (GeoAlignConfig, {"projector": '{"layers": true}'}),
        (GeoAlignConfig, {"projector": "[" * 100_000}), (EvaluationConfig, {"samples": {"a": True}}),
    ],
)  # fmt: skip
def test_other_kinds_of_values_are_refused(kind: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        kind(**values)


def test_what_means_the_same_is_taken() -> None:
    assert RewardConfig(flip=1).flip == 1.0
    assert GeoAlignConfig(projector='{"layers": 2}').projector == ProjectorConfig(layers=2)
    assert GeoAlignConfig(projector={"layers": 2}).projector == ProjectorConfig(layers=2)
    assert GeoAlignConfig(projector="none").projector is None
    assert ChainConfig(members=[PODSConfig(m=2)]).members == (PODSConfig(m=2),)


def test_of_two_settings_of_the_same_the_later_one_holds():
    config = load_run_config(None, ["evaluation.samples.sums=64", "evaluation.samples=8", "sft=null"]).config
    assert (config.evaluation.samples, config.sft) == (8, None)


def test_a_curator_by_its_name_alone_may_be_set_in_parts(tmp_path: Path) -> None:
    path = written(tmp_path, "curator: geoalign\n")
    assert load_run_config(path, ["curator.alpha=0.1"]).config.curator == GeoAlignConfig(alpha=0.1)
    above = written(tmp_path, "base: run.yaml\ncurator: {alpha: 0.1}\n", "above.yaml")
    assert load_run_config(above).config.curator == GeoAlignConfig(alpha=0.1)


def test_an_empty_section_has_its_defaults(tmp_path: Path) -> None:
    text = "model:\ntask:\ncurator:\nreward:\n  model:\ngrpo:\nevaluation:\n"
    assert load_run_config(written(tmp_path, text)).config == RunConfig()


def test_samples_of_every_other_set():
    config = load_run_config(None, ["evaluation.samples={sums: 64, '*': 8}", "evaluation.pass_samples={'*': 16}"])
    evaluation = config.config.evaluation
    assert [evaluation.samples_of(name, last=False) for name in ("sums", "other")] == [64, 8]
    assert evaluation.samples_of("other", last=True) == 16
