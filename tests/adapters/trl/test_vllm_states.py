"""States that the vLLM with which TRL generates writes, by a stand-in for vLLM in TRL's own colocated mode."""

import os
from types import SimpleNamespace

import pytest
import torch
import vllm_stand_in
from trl.generation import vllm_generation
from trl_parts import (
    Scripted,
    curated_batch,
    curation,
    data,
    model,
    same_weights,
    tokenizer,
    trainer,
    weights_of,
)

from geoalign import GeoAlign, GeoAlignConfig, ProjectorConfig
from geoalign.errors import UnsupportedError
from geoalign.hidden import HIDDEN_POSITIONS, answer_starts, extract_states

LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def policy(tmp_path, monkeypatch):
    """A folder with the tiny model, whose final norm does something; TRL finds a vLLM."""
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    for name in ("LLM", "SamplingParams"):
        monkeypatch.setattr(vllm_generation, name, getattr(vllm_stand_in.module(), name), raising=False)
    made = model()
    torch.nn.init.normal_(made.model.norm.weight)
    made.save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def generating(folder, policy, curator, source="vllm", extra=None, **changes):
    """A trainer that generates with the stand-in; what TRL sets for vLLM's launch is taken back."""
    before = {name: os.environ.get(name) for name in LAUNCHED}
    try:
        return trainer(
            folder,
            curator,
            policy=policy,
            extra={"hidden_source": source, **(extra or {})},
            **{"use_vllm": True, "vllm_mode": "colocate", **changes},
        )
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def compared(made, position, differences):
    """Makes the curator of `made` compare what it sees with a pass of the policy of that moment."""
    generate, tokens = made._generate, {}

    def remember(prompts):
        found = generate(prompts)
        tokens["rows"] = found[:2]
        return found

    def compare(rollouts):
        answers = answer_starts(made._tokenizer, tokens["rows"][1])
        own = extract_states(
            made.model, *tokens["rows"], position=position, answer_starts=answers, batch_size=8,
            layer=made._curation_options.place.layer,
        )  # fmt: skip
        differences.append(float((rollouts.hidden - own.states).abs().max()))
        return curation(rollouts)

    made._generate, made.curator.decide = remember, compare


@pytest.mark.parametrize("layer", [1.0, [0, 1.0]])
@pytest.mark.parametrize("position", HIDDEN_POSITIONS)
def test_states_are_those_of_the_policy_at_every_step(tmp_path, policy, position, layer):
    watcher, differences = Scripted(curation, requires=("hidden",)), []
    made = generating(tmp_path, policy, watcher, extra={"hidden_position": position, "hidden_layer": layer})
    first = weights_of(made)
    compared(made, position, differences)
    made.train()
    assert len(differences) == 2
    assert max(differences) < 2e-5
    assert not same_weights(first, weights_of(made))
    assert [log["geoalign/rows_without_vllm_state"] for log in made.state.log_history[:2]] == [0, 0]
    # 8 requests of TRL's and 8 of ours a step, and none of their files is left.
    assert made.vllm_generation.llm.requests == 32
    assert list(made._curation_options.engine._folder.iterdir()) == []


def test_the_training_is_that_of_an_own_pass(tmp_path, policy):
    def run(source):
        projector = ProjectorConfig(hidden_dim=16, output_dim=8, steps=10)
        curator = GeoAlign(GeoAlignConfig(alpha=0.5, min_scores=8, projector=projector))
        made = generating(tmp_path / source, policy, curator, source, per_device_train_batch_size=16)
        made.train()
        return made

    own, written = run("own_pass"), run("vllm")
    assert own.vllm_generation.llm.folder is None
    assert sum(log.get("geoalign/replaced", 0) for log in written.state.log_history) > 0
    for name in ("geoalign/replaced", "geoalign/curated_reward"):
        assert [log.get(name) for log in own.state.log_history] == [log.get(name) for log in written.state.log_history]
    assert same_weights(weights_of(own), weights_of(written))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("position", HIDDEN_POSITIONS)
def test_agents_rows_are_read_where_the_policy_wrote(tmp_path, policy, monkeypatch, position):
    from agent_parts import told  # asks for what TRL wants for agents

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    seen = []
    for source in ("own_pass", "vllm"):
        watcher = Scripted(curation, requires=("hidden",))
        extra = {"rollout_func": told, "hidden_position": position}
        made = generating(tmp_path / source, policy, watcher, source, extra)
        curated_batch(made)
        seen.append(watcher.seen[0].hidden)
    torch.testing.assert_close(*seen, atol=1e-5, rtol=1e-4)
    assert made._metrics["train"]["geoalign/rows_without_vllm_state"] == [0]


def test_rows_that_vllm_wrote_no_state_of_are_read_by_the_model_and_counted(tmp_path, policy, monkeypatch, caplog):
    def without_some(self, prompts, sampling_params, use_tqdm):
        answers = [self._answer(prompt["prompt_token_ids"], sampling_params) for prompt in prompts]
        if sampling_params.max_tokens == 1:
            answers[1].kv_transfer_params = None
            answers[4].kv_transfer_params["hidden_states_path"] += "x"
        return answers

    monkeypatch.setattr(vllm_stand_in.LLM, "generate", without_some)
    watcher, differences = Scripted(curation, requires=("hidden",)), []
    made = generating(tmp_path, policy, watcher)
    compared(made, "predicting", differences)
    curated_batch(made)
    assert differences[0] < 2e-5
    assert made._metrics["train"]["geoalign/rows_without_vllm_state"] == [2]
    assert "2 of 8 rows without a state of vLLM's" in caplog.text


@pytest.mark.parametrize(("position", "missing"), [("predicting", 0), ("final", 8)])
def test_a_row_that_fills_the_engine_lacks_its_last_token_alone(tmp_path, policy, monkeypatch, position, missing):
    """Prompts of 4 tokens and responses of 6 in an engine of 10: it reads 9 and answers with the tenth."""
    monkeypatch.setattr(vllm_stand_in, "END", -1)
    watcher, differences = Scripted(curation, requires=("hidden",)), []
    changes = {"vllm_max_model_length": 10, "dataset": data(8)}
    made = generating(tmp_path, policy, watcher, extra={"hidden_position": position}, **changes)
    compared(made, position, differences)
    curated_batch(made)
    assert differences[0] < 2e-5
    assert made._metrics["train"]["geoalign/rows_without_vllm_state"] == [missing]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_vllm": False}, r"TRL generates without vLLM here .*; use 'own_pass'$"),
        ({"vllm_mode": "server"}, "vllm_mode='server' .* the files of states .* or 'logprob_pass', which adds no pass"),
        ({"vllm_tensor_parallel_size": 2}, "vllm_tensor_parallel_size above 1"),
        ({"vllm_enable_sleep_mode": True}, "vllm_enable_sleep_mode the engine has no weights"),
    ],
)
def test_where_the_engine_cannot_write_states(tmp_path, policy, monkeypatch, changes, words):
    def no_engine(self):
        information = {"model_config": {"logprobs_mode": "processed_logprobs"}}
        self.vllm_client = SimpleNamespace(get_server_info=lambda: information)

    monkeypatch.setattr(vllm_generation.VLLMGeneration, "_init_vllm", no_engine)
    with pytest.raises(UnsupportedError, match=words):
        generating(tmp_path, policy, Scripted(curation, requires=("hidden",)), **changes)
    assert generating(tmp_path, policy, Scripted(curation), **changes).curator is not None


def test_no_vllm_is_said_by_trl(tmp_path, monkeypatch):
    monkeypatch.delattr(vllm_generation, "LLM", raising=False)
    with pytest.raises(ImportError, match="pip install trl"):
        generating(tmp_path, model(), Scripted(curation, requires=("hidden",)))
