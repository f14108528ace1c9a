"""Every curator inside TRL's real trainer: what it decided is what entered the loss, and the policy moved."""

import pytest
import torch
from trl_parts import Recording, digits, model, same_weights, trainer, weights_of

from geoalign import CURATORS, GeoAlign, GeoAlignConfig
from geoalign.curators.anchors import Anchors
from geoalign.curators.baselines.rewards import PARConfig
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.baselines.subsets import CPPO, PODS, PODSConfig
from geoalign.curators.chain import Chain
from geoalign.method.advantages import group_advantages

SMALL = {"min_scores": 4, "alpha": 0.5, "projector": {"hidden_dim": 16, "output_dim": 8, "steps": 5}}
SETTINGS = {
    "geoalign": SMALL,
    "geoalign_released": {"min_scores": 4, "alpha": 0.5, "min_epochs": 1, "max_epochs": 2, "output_dim": 8},
    "pair_count": {"min_scores": 4, "alpha": 0.9, "max_fraction": 0.5},
    "reward_distance": {"min_scores": 4, "alpha": 0.9, "max_fraction": 0.5},
    "random": {"geoalign": GeoAlignConfig(**SMALL)},
    # A level at which any agreement of the states opens the gate.
    "denoise": {"level": 0.01},
    "appeals": {"budget": 3},
    "noise_corrected": {"false_positive_rate": 0.1, "false_negative_rate": 0.2},
    "chain": {"members": (PARConfig(), PODSConfig(m=3))},
}
BINARY = (
    "s_grpo",
    "dapo_filter_only",
    "pair_count",
    "noise_corrected",
    "nearest_centroid",
    "confident_learning",
    "score_agreement",
    "label_refinement",
)
MADE = {name: (lambda name=name: CURATORS[name](**SETTINGS.get(name, {}))) for name in CURATORS}
MADE |= {
    "seed_grpo then quantile": lambda: Chain([SeedGRPO(alpha=0.5), CURATORS["quantile"]()]),
    "gfpo by token": lambda: CURATORS["gfpo"](by="token_efficiency"),
    "mc_grpo of three": lambda: Chain([PODS(m=3), CURATORS["mc_grpo"]()]),
    "seed_grpo by state": lambda: SeedGRPO(clusters="hidden", threshold=0.9),
    "geoalign then cppo": lambda: Chain([GeoAlign(**SMALL), CPPO()]),
}


def has_digit(completions, **columns):
    return [float(value > 0) for value in digits(completions)]


def fields_for(curator):
    """What no adapter can know: made from the row, as a user's functions would."""
    known = {
        "answers": lambda rows: [row["completion"][:1] or None for row in rows],
        "reference_rewards": lambda rows: [[0.1, 0.3, None] for _ in rows],
        # The reward of a completion of odd length counts as corrupted.
        "true_rewards": lambda rows: [
            value + len(row["completion_ids"]) % 2
            for row, value in zip(rows, digits([row["completion"] for row in rows]), strict=True)
        ],
        "second_rewards": lambda rows: [1 - value for value in digits([row["completion"] for row in rows])],
    }
    return {name: value for name, value in known.items() if name in curator.requires}


def anchors_for(curator):
    """Labelled rows, for curators that cannot do without."""
    prompts, responses = [f"{n}+{n}=" for n in range(4) for _ in range(2)], ["23", "two"] * 4
    return Anchors(prompts, responses, [1.0, 0.0] * 4, prompts) if "trusted" in curator.requires else None


def expected_rows(step):
    """(prompt, response, advantage) of every row that should enter the loss for one generation batch."""
    curation, groups = step.curation, step.rollouts.groups
    advantages = curation.advantages
    if advantages is None:
        advantages = group_advantages(curation.rewards, groups[curation.source], eps=1e-4)
    advantages = advantages * curation.weights
    return [
        (step.prompts[row], step.responses[row], float(value))
        for row, value in zip(curation.source.tolist(), advantages, strict=True)
    ]


def acted(step):
    curation = step.curation
    return (
        len(curation.source) < len(step.rollouts)
        or bool(curation.replaced.any())
        or bool((curation.weights != 1).any())
        or curation.advantages is not None
        or not torch.equal(curation.rewards, step.rollouts.rewards)
    )


def in_order(rows):
    """Rows without tokens and without an advantage say nothing: dropped ones look like that."""
    return sorted(row for row in rows if row[1] or abs(row[2]) > 1e-3)


@pytest.mark.parametrize("name", MADE)
def test_what_it_decides_enters_the_loss(tmp_path, name):
    curator = MADE[name]()
    made = trainer(
        tmp_path,
        curator,
        cls=Recording,
        reward=has_digit if name in BINARY else digits,
        extra={"rollout_fields": fields_for(curator), "anchors": anchors_for(curator)},
        max_steps=3,
        per_device_train_batch_size=16,
    )
    made.train()
    assert len(made.steps) == 3
    entered = in_order(made.entered)
    expected = in_order(row for step in made.steps for row in expected_rows(step))
    assert [row[:2] for row in entered] == [row[:2] for row in expected]
    assert [row[2] for row in entered] == pytest.approx([row[2] for row in expected], abs=2e-3)
    # Label refinement waits for a prompt to come again, which none does in three steps.
    assert any(map(acted, made.steps)) or name in ("grpo", "label_refinement")
    assert not same_weights(weights_of(made), dict(model().named_parameters()))
    for log in made.state.log_history[:3]:
        assert sum(key.startswith("geoalign/") for key in log) >= 2
