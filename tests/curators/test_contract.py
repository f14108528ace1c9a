"""One contract for every curator and control: what any of them may and may not do to a batch."""

import math
from dataclasses import replace
from functools import cache, cached_property

import pytest
import torch
from pretend_gpu import pretend_gpu, rollouts_on_gpu
from torch.overrides import TorchFunctionMode

from geoalign import (
    CURATORS,
    GRPO,
    Appeals,
    Chain,
    Curation,
    Curator,
    Denoise,
    Monitor,
    Rollouts,
    as_curator,
    group_advantages,
)
from geoalign.adapters.settings import EngineSettings
from geoalign.curators.baselines.reshaped_rewards import PARConfig
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.curators.monitor import MonitorConfig
from geoalign.curators.registry import make_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.lab.bench.synthetic import synthetic_rollouts
from geoalign.settings.loading import load_settings

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
    "chain": {"members": (PARConfig(), GEOALIGN, PODSConfig())},
}
GATED, CONTROL = {"level": 0.01}, GeoAlignConfig(**{**SMALL_GEOALIGN, "start_step": 1})
RATES = {"false_positive_rate": 0.1, "false_negative_rate": 0.2}
CHANGES = {
    "geoalign": [{"strategy": "drop"}, {"scoring": "cross_fit"}, {"projector": None}, {"start_step": 1}],
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
    "appeals": [{"curator": DenoiseConfig(geometry="none", least_slope=1.0)}],
    "chain": [{"members": each} for each in ((), (DenoiseConfig(), PODSConfig()), (GEOALIGN, DenoiseConfig()))],
}
EXPECTED = {}
LEARNING_FIRST = ("nearest_centroid",)
BINARY_ONLY = ("s_grpo", "noise_corrected", "confident_learning", "score_agreement", *LEARNING_FIRST)
SHAPING = ("par", "denoise", "majority_vote", "answer_mean", "appeals", *LEARNING_FIRST)
# Change nothing where there is no pair: GeoAlign, its controls, and those that only weigh or shape.
RECTIFYING = ("geoalign", "geoalign_released", "pair_count", "reward_distance", "random", "grpo", "oracle")
RECTIFYING += ("tie_detector", "confident_learning")
VARIANTS = [(name, {}) for name in CURATORS] + [(name, each) for name, all_ in CHANGES.items() for each in all_]


class Made:
    """Makes one curator of the table, anew at each call, and knows what kind it is."""

    def __init__(self, name, changes):
        self.name, self.settings = name, {**SMALL.get(name, {}), **changes}
        penalty = self.settings.get("strategy") == "penalty" or (name == "chain" and self.settings["members"])
        self.shapes_rewards = penalty or name in SHAPING
        # Takes no other rewards, or (pair counts of distinct rewards are all alike) decides nothing on others.
        self.binary_only = name in (*BINARY_ONLY, "pair_count")
        # Its advantages are absolute: groups of equal rewards have some too.
        self.has_no_baseline = name == "noise_corrected" and self.settings.get("correction") != "backward"
        self.counts_calls = self.settings.get("start_step") or getattr(self.settings.get("geoalign"), "start_step", 0)
        self.rectifies = name in RECTIFYING

    def __call__(self):
        return CURATORS[self.name](**self.settings)

    @cached_property
    def expected(self):
        """What a new one decides on the usual batch; computed once for all tests."""
        key = f"{self.name}{self.settings}"
        if key not in EXPECTED:
            EXPECTED[key] = curate(self(), batch(self))
        return EXPECTED[key]


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def make(request):
    return Made(*request.param)


def completed(rollouts: Rollouts) -> Rollouts:
    """The same rollouts with every optional field; all of them functions of the row, whatever its place."""
    rows = len(rollouts)
    rewards = rollouts.rewards.float()
    hidden = rollouts.hidden if rollouts.hidden is not None else torch.zeros(rows, 4)
    value = hidden.float().sum(dim=1)
    true = rewards.clone()
    true[value > 3] = 0.25
    return replace(
        rollouts,
        hidden=hidden,
        lengths=1 + (value.abs() * 10).long(),
        logprobs=-value.abs() / 10,
        answers=[None if item < 0 else str(int(item) % 3) for item in value],
        prompt_keys=rollouts.groups.long() + 1000,
        reference_rewards=torch.stack([torch.zeros(rows), value / 10], dim=1),
        true_rewards=true,
        advantages=group_advantages(rewards, rollouts.groups),
        trusted=(value * 10).long() % 6 == 0,
        second_rewards=lambda asked: [None if value[row] > 5 else 1 - float(rewards[row]) for row in asked],
    )


def batch(make, seed=0, groups=12, size=6, rewards=None):
    return made_batch(seed, groups, size, rewards or ("binary" if make.binary_only else "continuous"))


@cache
def made_batch(seed, groups, size, rewards):
    rollouts = synthetic_rollouts(groups, size, 16, seed=seed, rewards=rewards).rollouts
    return completed(replace(rollouts, ids=[f"row {row}" for row in range(len(rollouts))]))


def curate(curator: Curator, rollouts: Rollouts, seed: int = 0, **kwargs) -> Curation:
    return curator.curate(rollouts, generator=torch.Generator().manual_seed(seed), **kwargs)


def same(one: Curation, other: Curation) -> bool:
    given = [torch.zeros(1) if each.advantages is None else each.advantages for each in (one, other)]
    return (
        torch.equal(one.source, other.source)
        and torch.equal(one.rewards.nan_to_num(-1), other.rewards.nan_to_num(-1))
        and torch.equal(one.weights, other.weights)
        and torch.equal(one.anomalous, other.anomalous)
        and torch.equal(one.scores.nan_to_num(-1), other.scores.nan_to_num(-1))
        and torch.equal(*given)
    )


def test_rows_without_a_token_of_the_policy_end_no_training(make):
    """Engines give them no log-probability and no length; some have a reward, some have none."""
    rollouts = batch(make)
    rewards, logprobs, lengths = rollouts.rewards.clone(), rollouts.logprobs.clone(), rollouts.lengths.clone()
    rewards[[0, 7]] = math.nan
    logprobs[[0, 1, 13]], lengths[[0, 1, 13]] = math.nan, 0
    donor_ok = lengths > 0
    given = replace(rollouts, rewards=rewards, logprobs=logprobs, lengths=lengths, donor_ok=donor_ok)
    curation = curate(make(), given)
    assert curation.weights.isfinite().all()
    assert not curation.weights[(curation.source == 0) | (curation.source == 7)].any()


def test_rows_rewards_and_groups_belong_together(make):
    rollouts, curation = batch(make), make.expected
    taken = rollouts.take(curation.source)
    if len(curation.source) == len(rollouts):
        assert torch.equal(taken.groups, rollouts.groups)
    if not make.shapes_rewards:
        assert torch.equal(curation.rewards, taken.rewards)
    assert curation.scores.shape == curation.anomalous.shape == (len(rollouts),)
    assert all(isinstance(value, float) for value in curation.metrics.values())
    assert not curation.anomalous[curation.scores.isnan()].any()
    assert (curation.weights >= 0).all()
    assert curation.weights.isfinite().all()
    assert curation.advantages is None or curation.advantages.isfinite().all()


def test_the_table_holds_curators_that_do_something(make):
    """A suite over curators that all did nothing would pass: each must decide something in this batch."""
    if make.settings.get("members") == () or make.name in ("grpo", "monitor"):
        return
    curator = make()
    rollouts = batch(make)
    if make.counts_calls:
        assert torch.equal(curate(curator, rollouts).source, torch.arange(len(rollouts)))
    if make.name in LEARNING_FIRST:
        curate(curator, batch(make, seed=1))
    curation = curate(curator, rollouts)
    acted = (
        len(curation.source) < len(rollouts)
        or bool(curation.replaced.any())
        or bool((curation.weights != 1).any())
        or curation.advantages is not None
        or not torch.equal(curation.rewards, rollouts.rewards)
    )
    assert acted


def done_to(rollouts: Rollouts, curation: Curation) -> set[str]:
    """What a curation changed, in the words in which curators declare it; a row without a reward has weight 0."""
    rewards, weights = rollouts.rewards[curation.source], curation.weights
    changed = {
        "rows": curation.source.tolist() != list(range(len(rollouts))),
        "rewards": not torch.equal(curation.rewards.nan_to_num(-1), rewards.nan_to_num(-1)),
        "weights": not torch.equal(weights, (~rewards.isnan()).to(weights)),
        "advantages": curation.advantages is not None,
    }
    return {name for name, holds in changed.items() if holds}


def varied_batches(make):
    """Batches with groups of even and odd sizes, verdicts and (where it takes any) other rewards, not all scored."""
    for seed, (size, rewards) in enumerate([(6, None), (5, "binary"), (6, "binary"), (5, None)]):
        rollouts = batch(make, seed=seed, size=size, rewards=rewards)
        unscored = rollouts.rewards.clone()
        unscored[::9] = math.nan
        yield rollouts if seed < 2 else replace(rollouts, rewards=unscored)


def test_what_is_declared_is_what_is_done(make):
    curator, did, dropped, scored = make(), set(), False, False
    for rollouts in varied_batches(make):
        curation = curate(curator, rollouts)
        did |= done_to(rollouts, curation)
        dropped |= len(curation.source) < len(rollouts)
        scored |= not bool(curation.scores.isnan().all())
    # What a curator does that another one holds it need not do on the other's batches, or a later one undoes it.
    assert did <= set(curator.acts_on)
    assert curator.members or did == set(curator.acts_on)
    assert dropped == curator.drops_rows
    assert scored == curator.scores_rows


def test_what_it_does_not_read_changes_nothing(make):
    rollouts = batch(make)
    # Every engine says these of every row; in a chain a trusted reward stays whatever a member makes of it.
    always = ["rewards", "groups", "ids", "donor_ok", *make().reads, *(["trusted"] if make.name == "chain" else [])]
    bare = Rollouts(**{name: getattr(rollouts, name) for name in always})
    assert same(curate(make(), bare), make.expected)


def test_a_curator_that_changes_nothing_leaves_a_chain_as_it_is(make):
    for members in ([make()], [make(), GRPO()], [GRPO(), make(), Chain([GRPO()])]):
        curation = curate(Chain(members), batch(make))
        assert same(curation, make.expected)
        assert (curation.advantages is None) == (make.expected.advantages is None)
        assert {name: curation.metrics[name] for name in make.expected.metrics if name != "seconds"} == pytest.approx(
            {name: value for name, value in make.expected.metrics.items() if name != "seconds"}, nan_ok=True
        )


def declared(curator):
    """All that a curator declares; what it needs and reads in one order."""
    names = ("acts_on", "drops_rows", "recomputes_advantages", "answer_reading", "components", "pooled_batches")
    facts = {name: getattr(curator, name) for name in (*names, "scores_rows", "log_odds", "min_scores")}
    return {**facts, "requires": sorted(curator.requires), "reads": sorted(curator.reads)}


def test_a_chain_of_one_declares_what_its_member_does(make):
    assert declared(Chain([make()])) == declared(make())


def test_a_watcher_acts_on_nothing_and_keeps_what_says_how_to_read_the_scores(make):
    inner, watcher = declared(make()), Monitor(curator=make())
    assert (watcher.acts_on, watcher.drops_rows) == ((), False)
    kept = ("components", "scores_rows", "log_odds", "min_scores", "requires")
    assert {name: declared(watcher)[name] for name in kept} == {name: inner[name] for name in kept}
    assert watcher.answer_reading == (inner["answer_reading"] or "exclusive")


def test_one_that_watches_leaves_grpo(make):
    rollouts, watcher = batch(make), Monitor(curator=make())
    watched, plain = curate(watcher, rollouts), CURATORS["grpo"]().curate(rollouts)
    seen = {name: getattr(make.expected, name) for name in ("scores", "anomalous")}
    assert same(watched, replace(plain, **seen))
    assert watcher.reads[: len(make().requires)] == make().requires


def test_input_is_untouched_and_no_gradient_comes_out(make):
    rollouts = batch(make)
    hidden = rollouts.hidden.clone().requires_grad_()
    with_gradient = replace(rollouts, hidden=hidden)
    before = [value.clone() for value in (rollouts.rewards, rollouts.advantages, rollouts.reference_rewards)]
    curation = curate(make(), with_gradient)
    after = (rollouts.rewards, rollouts.advantages, rollouts.reference_rewards)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert torch.equal(with_gradient.hidden, rollouts.hidden)
    assert hidden.grad is None
    assert not curation.rewards.requires_grad
    assert not curation.scores.requires_grad


def of_the_process():
    """What belongs to all threads: the random state, the default dtype, how products and sums are computed."""
    backends = torch.backends
    operations = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
    return (
        torch.get_rng_state().numpy().tobytes(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        *(operation.fp32_precision for operation in operations),
    )


class Watching(TorchFunctionMode):
    """Looks after each of torch's functions whether the process is as it was."""

    def __init__(self):
        super().__init__()
        self.before = of_the_process()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        assert of_the_process() == self.before, func
        self.calls += 1
        return result


@pytest.mark.parametrize("seed", [0, None])
def test_the_process_stays_as_it_is(make, seed):
    """Random state and flags, at no moment: another thread may look at them, or draw."""
    rollouts = batch(make, groups=4, size=4)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    with Watching() as watching:
        make().curate(rollouts, generator=generator)
    assert watching.calls


def test_without_a_generator_the_seed_of_torch_decides(make):
    rollouts = batch(make)
    found = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        torch.rand(seed)  # how far the global generator has come does not matter
        found.append(make().curate(rollouts))
    assert same(found[0], found[1])
    if make.name in ("pf_ppo_br", "pf_ppo_bw"):
        assert not same(found[0], found[2])
        curator = make()
        assert not same(curator.curate(rollouts), curator.curate(rollouts))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_changes_no_bit(make, dtype):
    rollouts, expected = batch(make), make.expected
    torch.set_default_dtype(dtype)
    try:
        found = curate(make(), rollouts)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.scores.dtype == expected.scores.dtype
    assert found.weights.dtype == expected.weights.dtype
    assert same(found, expected)


# The same reward as sums of float32 numbers: 0.1 + 0.6, 0.7 + 0.0, 0.4 + 0.3, 0.2 + 0.5.
SUMS = torch.tensor([0.1, 0.7, 0.4, 0.2]) + torch.tensor([0.6, 0.0, 0.3, 0.5])


def applied(curation, groups):
    """The advantages that a batch is trained with."""
    given = curation.advantages
    if given is None:
        given = group_advantages(curation.rewards, groups[curation.source])
    return given * curation.weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rewards_that_differ_by_rounding_are_equal_rewards(make, dtype):
    """Sixteen groups of one reward and four of two rewards are decided as without rounding, by every curator."""
    if make.binary_only and make.name != "pair_count":
        return
    assert len(SUMS.unique()) > 1
    rewards = torch.cat([SUMS.repeat(16), torch.cat([SUMS, SUMS - 0.5]).repeat(4)]).to(dtype)
    groups = torch.cat([torch.arange(16).repeat_interleave(4), torch.arange(16, 20).repeat_interleave(8)])
    clean = torch.where(rewards > 0.5, rewards[rewards > 0.5].min(), rewards.min())
    hidden = torch.randn(len(rewards), 8, generator=torch.Generator().manual_seed(0))
    found = []
    for each in (rewards, clean):
        rollouts = completed(Rollouts(rewards=each, groups=groups, hidden=hidden))
        unlabelled = torch.zeros(len(each), dtype=torch.bool)
        found.append(
            curate(
                make(),
                replace(
                    rollouts,
                    true_rewards=clean,
                    trusted=unlabelled,
                    second_rewards=lambda rows: [None for _ in rows],
                ),
            )
        )
    one, other = found
    assert torch.equal(one.source, other.source)
    assert torch.equal(one.anomalous, other.anomalous)
    torch.testing.assert_close(applied(one, groups), applied(other, groups), equal_nan=True, atol=1e-5, rtol=1e-5)


def test_same_seed_same_bits_with_details(make):
    assert same(make.expected, curate(make(), batch(make), details=True))
    # Nor do the groups' names and a caller's modes matter.
    rollouts = batch(make)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        assert same(make.expected, curate(make(), replace(rollouts, groups=rollouts.groups * 7 - 20)))


@pytest.mark.parametrize("rewards", ["continuous", "binary"])
def test_row_order_changes_nothing(make, rewards):
    if make.binary_only and rewards != "binary":
        return
    rollouts = batch(make, rewards=rewards)
    order = torch.randperm(len(rollouts), generator=torch.Generator().manual_seed(9))
    straight, mixed = curate(make(), rollouts), curate(make(), rollouts.take(order))
    assert torch.equal(straight.anomalous[order], mixed.anomalous)
    torch.testing.assert_close(straight.scores[order], mixed.scores, equal_nan=True, atol=1e-5, rtol=1e-4)
    # The same rows survive: as rows of the original batch, in any order.
    assert sorted(order[mixed.source].tolist()) == sorted(straight.source.tolist())

    def by_row(curation, rows):
        given = curation.rewards if curation.advantages is None else curation.advantages
        values = zip(rows.tolist(), (given * curation.weights).tolist(), strict=True)
        return [round(value, 4) for _, value in sorted(values)]

    assert by_row(straight, straight.source) == pytest.approx(by_row(mixed, order[mixed.source]), abs=2e-4)


def degenerate_batches():
    hidden = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    for rewards, groups in (
        ([1.0] * 6, [0, 0, 0, 1, 1, 1]),
        ([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], [0, 1, 2, 3, 4, 5]),
        ([math.nan] * 6, [0] * 6),
        ([1.0, math.nan, math.nan, 0.0, math.nan, 1.0], [0, 0, 0, 1, 1, 2]),
    ):
        base = Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups), hidden=hidden)
        known = base.rewards.tolist()
        yield replace(
            completed(base),
            true_rewards=base.rewards,
            second_rewards=lambda asked, known=known: [known[i] for i in asked],
        )


def test_degenerate_batches_flag_nothing(make):
    """Groups of equal rewards, of one, without any reward: nothing is anomalous, nothing divides by zero."""
    for rollouts in degenerate_batches():
        curation = curate(make(), rollouts)
        assert not curation.anomalous.any()
        assert curation.weights.isfinite().all()
        assert (curation.weights[rollouts.rewards[curation.source].isnan()] == 0).all()
        if curation.advantages is not None and not make.has_no_baseline:
            assert (curation.advantages * curation.weights).nan_to_num(0.0).abs().sum() < 1e-3
        if make.rectifies:
            assert curation.source.tolist() == list(range(6))
            assert torch.equal(curation.weights, (~rollouts.rewards.isnan()).float())


def test_empty_batch(make):
    empty = Rollouts(rewards=torch.zeros(0), groups=torch.zeros(0, dtype=torch.long), hidden=torch.zeros(0, 16))
    curator = make()
    curation = curate(curator, completed(empty))
    shapes = {name: getattr(curation, name).shape for name in ("source", "rewards", "weights", "scores", "anomalous")}
    assert set(shapes.values()) == {(0,)}
    assert curation.source.dtype == torch.int64
    # Nothing was seen, so nothing was learned: the next batch is decided as by a new curator, unless calls are counted.
    if not make.counts_calls:
        assert same(curate(curator, batch(make)), make.expected)


def test_single_row_and_ragged_groups(make):
    """One row alone, and groups of 1, 2, 3 and 7 rows in mixed order."""
    one = completed(Rollouts(rewards=torch.ones(1), groups=torch.tensor([4]), hidden=torch.ones(1, 4)))
    assert len(curate(make(), one).source) <= 1
    groups = torch.tensor([5, 1, 5, 2, 2, 9, 5, 5, 2, 5, 9, 5, 5])
    generator = torch.Generator().manual_seed(2)
    rewards = torch.rand(13, generator=generator)
    rewards = rewards.round() if make.binary_only else rewards
    ragged = completed(Rollouts(rewards=rewards, groups=groups, hidden=torch.randn(13, 4, generator=generator)))
    curation = curate(make(), ragged)
    assert curation.weights.isfinite().all()
    kept = torch.bincount(groups[curation.source], minlength=10)
    assert (kept <= torch.bincount(groups, minlength=10)).all()


def test_nan_rewards_have_weight_zero_and_are_no_donors(make):
    rollouts = batch(make)
    rewards = rollouts.rewards.clone()
    rewards[::5] = math.nan
    curation = curate(make(), replace(rollouts, rewards=rewards))
    lost = rewards.isnan()
    assert curation.weights[lost[curation.source]].eq(0).all()
    moved = curation.source != torch.arange(len(curation.source)) if len(curation.source) == len(rewards) else None
    if moved is not None:
        assert not lost[curation.source[moved]].any()
    if curation.advantages is not None:
        assert (curation.advantages * curation.weights).nan_to_num(0.0).isfinite().all()


def test_rows_unfit_as_donors_take_nobodys_place(make):
    rollouts = batch(make)
    fit = torch.arange(len(rollouts)) % 3 != 0
    curation = curate(make(), replace(rollouts, donor_ok=fit))
    if len(curation.source) == len(rollouts):
        assert fit[curation.source[curation.replaced]].all()


@pytest.mark.parametrize("scale", [1e30, 1e20, 1e-30])
def test_extreme_rewards(make, scale):
    if make.binary_only:
        return
    rollouts = batch(make)
    curation = curate(
        make(), replace(rollouts, rewards=rollouts.rewards * scale, true_rewards=rollouts.rewards * scale)
    )
    taken = (rollouts.rewards * scale)[curation.source]
    assert curation.weights.isfinite().all()
    assert curation.advantages is None or curation.advantages.isfinite().all()
    if make.shapes_rewards:
        assert curation.rewards.isfinite().all()
    else:
        assert torch.equal(curation.rewards, taken)
    # Advantages over the group's deviation are those of the usual size, up to the constant added to it.
    if make.name in ("quantile", "mc_grpo") and scale > 1 and make.settings.get("scale") != "none":
        usual = applied(make.expected, rollouts.groups)
        torch.testing.assert_close(applied(curation, rollouts.groups), usual, atol=1e-2, rtol=1e-2)
    # What depends on the order of the rewards alone decides as it would at their usual size.
    if make.name in ("geoalign", "random", "pods"):
        assert torch.equal(curation.anomalous, make.expected.anomalous)
        assert torch.equal(curation.source, make.expected.source)


def test_half_precision_is_decided_in_float32(make):
    rollouts = batch(make)
    low, hidden = rollouts.rewards.bfloat16(), rollouts.hidden.bfloat16()
    given = replace(rollouts, rewards=low, true_rewards=low, groups=rollouts.groups.int(), hidden=hidden)
    curation = curate(make(), given)
    assert curation.rewards.dtype == torch.float32
    full = replace(rollouts, rewards=low.float(), true_rewards=low.float(), hidden=hidden.float())
    assert same(curation, curate(make(), full))


def test_float64_rewards_stay_and_decide_alike(make):
    rollouts = batch(make)
    wide = rollouts.rewards.double()
    curation = curate(make(), replace(rollouts, rewards=wide, true_rewards=wide))
    expected = curate(make(), replace(rollouts, true_rewards=rollouts.rewards))
    assert curation.rewards.dtype == torch.float64
    assert torch.equal(curation.source, expected.source)
    assert torch.equal(curation.anomalous, expected.anomalous)


def test_a_restored_curator_goes_on_alike(make, tmp_path):
    first, second = make(), make()
    for seed in range(3):
        curate(first, batch(make, seed=seed))
    saved, drawn = first.state_dict(), torch.get_rng_state()
    # What was taken does not change with the running curator.
    expected = curate(first, batch(make, seed=3), seed=5)
    save_state(tmp_path / "state", saved)
    second.load_state_dict(load_state(tmp_path / "state"))
    assert torch.equal(torch.get_rng_state(), drawn)
    assert same(expected, curate(second, batch(make, seed=3), seed=5))


def test_foreign_state_is_refused(make):
    with pytest.raises(ConfigError, match=r"expected .* (key|state)"):
        make().load_state_dict({"unknown": 1})
    with pytest.raises(ConfigError, match=r"expected the keys .* got .*unknown"):
        make().load_state_dict({**make().state_dict(), "unknown": 1})


@pytest.mark.parametrize(("name", "changes"), [(name, each) for name, all_ in CHANGES.items() for each in all_])
def test_a_state_of_other_settings_is_refused_by_name(name, changes, tmp_path):
    saved, now = Made(name, {})(), Made(name, changes)
    curate(saved, batch(now))
    save_state(tmp_path / "state", saved.state_dict())
    differs = [key for key, value in changes.items() if getattr(saved.config, key) != value]
    with pytest.raises(
        ConfigError, match=rf"saved with other settings: .*{name}\.{differs[0]}\b.*: saved with .*, now"
    ):
        now().load_state_dict(load_state(tmp_path / "state"))


def test_a_state_is_safe_to_load_by_torch(make, tmp_path):
    curator = make()
    curate(curator, batch(make))
    torch.save(curator.state_dict(), tmp_path / "state.pt")
    restored = make()
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert same(curate(restored, batch(make, seed=1)), curate(curator, batch(make, seed=1)))


def test_missing_fields_are_named(make):
    """Each field that a curator requires, left out alone: the error names it and says how to supply it."""
    curator = make()
    for name in curator.requires:
        with pytest.raises(InputError, match=rf"{name}.*expected Rollouts\(.*{name}=.*rollout_fields"):
            curate(curator, replace(batch(make), **{name: None}))


@pytest.mark.parametrize("name", BINARY_ONLY)
def test_curators_of_binary_rewards_refuse_others(name):
    pair = Rollouts(
        rewards=torch.tensor([1.0, 0.5]),
        groups=torch.zeros(2, dtype=torch.long),
        hidden=torch.eye(2),
        answers=["a", "b"],
        prompt_keys=torch.zeros(2, dtype=torch.long),
    )
    kind = CURATORS[name]
    with pytest.raises(InputError, match=rf"^{kind.__name__}: expected binary rewards \(0 or 1\), got 0.5 in row 1$"):
        kind().curate(pair)


def test_what_is_not_required_is_not_needed(make):
    curator = make()
    rollouts = batch(make)
    bare = Rollouts(
        rewards=rollouts.rewards, groups=rollouts.groups, **{name: getattr(rollouts, name) for name in curator.requires}
    )
    assert len(curate(curator, bare).scores) == len(rollouts)


@pytest.mark.parametrize("name", list(CURATORS))
def test_settings_pick_their_curator(name, unchecked_shapes):
    curator_class = CURATORS[name]
    assert curator_class.config_class.type == name
    assert type(make_curator(curator_class.config_class())) is curator_class
    with pytest.raises(ConfigError, match="no_such_setting"):
        curator_class(no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a config or keywords"):
        curator_class(curator_class.config_class(), no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a"):
        curator_class(object())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"geoalign, .*grpo.*pods.*nearest: denoise.*got 'Denoize'"):
        CURATORS["Denoize"]
    assert "geo" not in CURATORS
    assert {"geoalign", "pods", "chain"} <= set(CURATORS)


def test_a_curator_by_name_dict_settings_or_itself():
    windowed = DenoiseConfig(window=3)
    for given in ({"type": "denoise", "window": 3}, windowed, Denoise(window=3)):
        assert as_curator(given).config == Monitor(given).config.curator == Chain([given]).config.members[0] == windowed
        assert CurationSession(given, seed=0).curator.config == windowed
    assert as_curator("denoise").config == Appeals("denoise").config.curator == DenoiseConfig()
    held = Denoise()
    assert as_curator(held) is held
    assert Monitor(held).members == Monitor(curator=held).members == (held,)
    # In settings, so in YAML and of every engine.
    for name in ("denoise", {"type": "denoise"}, DenoiseConfig()):
        assert (
            load_settings(EngineSettings, {"curator": {"type": "monitor", "curator": name}}).curator == MonitorConfig()
        )
        assert MonitorConfig(curator=name) == MonitorConfig()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "denoize",
            r"^curator: expected one of .*, tie_detector \(nearest: denoise\); got 'denoize'$",
        ),
        ({"type": "denoise", "windw": 3}, r"^curator\.windw: unknown key: expected curator\.window"),
        ({"type": "denoise", "window": 0}, r"^curator\.window: expected greater than or equal to 1, got 0"),
        ({"type": 3}, r"^curator\.type: expected one of .*; got 3"),
        (3, r"^curator: expected a curator \(a name such as 'denoise', .*\), got int$"),
        (Denoise, r"^curator: expected a curator, got its class: write Denoise\(\)$"),
    ],
)
def test_what_is_no_curator_is_refused_with_the_key(given, words):
    for take in (as_curator, Monitor, Appeals, lambda given: CurationSession(given, seed=0)):
        with pytest.raises(ConfigError, match=words):
            take(given)


def test_a_word_that_is_no_action_is_refused():
    with pytest.raises(ConfigError, match=r"Mine\.acts_on: expected a tuple out of rows, .*; got \('reward',\)"):
        type("Mine", (Curator,), {"acts_on": ("reward",)})


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
    make = Made(name, {})
    rollouts = batch(make, groups=4, size=4)
    expected = curate(make(), rollouts)
    with pretend_gpu():
        check_on_gpu(CurationSession(make(), seed=0), rollouts_on_gpu(rollouts), expected)


@pytest.mark.parametrize("name", CURATORS)
def test_hidden_states_on_a_gpu_and_a_resume(name, tmp_path):
    """The rest of the batch stays on the CPU, where the state is read from its file."""
    make = Made(name, {})
    first, second = (batch(make, seed=seed, groups=4, size=4) for seed in (1, 0))
    session = CurationSession(make(), seed=0)
    session.curate(first)
    expected = session.curate(second)
    with pretend_gpu():
        session, resumed = CurationSession(make(), seed=0), CurationSession(make(), seed=1)
        session.curate(rollouts_on_gpu(first, "hidden"))
        session.save(tmp_path / "state")
        resumed.load(tmp_path / "state", setting="", otherwise="")
        check_on_gpu(resumed, rollouts_on_gpu(second, "hidden"), expected)
