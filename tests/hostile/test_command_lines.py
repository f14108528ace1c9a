"""Hostile command lines: each is refused by the name of what is wrong, and nothing is written."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import refused, run

pytestmark = pytest.mark.usefixtures("heavy_imports")

JUDGE = "judge a b --output nowhere --base-url http://localhost:1/v1 --model m --set"
ROLLOUTS = Path(__file__).parents[2] / "recipes" / "rollouts" / "substring_reward.jsonl"
# The command, and what its refusal must name.
COMMANDS: list[tuple[Sequence[str], str]] = [
    *(
        (("train", "--dry-run", "--set", override), said)
        for override, said in [
            ("\x1b[31mseed=1", "--set"),
            ("a." * 500 + "a=1", "unknown key"),
            ("seed=\udcff", "seed"),
        ]
    ),
    *(
        ((*command.split(), value), said)
        for command, value, said in [
            ("compare --output nowhere --seeds", "", "seeds: expected one or more"),
            ("compare --output nowhere --seeds", "9" * 5001, "seeds"),
            ("compare --output nowhere --levels", "nowhere", "--levels: expected some of flip_10, got 'nowhere'"),
            ("compare --output nowhere --curators", "geoalign", "--curators: expected the baseline grpo among them"),
            ("compare --output nowhere --curators", "grpo,nobody", "curator.type: expected one of"),
            ("compare --output nowhere --curators", "grpo,../x", "arms"),
            ("compare --output nowhere --curators", "grpo," + "x" * 9000, "arms"),
            ("compare --output nowhere --workers", "0", "--workers"),
            ("compare --output nowhere --set", "arms.a/b={}", "arms.a/b"),
            ("compare --output nowhere --set", "arms.geoalign.seed=1", "arms.geoalign.seed"),
            ("audit ROLLOUTS --output nowhere --curator", "\x1b[2J", "curator.type"),
            ("audit ROLLOUTS --output nowhere --set", "batch_size=true", "batch_size"),
            ("evaluate nowhere --output nowhere --samples", "9" * 5001, "samples"),
            ("evaluate nowhere --output nowhere --benchmark", "x" * 9000, "MODEL"),
            ("evaluate nowhere --output nowhere --set", "reward.model.url=http://host:999999", "reward.model.url"),
            (JUDGE, "temperature.x=1", "temperature"),
            (JUDGE, "patience=true", "patience"),
            ("judge a b --output nowhere --model m --base-url", "http://[::1/v1", "base_url"),
            ("train", "--\x1b[2J", "--help"),
            ("train a", "b" * 10_000, "--help"),
        ]
    ),
]


def test_wrong_command_lines_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for arguments, said in COMMANDS:
        given = [str(ROLLOUTS) if argument == "ROLLOUTS" else argument for argument in arguments]
        if found := refused(run(*given), said):
            wrong[" ".join(arguments)[:100]] = found
    assert not wrong
    assert list(tmp_path.iterdir()) == []
