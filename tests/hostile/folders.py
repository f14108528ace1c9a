"""One small whole folder of each kind, written by what the tests of its pages write."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parents[1]


@functools.cache
def parts_of(path: str) -> ModuleType:
    """The conftest.py of a folder of tests, which holds what writes its folders."""
    spec = importlib.util.spec_from_file_location(
        f"parts_of_{path.replace('/', '_')}", TESTS / "lab" / path / "conftest.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_folder(kind: str, folder: Path) -> Path:
    """A small whole folder: "run", "comparison", "curation", "evaluation" or "judging"."""
    if kind == "run":
        parts_of("reports")._write_run(folder, steps=2, flip=0.1, curator="geoalign")
    elif kind == "comparison":
        scores = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.55, "oracle": 0.7}
        parts_of("reports/comparison")._comparison(folder, {"flip": scores}, seeds=(0, 1, 2))
    elif kind == "curation":
        parts_of("reports/inspection")._write(folder, groups=2, size=3)
    else:
        names = {"evaluation": ("results.json", "settings.json"), "judging": ("summary.json", "judgments.jsonl")}
        folder.mkdir(parents=True)
        for name in names[kind]:
            (folder / name).write_text('{"schema_version": 1, "models": ["a", "b"]}\n')
    return folder
