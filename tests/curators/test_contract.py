"""The contract of `geoalign.testing` for every curator and control, and what holds for ours by name."""

from dataclasses import replace

import pytest
import torch
from pretend_gpu import pretend_gpu, rollouts_on_gpu

from geoalign import CURATORS, Curation, Rollouts
from geoalign.curators.baselines.reshaped_advantages import IdentityConfig
from geoalign.curators.baselines.reshaped_rewards import PARConfig
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.testing import curator_checks
from geoalign.testing.batches import batches_without_pairs
from geoalign.testing.trial import Trial, curate, difference, trained_advantages

PROJECTOR = {"hidden_dim": 16, "output_dim": 8, "steps": 5}
SMALL_GEOALIGN = {"min_scores": 8, "alpha": 0.3, "projector": PROJECTOR}
GEOALIGN = GeoAlignConfig(**SMALL_GEOALIGN)
# Settings that keep the test small; a curator not named here runs at its defaults.
SMALL = {
    "geoalign": SMALL_GEOALIGN,
    "geoalign_released": {"min_scores": 8, "alpha": 0.3, "min_epochs": 2, "max_epochs": 3, "output_dim": 8},
    "pair_count": {"min_scores": 8, "alpha": 0.3},
    "reward_distance": {"min_scores": 8, "alpha": 0.3},
    "random": {"geoalign": GEOALIGN},
    "labelled_probe": {"penalty": 1e-4},
    "appeals": {"budget": 5},
    "olr": {"visits": 1, "slope": 0.0},
    "chain": {"members": (PARConfig(), GEOALIGN, PODSConfig())},
}
GATED, CONTROL = {"level": 0.01}, GeoAlignConfig(**SMALL_GEOALIGN, strategy="drop")
RATES = {"false_positive_rate": 0.1, "false_negative_rate": 0.2}
CHANGES = {
    "geoalign": [{"strategy": "drop"}, {"scoring": "cross_fit"}, {"projector": None}],
    "denoise": [GATED, {"states": 2}, {"geometry": "permuted", **GATED}, {"answers": "none"}, {"window": 1}],
    "seed_grpo": [{"mode": "paper_linear"}, {"mass": "share"}, {"clusters": "hidden", "threshold": 0.9}],
    "answer_mean": [{"unanswered": "lowest"}],
    "mc_grpo": [{"drop_median": False}],
    "quantile": [{"quantile": 0.7, "scale": "none"}],
    "noise_corrected": [RATES, {"correction": "backward", "window": 1}],
    "confident_learning": [{"strategy": "replace"}],
    "score_agreement": [{"m": 4}],
    "tie_detector": [{"strategy": "replace"}],
    "random": [{"geoalign": CONTROL}],
    "oracle": [{"strategy": "zero_weight"}, {"strategy": "drop"}, {"strategy": "amplify"}],
    "labelled_probe": [{"strategy": "drop"}, {"strategy": "penalty", "coefficient": 0.5}],
    "appeals": [
        {"curator": DenoiseConfig(geometry="none", least_slope=1.0)},
        {"choose": "informative"},
        {"choose": "care"},
        {"choose": "random"},
        {"choose": "majority", "curator": IdentityConfig()},
        {"choose": "care", "curator": IdentityConfig()},
        {"random_share": 0.0},
        {"random_share": 0.6, "check_window": 3},
    ],
    "monitor": [{"checks": 6, "check_window": 10}],
    "chain": [{"members": each} for each in ((), (DenoiseConfig(), PODSConfig()), (GEOALIGN, DenoiseConfig()))],
}
# Decides something about binary rewards alone, though it takes others: pair counts of distinct rewards are all alike.
BINARY = ("pair_count",)
# Change nothing where there is no pair: GeoAlign, its controls, and those that only weigh or shape.
RECTIFYING = ("geoalign", "geoalign_released", "pair_count", "reward_distance", "random", "grpo", "oracle")
RECTIFYING += ("tie_detector", "confident_learning")
VARIANTS = [(name, {}) for name in CURATORS]
VARIANTS += [(name, changes) for name, of_curator in CHANGES.items() for changes in of_curator]


def maker(name, changes):
    """A function that makes one curator of the table, anew at each call."""
    return lambda: CURATORS[name](**{**SMALL.get(name, {}), **changes})


def trial_of(name, changes):
    return Trial(maker(name, changes), "binary" if name in BINARY else None)


def label(name, changes):
    return f"{name}-{changes}"[:60] if changes else name


# Every promise of every curator of the table.
CHECKS = [
    pytest.param(check, id=f"{check.__name__}-{label(name, changes)}")
    for name, changes in VARIANTS
    for check in curator_checks(maker(name, changes), rewards="binary" if name in BINARY else None)
]


@pytest.mark.parametrize("check", CHECKS)
def test_contract(check):
    check()


def variants_of(*names):
    return [pytest.param(*each, id=label(*each)) for each in VARIANTS if each[0] in names]


@pytest.mark.parametrize(("name", "changes"), variants_of(*RECTIFYING))
def test_what_rectifies_changes_nothing_where_there_is_no_pair(name, changes):
    for rollouts in batches_without_pairs():
        curation = trial_of(name, changes).decide(rollouts)
        assert curation.source.tolist() == list(range(6))
        assert torch.equal(curation.weights, (~rollouts.rewards.isnan()).float())


GATED_GEOALIGN = GeoAlignConfig(**SMALL_GEOALIGN, consensus_gate=0.5)
GATE_CLOSED = [("geoalign", {"consensus_gate": 0.5}), ("random", {"geoalign": GATED_GEOALIGN})]


@pytest.mark.parametrize(("name", "changes"), GATE_CLOSED, ids=["geoalign", "random"])
def test_a_gate_is_closed_in_the_first_call(name, changes):
    trial = trial_of(name, changes)
    rollouts = trial.batch()
    assert torch.equal(trial.expected.source, torch.arange(len(rollouts)))


def times(rollouts, scale):
    return replace(rollouts, rewards=rollouts.rewards * scale, true_rewards=rollouts.rewards * scale)


@pytest.mark.parametrize("scale", [1e30, 1e20])
@pytest.mark.parametrize(("name", "changes"), [("quantile", {}), ("mc_grpo", {}), ("mc_grpo", {"drop_median": False})])
def test_advantages_over_the_groups_deviation_are_those_of_the_usual_size(name, changes, scale):
    """Up to the constant that is added to the deviation."""
    trial = trial_of(name, changes)
    rollouts = trial.batch()
    curation = trial.decide(times(rollouts, scale))
    usual = trained_advantages(trial.expected, rollouts)
    torch.testing.assert_close(trained_advantages(curation, rollouts), usual, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(("name", "changes"), variants_of("geoalign", "random", "pods"))
def test_what_goes_by_the_order_of_rewards_decides_as_at_their_usual_size(name, changes):
    trial = trial_of(name, changes)
    for scale in (1e30, 1e20, 1e-30):
        curation = trial.decide(times(trial.batch(), scale))
        assert torch.equal(curation.anomalous, trial.expected.anomalous)
        assert torch.equal(curation.source, trial.expected.source)


@pytest.mark.parametrize("name", ["pf_ppo_br", "pf_ppo_bw"])
def test_what_draws_draws_otherwise_under_another_seed_and_in_the_next_call(name):
    trial = trial_of(name, {})
    rollouts = trial.batch()
    torch.manual_seed(5)
    curator = trial.new()
    first, second = curator.curate(rollouts), curator.curate(rollouts)
    torch.manual_seed(6)
    other = trial.new().curate(rollouts)
    assert difference(first, second)
    assert difference(first, other)


@pytest.mark.parametrize("name", [name for name in CURATORS if CURATORS[name].binary_rewards])
def test_curators_of_binary_rewards_name_the_row(name):
    trial = trial_of(name, {})
    rollouts = trial.batch()
    rewards = rollouts.rewards.clone()
    rewards[1] = 0.5
    said = rf"^{trial.name}: expected binary rewards \(0 or 1\), got 0.5 in row 1$"
    with pytest.raises(InputError, match=said):
        trial.decide(replace(rollouts, rewards=rewards))


@pytest.mark.parametrize(("name", "changes"), [(name, each) for name, all_ in CHANGES.items() for each in all_])
def test_a_state_of_other_settings_is_refused_by_name(name, changes, tmp_path):
    trial = trial_of(name, changes)
    saved, now = maker(name, {})(), trial.new()
    curate(saved, trial.batch())
    save_state(tmp_path / "state", saved.state_dict())
    differs = [key for key, value in changes.items() if getattr(saved.config, key) != value]
    with pytest.raises(
        ConfigError, match=rf"saved with other settings: .*{name}\.{differs[0]}\b.*: saved with .*, now"
    ):
        now.load_state_dict(load_state(tmp_path / "state"))


def check_on_gpu(session: CurationSession, rollouts: Rollouts, expected: Curation):
    curation = session.curate(rollouts, details=True)
    assert torch.equal(curation.source.cpu(), expected.source)
    for name in ("rewards", "weights", "scores", "anomalous", "advantages"):
        value, here = getattr(curation, name), getattr(expected, name)
        if here is not None:
            assert value.device == rollouts.rewards.device, name
            torch.testing.assert_close(value.cpu(), here, equal_nan=True, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CURATORS)
def test_a_batch_on_a_gpu(name):
    """A small one: the pretence costs time with every operation."""
    trial = trial_of(name, {})
    rollouts = trial.batch(groups=4, size=4)
    expected = trial.decide(rollouts)
    with pretend_gpu():
        check_on_gpu(CurationSession(trial.new(), seed=0), rollouts_on_gpu(rollouts), expected)


@pytest.mark.parametrize("name", CURATORS)
def test_hidden_states_on_a_gpu_and_a_resume(name, tmp_path):
    """The rest of the batch stays on the CPU, where the state is read from its file."""
    trial = trial_of(name, {})
    first = trial.batch(1, groups=4, size=4)
    second = trial.batch(0, groups=4, size=4)
    session = CurationSession(trial.new(), seed=0)
    session.curate(first)
    expected = session.curate(second)
    with pretend_gpu():
        session = CurationSession(trial.new(), seed=0)
        resumed = CurationSession(trial.new(), seed=1)
        session.curate(rollouts_on_gpu(first, "hidden"))
        session.save(tmp_path / "state")
        resumed.load(tmp_path / "state", setting="", otherwise="")
        check_on_gpu(resumed, rollouts_on_gpu(second, "hidden"), expected)
