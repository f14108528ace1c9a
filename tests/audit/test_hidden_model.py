"""Hidden states that a model computes for a dump: those of the extraction, cached, cut."""

import pyarrow.parquet as pq
import pytest
import torch
from dumps import QUICK, ROWS, SIZE, loaded, plain, verl, write_dump, write_lines
from tiny_models import saved_model

from geoalign.audit import state_model as hidden_model
from geoalign.audit.results import read_report
from geoalign.audit.settings import load_audit_config
from geoalign.audit.state_model import AuditModel, check_model_path
from geoalign.audit.terminal import show_report
from geoalign.console.terminal import Console
from geoalign.errors import ConfigError
from geoalign.hidden import extract_states_from_texts


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model"), max_length=64)


def opened(folder, *settings):
    return AuditModel(str(folder), load_audit_config(None, settings), Console(quiet=True))


@pytest.fixture
def read_by_the_model(monkeypatch):
    """What has gone through a model as tokens: prompt and response."""
    seen = []
    real = hidden_model.extract_states

    def noting(model, prompts, responses, *more, **options):
        seen.extend(zip(prompts, responses, strict=True))
        return real(model, prompts, responses, *more, **options)

    monkeypatch.setattr(hidden_model, "extract_states", noting)
    return seen


def test_they_are_those_of_the_extraction_and_lengths_are_filled_in(tiny, tmp_path):
    model = opened(tiny, "batch_size=48")
    dump = loaded(write_dump(tmp_path, "verl"))
    found, facts = model.states(dump, tmp_path / "states")
    assert facts["prompts"] == "text"  # what verl writes is what its model read
    prompts = dump.frame["prompt"].tolist()
    responses = dump.frame["response"].tolist()
    expected = extract_states_from_texts(model.model, model.tokenizer, prompts, responses)
    assert torch.allclose(found, expected.states, atol=1e-5)
    assert dump.frame["tokens"].tolist() == expected.lengths.tolist()
    assert facts["cut_rows"] == 0


def test_whatever_changes_them_has_its_own_file_and_the_same_is_not_made_again(tiny, tmp_path, read_by_the_model):
    # The first letter of each response is the last one of its prompt.
    shifted = verl()
    for row in shifted:
        row["input"] += row["output"][0]
        row["output"] = row["output"][1:]
    cases = [
        (tiny, (), verl()),
        (saved_model(tmp_path / "model", max_length=64, seed=1), (), verl()),
        (tiny, ("dtype=bfloat16",), verl()),
        (tiny, ("hidden_position=mean",), verl()),
        (tiny, ("hidden_layer=[0,1.0]",), verl()),
        (tiny, (), shifted),
    ]
    for count, (folder, settings, rows) in enumerate(cases, start=1):
        dump = loaded(write_lines(tmp_path / "dump.jsonl", rows))
        states = opened(folder, *settings).states(dump, tmp_path / "cache")[0].clone()
        assert len(list((tmp_path / "cache").iterdir())) == count, settings
        assert len(read_by_the_model) == count * ROWS
        if count == 1:
            again = opened(folder, *settings).states(dump, tmp_path / "cache")[0]
            assert torch.equal(again, states)


def test_longer_rollouts_are_cut_and_counted_and_a_redacted_folder_keeps_no_states(tiny, tmp_path, run):
    rows = plain()
    rows[3]["response"] *= 40
    path = write_lines(tmp_path / "dump.jsonl", rows)
    request = {"model": str(tiny), "settings": QUICK}
    summary = run(path, curator="geoalign", **request)
    assert summary["hidden"]["files"][0]["cut_rows"] == 1
    assert summary["hidden"]["from"] == "model"
    tokens = pq.read_table(tmp_path / "out" / "scores.parquet")["tokens"].to_pylist()
    # The tiny model's tokens are letters; one more ends the response.
    assert tokens[0] == len("answer 0.0") + 1
    assert tokens[3] == 40 * len("answer 0.3") + 1
    assert (tmp_path / "out" / "states").is_dir()
    run(path, curator="geoalign", redact=True, overwrite=True, cache=tmp_path / "c", **request)
    assert len(list((tmp_path / "c").iterdir())) == 1
    run(path, curator="geoalign", redact=True, output=tmp_path / "redacted", **request)
    assert not (tmp_path / "redacted" / "states").exists()


def test_states_before_the_answer_and_how_many_have_none(tiny, tmp_path, run, capsys):
    # Every fourth response marks its answer: 12 of 48.
    rows = [{**row, "response": "so the answer is 7 it" if place % 4 == 0 else "so it is"}
            for place, row in enumerate(plain())]  # fmt: skip
    path = write_lines(tmp_path / "dump.jsonl", rows)
    settings = ("hidden_position=answer_start", "hidden_layer=[0,1]")
    summary = run(path, curator="geoalign", model=str(tiny), settings=(*QUICK, *settings))
    [states] = summary["hidden"]["files"]
    assert (states["without_answer"], states["shape"]) == (36, [ROWS, 32])
    assert summary["hidden"]["hidden_layer"] == [0, 1]
    show_report(Console(width=200), read_report(tmp_path / "out"))
    assert "No final answer in 36 of 48 responses" in capsys.readouterr().out
    model = opened(tiny, *settings)
    found, _ = model.states(loaded(path), tmp_path / "states")
    ids = model.tokenizer("<|user|>question 0<|reply|>so the answer is ")["input_ids"]
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    last_of_both_layers = torch.cat([hidden[0][0, -1], hidden[1][0, -1]])
    assert torch.allclose(found[0], last_of_both_layers, atol=1e-5)


def test_which_model(tiny, tmp_path):
    run_folder = tmp_path / "run"
    (run_folder / "checkpoints").mkdir(parents=True)
    (run_folder / "checkpoints" / "final").symlink_to(tiny)
    assert check_model_path(str(run_folder)) == str(run_folder / "checkpoints" / "final")
    assert check_model_path("Qwen/Qwen3-1.7B") == "Qwen/Qwen3-1.7B"
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text("{}")
    for text, message in (
        ("qwen", r"--model: expected .* an id on the hub, got 'qwen'"),
        (str(tmp_path), r"expected a model \(config.json\), got a folder without one"),
        (str(adapters), "expected a whole model, got adapters"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_model_path(text)
    with pytest.raises(ConfigError, match="device: expected one that is there, got 'cuda:7'"):
        opened(tiny, "device=cuda:7")


def test_what_the_model_reads(tiny, tmp_path, read_by_the_model):
    rows = [{**row, "group": 0} for row in plain()[:SIZE]]
    rows[0]["system"] = "be short"
    rows[1]["truncated"] = True

    def read(rows, *settings):
        read_by_the_model.clear()
        model = opened(tiny, *settings)
        model.states(loaded(write_lines(tmp_path / "dump.jsonl", rows)), tmp_path / "states")
        decode = model.tokenizer.decode
        return {decode(response): decode(prompt) for prompt, response in read_by_the_model}

    seen = read(rows)
    assert seen["answer 0.0<|end|>"] == "<|rule|>be short<|user|>question 0<|reply|>"
    # What was cut off has no end.
    assert seen["answer 0.1"] == seen["answer 0.2<|end|>"] == "<|user|>question 0<|reply|>"
    assert read(verl()[:SIZE])["answer 0.0<|end|>"] == "question 0"
    assert read(rows, "prompts=text")["answer 0.2<|end|>"] == "question 0"
