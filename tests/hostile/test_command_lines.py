"""Command lines as nobody should write them: each is refused by the name of what is wrong, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import refused, run

pytestmark = pytest.mark.usefixtures("heavy_imports")

# The command, and what its refusal must name.
COMMANDS: list[tuple[Sequence[str], str]] = [
    *(
        (("train", "--dry-run", "--set", override), said)
        for override, said in [
            ("", "--set"),
            ("seed", "--set"),
            ("seed.=1", "--set"),
            ("\x1b[31mseed=1", "--set"),
            ("a." * 500 + "a=1", "unknown key"),
            ("sed=1", "expected seed"),
            ("seed.x=1", "seed"),
            ("curator=3", "curator"),
            ("curator.projector.layers.x=1", "curator.projector.layers"),
            ("model=tiny", "model"),
            ("curator={alpha: 0.1, alpha: 0.2}", "curator.alpha: expected once"),
            ("curator={a: &a [*a]}", "no alias"),
            ("curator=" + "[" * 1_000, "expected YAML"),
            ("seed=[1", "expected YAML"),
            ("seed=\x00", "expected YAML"),
            ("seed=\udcff", "seed"),
            ("seed=!!python/name:os.system", "!!python"),
            ("grpo.max_steps=10000000", "grpo.max_steps"),
            ("grpo.bf16=1", "grpo.bf16"),
        ]
    ),
    *(
        (("compare", *arguments, "--output", "nowhere"), said)
        for arguments, said in [
            (("--seeds", ""), "seeds: expected one or more"),
            (("--seeds", "0,0"), "seeds: expected one or more, each once"),
            (("--seeds", "-1"), "seeds"),
            (("--seeds", "\u0663"), "seeds"),
            (("--seeds", "2147483648"), "seeds"),
            (("--seeds", "9" * 5001), "seeds"),
            (("--levels", "nowhere"), "--levels"),
            (("--curators", "geoalign"), "--curators"),
            (("--curators", "grpo,geoaling"), "nearest: geoalign"),
            (("--curators", "grpo,../x"), "arms"),
            (("--curators", "grpo," + "x" * 9000), "arms"),
            (("--workers", "0"), "--workers"),
            (("--workers", "1000000"), "--workers"),
            (("--set", "workers=true"), "workers"),
            (("--set", "seeds=[true]"), "seeds"),
            (("--set", "seeds.0=3"), "seeds"),
            (("--set", "keep_runs=1"), "keep_runs"),
            (("--set", "arms=3"), "arms"),
            (("--set", "arms.grpo=3"), "arms"),
            (("--set", "arms.a/b={}"), "arms.a/b"),
            (("--set", "primary={}"), "primary"),
            (("--set", "baseline=nobody"), "baseline"),
            (("--set", "run=3"), "run"),
            (("--set", "arms.geoalign.curator.alpha=yes"), "curator.alpha"),
            (("--set", "arms.geoalign.seed=1"), "arms.geoalign.seed"),
            (("--set", "armz.a=1"), "armz"),
        ]
    ),
    *(
        (("audit", "nowhere.jsonl", "--output", "nowhere", *arguments), said)
        for arguments, said in [
            (("--curator", "geoaling"), "nearest: geoalign"),
            (("--curator", "\x1b[2J"), "curator.type"),
            (("--curator", "pods", "--set", "curator=3"), "curator"),
            (("--set", "curator={alpha: 0.1, alpha: 0.2}"), "curator.alpha: expected once"),
            (("--set", "batch_size=true"), "batch_size"),
            (("--set", "chat_template_kwargs=[1]"), "chat_template_kwargs"),
            (("--curator", "geoalign", "--set", "curator.projector.steps=yes"), "curator.projector.steps"),
        ]
    ),
    *(
        (("evaluate", "nowhere", "--output", "nowhere", *arguments), said)
        for arguments, said in [
            (("--samples", "0"), "samples"),
            (("--samples", "-1"), "samples"),
            (("--samples", "\u0663"), "samples"),
            (("--samples", "9" * 5001), "samples"),
            (("--temperature", "nan"), "temperature"),
            (("--max-new-tokens", "0"), "--max-new-tokens"),
            (("--set", "pass_at_k=1"), "pass_at_k"),
            (("--set", "reward.workers=100000"), "reward.workers"),
            (("--set", "reward.model.url=http://host:99999"), "reward.model.url"),
            (("--greedy", "--temperature", "1"), "--greedy"),
            (("--benchmark", "aime24"), ""),
            (("--benchmark", "aime42=x"), ""),
            (("--benchmark", "x" * 9000), ""),
        ]
    ),
    *(
        (("judge", "a", "b", "--output", "nowhere", *arguments), said)
        for arguments, said in [
            ((), "--base-url"),
            (("--local", "--set", "timeout=1"), "--local"),
            *(
                (("--base-url", "http://localhost:1/v1", "--model", "m", "--set", override), said)
                for override, said in [
                    ("temperature=yes", "temperature"),
                    ("temperature.x=1", "temperature"),
                    ("concurrency=0", "concurrency"),
                    ("patience=true", "patience"),
                    ("model=x", "model"),
                    ("request=3", "request"),
                ]
            ),
            *(
                (("--base-url", url, "--model", "m"), "base_url")
                for url in (
                    "",
                    "localhost",
                    "http://",
                    "http://host:0",
                    "http://[::1/v1",
                    "ftp://h",
                )
            ),
        ]
    ),
    *(
        (("bench", *arguments), said)
        for arguments, said in [
            (("--shape", "1x2x3x4"), "--shape"),
            (("--shape", "axbxc"), "--shape"),
            (("--shape", "\u00b2x2x2"), "--shape"),
            (("--shape", ""), "--shape"),
            (("--shape", "100000x100000x100000"), "--shape"),
            (("--shape", "x".join(["9" * 5001] * 3)), "--shape"),
            (("--repeats", "0"), "--repeats"),
            (("--repeats", "1000000000"), "--repeats"),
        ]
    ),
]


def test_wrong_command_lines_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for arguments, said in COMMANDS:
        if found := refused(run(*arguments), said):
            wrong[" ".join(arguments)[:100]] = found
    assert not wrong
    assert list(tmp_path.iterdir()) == []
