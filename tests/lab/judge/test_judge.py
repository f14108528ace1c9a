import io
import json
import os
import signal
from dataclasses import replace

import pytest
from command_line import call
from judge_server import Reply, completion, judged_texts, longer_wins, row, verdict

from geoalign.console.terminal import Console
from geoalign.errors import ConfigError, InputError, RunFolderError, ServiceError
from geoalign.lab.judge.command import JudgeRequest
from geoalign.lab.judge.judge import judge


def of_lengths(letter, lengths):
    """Responses of so many letters to the prompts of the set helpful, one each."""
    return [row(letter * length, number=number) for number, length in enumerate(lengths)]


# The longer one wins: 3 wins, 1 loss, 1 tie in helpful, 1 loss in harmless.
A = [*of_lengths("x", [9, 9, 9, 2, 5]), row("no", name="harmless")]
B = [*of_lengths("y", [5, 5, 5, 5, 5]), row("yes", name="harmless")]
BY_LENGTH = {"helpful": (3, 1, 1), "harmless": (0, 1, 0), "all": (3, 2, 1)}


@pytest.fixture
def files(saved):
    return saved("a.jsonl", A), saved("b.jsonl.gz", B)


def run(files, config, output, **more):
    console = Console(file=io.StringIO(), width=120)
    judged = judge(config, JudgeRequest(*files, output, **more), console=console)
    return {**judged.sets, "all": judged.overall}, console.file.getvalue()


def counts(result):
    """(wins, losses, ties) of every set."""
    found = {}
    for name, rates in result.items():
        shares = (rates.win, rates.lose, rates.tie)
        found[name] = tuple(round(share.estimate * rates.judged) for share in shares)
    return found


def test_a_whole_judging(server, settings, files, tmp_path):
    result, said = run(files, settings(), tmp_path / "out")
    assert counts(result) == BY_LENGTH
    assert len(server.requests) == 12
    for text in ("helpful", "harmless", "all sets", "0.60", f"Written to {tmp_path / 'out'}"):
        assert text in said
    written = json.loads((tmp_path / "out" / "judge.json").read_text())
    assert (written["model"], written["base_url"]) == ("test-judge", server.url)
    assert written["overall"]["win"]["estimate"] == 0.5
    # helpful (3 * 0.75 + 0.25 + 0.5) / 5 = 0.6 and harmless 0.25: their mean 0.425
    assert written["mean_of_sets"]["score_a"] == pytest.approx(0.425)
    lines = [json.loads(line) for line in (tmp_path / "out" / "judgments.jsonl").read_text().splitlines()]
    first = next(line for line in lines if (line["set"], line["id"]) == ("helpful", "0"))
    assert first["winner"] == "a"
    assert (first["score_a"], first["score_b"]) == (0.75, 0.25)
    assert len(first["answers"]) == 2


def test_a_set_called_all_is_kept_beside_all_sets(saved, tmp_path):
    def renamed(side):
        return [replace(line, set="all") if line.set == "helpful" else line for line in side]

    files = (saved("all_a.jsonl", renamed(A)), saved("all_b.jsonl", renamed(B)))
    judged = judge(None, JudgeRequest(*files, tmp_path / "out"), console=Console(quiet=True))
    assert {name: found.pairs for name, found in judged.sets.items()} == {"all": 5, "harmless": 1}
    assert judged.overall.pairs == 6


def test_a_malformed_answer_is_counted_never_a_tie(server, settings, files, tmp_path):
    def reply(request):
        return completion("model_a \x1b[2J is better") if "no" in judged_texts(request) else longer_wins(request)

    server.reply = reply
    result, said = run(files, settings(), tmp_path / "out")
    assert (result["harmless"].malformed, result["harmless"].judged, result["helpful"].judged) == (1, 0, 5)
    assert counts(result | {"harmless": result["all"]})["all"] == (3, 1, 1)
    assert "\x1b" not in said + (tmp_path / "out" / "judgments.jsonl").read_text()
    written = json.loads((tmp_path / "out" / "judge.json").read_text())
    assert written["sets"]["harmless"]["win"]["estimate"] is None
    run(files, settings(), tmp_path / "out")
    assert len(server.requests) == 12


def test_a_failed_pair_is_counted_and_asked_for_again(server, settings, files, tmp_path):
    server.reply = lambda request: Reply("unfit\x1b", 400) if "no" in judged_texts(request) else longer_wins(request)
    result, said = run(files, settings(), tmp_path / "out")
    assert (result["harmless"].failed, result["all"].judged) == (1, 5)
    assert "HTTP 400: unfit<U+001B>" in " ".join(said.split())
    server.reply = longer_wins
    asked = len(server.requests)
    again, _ = run(files, settings(), tmp_path / "out")
    assert counts(again)["harmless"] == (0, 1, 0)
    assert len(server.requests) == asked + 2


@pytest.mark.parametrize(("status", "requests"), [(503, 2), (401, 1)])
def test_an_endpoint_that_answers_nothing_ends_it_and_the_same_call_resumes(
    status, requests, server, settings, files, tmp_path
):
    server.reply = lambda request: longer_wins(request) if len(server.requests) <= 5 else Reply("down", status)
    config = settings(concurrency=1)
    with pytest.raises(
        ServiceError, match=f"judge: http://.*/chat/completions: HTTP {status}: down.*; the same command resumes"
    ):
        run(files, config, tmp_path / "out")
    assert not (tmp_path / "out" / "judge.json").exists()
    assert len(server.requests) >= 5 + requests
    # A kill cuts at most the last line.
    with (tmp_path / "out" / "judgments.jsonl").open("a") as file:
        file.write('{"set": "helpf')
    before = len(server.requests)
    server.reply = longer_wins
    result, _ = run(files, config, tmp_path / "out")
    assert len(server.requests) - before == 12 - 4  # two pairs were whole
    assert counts(result) == BY_LENGTH


def test_the_key_is_nowhere_on_disk(server, settings, files, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    server.reply = lambda request: completion(f"key {server.headers[-1]['Authorization']}")
    _, said = run(files, settings(token_env="JUDGE_KEY"), tmp_path / "out")
    everything = [said.encode(), *(path.read_bytes() for path in (tmp_path / "out").iterdir())]
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert not any(b"sk-secret" in content for content in everything)


def test_another_judging_needs_another_folder(server, settings, files, tmp_path):
    run(files, settings(), tmp_path / "out")
    others = ((settings(model="other"), "model"), (settings(temperature=1), "temperature"), (None, "base_url"))
    for config, name in others:
        with pytest.raises(ConfigError, match=f"{name}.*: expected .*, as the judging in .*out.*take another --output"):
            run(files, config, tmp_path / "out")
    with pytest.raises(ConfigError, match="a_sha256: expected"):
        run((files[1], files[0]), settings(), tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(RunFolderError, match=r"expected an empty folder .* got one with mine"):
        run(files, None, tmp_path / "full")


def test_missing_rows(saved, tmp_path):
    pair = (saved("a.jsonl", A[:3]), saved("b.jsonl", B[1:4]))
    with pytest.raises(InputError, match=r"got 2 in one alone: \('helpful', '0', 0\), \('helpful', '3', 0\); --allow"):
        run(pair, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    result, _ = run(pair, None, tmp_path / "out", allow_missing=True)
    assert result["all"].pairs == 2
    written = json.loads((tmp_path / "out" / "judge.json").read_text())
    assert (written["a"]["unmatched"], written["b"]["unmatched"]) == (1, 1)
    with pytest.raises(InputError, match="expected the same"):
        run((pair[0], saved("c.jsonl", B[3:])), None, tmp_path / "none", allow_missing=True)


def test_exit_codes_of_the_command(server, files, tmp_path, monkeypatch, capsys):
    endpoint = ("--base-url", f"{server.url}/", "--model", "m", "--output", tmp_path / "out")
    server.reply = lambda request: Reply("no", 400) if "no" in judged_texts(request) else longer_wins(request)
    assert call(monkeypatch, "judge", *files, *endpoint) == 1
    assert "asks for them again" in capsys.readouterr().out
    server.reply = longer_wins
    assert call(monkeypatch, "judge", *files, *endpoint) == 0
    assert call(monkeypatch, "judge", *files, "--local", "--output", tmp_path / "local") == 0
    assert "local rule" in capsys.readouterr().out
    assert call(monkeypatch, "judge", *files, "--output", tmp_path / "new") == 2
    assert "expected --base-url and --model, or --local" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_stopped_command_says_how_to_go_on_and_goes_on(server, saved, settings, tmp_path, monkeypatch, capsys):
    def interrupting(request):
        if len(server.requests) == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return Reply(verdict("tie", 0.5, 0.5).body, delay=0.02)

    server.reply = interrupting
    files = (saved("a.jsonl", of_lengths("x", [1] * 50)), saved("b.jsonl", of_lengths("y", [2] * 50)))
    out = tmp_path / "out"
    endpoint = ["--base-url", server.url, "--model", "test-judge", "--set", "concurrency=2", "--output", out]
    assert call(monkeypatch, "judge", *files, *endpoint) == 130
    assert f"Stopped. Go on with: geoalign judge {files[0]} {files[1]} --base-url" in capsys.readouterr().err
    kept = len((out / "judgments.jsonl").read_bytes().splitlines())
    asked = len(server.requests)
    assert 0 < kept < 40
    server.reply = longer_wins
    result, _ = run(files, settings(), out)
    assert result["all"].judged == 50
    assert len(server.requests) - asked == 100 - 2 * kept
