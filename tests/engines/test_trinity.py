"""Run by `make test-trinity` in an environment with Trinity-RFT: its own experience pipeline and configuration."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
import yaml
from trinity_batches import ADVANTAGE, GEOALIGN, OPERATOR, RUNS, TASKS, by_place, rollouts, settings, through

EVERY_METRIC = {"log_metrics": "all"}
# What Trinity-RFT and the packages below it warn about is theirs.
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]


def test_the_environment_holds_what_it_is_for():
    import trinity

    assert trinity.__version__.startswith("0.6.")


def test_the_identity_curator_is_plain_trinity_bit_for_bit(tmp_path):
    plain, plain_metrics = through(settings(tmp_path / "a"), rollouts())
    same, metrics = through(
        settings(tmp_path / "b", operators=[(OPERATOR, {"curator": "grpo", **EVERY_METRIC})]), rollouts()
    )
    other, _ = through(settings(tmp_path / "c", advantage=ADVANTAGE, arguments={"curator": "grpo"}), rollouts())
    for found in (same, other):
        assert [row.eid.rid for row in found] == [row.eid.rid for row in plain]
        for row, wanted in zip(found, plain, strict=True):
            assert torch.equal(row.advantages, wanted.advantages)
            assert torch.equal(row.tokens, wanted.tokens)
            assert row.reward == wanted.reward
    assert metrics["experience_pipeline/geoalign/replaced_rows"] == 0
    for name, value in plain_metrics.items():
        assert "time" in name or metrics[name] == value


def test_replaced_rows_reach_the_trainer(tmp_path, cluster):
    """Through the queue that a trainer reads from, which is an actor."""
    from trinity.common.config import ExperienceBufferConfig

    config = settings(tmp_path, operators=[(OPERATOR, {"curator": GEOALIGN, **EVERY_METRIC})])
    config.buffer.trainer_input.experience_buffer = ExperienceBufferConfig(
        name="queue", storage_type="queue", path=str(tmp_path / "queue.jsonl"), max_read_timeout=5
    )
    before = by_place(rollouts())
    found, metrics = through(config, rollouts())
    assert len(found) == TASKS * RUNS
    assert len({row.eid.uid for row in found}) == TASKS * RUNS
    replaced = [row for row in found if "geoalign_donor" in row.info]
    assert len(replaced) == metrics["experience_pipeline/geoalign/replaced"] > 0
    for row in replaced:
        donor = before[int(row.eid.task), row.info["run"]]
        assert row.info["run"] != row.eid.run
        assert row.info["geoalign_donor"].startswith(f"0/{row.eid.task}/{donor.eid.run}/0/")
        assert torch.equal(row.tokens, donor.tokens)
        assert torch.equal(row.logprobs, donor.logprobs)
        assert row.reward == donor.reward
        assert len(row.advantages) == len(donor.tokens) - 4
    for task in range(TASKS):
        group = [row for row in found if row.eid.task == task]
        rewards = torch.tensor([row.reward for row in group])
        wanted = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        for row, value in zip(group, wanted, strict=True):
            assert torch.equal(row.advantages, value * row.action_mask)
    assert all("geoalign_hidden" not in row.info for row in found)
    assert metrics["experience_pipeline/geoalign/curated_reward"] != metrics["experience_pipeline/geoalign/raw_reward"]


def test_dropped_rows_do_not_reach_the_trainer(tmp_path):
    dropping = {**GEOALIGN, "strategy": "drop"}
    config = settings(tmp_path, operators=[(OPERATOR, {"curator": dropping, **EVERY_METRIC})])
    found, metrics = through(config, rollouts())
    dropped = metrics["experience_pipeline/geoalign/dropped_rows"]
    assert dropped > 0
    assert len(found) == TASKS * RUNS - dropped


def test_what_comes_after_advantages_is_refused_by_the_operator(tmp_path):
    weighing = {**GEOALIGN, "strategy": "zero_weight"}
    from geoalign.errors import UnsupportedError

    for curator in (weighing, "mc_grpo"):
        name = curator if isinstance(curator, str) else curator["strategy"]
        config = settings(tmp_path / name, operators=[(OPERATOR, {"curator": curator})])
        with pytest.raises(UnsupportedError, match=r"geoalign\.adapters\.trinity\.GeoAlignAdvantage as algorithm"):
            through(config, rollouts())


def test_weights_multiply_trinitys_advantages(tmp_path):
    weighing = {**GEOALIGN, "strategy": "zero_weight"}
    plain = by_place(through(settings(tmp_path / "plain"), rollouts())[0])
    arguments = {"curator": weighing, **EVERY_METRIC}
    found, metrics = through(settings(tmp_path / "b", advantage=ADVANTAGE, arguments=arguments), rollouts())
    assert len(found) == TASKS * RUNS
    zero = [place for place, row in by_place(found).items() if not row.advantages.any()]
    assert len(zero) == metrics["experience_pipeline/geoalign/zero_weighted"] > 0
    for place, row in by_place(found).items():
        assert torch.equal(row.advantages, plain[place].advantages * (place not in zero))
        assert torch.equal(row.returns, row.advantages)


def test_a_curators_own_advantages_and_one_that_needs_trinitys(tmp_path):
    plain = by_place(through(settings(tmp_path / "plain"), rollouts())[0])
    own = by_place(
        through(settings(tmp_path / "a", advantage=ADVANTAGE, arguments={"curator": "mc_grpo"}), rollouts())[0]
    )
    assert any(not torch.equal(row.advantages, plain[place].advantages) for place, row in own.items())
    assert all(bool(row.advantages.isfinite().all()) for row in own.values())
    config = settings(tmp_path / "b", advantage=ADVANTAGE, arguments={"curator": {"type": "cppo"}, **EVERY_METRIC})
    found, metrics = through(config, rollouts())
    for name in ("dropped_rows", "left_out_rows"):
        assert metrics[f"experience_pipeline/geoalign/{name}"] == TASKS * RUNS - len(found) == TASKS * RUNS / 2


def test_an_advantage_function_of_the_trainer_is_refused(tmp_path):
    from geoalign.errors import UnsupportedError

    config = settings(tmp_path, advantage=ADVANTAGE, arguments={"base": "ppo"})
    with pytest.raises(UnsupportedError, match="base 'ppo' computes advantages inside the trainer"):
        through(config, rollouts())


@pytest.mark.parametrize("base", ["gropo", "geoalign.adapters.trinity.GeoAlignOperator"])
def test_a_base_that_is_no_advantage_function(base):
    from geoalign.adapters.trinity import GeoAlignAdvantage
    from geoalign.errors import ConfigError

    with pytest.raises(ConfigError, match=f"base: expected an advantage function of Trinity-RFT, got {base!r}"):
        GeoAlignAdvantage(base=base)


def test_unscored_rows_are_left_out_and_bad_experiences_stop_the_batch(tmp_path):
    from geoalign.errors import InputError

    batch = rollouts()
    batch[3].reward = None
    config = settings(tmp_path / "a", operators=[(OPERATOR, {"curator": GEOALIGN})])
    found, metrics = through(config, batch)
    assert metrics["experience_pipeline/geoalign/unscored_rows"] == 1
    assert (0, 3) not in by_place(found)
    batch = rollouts()
    del batch[5].info["geoalign_hidden"]
    with pytest.raises(InputError, match="got none in 1 of 48, the first 0/0/5/0"):
        through(settings(tmp_path / "b", operators=[(OPERATOR, {"curator": GEOALIGN})]), batch)


def test_the_yaml_of_the_docs_is_trinitys(tmp_path):
    from trinity.common.config import load_config

    from geoalign.adapters.settings import TrinitySettings, read_section

    def read_settings(arguments):
        return read_section(TrinitySettings, arguments, engine="Trinity")

    pages = [Path(__file__).parents[2] / name for name in ("docs/trinity.md", "configs/full/README.md")]
    blocks, translated = (re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL) for page in pages)
    listed = "".join(block for block in translated if block.startswith("curator:"))
    alternatives = re.split(r"^(?=curator:)", listed, flags=re.MULTILINE)
    curators = [yaml.safe_load(text) for text in alternatives if text]
    assert [read_settings({**each, "model_path": "some/model"}).curator.type for each in curators] == [
        "geoalign",
        "geoalign_released",
    ]
    # The settings of a second verifier are a part of the first file (`tests/adapters/test_pages.py` reads them).
    blocks = [block for block in blocks if "second_verifier" not in block]
    assert len(blocks) == 3
    configs = []
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        whole = block if "model_path: Qwen" in block else f"{block}\nmodel:\n  model_path: some/model\n"
        file.write_text(whole, encoding="utf-8")
        configs.append(load_config(str(file)))
        assert configs[-1].synchronizer.sync_style.value == "explorer_driven"
    [operator] = configs[2].data_processor.experience_pipeline.operators
    assert operator.name == OPERATOR
    found = read_settings(operator.args)
    curator = found.curator
    assert (found.model_path, curator.alpha) == ("some/model", 0.05)
    for config, geometry in zip(configs[:2], ["none", "states"], strict=True):
        assert config.algorithm.advantage_fn == ADVANTAGE
        found = read_settings(config.algorithm.advantage_fn_args)
        assert (found.curator.type, found.curator.geometry) == ("denoise", geometry)
        assert found.rollout_fields == {"answers": "answer"}


def test_the_workflow_of_the_docs_notes_what_responses_answer():
    page = Path(__file__).parents[2] / "docs" / "trinity.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(code, names)

    class Workflow(names["AnsweredMath"]):
        rollout_args: ClassVar = {}

    workflow = object.__new__(Workflow)
    texts = ["It is \\boxed{18}.", "It is \\boxed{17}.", "I do not know."]

    async def chat_async(messages, **options):
        return [answered(text) for text in texts]

    workflow.model = SimpleNamespace(chat_async=chat_async)
    workflow.logger = logging.getLogger(__name__)
    workflow.run_id_base = 0
    form = SimpleNamespace(system_prompt=None, reply_prefix=None)
    task = {"task_desc": "9 + 9?", "truth": "9 + 9 = 18\n#### 18", "raw_task": {}, "format_args": form}
    workflow.reset(SimpleNamespace(**task, workflow_args={}, reward_fn_args={}, reward_fn=None))
    experiences = asyncio.run(workflow.run_async())
    assert [each.info["answer"] for each in experiences] == ["18", "17", None]
    assert [each.reward for each in experiences] == [1.0, 0.0, 0.0]


def answered(text):
    """An experience as Trinity's model wrapper returns one, as far as the workflow looks at it."""
    own = {"info": None, "metrics": None, "reward": None, "truncate_status": None, "action_mask": None}
    return SimpleNamespace(**own, response_text=text, tokens=[1, 2, 3], prompt_length=1, eid=SimpleNamespace(run=0))
