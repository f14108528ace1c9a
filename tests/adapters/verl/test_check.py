"""The check of composed settings, before Ray starts."""

import copy
import json
from importlib.util import find_spec

import pytest

from geoalign.adapters.verl.check import checked_session, main
from geoalign.errors import ConfigError, UnsupportedError

CONFIG = {
    "actor_rollout_ref": {
        "actor": {
            "strategy": "fsdp2",
            "loss_agg_mode": "seq-mean-token-mean",
            "policy_loss": {"loss_mode": "vanilla"},
        }
    },
    "algorithm": {"adv_estimator": "grpo", "rollout_correction": None, "use_kl_in_reward": False},
    "trainer": {"use_v1": True, "v1": {"trainer_mode": "geoalign_sync"}},
    "geoalign": {"curator": {"type": "denoise"}, "rollout_fields": {"answers": "answer"}},
}


needs_omegaconf = pytest.mark.skipif(find_spec("omegaconf") is None, reason="verl is not installed (make test-verl)")


def changed(section, **values):
    config = copy.deepcopy(CONFIG)
    config[section] |= values
    return config


def written(folder, config):
    path = folder / "run.yaml"
    # JSON is YAML.
    path.write_text(json.dumps(config), encoding="utf-8")
    return [str(path)]


@needs_omegaconf
def test_settings_that_can_be_carried_out_name_the_curator(tmp_path):
    assert main(written(tmp_path, CONFIG)).startswith("Denoise: ")


@needs_omegaconf
@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("trainer", {"use_v1": False}, "trainer.use_v1=false"),
        ("trainer", {"v1": {"trainer_mode": "sync"}}, "trainer.v1.trainer_mode=sync: .* geoalign_sync"),
        ("geoalign", {"curator": {"type": "denois"}}, "denois"),
    ],
)
def test_a_refusal_ends_the_check_with_its_message(tmp_path, section, values, message):
    with pytest.raises(SystemExit, match=message):
        main(written(tmp_path, changed(section, **values)))


def test_a_curator_that_drops_rows_needs_a_loss_over_tokens():
    with pytest.raises(UnsupportedError, match="loss_agg_mode=seq-mean-token-mean"):
        checked_session(changed("geoalign", curator={"type": "pods", "m": 4}))


def test_a_curator_without_the_field_that_it_needs():
    with pytest.raises(ConfigError, match=r"\+geoalign.rollout_fields.true_rewards="):
        checked_session(changed("geoalign", curator={"type": "oracle"}))
