"""`geoalign evaluate` from end to end: a tiny model on parts of real files, and scripted answers with known scores."""

import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from geoalign.errors import ConfigError, RunFolderError, UnscoredError
from geoalign.lab.cli import main
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.requests import EvaluateRequest
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.evaluate.command import evaluate
from geoalign.lab.evaluation.responses import read_responses
from geoalign.lab.evaluation.results import EvaluationScores
from geoalign.lab.generation.engine import Generated
from geoalign.lab.generation.transformers_engine import TransformersEngine
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = make_tokenizer(None, max_length=2048)
    model = make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=2, max_length=2048), tokenizer, seed=0)
    save(model, tokenizer, folder)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A benchmark of three problems and a dialogue set of two prompts."""
    problems = [{"problem": f"What is {n}+1?", "answer": str(n + 1)} for n in range(3)]
    talks = [
        {"chosen": f"\n\nHuman: hi {n}\n\nAssistant: yes", "rejected": f"\n\nHuman: hi {n}\n\nAssistant: no"}
        for n in range(2)
    ]
    for name, rows in (("aime", problems), ("talk", talks)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"aime24={tmp_path / 'aime.jsonl'}", f"helpful={tmp_path / 'talk.jsonl'}"


def run(
    models: Sequence[Path | str],
    benchmarks: Sequence[str],
    dialogues: Sequence[str],
    output: Path,
    *,
    checkpoints: bool = False,
    resume: bool = False,
    save_responses: Path | None = None,
    **values: Any,
) -> tuple[EvaluationScores, str]:
    config = EvaluateConfig(**{"device": "cpu", "max_new_tokens": 8, "batch_size": 5, **values})
    console = Console(file=io.StringIO(), width=100)
    request = EvaluateRequest(
        models=[str(model) for model in models],
        benchmarks=benchmarks,
        dialogues=dialogues,
        output=output,
        checkpoints=checkpoints,
        resume=resume,
        save_responses=save_responses,
    )
    found = evaluate(config, request, console=console)
    assert isinstance(console.file, io.StringIO)
    return found, console.file.getvalue()


def rows_of(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted((output / "rows").rglob("*.parquet")):
        with path.open("rb") as file:
            rows += pq.read_table(file).to_pylist()
    return rows


class Scripted:
    """Stands for a loaded model: answers by the number of the sample, which it counts itself."""

    def __init__(self, answer: Callable[[str, int], str]) -> None:
        self.answer, self.asked = answer, {}  # type: ignore[var-annotated]
        self.tokenizer: Any = None

    def generate(self, prompts: Any, seeds: Any, *, temperature: float, max_new_tokens: int) -> list[Generated]:
        found = []
        for ids in prompts:
            text = self.tokenizer.decode(ids)
            sample = self.asked[text] = self.asked.get(text, -1) + 1
            found.append(Generated(self.answer(text, sample), 7, sample == 0))
        return found

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, int], str]], None]:
    def use(answer: Callable[[str, int], str]) -> None:
        def opened(model: Any, tokenizer: Any, config: Any) -> Scripted:
            engine = Scripted(answer)
            engine.tokenizer = tokenizer
            return engine

        monkeypatch.setattr("geoalign.lab.evaluation.running.open_engine", opened)

    return use


def _right_until(counts: dict[str, int]) -> Callable[[str, int], str]:
    """Of the responses to "What is N+1?" the first `counts[N]` are right."""

    def answer(prompt: str, sample: int) -> str:
        number = prompt.partition("What is ")[2].partition("+")[0]
        right = int(number) + 1
        return f"so \\boxed{{{right if sample < counts[number] else 999}}}"

    return answer


def test_known_answers_have_known_scores(tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any) -> None:
    scripted(_right_until({"0": 1, "1": 3, "2": 0, "3": 1, "4": 0, "5": 1}))
    amc = tmp_path / "amc.jsonl"
    amc.write_text(
        "".join(json.dumps({"problem": f"What is {n}+1?", "answer": float(n + 1)}) + "\n" for n in (3, 4, 5))
    )
    found, said = run([tiny], [files[0], f"amc23={amc}"], [], tmp_path / "out", samples={"aime24": 4, "amc23": 1})
    aime, other = found.models[0].sets
    # 1, 3 and 0 of 4; of one response each two are right.
    assert aime.accuracy is not None
    assert other.accuracy is not None
    assert (aime.accuracy.estimate, other.accuracy.estimate) == pytest.approx((4 / 12, 2 / 3))
    assert {k: v.estimate for k, v in aime.pass_at_k.items()} == pytest.approx({1: 1 / 3, 2: 0.5, 4: 2 / 3})
    assert found.models[0].average is not None
    assert found.models[0].average.estimate == pytest.approx((1 / 3 + 2 / 3) / 2)
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["models"]["tiny"]["sets"]["aime24"]["pass_at_k"]["2"]["estimate"] == pytest.approx(0.5)
    assert written["models"]["tiny"]["average"]["estimate"] == pytest.approx(0.5)
    assert written["settings"]["sets"]["aime24"]["samples"] == 4
    assert "torch" in written["versions"]
    for text in ("aime24 avg@4", "33.3", "66.7", "average of 2", "50.0", "pass@k 1: 33.3, 2: 50.0, 4: 66.7"):
        assert text in said
    assert "3 problems, where AIME24 has 30" in said
    assert "of 12 responses 3 cut off at the length limit" in said
    rows = rows_of(tmp_path / "out")
    assert [(row["set"], row["id"], row["sample"], row["correct"]) for row in rows[:5]] == [
        ("aime24", "line 1", 0, True), ("aime24", "line 1", 1, False), ("aime24", "line 1", 2, False),
        ("aime24", "line 1", 3, False), ("aime24", "line 2", 0, True),
    ]  # fmt: skip
    assert (rows[0]["answer"], rows[0]["response"], rows[0]["tokens"]) == ("1", "so \\boxed{1}", 7)
    assert json.loads(rows[0]["prompt"])[1] == {"role": "user", "content": "What is 0+1?"}
    assert (tmp_path / "out" / "figures" / "pass-at-k-aime24.svg").read_bytes().startswith(b"<?xml")
    assert not (tmp_path / "out" / "figures" / "pass-at-k-amc23.svg").exists()


def test_hostile_responses_reach_every_file_whole(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any
) -> None:
    texts = ["a\ud800b", "\x00\x07\x1b[2J", "\u202e\u2028", "</script>\\boxed{" * 30, "", "💥"]
    scripted(lambda prompt, sample: texts[sample])
    _, said = run([tiny], [files[0]], [files[1]], tmp_path / "out", samples=6, save_responses=tmp_path / "r.jsonl.gz")
    saved = read_responses(tmp_path / "r.jsonl.gz").rows
    expected = ["a\ufffdb", *texts[1:]]
    assert [row.response for row in saved[:6]] == expected
    assert [row["response"] for row in rows_of(tmp_path / "out")[:6]] == expected
    assert len(saved) == len({row.key for row in saved}) == 3 * 6 + 2 * 6
    assert {row.set for row in saved} == {"aime24", "helpful"}
    assert saved[0].prompt[-1] == {"role": "user", "content": "What is 0+1?"}
    assert (saved[0].truncated, saved[1].truncated) == (True, False)
    assert "of 18 responses 3 with bytes that are no text, written as U+FFFD" in said
    assert "Dialogues were not scored" in said
    assert "\x1b[2J" not in said


def test_real_files_and_resuming_after_every_stop(
    tiny: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmarks = {"aime24": "aime24/test.jsonl", "olympiadbench": "olympiadbench/test.jsonl"}
    sets = (
        [f"{name}={shared_data / path}" for name, path in benchmarks.items()],
        [f"harmless={shared_data / 'hh_rlhf' / 'harmless-base' / 'test.jsonl.gz'}"],
    )
    values: dict[str, Any] = {"samples": {"aime24": 4}, "problems": 4}
    _, said = run([tiny], *sets, tmp_path / "whole", **values)
    assert "first 4 of 675 problems" in said
    expected = rows_of(tmp_path / "whole")
    assert len(expected) == 4 * 4 + 4 + 4
    assert expected[0]["response"] != expected[1]["response"]
    assert {row["set"] for row in expected} == {"aime24", "olympiadbench", "harmless"}

    generate, calls = TransformersEngine.generate, [0]

    def stopping(self: TransformersEngine, *arguments: Any, **options: Any) -> list[Generated]:
        calls[0] += 1
        if calls[0] % 2 == 0:
            raise KeyboardInterrupt
        return generate(self, *arguments, **options)

    # Every second batch is broken off; six parts need six stops at most.
    monkeypatch.setattr(TransformersEngine, "generate", stopping)
    stops = 0
    while stops < 10:
        try:
            run([tiny], *sets, tmp_path / "broken", resume=True, **values)
            break
        except KeyboardInterrupt:
            stops += 1
            (tmp_path / "broken" / "rows" / "half.parquet.tmp").write_bytes(b"PAR1")
    assert stops >= 5
    assert rows_of(tmp_path / "broken") == expected
    # Finished: nothing is generated any more, the same numbers come again.
    made = calls[0]
    again, _ = run([tiny], *sets, tmp_path / "broken", resume=True, **values)
    assert calls[0] == made
    whole = json.loads((tmp_path / "whole" / "results.json").read_text())
    assert json.loads((tmp_path / "broken" / "results.json").read_text()) == whole
    assert again.models[0].sets[0].responses == 16


def test_greedy_takes_one_response_and_repeats(tiny: Path, files: tuple[str, str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        run([tiny], [files[0]], [], tmp_path / name, temperature=0, seed=1 if name == "one" else 2)
    one, two = rows_of(tmp_path / "one"), rows_of(tmp_path / "two")
    assert len(one) == 3
    assert [row["response"] for row in one] == [row["response"] for row in two]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"temperature": 0.5}, "temperature: expected 1.0, as the evaluation in .*, got 0.5"),
        ({"samples": 2}, "sets.aime24.samples: expected 1, as"),
        ({"seed": 1}, "seed: expected 0"),
        ({"batch_size": 2}, "batch_size: expected 5"),
        ({"max_new_tokens": 9}, "sets.aime24.max_new_tokens: expected 8"),
        ({"system_prompt": None}, "sets.aime24.digest: expected"),
        ({"problems": 2}, "sets.aime24.problems: expected 3"),
        ({"chat_template_kwargs": {"x": 1}}, "models.tiny.chat_template_kwargs.x: expected nothing"),
        ({"dtype": "bfloat16"}, "dtype: expected 'float32'"),
        ({"reward": {"timeout": 1.0}}, "reward.timeout: expected 5.0"),
    ],
)
def test_other_settings_are_refused_by_key(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any, values: dict[str, Any], said: str
) -> None:
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out", samples=1)
    with pytest.raises(ConfigError, match=said):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True, **{"samples": 1, **values})


def test_another_model_or_set_is_refused(tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any) -> None:
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"sets\.helpful\.kind: expected nothing"):
        run([tiny], [files[0]], [files[1]], tmp_path / "out", resume=True)
    other = tmp_path / "tiny"
    shutil.copytree(tiny, other)
    # A copy is the same model, wherever it lies.
    run([other], [files[0]], [], tmp_path / "out", resume=True)
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-3] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    with pytest.raises(ConfigError, match=r"models\.tiny\.fingerprint: expected"):
        run([other], [files[0]], [], tmp_path / "out", resume=True)


def test_folders_are_not_written_over(tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any) -> None:
    scripted(lambda prompt, sample: "")
    run([tiny], [files[0]], [], tmp_path / "out")
    with pytest.raises(RunFolderError, match="got an evaluation: add --resume to resume it"):
        run([tiny], [files[0]], [], tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(
        RunFolderError, match=r"expected an empty folder or one of an earlier evaluation, got one with notes\.txt"
    ):
        run([tiny], [files[0]], [], tmp_path / "other")
    part = next((tmp_path / "out" / "rows").rglob("part-00001.parquet"))
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(RunFolderError, match=r"part-00001\.parquet: expected rows of an evaluation"):
        run([tiny], [files[0]], [], tmp_path / "out", resume=True)


class Rewards:
    """A reward model: the length of the response; NaN for one of a letter."""

    binary = False

    def __init__(self) -> None:
        self.counters = {"scored": 0, "too_long": 0}
        self.closed = False

    def score(self, responses: Any, answers: Any, *, prompts: Any = None) -> list[float]:
        assert [message["role"] for message in prompts[0]] == ["user"]
        scores = [math.nan if len(text) == 1 else float(len(text)) for text in responses]
        self.counters["too_long"] += sum(map(math.isnan, scores))
        return scores

    def __enter__(self) -> "Rewards":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


@pytest.fixture
def reward_model(monkeypatch: pytest.MonkeyPatch) -> Rewards:
    found = Rewards()

    def load(place: str, config: Any) -> Rewards:
        assert (place, config.device) == ("owner/reward", "cpu")
        return found

    monkeypatch.setattr("geoalign.lab.evaluate.command.RewardModelScorer.load", load)
    return found


REWARD = {"model": {"path": "owner/reward"}}


def test_dialogues_are_scored_by_a_reward_model(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any, reward_model: Rewards
) -> None:
    texts = ["long", "x", "longer"]
    scripted(lambda prompt, sample: texts[sample])
    found, said = run([tiny], [], [files[1]], tmp_path / "out", samples=3, reward=REWARD)
    (helpful,) = found.models[0].sets
    assert helpful.reward is not None
    assert (helpful.reward.estimate, helpful.unscored, dict(helpful.counts)) == (5.0, 2, {"not_text": 0, "too_long": 2})
    assert reward_model.closed
    assert "of 6 responses 2 too_long, 2 without a score" in said
    assert [row["correct"] for row in rows_of(tmp_path / "out")] == [None] * 6
    assert json.loads((tmp_path / "out" / "results.json").read_text())["models"]["tiny"]["average"] is None


def test_a_server_may_score_dialogues(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Served(Rewards):
        def __init__(self, config: Any) -> None:
            super().__init__()
            assert config.url == "http://127.0.0.1:8100"
            self.checked = False
            made.append(self)

        def check(self) -> None:
            self.checked = True

    made: list[Served] = []
    monkeypatch.setattr("geoalign.lab.rewards.served_model.ServedRewardModel", Served)
    scripted(lambda prompt, sample: "four")
    reward = {"model": {"url": "http://127.0.0.1:8100"}}
    found, _ = run([tiny], [], [files[1]], tmp_path / "out", reward=reward)
    (helpful,) = found.models[0].sets
    assert helpful.reward is not None
    assert helpful.reward.estimate == 4.0
    assert [(one.checked, one.closed) for one in made] == [(True, True)]


def test_too_few_scores_stop_it_and_nothing_is_lost(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any, reward_model: Rewards
) -> None:
    texts = ["long"] * 3 + ["x"] * 3
    scripted(lambda prompt, sample: texts[sample])
    with pytest.raises(UnscoredError, match=r"a batch of helpful .*too_long 3.*--resume"):
        run(
            [tiny],
            [files[0]],
            [files[1]],
            tmp_path / "out",
            samples={"aime24": 1, "helpful": 6},
            reward=REWARD,
            batch_size=4,
        )
    # Parts of four: long long long x | x x long long | long x x x. The third is not written.
    assert {path.name for path in (tmp_path / "out" / "rows" / "tiny" / "helpful").iterdir()} == {
        "part-00000.parquet", "part-00001.parquet",
    }  # fmt: skip


def _run_folder(root: Path, tiny: Path, steps: Sequence[int], *, final: bool, last: bool = True) -> Path:
    """A run folder as `geoalign train` leaves it, with copies of one model."""
    import yaml

    rl = root / "checkpoints" / "rl"
    for step in steps:
        shutil.copytree(tiny, rl / f"checkpoint-{step}")
        state = {"global_step": step, "max_steps": steps[-1] if last else steps[-1] + 1}
        (rl / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
        (rl / f"checkpoint-{step}" / "COMPLETE.json").write_text(json.dumps({"step": step}))
    if final:
        shutil.copytree(tiny, root / "checkpoints" / "final")
        (root / "summary.json").write_text(json.dumps({"steps": steps[-1] + 1 if steps else 7}))
    root.mkdir(parents=True, exist_ok=True)
    model = {"type": "pretrained", "path": "x", "chat_template_kwargs": {"enable_thinking": False}}
    (root / "config.yaml").write_text(yaml.safe_dump({"model": model}))
    (root / "versions.json").write_text(json.dumps({"schema_version": 1}))
    return root


def test_a_run_is_its_final_model_or_its_checkpoints(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any
) -> None:
    scripted(lambda prompt, sample: "")
    root = _run_folder(tmp_path / "a run", tiny, [10, 20, 30], final=True)
    # A checkpoint that a kill cut short does not count.
    shutil.copytree(tiny, root / "checkpoints" / "rl" / "checkpoint-40")
    found, _ = run([root], [files[0]], [], tmp_path / "final")
    (model,) = [one.model for one in found.models]
    assert (model.name, model.step, dict(model.template_options)) == ("a_run", None, {"enable_thinking": False})
    found, said = run([root], [files[0]], [], tmp_path / "all", checkpoints=True)
    assert [(one.model.name, one.model.step) for one in found.models] == [
        ("a_run-step-000010", 10), ("a_run-step-000020", 20), ("a_run-step-000030", 30),
    ]  # fmt: skip
    assert found.curves["a_run"]["aime24"].steps == (10, 20, 30)
    assert "a_run: 3 checkpoints, steps 10 to 30" in said
    assert "mean of the last 3" in said
    assert (tmp_path / "all" / "figures" / "checkpoints-a_run-aime24.svg").is_file()
    own, _ = run([root], [files[0]], [], tmp_path / "own", chat_template_kwargs={"enable_thinking": True})
    assert own.models[0].model.template_options == {"enable_thinking": True}


def test_the_final_model_closes_the_checkpoints_where_none_of_them_is_it(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any
) -> None:
    scripted(lambda prompt, sample: "")
    root = _run_folder(tmp_path / "run", tiny, [10, 20], final=True, last=False)
    found, _ = run([root], [files[0]], [], tmp_path / "all", checkpoints=True)
    assert [(one.model.name, one.model.step) for one in found.models][-1] == ("run-final", 21)
    assert found.curves["run"]["aime24"].steps == (10, 20, 21)


def test_several_models_have_names_of_their_own(
    tiny: Path, files: tuple[str, str], tmp_path: Path, scripted: Any
) -> None:
    scripted(lambda prompt, sample: "")
    one, two = (_run_folder(tmp_path / name / "run", tiny, [10, 20], final=False) for name in "ab")
    folders = [path / "checkpoints" / "rl" / "checkpoint-10" for path in (one, two)]
    found, _ = run([tiny, one, two, *folders[:1]], [files[0]], [], tmp_path / "out", checkpoints=True)
    names = [one.model.name for one in found.models]
    # The checkpoint named by itself is there once.
    assert names == ["tiny", "run-step-000010", "run-step-000020", "run-step-000010-2", "run-step-000020-2"]
    assert list(found.curves) == ["run", "run-2"]
    assert sorted(path.name for path in (tmp_path / "out" / "rows").iterdir()) == sorted(names)


def test_models_that_are_none_are_refused(tiny: Path, files: tuple[str, str], tmp_path: Path) -> None:
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text("{}")
    unfinished = _run_folder(tmp_path / "unfinished", tiny, [], final=False)
    for models, checkpoints, said in [
        ([], False, "MODEL: expected a folder"),
        ([tmp_path / "nowhere"], False, "no such folder"),
        (["nowhere"], False, "no such folder"),
        ([tmp_path], False, "got a folder that is neither"),
        ([adapters], False, "expected a whole model, got adapters"),
        ([unfinished], False, "evaluate what there is with --checkpoints"),
        ([unfinished], True, "got one without any yet"),
        ([tiny], True, "--checkpoints: expected a run folder"),
    ]:
        with pytest.raises(ConfigError, match=said):
            run(models, [files[0]], [], tmp_path / "out", checkpoints=checkpoints)
    with pytest.raises(ConfigError, match="revision: expected null for the folder"):
        run([tiny], [files[0]], [], tmp_path / "out", revision="main")
    shutil.copytree(tiny, tmp_path / "copy")
    with pytest.raises(ConfigError, match="--save-responses: expected one model, got 2"):
        run([tiny, tmp_path / "copy"], [files[0]], [], tmp_path / "out", save_responses=tmp_path / "r.jsonl")
    with pytest.raises(ConfigError, match=r"expected a name that ends in \.jsonl"):
        run([tiny], [files[0]], [], tmp_path / "out", save_responses=tmp_path / "r.txt")
    assert not (tmp_path / "out").exists()


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Runs the command line in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["geoalign", *map(str, arguments)])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_command_line(
    tiny: Path,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted: Any,
) -> None:
    scripted(_right_until({"0": 1, "1": 1, "2": 1}))
    common = ("evaluate", tiny, "--benchmark", files[0], "--output", tmp_path / "out", "--max-new-tokens", "8")
    more = ("--samples", "aime24=2", "--set", "device=cpu")
    assert call(monkeypatch, *common, *more) == 0
    assert "aime24 avg@2" in capsys.readouterr().out
    assert call(monkeypatch, *common, *more) == 2
    assert "add --resume" in capsys.readouterr().err
    assert call(monkeypatch, *common, *more, "--resume") == 0
    assert call(monkeypatch, *common, *more, "--resume", "--greedy") == 2
    assert "samples: expected 1 with temperature=0" in capsys.readouterr().err
    assert call(monkeypatch, *common, "--greedy", "--temperature", "1") == 2
    assert "--greedy: expected without --temperature" in capsys.readouterr().err
    assert call(monkeypatch, *common, "--pass-at-k", "--samples", "x") == 2


def test_stopped_by_hand_it_says_how_to_go_on(
    tiny: Path,
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scripted: Any,
) -> None:
    def stop(prompt: str, sample: int) -> str:
        raise KeyboardInterrupt

    scripted(stop)
    where = ("--benchmark", files[0], "--output", tmp_path / "o")
    command = ("evaluate", tiny, *where, "--set", "device=cpu", "--max-new-tokens", "8")
    assert call(monkeypatch, *command) == 130
    said = capsys.readouterr().err
    assert f"Go on with: geoalign evaluate {tiny} --benchmark" in said
    assert said.rstrip().endswith("--resume")
    scripted(lambda prompt, sample: "")
    assert call(monkeypatch, *command, "--resume") == 0


@pytest.mark.slow
def test_killed_it_comes_to_the_same_rows(tiny: Path, files: tuple[str, str], tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "geoalign", "evaluate", str(tiny), "--benchmark", files[0], "--set", "device=cpu",
        "--set", "batch_size=2", "--max-new-tokens", "400", "--output",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True, env=environment)
    process = subprocess.Popen(
        [*command, tmp_path / "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    until = time.monotonic() + 120
    while not list((tmp_path / "killed").rglob("part-00003.parquet")) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = len(list((tmp_path / "killed").rglob("*.parquet")))
    assert 4 <= there < 12
    subprocess.run([*command, tmp_path / "killed", "--resume"], check=True, capture_output=True, env=environment)
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "whole")
