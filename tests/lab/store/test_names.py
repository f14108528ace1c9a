"""What a run, a comparison, an evaluation, a judging or a curation leaves behind is named in the store alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LAB = Path(__file__).parents[3] / "src" / "geoalign" / "lab"
NAMES = {
    # of a run
    "config.yaml": "run_folder", "versions.json": "run_folder", "metrics.jsonl": "run_folder",
    "evaluation.jsonl": "run_folder", "summary.json": "run_folder", "records.json": "run_folder",
    "reference_rewards.json": "run_folder", "pair_accuracy.json": "run_folder", "warm_start": "run_folder",
    "checkpoints": "run_folder", "final": "run_folder", "COMPLETE.json": "seals", "trainer_state.json": "seals",
    # of a comparison
    "compare.yaml": "comparison", "results": "comparison", "table.json": "comparison", "table.csv": "comparison",
    "prepared.json": "comparison", "checked.json": "comparison", "shared.log": "comparison",
    # of an evaluation
    "settings.json": "identity", "results.json": "evaluation",
    # of a curation
    "scores.parquet": "curation", "pairs.parquet": "curation", "densities.parquet": "curation",
    "flagged.csv": "curation",
    # of all
    ".lock": "files", ".tmp": "files", "report.html": "run_folder", "figures": "run_folder",
}  # fmt: skip
# Parts of names: of rollouts and details, checkpoints, results, parts of an evaluation.
PARTS = re.compile(r"(^|/)(step-(?!%)|checkpoint-|seed-[*{]|part-$|part-[*{])|\.attempts\.jsonl$")
# The same words for something else: positions in a sequence, labels, sections.
ELSEWHERE = {"final": ("config", "bench/layer_states.py"), "checkpoints": ("train/rehearsal.py",)}


def literals(path: Path) -> Iterator[ast.Constant]:
    """The texts in a module that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def outside() -> list[Path]:
    return [path for path in sorted(LAB.rglob("*.py")) if path.relative_to(LAB).parts[0] != "store"]


@pytest.mark.parametrize("path", outside(), ids=lambda path: path.relative_to(LAB).as_posix())
def test_artifacts_are_named_in_the_store_alone(path):
    room = path.relative_to(LAB).as_posix()
    named = [
        f"line {text.lineno}: {text.value!r}"
        for text in literals(path)
        if (text.value in NAMES or PARTS.search(text.value)) and not room.startswith(ELSEWHERE.get(text.value, ("-",)))
    ]
    assert not named, f"{room} names artifacts of the store: {'; '.join(named)}"


@pytest.mark.parametrize("name", NAMES)
def test_the_store_names_each_of_them(name):
    module = LAB / "store" / f"{NAMES[name]}.py"
    assert name in {text.value for text in literals(module)}
