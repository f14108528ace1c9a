import sys
from types import ModuleType

import pytest
from slime_parts import arguments, recorded

from geoalign.adapters.slime import data_source, post_process_rewards
from geoalign.adapters.slime.hooks import run_of
from geoalign.errors import ConfigError, InputError

SECTION = {"curator": {"type": "pf_ppo_br"}, "data_source": "made_up_source.Source"}


class Source:
    def __init__(self, args):
        self.args, self.seen = args, []

    def save(self, rollout_id):
        self.seen.append(("save", rollout_id))

    def load(self, rollout_id=None):
        self.seen.append(("load", rollout_id))


@pytest.fixture(autouse=True)
def _source(monkeypatch):
    module = ModuleType("made_up_source")
    module.Source = Source
    monkeypatch.setitem(sys.modules, "made_up_source", module)


def rewards_of(args):
    return post_process_rewards(args, recorded())[1]


def test_a_resumed_training_has_the_draws_of_one_that_was_never_stopped(tmp_path):
    args = arguments(SECTION, save=str(tmp_path))
    source = data_source(args)
    source.load(-1)  # slime calls it so in a new training
    first = rewards_of(args)
    source.save(0)
    expected = [rewards_of(args), rewards_of(args)]
    assert (tmp_path / "rollout" / "geoalign_0.safetensors").is_file()
    again = arguments(SECTION, save=str(tmp_path), load=str(tmp_path))
    resumed = data_source(again)
    resumed.load(0)
    assert isinstance(resumed, Source)
    assert resumed.seen == [("load", 0)]
    assert [rewards_of(again), rewards_of(again)] == expected
    assert first != expected[0]
    assert run_of(again).session.calls == 3


def test_a_checkpoint_without_the_state_is_an_error_that_says_what_to_set(tmp_path):
    args = arguments(SECTION, load=str(tmp_path))
    with pytest.raises(InputError, match=r"--load: expected geoalign_4.safetensors.*geoalign.resume to false"):
        data_source(args).load(4)
    data_source(arguments({**SECTION, "resume": False}, load=str(tmp_path))).load(4)


def test_checkpoints_without_the_curator_are_refused(tmp_path):
    args = arguments(SECTION, save=str(tmp_path))
    with pytest.raises(ConfigError, match=r"--data-source-path: expected geoalign.adapters.slime.data_source"):
        rewards_of(args)
    rewards_of(arguments({**SECTION, "resume": False}, save=str(tmp_path)))
    args = arguments(SECTION, save=str(tmp_path), rollout_global_dataset=False)
    data_source(args)
    with pytest.raises(ConfigError, match="--disable-rollout-global-dataset"):
        rewards_of(args)


def test_the_data_source_to_wrap(monkeypatch):
    with pytest.raises(ConfigError, match=r"geoalign.data_source: expected the path of a class, got 'no.such'"):
        data_source(arguments({**SECTION, "data_source": "no.such"}))
    for name in ("slime", "vime", "miles"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match="got none"):
        data_source(arguments({"curator": {"type": "grpo"}}))
