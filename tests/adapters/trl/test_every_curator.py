"""Every curator inside TRL's real trainer: what it decided is what enters the loss."""

from dataclasses import replace
from functools import partial

import pytest
from trl_parts import LABELLED, OPEN, SMALL, Recording, digits, entering, has_digit, trainer

from geoalign import CURATORS, GeoAlign, GeoAlignConfig
from geoalign.adapters.grpo_trainer.generation_batch import trainers_verifier
from geoalign.adapters.trl.refusals import check_trainer
from geoalign.curators.baselines.reshaped_rewards import PARConfig
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.baselines.subsets import CPPO, PODS, PODSConfig
from geoalign.curators.chain import Chain
from geoalign.curators.session import CurationSession
from geoalign.method.advantages import group_advantages

SETTINGS = {
    "geoalign": SMALL,
    "geoalign_released": {"min_scores": 4, "alpha": 0.5, "min_epochs": 1, "max_epochs": 2, "output_dim": 8},
    "pair_count": {"min_scores": 4, "alpha": 0.9, "max_fraction": 0.5},
    "reward_distance": {"min_scores": 4, "alpha": 0.9, "max_fraction": 0.5},
    "random": {"geoalign": GeoAlignConfig(**SMALL)},
    "denoise": OPEN,
    "appeals": {"budget": 3},
    "noise_corrected": {"false_positive_rate": 0.1, "false_negative_rate": 0.2},
    "chain": {"members": (PARConfig(), PODSConfig(m=3))},
}
MADE = {name: partial(CURATORS[name], **SETTINGS.get(name, {})) for name in CURATORS}
MADE |= {
    "seed_grpo then quantile": lambda: Chain([SeedGRPO(alpha=0.5), CURATORS["quantile"]()]),
    "mc_grpo of three": lambda: Chain([PODS(m=3), CURATORS["mc_grpo"]()]),
    "seed_grpo by state": lambda: SeedGRPO(clusters="hidden", threshold=0.9),
    "geoalign then cppo": lambda: Chain([GeoAlign(**SMALL), CPPO()]),
    "geoalign drop": lambda: GeoAlign(strategy="drop", **SMALL),
    "geoalign zero_weight": lambda: GeoAlign(strategy="zero_weight", **SMALL),
    "geoalign amplify": lambda: GeoAlign(strategy="amplify", **SMALL),
}

BINARY = (
    "s_grpo",
    "pair_count",
    "noise_corrected",
    "nearest_centroid",
    "confident_learning",
    "score_agreement",
    "labelled_probe",
)


def true_rewards(rows):
    """The reward of a completion whose tokens have an odd sum counts as corrupted."""
    rewards = digits([row["completion"] for row in rows])
    return [reward + sum(row["completion_ids"]) % 2 for row, reward in zip(rows, rewards, strict=True)]


# What no adapter can know: made from the row, as a user's functions would.
FIELDS = {
    "answers": lambda rows: [row["completion"][:1] or None for row in rows],
    "reference_rewards": lambda rows: [[0.1, 0.3, None] for _ in rows],
    "true_rewards": true_rewards,
}


def contrary(completions, **columns):
    """A second verifier that contradicts the reward."""
    return [1 - value for value in digits(completions)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One trainer, which gets one curator after another; it generates, and is not trained."""
    extra = {"rollout_fields": FIELDS, "labelled_rollouts": LABELLED}
    folder = tmp_path_factory.mktemp("every")
    made = trainer(folder, MADE["denoise"](), cls=Recording, extra=extra, per_device_train_batch_size=16)
    made.model.train()
    made.current_gradient_accumulation_steps = 1
    return made


def expected_rows(step):
    curation, groups = step.curation, step.rollouts.groups
    advantages = curation.advantages
    if advantages is None:
        advantages = group_advantages(curation.rewards, groups[curation.source], eps=1e-4)
    values = (advantages * curation.weights).tolist()
    rows = curation.source.tolist()
    return [(step.prompts[row], step.responses[row], value) for row, value in zip(rows, values, strict=True)]


def acted(step):
    curation = step.curation
    changed = len(curation.source) < len(step.rollouts) or bool(curation.replaced.any())
    changed |= bool((curation.weights != 1).any()) or curation.advantages is not None
    return changed or not bool((curation.rewards == step.rollouts.rewards).all())


def in_order(rows):
    """Rows without tokens and without an advantage say nothing: dropped ones look like that."""
    return sorted(row for row in rows if row[1] or abs(row[2]) > 1e-3)


@pytest.mark.parametrize("name", MADE)
def test_what_it_decides_enters_the_loss(made, name):
    curator = MADE[name]()
    options, trusted = made._curation_options, "trusted" in curator.requires
    session = CurationSession(curator, seed=0, labelled=LABELLED if trusted else None)
    asks = contrary if "second_rewards" in curator.requires else None
    own = replace(
        options,
        fields={field: value for field, value in FIELDS.items() if field in curator.requires},
        labelled=options.labelled if trusted else None,
        second_verifier=trainers_verifier(asks, session, endpoint={}, seconds=60.0, fields={}),
    )
    made.steps.clear()
    made.reward_funcs = [has_digit if name in BINARY else digits]
    made._session = session
    made._curation_options = own
    check_trainer(made, made._session, own)
    inputs = next(iter(made.get_train_dataloader()))
    for _ in range(3):
        batch = made._generate_and_score_completions(inputs)
        entered, expected = in_order(entering(made, batch)), in_order(expected_rows(made.steps[-1]))
        assert [row[:2] for row in entered] == [row[:2] for row in expected]
        assert [row[2] for row in entered] == pytest.approx([row[2] for row in expected], abs=2e-3)
    made._curation_options = options
    # `olr` waits for a prompt to come back several times.
    assert any(map(acted, made.steps)) or name in ("grpo", "monitor", "olr")
