"""Reference rewards: sampled once from the warm-started model, kept, and given to the curator; with an engine these and
the evaluations are its own: a stand-in for vLLM that asks the model itself."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_files import lines, rollouts, same_weights

from geoalign.answers import final_answer
from geoalign.answers.verified import VerifiedReward
from geoalign.lab.models.engines import GREEDY, new_tokens
from geoalign.lab.train import evaluations, policy
from geoalign.lab.train.observed_reward import rollout_fields

PAR = {"curator": {"type": "par"}, "reward": {"flip": 0.3, "references": 3}}


def kept(root: Path) -> dict[str, Any]:
    return json.loads((root / "reference_rewards.json").read_text())


def test_every_prompt_of_the_run_has_its_clean_references(tiny, train_here, tmp_path):
    run = tmp_path / "run"
    train_here(tiny(**PAR), run)
    found = kept(run)
    used = {row["prompt"] for row in rollouts(run)}
    # Two generations of four prompts; a prompt is its sum.
    assert len(used) == 8
    assert {name.removeprefix("train:") + "=" for name in found["rewards"]} == used
    # A model that has seen one batch answers nothing: clean rewards are all 0, though 30% of RL's are flipped.
    assert {reward for rewards in found["rewards"].values() for reward in rewards} == {0.0}
    shaped = [line["geoalign/shaped_reward"] for line in lines(run) if "geoalign/shaped_reward" in line]
    # All references 0: rewards 0 and 1 become 1/2 and sigmoid(1) = 0.731; some of them are flipped to 1.
    assert len(shaped) == 2
    assert all(0.5 < value < 0.732 for value in shaped)


def test_a_stage_that_was_killed_half_way_reaches_the_same_file_and_weights(
    continuous, tiny, train_here, tmp_path, monkeypatch
):
    settings = tiny(**{**PAR, "reward": {"flip": 0.0, "references": 3}})
    run, other = tmp_path / "run", tmp_path / "other"
    train_here(settings, run)
    assert len({reward for rewards in kept(run)["rewards"].values() for reward in rewards}) > 3
    # 16 rollouts a generation, 3 references: batches of 5 prompts, so two of them.
    calls: list[str] = []
    whole = evaluations.answers_to

    def counted(evaluation_set: Any, *arguments: Any, **options: Any) -> Any:
        if evaluation_set.name == "references":
            calls.append(evaluation_set.problems[0].id)
            if len(calls) == 2:
                raise KeyboardInterrupt
        return whole(evaluation_set, *arguments, **options)

    monkeypatch.setattr(evaluations, "answers_to", counted)
    with pytest.raises(KeyboardInterrupt):
        train_here(settings, other)
    assert len(kept(other)["rewards"]) == 5
    train_here(settings, other, resume=True)
    assert len(calls) == 3
    assert calls[1] == calls[2] != calls[0]
    assert (other / "reference_rewards.json").read_bytes() == (run / "reference_rewards.json").read_bytes()
    assert same_weights(other, run)


def test_each_rollout_gets_what_belongs_to_its_own_prompt_and_response(monkeypatch):
    found = {"a": [1.0, None], "b": [2.0, 3.0]}
    monkeypatch.setattr("geoalign.lab.train.observed_reward.reference_rewards", lambda run: found)
    run: Any = SimpleNamespace(
        curator=SimpleNamespace(requires=("reference_rewards", "answers"), optional=()),
        task=SimpleNamespace(final_answer=lambda text: text.upper() or None),
    )
    fields = rollout_fields(run, SimpleNamespace(true_rewards=[0.5, 1.5]), None)  # type: ignore[arg-type]
    chat = [{"role": "assistant", "content": "x"}]
    rows = [{"problem_id": "b", "completion": chat}, {"problem_id": "a", "completion": ""}]
    assert fields["reference_rewards"](rows) == [[2.0, 3.0], [1.0, None]]
    assert fields["answers"](rows) == ["X", None]
    assert fields["true_rewards"](rows) == [0.5, 1.5]
    run.curator.requires = ("hidden",)
    assert set(rollout_fields(run, SimpleNamespace(true_rewards=[]), None)) == {"true_rewards"}  # type: ignore[arg-type]


def test_verified_answers_of_a_prompt_that_are_equal_are_one_answer_over_all_processes():
    class Processes:
        rank = 1

        def gather(self, items):
            return [*[("a", "x+1")] * 4, *items]  # those of the first process

    run: Any = SimpleNamespace(
        curator=SimpleNamespace(requires=(), optional=("answers",)),
        task=SimpleNamespace(final_answer=final_answer),
        processes=Processes(),
    )
    with VerifiedReward() as source:
        fields = rollout_fields(run, SimpleNamespace(true_rewards=[]), source)  # type: ignore[arg-type]
        texts = [("a", r"\boxed{1+x}"), ("b", r"\boxed{1+x}"), ("a", r"\boxed{\dfrac12}"), ("a", "none")]
        rows = [{"problem_id": problem, "completion": text} for problem, text in texts]
        assert fields["answers"](rows) == ["x+1", "1+x", r"\frac{1}{2}", None]


class StandIn:
    """Generates as `VLLMGeneration` is asked to, by the trainer's model."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.temperature, self.top_p, self.top_k, self.min_p = 1.0, 1.0, 0, None
        self.repetition_penalty, self.max_completion_length = 1.0, trainer.args.max_completion_length
        self.synced: list[int] = []
        self.asked: list[int] = []

    def sync_weights(self) -> None:
        self.synced.append(self.trainer.state.global_step)

    def generate(self, prompts: list[list[int]], images: Any, num_generations: int) -> Any:
        self.asked.append(len(prompts))
        tokenizer = self.trainer.processing_class
        drawn = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        options = drawn if self.temperature else GREEDY
        longest = self.max_completion_length
        made = new_tokens(
            self.trainer.model, prompts, pad=tokenizer.pad_token_id, max_new_tokens=longest, options=options
        )
        return prompts, made.tolist(), None, None


@pytest.fixture
def with_engine(monkeypatch):
    """Trainers get a stand-in where `grpo.use_vllm` is set; rollouts are still generated by transformers."""
    engines: list[StandIn] = []

    class Trainer(policy.PolicyTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            options = kwargs["args"]
            options.use_vllm = False
            super().__init__(*args, **kwargs)
            self.vllm_generation = StandIn(self)
            self._last_loaded_step = -1
            engines.append(self.vllm_generation)

    monkeypatch.setattr(policy, "PolicyTrainer", Trainer)
    return engines


def test_the_engine_evaluates_as_the_model_does(tiny, train_here, with_engine, tmp_path):
    evaluation = {"every": 2, "temperature": 0.0, "samples": 2}
    settings = tiny(evaluation=evaluation, grpo={"use_vllm": True})
    train_here(settings, tmp_path / "engine")
    assert with_engine[0].synced == [0, 2, 4]
    assert with_engine[0].asked == [8, 8, 8]  # 4 problems x 2, in one call each
    plain = tiny(evaluation=evaluation)
    engines = list(with_engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "engine_of", lambda trainer: None)
        train_here(plain, tmp_path / "model")
    assert len(with_engine) == len(engines) + 1
    assert with_engine[1].asked == []
    first, second = (lines(tmp_path / name, name="evaluation.jsonl") for name in ("engine", "model"))
    assert first == second
    assert [line["stage"] for line in first] == ["before_rl", "rl", "after_rl"]


def test_reference_rewards_by_the_engine(tiny, train_here, with_engine, tmp_path):
    settings = tiny(curator={"type": "par"}, grpo={"use_vllm": True}, reward={"references": 3})
    train_here(settings, tmp_path / "run")
    # Two generations of 4 prompts, 3 references each, in batches of 16 // 3 = 5 prompts; then 4 problems twice.
    assert with_engine[0].asked == [15, 9, 4, 4]
    found = kept(tmp_path / "run")
    assert len(found["rewards"]) == 8
    assert all(len(rewards) == 3 for rewards in found["rewards"].values())
