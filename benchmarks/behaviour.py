"""Records what the software computes, so that a change that should change nothing can be held against it.

python -m benchmarks.behaviour record before.json [--short]
python -m benchmarks.behaviour compare before.json

`record` hashes the curations of every curator on fixed batches, the weights of a training by TRL's trainer with a
curator, and a run of `geoalign train` (the quickstart; with --short a few updates of it): its final weights, the
numbers of its logs, its summary and the tables of its report, once undisturbed and once stopped and resumed. `compare`
does the same again and exits with 1 and the names of what differs. Bits are promised on one machine with one version of
torch; both stand in the file, and another machine is said.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from geoalign import CURATORS, GeoAlignConfig, Rollouts
from geoalign.files.json_files import read_json, read_lines

ROOT = Path(__file__).parents[1]
SHORT = ("sft.max_steps=30", "grpo.max_steps=6", "grpo.save_steps=2", "evaluation.every=3", "evaluation.problems=32")
SETTINGS: dict[str, dict[str, Any]] = {"pods": {"m": 4}, "random": {"geoalign": GeoAlignConfig(min_scores=8)}}
# They take no other rewards, or decide nothing on others.
BINARY_ONLY = ("s_grpo", "pair_count", "noise_corrected", "nearest_centroid", "confident_learning", "score_agreement")
# What time it took differs from run to run.
TIMES = ("second", "time", "runtime", "per_second", "took", "duration", "versions", "created", "started")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--short", action="store_true", help="a few updates instead of the whole quickstart")
    options = parser.parse_args()
    before = json.loads(options.file.read_text(encoding="utf-8")) if options.verb == "compare" else None
    short = before["short"] if before else options.short
    with tempfile.TemporaryDirectory() as folder:
        now = {
            "machine": f"{platform.processor() or platform.machine()}, torch {torch.__version__}",
            "short": short,
            "curators": curations(),
            "trl": trl_training(Path(folder) / "trl"),
            "run": run(Path(folder), short=short),
        }
    if before is None:
        options.file.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(flat(now))} values written to {options.file}")
        return
    first, second = flat(before), flat(now)
    different = sorted(key for key in first | second if first.get(key) != second.get(key))
    for key in different:
        print(f"{key}: {first.get(key, 'absent')} -> {second.get(key, 'absent')}")
    print(f"{len(different)} of {len(first | second)} values differ")
    sys.exit(bool(different))


def curations() -> dict[str, str]:
    """A hash of what every curator makes of a binary and of a continuous batch, two calls in a row."""
    found = {}
    for name in CURATORS:
        if name == "chain":
            continue
        curator, digest = CURATORS[name](**SETTINGS.get(name, {})), hashlib.sha256()
        for seed in (0, 1):
            for binary in (True, False):
                if name in BINARY_ONLY and not binary:
                    continue
                curation = curator.curate(batch(seed, binary), generator=torch.Generator().manual_seed(seed))
                for part in (curation.source, curation.rewards, curation.weights, curation.scores, curation.advantages):
                    digest.update(b"" if part is None else part.contiguous().numpy().tobytes())
        found[name] = digest.hexdigest()
    return found


def batch(seed: int, binary: bool) -> Rollouts:
    """32 groups of 8 with a planted direction, and every optional field."""
    draw = torch.Generator().manual_seed(seed)
    rows = 256
    true = torch.randn(rows, generator=draw)
    true = (true > 0).float() if binary else true
    hidden = torch.randn(rows, 32, generator=draw)
    hidden[:, 0] += 2 * true
    wrong = torch.rand(rows, generator=draw) < 0.1
    rewards = torch.where(wrong, 1 - true if binary else -true, true)
    return Rollouts(
        rewards=rewards,
        groups=torch.arange(32).repeat_interleave(8),
        hidden=hidden,
        prompt_keys=torch.arange(32).repeat_interleave(8),
        lengths=torch.randint(1, 50, (rows,), generator=draw),
        logprobs=-torch.rand(rows, generator=draw),
        answers=[str(int(number)) for number in torch.randint(0, 4, (rows,), generator=draw)],
        reference_rewards=torch.randn(rows, 4, generator=draw),
        true_rewards=true,
        advantages=torch.randn(rows, generator=draw),
        ids=[str(row) for row in range(rows)],
        donor_ok=torch.ones(rows, dtype=torch.bool),
        trusted=torch.rand(rows, generator=draw) < 0.1,
        second_rewards=lambda asked: true[list(asked)].tolist(),
    )


def trl_training(folder: Path) -> str:
    """A hash of the weights after two updates of TRL's trainer with GeoAlign on the tests' tiny model."""
    sys.path.insert(0, str(ROOT / "tests" / "adapters"))
    from trl_parts import trainer

    curator = CURATORS["geoalign"](min_scores=4, alpha=0.5, projector={"layers": 1, "steps": 5})
    made = trainer(folder, curator, max_steps=2)
    made.train()
    return weights_hash(made.model.state_dict())


def run(folder: Path, *, short: bool) -> dict[str, Any]:
    """What one run leaves, undisturbed; and whether one that was stopped half way and resumed has the same weights."""
    settings, (whole, half) = SHORT if short else ("grpo.save_steps=20",), (folder / "whole", folder / "half")
    for output, more in ((whole, ()), (half, ("output.keep_checkpoints=null",))):
        changes = [part for setting in (*settings, *more) for part in ("--set", setting)]
        geoalign("train", "configs/quickstart.yaml", *changes, "--output", str(output))
    return {
        "weights": final_weights(whole),
        "resumed_weights": whole_again(half, 6 if short else 80),
        "metrics": numbers_of(read_lines(whole / "metrics.jsonl")),
        "evaluation": numbers_of(read_lines(whole / "evaluation.jsonl")),
        "summary": numbers_of(read_json(whole / "summary.json")),
        "report": report_tables(whole / "report.html"),
    }


def whole_again(folder: Path, steps: int) -> str:
    """The final weights when the second half of a run is taken away and made again by --resume."""
    rl = folder / "checkpoints" / "rl"
    for checkpoint in rl.glob("checkpoint-*"):
        if int(checkpoint.name.rpartition("-")[2]) > steps // 2:
            shutil.rmtree(checkpoint)
    shutil.rmtree(folder / "checkpoints" / "final")
    for name in ("summary.json", "report.html", "records.json"):
        (folder / name).unlink(missing_ok=True)
    geoalign("train", "--output", str(folder), "--resume")
    return final_weights(folder)


def geoalign(*arguments: str) -> None:
    """Runs one command of this checkout; its output goes to stderr."""
    subprocess.run([sys.executable, "-m", "geoalign", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)


def final_weights(folder: Path) -> str:
    return weights_hash(load_file(folder / "checkpoints" / "final" / "model.safetensors"))


def weights_hash(weights: Mapping[str, torch.Tensor]) -> str:
    """sha256 over all tensors, by name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode() + weights[name].detach().cpu().contiguous().float().numpy().tobytes())
    return digest.hexdigest()


def numbers_of(value: Any) -> Any:
    """The value without what time it took."""
    if isinstance(value, dict):
        return {key: numbers_of(item) for key, item in value.items() if not any(word in key for word in TIMES)}
    if isinstance(value, list):
        return [numbers_of(item) for item in value]
    return value


def report_tables(path: Path) -> list[str]:
    """The numbers of a report, row by row, without times and folders."""
    rows = [
        " | ".join(re.sub(r"<[^>]*>|\s*\n\s*", "", cell) for cell in re.findall(r"<t[dh]\b.*?</t[dh]>", row, re.DOTALL))
        for row in re.findall(r"<tr\b.*?</tr>", path.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [row for row in rows if not any(word in row.lower() for word in (*TIMES, "folder", "/tmp"))]


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, item in items:
        found |= flat(item, f"{prefix}.{key}" if prefix else str(key))
    return found


if __name__ == "__main__":
    main()
