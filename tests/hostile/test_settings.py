"""Hostile settings through the command: one line that names file, line and key.

Hostile YAML as such (tags, aliases, depth, size, bytes) is tested in tests/settings/test_yaml_text.py.
"""

import pytest
from harness import refused, run

pytestmark = pytest.mark.usefixtures("heavy_imports")

REFUSED: list[tuple[str, int, str]] = [
    ('output: {"\\e[2J": 1}\n', 1, "output.<U+001B>[2J"),
    ("'\u202eseed': 1\n", 1, "<U+202E>seed"),
    ("task: {type: math, train: a.jsonl, answer_pattern: '" + "(" * 5000 + "'}\n", 1, "task.answer_pattern"),
    ("grpo: {generation_batch_size: 0}\n", 1, "grpo"),
    ("grpo: {learning_rate: .inf}\n", 1, "grpo.learning_rate"),
]


def test_wrong_settings_are_refused_by_file_line_and_key(tmp_path):
    wrong = {}
    path = tmp_path / "run.yaml"
    for content, line, key in REFUSED:
        path.write_text(content, encoding="utf-8")
        found = refused(run("train", path, "--dry-run"), str(path), key, f"line {line}: ")
        if found:
            wrong[content[:60]] = found
    assert not wrong
