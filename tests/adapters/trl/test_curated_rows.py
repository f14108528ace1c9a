"""The rows and advantages that enter the loss are the curated ones."""

from collections import Counter

import pytest
import torch
from trl_parts import (
    Recording,
    Scripted,
    best_of_group,
    by_hand,
    curated_batch,
    curation,
    data,
    digits,
    drop_last_of_group,
    length,
    model,
    second_half_from_first,
    trainer,
)

from geoalign.errors import UnsupportedError


def record(folder, decide, **changes):
    made = trainer(folder, Scripted(decide), cls=Recording, **changes)
    made.train()
    return made


def expected_rows(step, advantages, kept=None):
    """What should enter the loss for one generation batch, once."""
    source = step.curation.source.tolist()
    rows = []
    for slot, row in enumerate(source):
        if kept is None or kept[slot]:
            rows.append((step.prompts[slot], step.responses[row], round(float(advantages[slot]), 3)))
    return rows


def close(rows):
    """Rows with the advantage rounded coarsely, so that the last digit of a rounding does not count."""
    return Counter((prompt, text, round(value, 2)) for prompt, text, value in rows)


OPTIONS = {
    "defaults": ({}, 1),
    "steps_and_iterations": ({"steps_per_generation": 2, "num_iterations": 2, "max_steps": 4}, 2),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_replaced_rows_enter_the_loss(tmp_path, name):
    changes, passes = OPTIONS[name]
    made = record(tmp_path, second_half_from_first, **changes)
    expected = []
    for step in made.steps:
        assert step.responses[0] != step.responses[2]
        expected += expected_rows(step, by_hand(step.rollouts.rewards[step.curation.source])) * passes
    assert close(made.entered) == close(expected)
    assert len({text for _, text, _ in made.entered}) <= len(made.entered) // 2


def test_conversations_and_two_weighted_rewards(tmp_path):
    changes = {"reward": [digits, length], "reward_weights": [1.0, 0.25], "dataset": data(conversational=True)}
    made = record(tmp_path, second_half_from_first, **changes)
    step = made.steps[0]
    expected_total = [d + 0.25 for d in digits(step.responses)]  # every completion is one message: length 1
    torch.testing.assert_close(step.rollouts.rewards, torch.tensor(expected_total))
    expected = [
        row for step in made.steps for row in expected_rows(step, by_hand(step.rollouts.rewards[step.curation.source]))
    ]
    assert close(made.entered) == close(expected)
    assert "+" in step.prompts[0]


@pytest.mark.parametrize("scale", ["batch", "none"])
def test_other_scales(tmp_path, scale):
    made = record(tmp_path, second_half_from_first, scale_rewards=scale, max_steps=1)
    step = made.steps[0]
    rewards = step.rollouts.rewards[step.curation.source].view(-1, 4)
    advantages = (rewards - rewards.mean(1, keepdim=True)).view(-1)
    if scale == "batch":
        advantages = advantages / (rewards.std() + 1e-4)
    assert close(made.entered) == close(expected_rows(step, advantages))


def test_weights_multiply_the_advantages(tmp_path):
    def halve_evens(rollouts):
        weights = torch.ones(len(rollouts))
        weights[::2] = 0.5
        weights[3] = 0.0
        return curation(rollouts, weights=weights)

    made = record(tmp_path, halve_evens, max_steps=1)
    step = made.steps[0]
    # Zero weight keeps the row: it counts in the group's statistics, and its tokens in the normaliser.
    assert close(made.entered) == close(expected_rows(step, by_hand(step.rollouts.rewards) * step.curation.weights))
    assert len([row for row in made.entered if row[2] == 0]) >= 1


def test_shaped_rewards(tmp_path):
    def squash(rollouts):
        return curation(rollouts, rewards=(3 * rollouts.rewards).tanh())

    made = record(tmp_path, squash, reward=[length, digits], reward_weights=[0.0, 2.0], max_steps=1)
    step = made.steps[0]
    torch.testing.assert_close(step.rollouts.rewards, 2 * torch.tensor(digits(step.responses)))
    assert close(made.entered) == close(expected_rows(step, by_hand((3 * step.rollouts.rewards).tanh())))
    assert made.state.log_history[0]["reward"] == pytest.approx(step.rollouts.rewards.mean().item())
    assert made.state.log_history[0]["geoalign/curated_reward"] == pytest.approx(
        (3 * step.rollouts.rewards).tanh().mean().item()
    )


def test_given_advantages_enter_the_loss(tmp_path):
    def ranks(rollouts):
        return curation(rollouts, advantages=torch.arange(len(rollouts)).float() - 3, weights=torch.full((8,), 2.0))

    made = record(tmp_path, ranks, max_steps=1)
    assert close(made.entered) == close(expected_rows(made.steps[0], 2 * (torch.arange(8).float() - 3)))


def dropped_advantages(rewards):
    """Statistics over the three kept rows of each group of four."""
    grouped = rewards.view(-1, 4)[:, :3]
    kept = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
    return torch.cat([kept, torch.zeros(len(kept), 1)], dim=1).view(-1)


def test_dropped_rows_have_no_tokens_and_no_say(tmp_path):
    batch_rows = trainer(tmp_path, Scripted(drop_last_of_group), cls=Recording)
    batch = curated_batch(batch_rows)
    step = batch_rows.steps[0]
    kept = torch.arange(8) % 4 != 3
    torch.testing.assert_close(batch["advantages"], dropped_advantages(step.rollouts.rewards), atol=1e-5, rtol=1e-5)
    assert (batch["completion_mask"].sum(1) > 0).tolist() == kept.tolist()
    assert int(batch["num_items_in_batch"]) == int(step.lengths[kept].sum()) == int(batch["completion_mask"].sum())


def test_a_subset_with_repeats(tmp_path):
    def six_of_eight(rollouts):
        return curation(rollouts, source=torch.tensor([0, 1, 1, 5, 6, 4]))

    made = trainer(tmp_path, Scripted(six_of_eight), cls=Recording)
    batch = curated_batch(made)
    step = made.steps[0]
    # Slot 2 takes the repeat of row 1, slots 3 and 7 are dropped.
    texts = [
        made._tokenizer.decode(ids[mask.bool()], skip_special_tokens=True)
        for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    assert texts == [*(step.responses[row] for row in (0, 1, 1)), "", *(step.responses[row] for row in (4, 5, 6)), ""]
    rewards = step.rollouts.rewards
    three = torch.stack([rewards[[0, 1, 1]], rewards[[4, 5, 6]]])
    expected = (three - three.mean(1, keepdim=True)) / (three.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(batch["advantages"].view(2, 4)[:, :3], expected, atol=1e-5, rtol=1e-5)


def test_everything_dropped_trains_nothing(tmp_path):
    for loss in ("dapo", "grpo"):
        made = trainer(
            tmp_path,
            Scripted(lambda rollouts: curation(rollouts, source=torch.tensor([], dtype=torch.long))),
            loss_type=loss,
        )
        made.train()
        assert all(log["loss"] == 0 and log["grad_norm"] == 0 for log in made.state.log_history[:-1])


def test_unscorable_rows_have_no_advantage(tmp_path):
    def reward(completions, **columns):
        return [None, *digits(completions)[1:]]

    made = trainer(tmp_path, Scripted(curation), cls=Recording, reward=reward)
    batch = curated_batch(made)
    rewards = made.steps[0].rollouts.rewards
    assert rewards[0].isnan()
    assert not rewards[1:].isnan().any()
    three = rewards[1:4]
    expected = torch.cat([torch.zeros(1), (three - three.mean()) / (three.std() + 1e-4)])
    torch.testing.assert_close(batch["advantages"][:4], expected, atol=1e-5, rtol=1e-5)


def test_drop_together_with_each_aggregation(tmp_path):
    batches = {}
    for aggregation in ("sum_then_normalize", "normalize_then_sum"):
        made = trainer(
            tmp_path,
            Scripted(drop_last_of_group),
            cls=Recording,
            reward=[digits, length],
            multi_objective_aggregation=aggregation,
        )
        batches[aggregation] = curated_batch(made)["advantages"]
        assert batches[aggregation][[3, 7]].tolist() == [0, 0]
    # With normalize_then_sum the kept rows of the batch are brought to mean 0.
    assert batches["normalize_then_sum"].sum() == pytest.approx(0, abs=1e-5)
    assert not torch.equal(*batches.values())


def test_shaping_what_has_no_sum_is_refused(tmp_path):
    made = trainer(
        tmp_path,
        Scripted(lambda rollouts: curation(rollouts, rewards=rollouts.rewards * 2)),
        reward=[digits, length],
        multi_objective_aggregation="normalize_then_sum",
    )
    with pytest.raises(UnsupportedError, match="normalize_then_sum"):
        made.train()


def test_old_and_reference_log_probabilities_travel_with_their_row(tmp_path):
    model().save_pretrained(tmp_path / "model")
    made = trainer(
        tmp_path,
        Scripted(best_of_group),
        policy=str(tmp_path / "model"),
        beta=0.1,
        num_iterations=2,
        model_init_kwargs={"dtype": "float32"},
    )
    batch = curated_batch(made)
    assert {"old_per_token_logps", "ref_per_token_logps"} <= batch.keys()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        again = made._get_per_token_logps_and_entropies(made.model, ids, mask, batch["completion_ids"].size(1))[0]
    inside = batch["completion_mask"].bool()
    torch.testing.assert_close(batch["old_per_token_logps"][inside], again[inside], atol=1e-5, rtol=1e-5)
    # Each group now holds one response four times.
    for group in batch["completion_ids"].view(2, 4, -1):
        assert (group == group[0]).all()


def test_truncated_rows_are_no_donors_and_stay_hidden(tmp_path):
    seen = {}

    def from_unfit(rollouts):
        seen["donor_ok"] = rollouts.donor_ok
        return second_half_from_first(rollouts)

    made = trainer(
        tmp_path,
        Scripted(from_unfit),
        cls=Recording,
        mask_truncated_completions=True,
        max_completion_length=24,
        per_device_train_batch_size=32,
    )
    batch = curated_batch(made)
    fit = seen["donor_ok"]
    assert 0 < int(fit.sum()) < len(fit)
    ends = torch.tensor(["</s>" in text for text in made._tokenizer.batch_decode(batch["completion_ids"])])
    source = made.steps[0].curation.source
    assert (batch["completion_mask"].sum(1) > 0).tolist() == fit[source].tolist()
    assert ends.tolist() == fit[source].tolist()
    assert int(batch["num_items_in_batch"]) == int(batch["completion_mask"].sum())


def test_evaluation_is_never_curated(tmp_path):
    watcher = Scripted(best_of_group)
    made = trainer(
        tmp_path,
        watcher,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
        extra={"eval_dataset": data(4)},
        log_completions=True,
    )
    made.train()
    assert len(watcher.seen) == 2
    evaluations = [log for log in made.state.log_history if "eval_reward" in log]
    assert len(evaluations) == 2
    assert not any(key.startswith("eval_geoalign") for log in evaluations for key in log)
