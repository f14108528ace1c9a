"""Hidden states that a model computes for a dump: cached, resumed, cut, and those of the extraction."""

import pyarrow.parquet as pq
import pytest
import torch
from dumps import QUICK, ROWS, SIZE, loaded, plain, verl, write_dump, write_lines

from geoalign.errors import ConfigError
from geoalign.lab.audit import hidden_model
from geoalign.lab.audit.hidden_model import check_model_path, compute_states, load_state_model
from geoalign.lab.audit.terminal import show_result
from geoalign.lab.config.audit import load_audit_config
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save
from geoalign.lab.terminal import Console


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A saved model of width 16 that reads any text byte by byte."""
    folder = tmp_path_factory.mktemp("model")
    config = TinyModelConfig(hidden_size=16, layers=1, heads=1, max_length=64)
    tokenizer = make_tokenizer(None, max_length=64)
    save(make_tiny_model(config, tokenizer, seed=0), tokenizer, folder)
    return folder


def test_states_of_a_model_are_cached_and_gone_on_with(tiny, tmp_path, monkeypatch):
    config = load_audit_config(None, ("batch_size=4",))
    model = load_state_model(str(tiny), config)
    dump = loaded(write_dump(tmp_path, "plain"))
    whole = compute_states(model, dump, config, tmp_path / "a").states.clone()
    assert whole.shape == (ROWS, 16)

    class StoppedError(Exception):
        pass

    def stop(done):
        if done >= 36:
            raise StoppedError

    with pytest.raises(StoppedError):
        compute_states(model, dump, config, tmp_path / "b", progress=stop)
    assert not list((tmp_path / "b").glob("*.npy"))
    calls = []
    real = hidden_model.extract_states
    monkeypatch.setattr(hidden_model, "extract_states", lambda *a, **o: calls.append(len(a[1])) or real(*a, **o))
    again = compute_states(model, dump, config, tmp_path / "b")
    # Eight batches were noted: rows 32 to 47 were left.
    assert calls == [4, 4, 4, 4]
    assert torch.equal(again.states, whole)
    calls.clear()
    assert torch.equal(compute_states(model, dump, config, tmp_path / "b").states, whole)
    assert calls == []
    # Other settings have states of their own.
    other = load_audit_config(None, ("batch_size=4", "hidden_position=mean"))
    assert not torch.equal(compute_states(model, dump, other, tmp_path / "b").states, whole)
    assert len(list((tmp_path / "b").iterdir())) == 2


def test_states_of_a_model_are_those_of_the_extraction(tiny, tmp_path):
    from geoalign.hidden import extract_states_from_texts

    config = load_audit_config(None, ("batch_size=48",))
    model = load_state_model(str(tiny), config)
    dump = loaded(write_dump(tmp_path, "verl"))
    found = compute_states(model, dump, config, tmp_path / "states")
    assert found.prompts == "text"  # what verl writes is what its model read
    expected = extract_states_from_texts(
        model.model, model.tokenizer, dump.frame["prompt"].tolist(), dump.frame["response"].tolist()
    )
    assert torch.allclose(found.states, expected.states, atol=1e-5)
    assert found.lengths == tuple(expected.lengths.tolist())
    assert found.cut_rows == 0


def test_longer_rollouts_are_cut_and_counted(tiny, tmp_path, run):
    rows = [{**row, "response": row["response"] * (40 if number == 3 else 1)} for number, row in enumerate(plain())]
    path = write_lines(tmp_path / "dump.jsonl", rows)
    summary = run(path, curator="geoalign", model=str(tiny), settings=QUICK)
    assert summary["hidden"]["files"][0]["cut_rows"] == 1
    assert summary["hidden"]["from"] == "model"
    tokens = pq.read_table(tmp_path / "out" / "scores.parquet")["tokens"].to_pylist()
    assert tokens[0] == len("answer 0.0") + 1
    assert tokens[3] == 40 * len("answer 0.3") + 1
    assert (tmp_path / "out" / "states").is_dir()


def test_states_before_the_answer_and_how_many_have_none(tiny, tmp_path, run, capsys):
    # Every fourth response marks its answer: 12 of 48.
    rows = [{**row, "response": "so the answer is 7 it" if place % 4 == 0 else "so it is"}
            for place, row in enumerate(plain())]  # fmt: skip
    path = write_lines(tmp_path / "dump.jsonl", rows)
    settings = ("hidden_position=anchor", "hidden_layer=[0,1]")
    summary = run(path, curator="geoalign", model=str(tiny), settings=(*QUICK, *settings))
    [states] = summary["hidden"]["files"]
    assert (states["without_answer"], states["shape"]) == (36, [ROWS, 32])
    assert summary["hidden"]["hidden_layer"] == [0, 1]
    show_result(Console(width=200), summary, tmp_path, tmp_path)
    assert "No final answer in 36 of 48 responses" in capsys.readouterr().out
    config = load_audit_config(None, settings)
    model = load_state_model(str(tiny), config)
    found = compute_states(model, loaded(path), config, tmp_path / "states").states
    ids = model.tokenizer("<|user|>question 0<|reply|>so the answer is ")["input_ids"]
    with torch.no_grad():
        hidden = model.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    assert torch.allclose(found[0], torch.cat([hidden[0][0, -1], hidden[1][0, -1]]), atol=1e-5)


def test_a_redacted_folder_keeps_no_states(tiny, tmp_path, run):
    path = write_dump(tmp_path / "in", "plain")
    run(path, curator="geoalign", model=str(tiny), settings=QUICK, redact=True)
    assert not (tmp_path / "out" / "states").exists()
    run(path, curator="geoalign", model=str(tiny), settings=QUICK, redact=True, overwrite=True, cache=tmp_path / "c")
    assert len(list((tmp_path / "c").iterdir())) == 1


def test_which_model(tiny, tmp_path):
    run_folder = tmp_path / "run"
    (run_folder / "checkpoints").mkdir(parents=True)
    (run_folder / "checkpoints" / "final").symlink_to(tiny)
    assert check_model_path(str(run_folder)) == str(run_folder / "checkpoints" / "final")
    assert check_model_path("Qwen/Qwen3-1.7B") == "Qwen/Qwen3-1.7B"
    with pytest.raises(ConfigError, match=r"--model: expected .* an id on the hub, got 'qwen'"):
        check_model_path("qwen")
    with pytest.raises(ConfigError, match=r"expected a model \(config.json\), got a folder without one"):
        check_model_path(str(tmp_path))
    with pytest.raises(ConfigError, match="device: expected one that is there, got 'cuda:7'"):
        load_state_model(str(tiny), load_audit_config(None, ("device=cuda:7",)))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="expected a whole model, got adapters"):
        check_model_path(str(tmp_path))


def read_by_the_model(monkeypatch, model, rows, config, folder):
    """What goes through the model as text: response -> prompt."""
    folder.mkdir()
    seen = {}
    real = hidden_model.extract_states

    def noted(network, prompts, responses, **options):
        for prompt, response in zip(prompts, responses, strict=True):
            seen[model.tokenizer.decode(response)] = model.tokenizer.decode(prompt)
        return real(network, prompts, responses, **options)

    monkeypatch.setattr(hidden_model, "extract_states", noted)
    compute_states(model, loaded(write_lines(folder / "dump.jsonl", rows)), config, folder / "states")
    return seen


def test_what_the_model_reads(tiny, tmp_path, monkeypatch):
    config = load_audit_config()
    model = load_state_model(str(tiny), config)
    rows = [{**plain()[0], "system": "be short"}, {**plain()[1], "truncated": True}, *plain()[2:SIZE]]
    rows = [{**row, "group": 0} for row in rows]
    seen = read_by_the_model(monkeypatch, model, rows, config, tmp_path / "chat")
    assert seen["answer 0.0<|end|>"] == "<|rule|>be short<|user|>question 0<|reply|>"
    # What was cut off has no end.
    assert seen["answer 0.1"] == seen["answer 0.2<|end|>"] == "<|user|>question 0<|reply|>"
    seen = read_by_the_model(monkeypatch, model, verl()[:SIZE], config, tmp_path / "rendered")
    assert seen["answer 0.0<|end|>"] == "question 0"
    as_text = load_audit_config(None, ("prompts=text",))
    seen = read_by_the_model(monkeypatch, model, rows, as_text, tmp_path / "text")
    assert seen["answer 0.2<|end|>"] == "question 0"


def test_states_of_another_question_are_not_taken_from_the_cache(tiny, tmp_path):
    other = tmp_path / "model"
    tokenizer = make_tokenizer(None, max_length=64)
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1, max_length=64), tokenizer, seed=1),
         tokenizer, other)  # fmt: skip
    shifted = [{**row, "input": row["input"] + row["output"][0], "output": row["output"][1:]} for row in verl()]
    cases = [
        (tiny, (), verl()),
        (other, (), verl()),
        (tiny, ("dtype=bfloat16",), verl()),
        (tiny, ("hidden_layer=[0,1.0]",), verl()),
        (tiny, (), shifted),
    ]
    dump = tmp_path / "dump.jsonl"
    for count, (folder, settings, rows) in enumerate(cases, start=1):
        config = load_audit_config(None, settings)
        write_lines(dump, rows)
        compute_states(load_state_model(str(folder), config), loaded(dump), config, tmp_path / "cache")
        assert len(list((tmp_path / "cache").iterdir())) == count, settings
