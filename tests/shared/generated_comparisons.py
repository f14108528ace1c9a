"""Compact results of comparisons with known effects, made by hand: no training."""

import json

import pytest

from geoalign.settings.yaml_text import dump_yaml

# Deviations of five seeds from their arm's mean: they sum to 0, so that means are exact.
WOBBLE = (-0.02, 0.01, 0.0, -0.01, 0.02)
# How seeds differ from one another whatever the arm: what pairing by seed takes out.
SEED_SHIFT = (0.1, -0.1, 0.05, -0.05, 0.0)
STEPS = tuple(range(10, 101, 10))
DETECTION = {"score": 0.75, "pair_count": 0.7, "distance": 0.6, "fewest_pairs": 0.3}


@pytest.fixture(scope="session")
def make_result():
    return _result


@pytest.fixture
def make_comparison(tmp_path):
    """A comparison folder from {level: {arm: final score}}; see `comparison_folder`."""
    return lambda scores, name="comparison", **options: comparison_folder(tmp_path / name, scores, **options)


@pytest.fixture(scope="session")
def write_comparison():
    """As `make_comparison`, at a path given."""
    return comparison_folder


def comparison_folder(
    folder,
    scores,
    *,
    seeds=(0, 1, 2, 3, 4),
    settings=None,
    rates=None,
    failed=(),
    missing=(),
    metric="accuracy",
    compare=None,
    **parts,
):
    """Writes results and compare.yaml.

    The score of an arm is its final score's mean over five seeds; each arm's wobble is turned by its index, so that
    paired differences spread. `settings` gives curators their settings, `parts` go to `_result`.
    """
    kinds = {}
    for name in dict.fromkeys(arm for arms in scores.values() for arm in arms):
        own_settings = (settings or {}).get(name, {})
        kinds[name] = {"type": "grpo" if name == "clean" else name, **own_settings}
    rates = rates if rates is not None else dict.fromkeys(scores, 0.1)
    places = {level: list(arms) for level, arms in scores.items()}
    cells = [(level, arm, seed) for level, arms in scores.items() for arm in arms for seed in seeds]
    for level, arm, seed in cells:
        if (level, arm, seed) in missing:
            continue
        index = places[level].index(arm)
        wobble = WOBBLE[(seed * (1 + index % 4) + index) % 5]
        final = scores[level][arm] + SEED_SHIFT[seed % 5] + wobble
        cell = {"arm": arm, "level": level, "seed": seed}
        result = _result(**cell, final=final, curator=kinds[arm], metric=metric, rate=rates[level], **parts)
        if (level, arm, seed) in failed:
            error = "RuntimeError: <script>alert('loss is nan')</script>"
            result = {"schema_version": 1, **cell, "status": "failed", "error": error}
        path = folder / "results" / level / arm / f"seed-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))
    (folder / "compare.yaml").write_text(dump_yaml(_plan(kinds, rates, seeds, metric, compare or {})))
    (folder / "versions.json").write_text(json.dumps({"schema_version": 1, "geoalign": "0.1.0"}))
    return folder


def _plan(kinds, rates, seeds, metric, more):
    kind = "flip" if metric == "accuracy" else "extremes"
    arms = {name: {"curator": curator} for name, curator in kinds.items()}
    if "clean" in arms:
        arms["clean"]["reward"] = {"flip": 0.0}
    others = [name for name in ("grpo", "pair_count") if name in kinds] if "geoalign" in kinds else []
    primary = [{"arm": "geoalign", "against": other} for other in others]
    return {
        "run": {"grpo": {"steps_per_generation": 2}, "reward": {"flip": 0.0}},
        "arms": arms,
        "levels": {name: {"reward": {kind: rate}} for name, rate in rates.items()},
        "seeds": list(seeds),
        "arms_at": {},
        "baseline": "grpo",
        "oracle": "oracle" if "oracle" in kinds else None,
        "primary": primary,
        "metric": metric,
        "last_evaluations": 5,
        **more,
    }


def _result(
    *,
    arm,
    level,
    seed,
    final,
    curator,
    metric="accuracy",
    rate=0.1,
    gold=None,
    sets=("test",),
    shape=None,
    detection=None,
    series=None,
    **over,
):
    """A finished cell: evaluations rise from 0.2 to `final`, at which the last five stand; `shape` is added to them."""
    kind = curator["type"]
    values = [0.2 + (final - 0.2) * min(1.0, at / 6) for at in range(1, 11)]
    values = [value + add for value, add in zip(values, shape or [0.0] * 10, strict=True)]
    stages = [("before_rl", 0, 0.2)]
    stages += [("rl", step, value) for step, value in zip(STEPS, values, strict=True)]
    stages.append(("after_rl", STEPS[-1], values[-1]))
    lines = []
    for stage, step, value in stages:
        for index, name in enumerate(sets):
            # Sets lie 0.1 apart around the mean.
            of_set = value + 0.1 * (index - (len(sets) - 1) / 2)
            lines.append(_line(stage, step, of_set, name, metric, gold))
    scoring = kind not in ("grpo", "par")
    areas = {**DETECTION, **(detection or {})}
    rankings = {}
    for index, (name, area) in enumerate(areas.items()):
        if scoring or name != "score":
            auroc = area + 0.01 * WOBBLE[seed % 5] * (1 + index)
            rankings[name] = {"auroc": auroc, "auprc": area / 3, "generations": 10}
    return {
        "schema_version": 1, "arm": arm, "level": level, "seed": seed, "status": "finished", "error": None,
        "curator": kind, "settings": {name: value for name, value in curator.items() if name != "type"},
        "run": {"seed": seed}, "settings_key": "0" * 16,
        "evaluations": lines,
        "series": {**_series(scoring), **(series or {})},
        "detection": {
            **rankings,
            "precision_among_replaced": 0.3 + WOBBLE[seed % 5] if scoring else None,
            "base_rate": rate,
        } if rate else {},
        "snapshots": [_snapshot(step, scoring, rate) for step in (0, 50, 98)],
        "seconds": 300.0, "seconds_per_step": 2.0,
        "peak_memory_bytes": 1_000_000_000 + (20_000_000 if scoring else 0) + 1_000_000 * seed * (2 if scoring else 1),
        **over,
    }  # fmt: skip


def _line(stage, step, value, name, metric, gold):
    binary = metric == "accuracy"
    progress = step / 100
    return {
        "step": step, "stage": stage, "set": name,
        "accuracy": value if binary else None, "correct": max(0, round(value * 256)) if binary else None, "count": 256,
        "reward": value, "gold_utility": None if gold is None else 0.5 + gold * progress, "samples": 4,
        "pass_at_k": (
            {"1": value, "2": min(1.0, value + 0.1), "4": min(1.0, value + 0.15)}
            if stage == "after_rl" and binary
            else None
        ),
    }  # fmt: skip


def _series(scoring):
    """A hundred updates, every second of which is the first on its batch, with a KL of 0 and the curator's numbers."""
    steps = range(1, 101)
    curated = {
        "replaced": 8, "new_group_accuracy": 0.6, "heldout_pair_accuracy": 0.8, "train_accuracy": 0.9,
    }  # fmt: skip
    return {
        "step": list(steps),
        "reward": [0.3 + 0.003 * step for step in steps],
        "true_reward": [0.3 + 0.003 * step if step % 2 else None for step in steps],
        "ppo_kl": [0.0, 0.002] * 50,
        "clip_fraction": [0.0, 0.02] * 50,
        "curation_seconds": [0.1 if scoring else 0.0] * 100,
        **{name: [value if scoring else None, None] * 50 for name, value in curated.items()},
    }


def _snapshot(step, scoring, rate):
    """Forty rollouts whose score rises with their row; with corruption, rows 19 and 39 are corrupted, 39 is flagged."""
    rows = range(40)
    return {
        "step": step,
        "score": [float(row) if scoring and row >= 2 else None for row in rows],
        "reward": [float(row % 2) for row in rows],
        "corrupted": [bool(rate) and row in (19, 39) for row in rows],
    }
