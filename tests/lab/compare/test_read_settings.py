from pathlib import Path

import pytest
import yaml

from geoalign.errors import ConfigError
from geoalign.lab.compare.plan import resolved_run, warm_start_run
from geoalign.lab.compare.read_settings import load_compare_config, parse_compare_config
from geoalign.lab.train.settings import DEFAULT_TYPES
from geoalign.settings.layers import merged_settings
from geoalign.settings.loading import plain_settings

TWO_ARMS = "arms:\n  grpo:\n  geoalign:\n    curator: {type: geoalign, alpha: 0.1}\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "compare.yaml"
    path.write_text(text)
    return path


def test_another_type_starts_a_section_anew_and_the_same_type_does_not() -> None:
    base = {"curator": {"type": "geoalign", "alpha": 0.2, "projector": {"steps": 3}}}
    assert merged_settings(base, {"curator": {"type": "grpo"}}, default_types=DEFAULT_TYPES) == {
        "curator": {"type": "grpo"}
    }
    same = merged_settings(base, {"curator": {"type": "geoalign", "alpha": 0.5}}, default_types=DEFAULT_TYPES)
    assert same == {"curator": {"type": "geoalign", "alpha": 0.5, "projector": {"steps": 3}}}
    # A section without a type is of the default kind, denoise.
    assert (
        merged_settings({"curator": {"states": 2}}, {"curator": {"type": "denoise"}}, default_types=DEFAULT_TYPES)[
            "curator"
        ]["states"]
        == 2
    )


def test_the_arm_has_the_last_word_then_the_level(tmp_path: Path) -> None:
    text = (
        "run:\n  reward: {flip: 0.3}\n  grpo: {beta: 0.1, max_steps: 8}\n"
        "arms:\n  grpo:\n  clean:\n  eager: {grpo: {learning_rate: 0.1}}\n"
        "levels:\n  some: {reward: {flip: 0.05}, grpo: {learning_rate: 0.2, beta: 0.3}}\n"
    )
    config = load_compare_config(written(tmp_path, text)).config
    assert resolved_run(config, "some", "grpo", 0).reward.flip == 0.05
    assert resolved_run(config, "some", "clean", 0).reward.flip == 0.0
    eager = resolved_run(config, "some", "eager", 7)
    assert eager.grpo == {"learning_rate": 0.1, "beta": 0.3, "max_steps": 8}
    assert (eager.seed, eager.curator.type) == (7, "denoise")  # the base's curator


def test_problems_are_those_of_the_warm_start_for_every_seed(tmp_path: Path) -> None:
    config = load_compare_config(written(tmp_path, "run: {seed: 11}\n" + TWO_ARMS)).config
    runs = [resolved_run(config, "as_given", "grpo", seed) for seed in (0, 1)]
    assert [run.task.seed for run in runs] == [11, 11]
    assert warm_start_run(config, config.run.seed).task == runs[0].task
    given = load_compare_config(written(tmp_path, "run: {task: {seed: 4}}\n" + TWO_ARMS)).config
    assert resolved_run(given, "as_given", "grpo", 1).task.seed == 4


def test_null_is_the_curator_of_the_arms_name_and_clean_has_no_corruption(tmp_path: Path) -> None:
    text = "run: {reward: {flip: 0.2, shortcut: 0.3}}\narms: {grpo: , geoalign_released: , clean: , as_base: {}}\n"
    config = load_compare_config(written(tmp_path, text)).config
    assert config.arms["geoalign_released"] == {"curator": {"type": "geoalign_released"}}
    clean = resolved_run(config, "as_given", "clean", 0)
    assert (clean.reward.flip, clean.reward.extremes, clean.reward.shortcut) == (0.0, 0.0, 0.0)
    assert type(clean.curator).__name__ == "IdentityConfig"
    assert type(resolved_run(config, "as_given", "as_base", 0).curator).__name__ == "DenoiseConfig"


def test_what_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    text = TWO_ARMS + "levels: {a: {reward: {flip: 0.1}}}\nprimary: [{arm: geoalign, against: grpo}]\nworkers: 3\n"
    config = load_compare_config(written(tmp_path, text)).config
    plain = yaml.safe_load(yaml.safe_dump(plain_settings(config)))
    assert parse_compare_config(plain) == config


def test_the_command_line_chooses_arms_levels_and_seeds(tmp_path: Path) -> None:
    text = (
        TWO_ARMS + "  clean:\noracle: clean\nlevels: {a: {}, b: {}}\narms_at: {clean: [b]}\n"
        "primary: [{arm: geoalign, against: grpo}]\n"
    )
    path = written(tmp_path, text)
    config = load_compare_config(path, ["seeds=[5]"], arms=["grpo", "geoalign_released"], levels=["a"]).config
    assert list(config.arms) == ["grpo", "geoalign_released"]
    assert (list(config.levels), config.seeds, config.arms_at) == (["a"], [5], {})
    assert (config.oracle, config.primary) == (None, [])
    whole = load_compare_config(path).config
    assert (whole.oracle, whole.arms_at) == ("clean", {"clean": ["b"]})


def test_an_oracle_is_taken_where_there_is_one(tmp_path: Path) -> None:
    assert load_compare_config(written(tmp_path, TWO_ARMS)).config.oracle is None
    with_oracle = written(tmp_path, TWO_ARMS + "  oracle: {}\n")
    assert load_compare_config(with_oracle).config.oracle == "oracle"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("armz: 3", r"line 1: armz: unknown key: expected arms, the nearest known key"),
        ("run:\n  gpro: {}\narms: {grpo: }", r"line 2: run\.gpro: unknown key: expected run\.grpo"),
        ("arms:\n  grpo:\n  geoalgn:\n", r"line 3: curator\.type: expected one of .*nearest: geoalign\); got 'geoal"),
        ("arms:\n  grpo:\n  b: {curator: {type: geoalign, alpha: 2}}", r"line 3: curator\.alpha: .*less than 1, got 2"),
        ("arms: {grpo: 3}", r"arms.grpo: expected a section of settings, got 3"),
        ("seeds: [0]", r"arms: expected a value, got none"),
        ("arms: {geoalign: }", r"baseline: expected one of the arms geoalign, got 'grpo'"),
        ("arms: {grpo: }\noracle: x", r"line 2: oracle: expected one of the arms grpo, got 'x'"),
        ("arms: {grpo: }\nprimary: [{arm: x, against: grpo}]", r"line 2: primary\[0\]\.arm: .* got 'x'"),
        ("arms: {grpo: }\nseeds: [1, 1]", r"line 2: seeds: expected one or more, each once, got \[1, 1\]"),
        ("arms: {grpo: }\nlevels: {a: {curator: {type: grpo}}}", r"line 2: levels\.a\.curator: .*arms"),
        *(
            (f"arms: {{grpo: , b: {{{section}: 3}}}}", rf"arms\.b\.{section}: expected to be left out")
            for section in ("model", "seed", "evaluation", "output")
        ),
        ("arms:\n  grpo:\n  b: {grpo: {top_k: 3}}", r"line 3: arms\.b\.grpo\.top_k: expected to be left out"),
        ("arms: {grpo: , ../x: {}}", r"arms\.\.\./x: expected a name of letters"),
        ("arms: {grpo: }\narms_at: {x: [a]}", r"arms_at: expected one of the arms grpo, got 'x'"),
        ("arms: {grpo: }\narms_at: {grpo: [x]}", r"arms_at\.grpo: expected some of the levels as_given, got 'x'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_compare_config(written(tmp_path, text))


def test_an_arm_may_build_on_one_above_it(tmp_path: Path) -> None:
    text = TWO_ARMS + "  drop: {base: geoalign, curator: {strategy: drop}, grpo: {beta: 0.1}}\n"
    config = load_compare_config(written(tmp_path, text), ["arms.geoalign.curator.alpha=0.2"]).config
    curator = {"type": "geoalign", "alpha": 0.1, "strategy": "drop"}
    assert config.arms["drop"] == {"curator": curator, "grpo": {"beta": 0.1}}
    assert config.arms["geoalign"] == {"curator": {"type": "geoalign", "alpha": 0.2}}
    with pytest.raises(ConfigError, match=r"line 5: arms\.drop\.base: expected an arm above this one, got 'gone'"):
        load_compare_config(written(tmp_path, text.replace("base: geoalign", "base: gone")))


@pytest.mark.parametrize("chosen", [["grpo", "drop"], ["drop", "grpo", "geoalign"]])
def test_a_chosen_arm_may_build_on_one_that_is_not_chosen_or_is_named_later(tmp_path: Path, chosen: list[str]) -> None:
    text = TWO_ARMS + "  drop: {base: geoalign, curator: {strategy: drop}}\n"
    config = load_compare_config(written(tmp_path, text), arms=chosen).config
    assert list(config.arms) == chosen
    assert config.arms["drop"]["curator"] == {"type": "geoalign", "alpha": 0.1, "strategy": "drop"}


def test_the_base_run_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("seed: 7\ngrpo:\n  max_steps: 12\n", encoding="utf-8")
    config = load_compare_config(written(tmp_path, "run: base.yaml\n" + TWO_ARMS), ["run.grpo.max_steps=14"]).config
    assert config.run.seed == 7
    assert config.run.grpo["max_steps"] == 14
    with pytest.raises(ConfigError, match=r"compare.yaml, line 1: run: expected settings.*no file .*gone.yaml"):
        load_compare_config(written(tmp_path, "run: gone.yaml\n" + TWO_ARMS))
    (tmp_path / "base.yaml").write_text("seed: 7\ngrop: {}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"base.yaml, line 2: .*grop"):
        load_compare_config(written(tmp_path, "run: base.yaml\n" + TWO_ARMS))


def test_a_comparison_may_build_on_another_beside_it(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("seed: 7\n", encoding="utf-8")
    (tmp_path / "wide.yaml").write_text("base: run.yaml\nmodel: {hidden_size: 32}\n", encoding="utf-8")
    (tmp_path / "first.yaml").write_text("run: run.yaml\nseeds: [4, 5]\n" + TWO_ARMS, encoding="utf-8")
    config = load_compare_config(written(tmp_path, "base: first.yaml\nrun: wide.yaml\n")).config
    assert config.seeds == [4, 5]
    assert list(config.arms) == list(load_compare_config(tmp_path / "first.yaml").config.arms)
    assert (config.run.seed, config.run.model.hidden_size) == (7, 32)
    with pytest.raises(ConfigError, match=r"base: expected a file beside compare.yaml, got 'gone.yaml'"):
        load_compare_config(written(tmp_path, "base: gone.yaml\n"))


def test_an_override_reaches_an_arm_that_only_the_command_line_names() -> None:
    config = load_compare_config(None, ["arms.pods.curator.m=4"], arms=["grpo", "pods"]).config
    assert config.arms["pods"] == {"curator": {"type": "pods", "m": 4}}
    assert list(config.arms) == ["grpo", "pods"]
