"""Settings as nobody should write them, through the command: one line that names file, line and key."""

import pytest
from harness import refused, run

pytestmark = pytest.mark.usefixtures("heavy_imports")

REFUSED: list[tuple[str | bytes, int, str]] = [
    ("seed: 1\nmodel: !!python/object/apply:os.system ['true']\n", 2, "model"),
    ("task:\n  digits: 1\n  digits: 1\n", 3, "task.digits"),
    ('output: {"\\e[2J": 1}\n', 1, "output.<U+001B>[2J"),
    ("'\u202eseed': 1\n", 1, "<U+202E>seed"),
    (b"seed: \xed\xa0\x80\n", 0, "UTF-8"),
    (b"#" * 600_000, 0, "at most 500,000 bytes"),
    (b"a: " + b"{a: " * 100_000, 0, "YAML"),
    ("curator: {projector: '" + "[" * 100_000 + "'}\n", 1, "curator.projector"),
    ("task: {type: math, train: a.jsonl, answer_pattern: '" + "(" * 5000 + "'}\n", 1, "task.answer_pattern"),
    ("grpo: {output_dir: x}\n", 1, "grpo.output_dir"),
    ("grpo: {generation_batch_size: 0}\n", 1, "grpo"),
    ("grpo: {learning_rate: .inf}\n", 1, "grpo.learning_rate"),
    ("grpo: {max_steps: 4, num_generations: 3}\n", 1, "grpo"),
]


def test_wrong_settings_are_refused_by_file_line_and_key(tmp_path):
    wrong, path = {}, tmp_path / "run.yaml"
    for content, line, key in REFUSED:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if found := refused(run("train", path, "--dry-run"), str(path), key, *([f"line {line}: "] if line else [])):
            wrong[str(content[:60])] = found
    assert not wrong
