"""Real comparisons, small: two arms and two seeds, an arm that crashes, kills of the comparison and of a run."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import forked
import pyarrow.parquet as pq
import pytest

from geoalign.cli import main
from geoalign.lab.runs.reading import last_step
from geoalign.settings.yaml_text import dump_yaml

SETTINGS = {
    "run": {
        "model": {"hidden_size": 16, "layers": 1, "heads": 1},
        "task": {"operands": 2, "digits": 1, "train_problems": 32, "evaluation_problems": 8, "demonstrations": 64},
        "sft": {"max_steps": 2, "per_device_train_batch_size": 8},
        "grpo": {
            "max_steps": 4, "num_generations": 4, "per_device_train_batch_size": 16, "steps_per_generation": 2,
            "save_steps": 2, "max_completion_length": 6,
        },
        "reward": {"workers": 1}, "evaluation": {"every": 2},
    },
    "arms": {
        "grpo": None,
        "geoalign": {"curator": {"type": "geoalign", "min_scores": 4, "alpha": 0.5, "projector": {"steps": 3}}},
    },
    "levels": {"flip_40": {"reward": {"flip": 0.4}}},
    "seeds": [0, 1], "seeds_per_warm_start": 1, "workers": 2, "keep_runs": True,
}  # fmt: skip

# A curator of another package, which crashes at its first batch.
BROKEN = """
from typing import ClassVar

from geoalign.curators.curator import Curator
from geoalign.settings import settings

@settings
class BrokenConfig:
    type: ClassVar[str] = "broken"

class Broken(Curator):
    config_class = BrokenConfig

    def curate(self, rollouts, *, generator=None, details=False):
        raise RuntimeError("the curator\\nbroke")
"""
SECONDS = ("seconds", "peak_memory_bytes")


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A folder with an installed package that brings the curator `broken`."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "geoalign_test_broken.py").write_text(BROKEN)
    metadata = folder / "geoalign_test_broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: geoalign-test-broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[geoalign.curators]\nbroken = geoalign_test_broken:Broken\n")
    return folder


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The settings, and those with an arm that crashes at a level of its own."""
    broken = {
        "arms": {**SETTINGS["arms"], "broken": None},
        "levels": {**SETTINGS["levels"], "as_given": {}},
        "arms_at": {"grpo": ["flip_40"], "geoalign": ["flip_40"], "broken": ["as_given"]},
    }
    paths = [tmp_path_factory.mktemp("settings") / name for name in ("compare.yaml", "broken.yaml")]
    for path, more in zip(paths, ({}, broken), strict=True):
        path.write_text(dump_yaml({**SETTINGS, **more}))
    return paths


def command(*arguments):
    return [sys.executable, "-m", "geoalign", "compare", *map(str, arguments)]


def environment(plugins):
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONPATH": str(plugins)}


def forked_comparison(plugins, *arguments):
    """`geoalign compare` in this process, its workers forked, its report undrawn: what it said, and its exit code."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        starts = SimpleNamespace(Popen=forked.Popen, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
        patch.setattr("geoalign.lab.compare.pool.subprocess", starts)
        patch.setattr("geoalign.pages.documents.render", lambda panel, theme: b"<svg/>")
        patch.setattr(sys, "argv", command(*arguments)[2:])
        patch.syspath_prepend(plugins)
        for name, value in environment(plugins).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as stop:
            main()
    return said.getvalue(), int(stop.value.code or 0)


@pytest.fixture(scope="module")
def compared(settings, plugins, tmp_path_factory):
    root = tmp_path_factory.mktemp("compared") / "comparison"
    return (root, *forked_comparison(plugins, settings[1], "--output", root))


def result(root, cell):
    return json.loads((root / "results" / f"{cell}.json").read_text())


def rollouts(root, cell):
    paths = sorted((root / "runs" / cell / "rollouts").glob("*.parquet"))
    return {path.name: pq.read_table(path).to_pydict() for path in paths}


def test_pairs_were_formed_and_rollouts_replaced(compared):
    root = compared[0]
    for seed in (0, 1):
        found = result(root, f"flip_40/geoalign/seed-{seed}")
        assert found["status"] == "finished"
        assert [line["stage"] for line in found["evaluations"]] == ["before_rl", "rl", "after_rl"]
        assert sum(value or 0 for value in found["series"]["replaced"]) > 0
        assert found["detection"]["base_rate"] > 0
        assert found["detection"]["score"]["generations"] > 0
        assert (found["max_steps"], found["updates_per_generation"]) == (4, 2)
        assert found["seconds"] > 0
        assert found["peak_memory_bytes"] > 2**20
        assert result(root, f"flip_40/grpo/seed-{seed}")["detection"]["precision_among_replaced"] is None


def test_arms_see_the_same_prompts_in_the_same_order_and_the_same_draws_corrupted(compared):
    root = compared[0]
    masks = []
    for seed in (0, 1):
        plain = rollouts(root, f"flip_40/grpo/seed-{seed}")
        curated = rollouts(root, f"flip_40/geoalign/seed-{seed}")
        assert list(plain) == list(curated) == ["step-000000.parquet", "step-000002.parquet"]
        for name in plain:
            assert plain[name]["prompt"] == curated[name]["prompt"]
            assert plain[name]["sample"] == curated[name]["sample"]
            assert plain[name]["corrupted"] == curated[name]["corrupted"]
            assert 0 < sum(plain[name]["corrupted"]) < len(plain[name]["corrupted"])
        # Before the first update there is no difference between the arms at all.
        assert plain["step-000000.parquet"]["response"] == curated["step-000000.parquet"]["response"]
        assert any(source != row for row, source in enumerate(curated["step-000000.parquet"]["source"]))
        masks.append(plain["step-000000.parquet"]["corrupted"])
    assert masks[0] != masks[1]


def test_the_arms_of_a_block_of_seeds_start_from_one_warm_start_of_its_own(compared):
    root, said, _ = compared
    assert "2 warm starts that the seeds share" in said
    begun = []
    for shared, seed in (("shared", 0), ("shared-1", 1)):
        stages = {json.loads(line)["stage"] for line in (root / shared / "metrics.jsonl").read_text().splitlines()}
        assert stages == {"sft"}
        begun.append((root / shared / "checkpoints" / "warm_start" / "model.safetensors").read_bytes())
        for arm in ("grpo", "geoalign"):
            run = root / "runs" / "flip_40" / arm / f"seed-{seed}"
            assert (run / "checkpoints" / "warm_start" / "model.safetensors").read_bytes() == begun[-1]
            assert {json.loads(line)["stage"] for line in (run / "metrics.jsonl").read_text().splitlines()} == {"rl"}
            assert not (run / "report.html").exists()
    assert begun[0] != begun[1]


def test_what_it_says_and_that_an_arm_that_crashes_is_named_and_the_others_finish(compared):
    root, said, code = compared
    assert code == 1
    assert "flip_40/grpo/seed-0 finished after" in said
    assert "6 of 6 runs are done." in said
    assert "flip_40: Two seeds, an illustration. 40% of the rewards were wrong." in said
    assert "- geoalign minus grpo: " in said
    table = json.loads((root / "table.json").read_text())
    arms = [(row["arm"], row["seeds"]) for row in table["levels"][0]["arms"]]
    assert arms == [("grpo", [0, 1]), ("geoalign", [0, 1])]
    assert {item["arm"] for item in table["failures"]} == {"broken"}
    assert len((root / "table.csv").read_text().splitlines()) == 4  # the heading, two arms, and the broken one
    assert (root / "report.html").is_file()
    for seed in (0, 1):
        assert f"Failed: as_given/broken/seed-{seed}: RuntimeError: the curator broke" in said
        failed = result(root, f"as_given/broken/seed-{seed}")
        assert [failed[name] for name in ("status", "error", "curator")] == [
            "failed", "RuntimeError: the curator broke", "broken",
        ]  # fmt: skip
        assert "Traceback" in (root / "runs" / "as_given" / "broken" / f"seed-{seed}.log").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "resume it with --resume"),
        (("--resume", "--set", "run.grpo.learning_rate=0.5"), "grpo.learning_rate: expected nothing, as the run in"),
    ],
)
def test_another_start_and_other_settings_are_refused(compared, settings, plugins, more, message):
    said, code = forked_comparison(plugins, settings[1], "--output", compared[0], *more)
    assert code == 2
    assert message in " ".join(said.split())


def wait_for(what, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not what() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_killed_crashed_and_resumed_it_comes_to_the_same(compared, settings, plugins, tmp_path):
    """The comparison is killed, then one of its runs while an arm crashes; in the end the results are the same."""
    root = tmp_path / "comparison"
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": environment(plugins)}
    runs = [root / "runs" / "flip_40" / arm / "seed-0" for arm in ("grpo", "geoalign")]
    begin = command(settings[0], "--output", root, "--curators", "grpo,geoalign,broken", "--seeds", "0")

    with subprocess.Popen(begin, **quiet) as process:
        wait_for(lambda: any(last_step(run / "metrics.jsonl") >= 2 for run in runs), process)
        process.kill()
        process.communicate()
    assert any((run / "metrics.jsonl").is_file() for run in runs)
    assert not (root / "table.json").exists()

    with subprocess.Popen(command("--output", root, "--resume"), **quiet) as process:
        wait_for(lambda: bool(workers_of(process.pid)), process)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        said = process.communicate()[0].decode()
    assert process.returncode == 1, said
    assert "killed by signal 9 (SIGKILL)" in said
    assert "Failed: flip_40/broken/seed-0: RuntimeError: the curator broke" in said

    # The curator is mended: only what failed is tried again.
    mended = BROKEN.replace(
        'raise RuntimeError("the curator\\nbroke")',
        "from geoalign.curators.curator import identity; return identity(rollouts)",
    )
    assert mended != BROKEN
    (plugins / "geoalign_test_broken.py").write_text(mended)
    done = {
        each: each.stat().st_mtime_ns for each in root.glob("results/*/*/*.json") if '"finished"' in each.read_text()
    }
    resumed = subprocess.run(
        command("--output", root, "--resume"), capture_output=True, text=True, env=environment(plugins), check=False
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len(done) == 1
    assert "2 runs, 2 at a time" in resumed.stdout
    assert "1 finished before." in resumed.stdout
    assert done == {path: path.stat().st_mtime_ns for path in done}
    for arm in ("grpo", "geoalign"):
        ours, theirs = result(root, f"flip_40/{arm}/seed-0"), result(compared[0], f"flip_40/{arm}/seed-0")
        assert without_seconds(ours) == without_seconds(theirs)


def workers_of(parent):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            command_line = (entry / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if words and int(words[1]) == parent and b"geoalign.lab.compare.worker" in command_line:
            found.append(int(entry.name))
    return found


def without_seconds(found):
    kept = {name: value for name, value in found.items() if not name.startswith(SECONDS)}
    kept["series"] = {name: value for name, value in found["series"].items() if not name.endswith("seconds")}
    return kept
