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
            ("=", "--set"),
            ("=1", "--set"),
            ("seed", "--set"),
            ("a..b=1", "--set"),
            (".seed=1", "--set"),
            ("seed.=1", "--set"),
            (". . =1", "--set"),
            ("\x1b[31mseed=1", "--set"),
            ("a." * 5000 + "a=1", "at most 40 keys"),
            ("a." * 60 + "a=1", "at most 40 keys"),
            ("x" * 9000 + "=1", "--set"),
            ("sed=1", "expected seed"),
            ("seed.x=1", "seed"),
            ("curator=3", "curator"),
            ("curator.projector.layers.x=1", "curator.projector.layers"),
            ("curator=[]", "curator"),
            ("grpo=text", "grpo"),
            ("model=tiny", "model"),
            ("task.0=1", "task.0"),
            ("curator={alpha: 0.1, alpha: 0.2}", "curator.alpha: expected once"),
            ("curator.projector={layers: 1, layers: 1}", "curator.projector.layers: expected once"),
            ('curator.projector="{\\"steps\\": 1, \\"steps\\": 2}"', "once"),
            ("curator={a: &a [*a]}", "curator.a"),
            ("curator=" + "[" * 20_000, "at most 40 levels"),
            ("seed=[1", "YAML value"),
            ("seed=1\n---\n2", "YAML value"),
            ("seed=\x00", "U+0000"),
            ("seed=\udcff", "U+DCFF"),
            ("seed=!!python/name:os.system", "!!python"),
            ("seed=" + "y" * 90_000, "seed"),
            ("grpo.max_steps=10000000", "grpo.max_steps"),
            ("grpo.max_steps=1e7", "grpo.max_steps"),
            ("grpo.bf16=1", "grpo.bf16"),
            ("launch.accelerate=/dev/zero", "launch.accelerate"),
        ]
    ),
    *(
        (("compare", *arguments, "--output", "nowhere"), said)
        for arguments, said in [
            (("--seeds", ""), "--seeds"),
            (("--seeds", "0,0"), "--seeds"),
            (("--seeds", "0,,1"), "--seeds"),
            (("--seeds", "-1"), "--seeds"),
            (("--seeds", "1.5"), "--seeds"),
            (("--seeds", "1e3"), "--seeds"),
            (("--seeds", "0x1"), "--seeds"),
            (("--seeds", "1_0"), "--seeds"),
            (("--seeds", "\u0663"), "--seeds"),
            (("--seeds", "2147483648"), "--seeds"),
            (("--seeds", "9" * 5001), "--seeds"),
            (("--seeds", "true"), "--seeds"),
            (("--levels", ""), "--levels"),
            (("--levels", "nowhere"), "--levels"),
            (("--levels", "flip_10,flip_10"), "--levels"),
            (("--levels", "x" * 9000), "--levels"),
            (("--curators", ""), "--curators"),
            (("--curators", "grpo,grpo"), "--curators"),
            (("--curators", "geoalign"), "--curators"),
            (("--curators", "grpo,geoaling"), "nearest: geoalign"),
            (("--curators", "grpo,../x"), "arms"),
            (("--curators", "grpo," + "x" * 9000), "arms"),
            (("--workers", "0"), "--workers"),
            (("--workers", "-1"), "--workers"),
            (("--workers", "1000000"), "--workers"),
            (("--workers", "two"), "--workers"),
            (("--set", "workers=true"), "workers"),
            (("--set", "workers=1000000"), "workers"),
            (("--set", "seeds=true"), "seeds"),
            (("--set", "seeds=[true]"), "seeds"),
            (("--set", "seeds=['1']"), "seeds"),
            (("--set", "seeds=3"), "seeds"),
            (("--set", "seeds.0=3"), "seeds"),
            (("--set", "keep_runs=1"), "keep_runs"),
            (("--set", "last_evaluations=0"), "last_evaluations"),
            (("--set", "arms=3"), "arms"),
            (("--set", "arms.grpo=3"), "arms"),
            (("--set", "arms.a/b={}"), "arms.a/b"),
            (("--set", "arms={1: {}}"), "arms"),
            (("--set", "levels={yes: {}}"), "levels"),
            (("--set", "levels=[]"), "levels"),
            (("--set", "primary={}"), "primary"),
            (("--set", "primary=[{arm: grpo, arm: grpo}]"), "primary.0.arm"),
            (("--set", "primary=[{arm: 1, against: grpo}]"), "primary"),
            (("--set", "oracle=true"), "oracle"),
            (("--set", "baseline=nobody"), "baseline"),
            (("--set", "metric=accurcy"), "metric"),
            (("--set", "run=3"), "run"),
            (("--set", "run.seed=true"), "seed"),
            (("--set", "run.reward.flip=yes"), "reward.flip"),
            (("--set", "levels.flip_10.reward.flip=yes"), "reward.flip"),
            (("--set", "arms.geoalign.curator.alpha=yes"), "curator.alpha"),
            (("--set", "arms.geoalign.seed=1"), "arms.geoalign.seed"),
            (("--set", "armz.a=1"), "armz"),
        ]
    ),
    *(
        (("curate", "nowhere.jsonl", "--output", "nowhere", *arguments), said)
        for arguments, said in [
            (("--curator", ""), "curator.type"),
            (("--curator", "nobody"), "curator.type"),
            (("--curator", "geoaling"), "nearest: geoalign"),
            (("--curator", "\x1b[2J"), "curator.type"),
            (("--curator", "pods", "--set", "curator.type=gfpo"), "once"),
            (("--curator", "pods", "--set", "curator=3"), "curator"),
            (("--set", "curator={alpha: 0.1, alpha: 0.2}"), "curator.alpha: expected once"),
            (("--set", "batch_size=0"), "batch_size"),
            (("--set", "batch_size=true"), "batch_size"),
            (("--set", "consensus_check=1"), "consensus_check"),
            (("--set", "seed=.nan"), "seed"),
            (("--set", "seeed=1"), "expected seed"),
            (("--set", "chat_template_kwargs=[1]"), "chat_template_kwargs"),
            (("--set", "chat_template_kwargs={1: 2}"), "chat_template_kwargs"),
            (("--set", "curator.projector.steps=yes"), "curator.projector.steps"),
        ]
    ),
    *(
        (("evaluate", "nowhere", "--output", "nowhere", *arguments), said)
        for arguments, said in [
            (("--samples", "0"), "samples"),
            (("--samples", "-1"), "--samples"),
            (("--samples", "true"), "--samples"),
            (("--samples", "1_0"), "--samples"),
            (("--samples", "\u0663"), "--samples"),
            (("--samples", "9" * 5001), "--samples"),
            (("--samples", "a=1", "--samples", "a=2"), "--samples"),
            (("--temperature", "nan"), "temperature"),
            (("--temperature", "inf"), "temperature"),
            (("--temperature", "-1"), "temperature"),
            (("--max-new-tokens", "0"), "--max-new-tokens"),
            (("--set", "temperature=yes"), "temperature"),
            (("--set", "temperature='1'"), "temperature"),
            (("--set", "pass_at_k=1"), "pass_at_k"),
            (("--set", "samples={a: true}"), "samples"),
            (("--set", "samples={a: 1, a: 2}"), "samples.a: expected once"),
            (("--set", "reward.workers=0"), "reward.workers"),
            (("--set", "reward.workers=100000"), "reward.workers"),
            (("--set", "reward.timeout=.inf"), "reward.timeout"),
            (("--set", "reward.model.url=http://host:99999"), "reward.model.url"),
            (("--set", "sampels=1"), "expected samples"),
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
                    ("temperature=.nan", "temperature"),
                    ("temperature.x=1", "temperature"),
                    ("timeout=.inf", "timeout"),
                    ("concurrency=0", "concurrency"),
                    ("concurrency=1000", "concurrency"),
                    ("patience=true", "patience"),
                    ("patience='3'", "patience"),
                    ("model=x", "model"),
                    ("tempreature=1", "expected temperature"),
                    ("request={a: 1, a: 2}", "request.a: expected once"),
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
            (("--shape", "0x0x0"), "--shape"),
            (("--shape", "1x2"), "--shape"),
            (("--shape", "1x2x3x4"), "--shape"),
            (("--shape", "axbxc"), "--shape"),
            (("--shape", "-1x2x3"), "--shape"),
            (("--shape", "\u00b2x2x2"), "--shape"),
            (("--shape", "1e3x2x2"), "--shape"),
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


def test_the_corpus_is_large() -> None:
    assert len(COMMANDS) > 150
