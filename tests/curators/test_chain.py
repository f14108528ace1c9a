"""Chains: rows compose, weights multiply, scores refer to the original rows, advantages hold while rewards do."""

import math
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import settings as settings_of_examples
from hypothesis import strategies as st

from geoalign import Curation, Curator, GeoAlign, Monitor, Rollouts, group_advantages
from geoalign.curators.baselines.controls import Oracle, RankTrim
from geoalign.curators.baselines.reshaped_advantages import GRPO, MCGRPO, IdentityConfig, QuantileBaseline
from geoalign.curators.baselines.reshaped_rewards import PAR, MajorityVote
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.baselines.subsets import CPPO, PODS, PODSConfig
from geoalign.curators.chain import Chain, ChainConfig
from geoalign.curators.denoise import Denoise
from geoalign.curators.registry import as_curator
from geoalign.errors import ConfigError
from geoalign.lab.train.read_settings import load_run_config, parse_run_config
from geoalign.settings import settings
from geoalign.settings.loading import plain_settings
from geoalign.testing.synthetic import synthetic_rollouts


@settings
class OwnConfig:
    type: ClassVar[str] = "not_registered"


class Fixed(Curator[IdentityConfig]):
    config_class = IdentityConfig

    def __init__(self, source, weights=None, scores=None, anomalous=None, advantages=None, metrics=None, rewards=None):
        super().__init__()
        self.parts = (source, weights, scores, anomalous, advantages)
        self.changed = rewards or {}
        self.metrics = metrics or {}
        self.seen = None

    def curate(self, rollouts, *, generator=None, details=False):
        self.seen = rollouts
        source, weights, scores, anomalous, advantages = self.parts
        rows = torch.tensor(source)
        rewards = rollouts.rewards[rows]
        for place, reward in self.changed.items():
            rewards[place] = reward
        return Curation(
            source=rows,
            rewards=rewards,
            weights=torch.ones(len(rows)) if weights is None else torch.tensor(weights),
            scores=torch.full((len(rollouts),), math.nan) if scores is None else torch.tensor(scores),
            anomalous=torch.zeros(len(rollouts), dtype=torch.bool) if anomalous is None else torch.tensor(anomalous),
            advantages=None if advantages is None else torch.tensor(advantages),
            metrics=self.metrics,
        )


def four(**fields):
    """One group of four rows, whose rewards are their numbers."""
    rewards = torch.tensor([0.0, 1, 2, 3])
    return Rollouts(rewards=rewards, groups=torch.zeros(4, dtype=torch.long), **fields)


def test_rows_compose_and_weights_multiply():
    first = Fixed([3, 1, 1], weights=[0.5, 1.0, 0.25])
    second = Fixed([2, 0], weights=[0.5, 3.0], metrics={"pairs": 4.0, "kept": 2.0, "seconds": 0.5})
    first.metrics = {"pairs": 3.0, "seconds": 1.0}
    curation = Chain([first, second]).curate(four())
    assert curation.metrics == {"pairs": 3.0, "seconds": 1.5, "member_2/pairs": 4.0, "kept": 2.0}
    assert second.seen.rewards.tolist() == [3, 1, 1]
    # Row 2 of the second's input is the first's output row 2, which is original row 1: 0.25 * 0.5; row 0: 0.5 * 3.
    assert curation.source.tolist() == [1, 3]
    assert curation.weights.tolist() == [0.125, 1.5]
    assert curation.rewards.tolist() == [1, 3]


def test_scores_refer_to_the_original_rows():
    nan = math.nan
    first = Fixed([3, 1, 1], scores=[nan, 1.0, nan, 2.0], anomalous=[False, False, False, True])
    # Its rows are the original 3, 1, 1: row 1 is known already, and nothing is said of row 0 and 2.
    second = Fixed([0, 1, 2], scores=[9.0, 5.0, 7.0], anomalous=[False, False, True])
    third = Fixed([0], scores=[4.0, nan, nan])
    curation = Chain([first, second, third]).curate(four())
    assert curation.scores.nan_to_num(-1).tolist() == [-1, 1, -1, 2]
    assert curation.anomalous.tolist() == [False, True, False, True]
    # Copies of one row: the most suspicious counts.
    copying = Fixed([1, 1, 2])
    scoring = Fixed([0, 1, 2], scores=[5.0, 7.0, nan])
    curation = Chain([copying, scoring]).curate(four())
    assert curation.scores.nan_to_num(-1).tolist() == [-1, 7, -1, -1]


def giving():
    return Fixed([0, 1, 2, 3], advantages=[1.0, 2.0, 3.0, 4.0])


def test_advantages_of_two_members():
    plain = Fixed([3, 0])
    assert Chain([giving(), plain]).curate(four()).advantages is None
    assert plain.seen.advantages.tolist() == [1, 2, 3, 4]
    giving_to_two = Fixed([0, 1], advantages=[5.0, 6.0])
    assert Chain([plain, giving_to_two]).curate(four()).advantages.tolist() == [5, 6]
    keeping_all = Fixed([0, 1, 2, 3])
    assert Chain([giving(), keeping_all]).curate(four()).advantages.tolist() == [1, 2, 3, 4]
    taking = Fixed([3, 0, 0])
    taking.acts_on = ("rows",)
    assert Chain([giving(), taking]).curate(four()).advantages.tolist() == [4, 1, 1]


def test_weights_behind_advantages_are_those_of_one_after_the_other():
    rollouts = four(answers=["a", "a", "b", "c"], logprobs=-torch.arange(4.0))
    chained = Chain([QuantileBaseline(), SeedGRPO()]).curate(rollouts)
    assert torch.equal(chained.advantages, QuantileBaseline().curate(rollouts).advantages)
    assert torch.equal(chained.weights, SeedGRPO().curate(rollouts).weights)


def test_what_ends_advantages_is_said_once_and_counted(caplog):
    rollouts = four(reference_rewards=torch.zeros(4, 1))
    chain = Chain([QuantileBaseline(), GRPO(), PAR(), GRPO()])
    curation = chain.curate(rollouts)
    assert curation.advantages is None
    assert torch.equal(curation.rewards, PAR().curate(rollouts).rewards)
    assert curation.metrics["advantages_dropped"] == 1
    chain.curate(rollouts)
    assert ["put QuantileBaseline behind PAR" in message for message in caplog.messages] == [True]
    # PODS makes its advantages over the rows that it keeps; behind it they are the quantile's of these.
    assert Chain([QuantileBaseline(), PODS(m=2)]).curate(rollouts).metrics["advantages_dropped"] == 1
    behind = Chain([PODS(m=2), QuantileBaseline()]).curate(rollouts)
    assert "advantages_dropped" not in behind.metrics
    # Rewards 3 and 0: the quantile is 0, the deviation 3 / sqrt(2).
    assert sorted(behind.advantages.tolist()) == pytest.approx([0, math.sqrt(2)])


def test_replaced_rows_bring_their_advantages_along():
    rollouts = four(true_rewards=torch.tensor([0.0, 1, 2, 5]))
    before = QuantileBaseline().curate(rollouts).advantages
    curation = Chain([QuantileBaseline(), Oracle()]).curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert curation.source[3] != 3
    assert torch.equal(curation.advantages, before[curation.source])


@pytest.mark.parametrize("changed", [{}, {3: 9.0}], ids=["an identity", "another row"])
def test_a_known_reward_is_shown_to_the_next_member_which_changes_only_what_it_changes(changed):
    """A majority vote ignores rewards, those that are known to be true among them."""
    trusted = torch.tensor([True, False, False, False])
    rollouts = four(answers=["a", "a", "b", "c"], trusted=trusted)
    assert MajorityVote().curate(rollouts).rewards.tolist() == [1, 1, 0, 0]
    behind = Fixed([0, 1, 2, 3], rewards=changed)
    curation = Chain([MajorityVote(), behind]).curate(rollouts)
    assert behind.seen.rewards.tolist() == [0, 1, 0, 0]
    assert curation.rewards.tolist() == [1, 1, 0, changed.get(3, 0)]


def test_advantages_pruned_by_a_later_member():
    # MC-GRPO's advantages, pruned by CPPO: -1.5 and 1.5 are the largest.
    given = four(advantages=torch.zeros(4))
    pruned = Chain([MCGRPO(), CPPO()]).curate(given)
    assert set(pruned.source.tolist()) == {0, 3}
    # Median 1.5, distances 1.5 .5 .5 1.5, their median 1: 1.5 / 1.001
    assert sorted(pruned.advantages.tolist()) == pytest.approx([-1.498501, 1.498501])


def test_a_member_after_the_advantage_sees_those_of_the_changed_batch():
    engine = torch.tensor([10.0, 20.0, 30.0, 40.0])
    seen = Fixed([0, 1, 2, 3])
    Chain([Fixed([0, 1, 2, 3]), seen]).curate(four(advantages=engine))
    assert seen.seen.advantages.tolist() == engine.tolist()
    moved = Fixed([0, 1, 2])
    Chain([Fixed([3, 1, 2]), moved]).curate(four(advantages=engine))
    expected = group_advantages(torch.tensor([3.0, 1, 2]), torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(moved.seen.advantages, expected)
    shaped = Fixed([0, 1, 2, 3])
    Chain([PAR(), shaped]).curate(four(advantages=engine, reference_rewards=torch.zeros(4, 1)))
    rewards = torch.sigmoid(torch.tensor([0.0, 1, 2, 3]))
    torch.testing.assert_close(shaped.seen.rewards, rewards)
    torch.testing.assert_close(shaped.seen.advantages, group_advantages(rewards, torch.zeros(4, dtype=torch.long)))


def test_components_of_changed_rewards_are_unknown():
    parts = {"a": torch.arange(4.0)}
    batch = four(reference_rewards=torch.zeros(4, 1), components=parts)
    behind_grpo = Fixed([0, 1, 2, 3])
    Chain([GRPO(), behind_grpo]).curate(batch)
    assert torch.equal(behind_grpo.seen.components["a"], parts["a"])
    behind_par = Fixed([0, 1, 2, 3])
    Chain([PAR(), behind_par]).curate(batch)
    assert behind_par.seen.components is None


def test_the_state_of_another_number_of_members_is_refused():
    with pytest.raises(ConfigError, match=r"chain\.members: saved with \[pods, pods\], now \[pods\]"):
        Chain([PODS()]).load_state_dict(Chain([PODS(m=4), PODS()]).state_dict())


def test_details_only_while_rows_are_the_original_ones():
    small = {"min_scores": 8, "projector": None}
    rollouts = synthetic_rollouts(12, 6, 16, seed=0).rollouts
    assert Chain([GeoAlign(**small), PODS()]).curate(rollouts, details=True).details is not None
    assert Chain([PODS(m=4), GeoAlign(**small)]).curate(rollouts, details=True).details is None


def test_a_chain_from_yaml(tmp_path):
    file = tmp_path / "chain.yaml"
    file.write_text(
        "curator:\n  type: chain\n  members:\n    - {type: geoalign, alpha: 0.1, projector: {layers: 2}}\n"
        "    - type: chain\n      members: [{type: pods, m: 4}]\n",
        encoding="utf-8",
    )
    config = load_run_config(file).config
    chain = as_curator(config.curator)
    assert isinstance(chain, Chain)
    assert [type(member) for member in chain.members] == [GeoAlign, Chain]
    assert chain.members[0].config.projector.layers == 2
    assert chain.members[1].members[0].config == PODSConfig(m=4)
    assert parse_run_config(plain_settings(config)) == config
    assert Chain(chain.members).config == config.curator
    reads = Chain([GeoAlign(), Denoise(answers="none"), MajorityVote()]).reads
    assert reads == ("hidden", "answers", "response_keys", "prompt_keys", "trusted")
    assert Chain(["grpo", {"type": "pods", "m": 4}]).members[1].config == PODSConfig(m=4)
    with pytest.raises(ConfigError, match=r"^members\.1: expected one of .*\(nearest: pods\); got 'pod'$"):
        Chain(["grpo", "pod"])
    own = Fixed([0])
    own.config = OwnConfig()
    assert Chain([Monitor(curator=own)]).config.members[0].curator == OwnConfig()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("[{type: pods, n: 4}]", r"curator\.members\.0\.n: unknown key"),
        ("[{type: grpo}, {type: pod}]", r"curator\.members\.1\.type: expected one of .*nearest: pods"),
        ("pods", r"curator\.members: expected a list, got 'pods'"),
    ],
)
def test_bad_chains_are_named(tmp_path, members, words):
    file = tmp_path / "chain.yaml"
    file.write_text(f"curator:\n  type: chain\n  members: {members}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_run_config(file)
    assert ChainConfig().members == ()


# Every kind of member: of each action alone and of several, and one that changes nothing.
MEMBERS = {
    "grpo": GRPO,
    "monitor": lambda: Monitor(GRPO()),
    "quantile": QuantileBaseline,
    "mc_grpo": MCGRPO,
    "rank_trim": RankTrim,
    "majority_vote": MajorityVote,
    "oracle": Oracle,
    "pods": lambda: PODS(m=2),
    "denoise": lambda: Denoise(geometry="none"),
}


def chained(members):
    draw = torch.Generator().manual_seed(5)
    rollouts = Rollouts(
        rewards=torch.rand(20, generator=draw).round(),
        true_rewards=torch.rand(20, generator=draw).round(),
        groups=torch.arange(20) // 5,
        answers=[f"{int(item)}" for item in torch.randint(3, (20,), generator=draw)],
    )
    return Chain(members).curate(rollouts, generator=torch.Generator().manual_seed(0))


def decisions(curation):
    """All that a curation decides, as comparable numbers; NaN where there is no advantage."""
    rows = torch.full((len(curation.source),), math.nan) if curation.advantages is None else curation.advantages
    values = (curation.source, curation.rewards, curation.weights, rows, curation.scores, curation.anomalous)
    return [str(value.tolist()) for value in values]


names = st.lists(st.sampled_from(sorted(MEMBERS)), max_size=4)


@settings_of_examples(max_examples=30, derandomize=True)
@given(names, names, st.sampled_from(["grpo", "monitor"]))
def test_a_member_that_changes_nothing_changes_nothing_anywhere(before, after, idle):
    def members_of(several):
        return [MEMBERS[name]() for name in several]

    plain = decisions(chained(members_of([*before, *after])))
    found = decisions(chained(members_of([*before, idle, *after])))
    assert found == plain


@settings_of_examples(max_examples=30, derandomize=True)
@given(names, names, names)
def test_a_chain_within_a_chain_is_its_members(before, within, after):
    def members_of(several):
        return [MEMBERS[name]() for name in several]

    flat = chained(members_of([*before, *within, *after]))
    nested = chained([*members_of(before), Chain(members_of(within)), *members_of(after)])
    assert decisions(nested) == decisions(flat)
