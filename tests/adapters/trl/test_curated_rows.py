from collections import Counter

import pytest
import torch
from trl_parts import (
    SHORT,
    Recording,
    Scripted,
    best_of_group,
    by_hand,
    curated_batch,
    curation,
    data,
    digits,
    entering,
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


def batch_of(folder, decide, **changes):
    """The first generation batch as it enters the buffer, what was decided, and the trainer."""
    made = trainer(folder, Scripted(decide), cls=Recording, **changes)
    batch = curated_batch(made)
    return batch, made.steps[0], made


def expected_rows(step, advantages):
    rows = zip(step.prompts, step.curation.source.tolist(), advantages.tolist(), strict=True)
    return [(prompt, step.responses[row], value) for prompt, row, value in rows]


def close(rows):
    """Rows with the advantage rounded coarsely, so that the last digit of a rounding does not count."""
    return Counter((prompt, text, round(value, 2) + 0.0) for prompt, text, value in rows)


@pytest.mark.parametrize(
    ("changes", "passes"), [({}, 1), ({"steps_per_generation": 2, "num_iterations": 2, "max_steps": 4}, 2)]
)
def test_replaced_rows_enter_the_loss(tmp_path, changes, passes):
    # Conversations and two weighted rewards; every completion is one message: length 1.
    rewards = {"reward": [digits, length], "reward_weights": [1.0, 0.25], "dataset": data(conversational=True)}
    made = record(tmp_path, second_half_from_first, **rewards, **changes)
    expected = []
    for step in made.steps:
        assert step.responses[0] != step.responses[2]
        torch.testing.assert_close(step.rollouts.rewards, torch.tensor(digits(step.responses)) + 0.25)
        expected += expected_rows(step, by_hand(step.rollouts.rewards[step.curation.source])) * passes
    assert close(made.entered) == close(expected)
    assert "+" in made.steps[0].prompts[0]


def test_weights_multiply_the_advantages(tmp_path):
    weights = torch.tensor([0.5, 1, 0.5, 0, 0.5, 1, 0.5, 1])
    batch, step, made = batch_of(tmp_path, lambda rollouts: curation(rollouts, weights=weights))
    # Zero weight keeps the row: it counts in the group's statistics, and its tokens in the normaliser.
    assert close(entering(made, batch)) == close(expected_rows(step, by_hand(step.rollouts.rewards) * weights))
    assert int(batch["num_items_in_batch"]) == int(step.lengths.sum())


def test_shaped_rewards(tmp_path):
    def squash(rollouts):
        return curation(rollouts, rewards=(3 * rollouts.rewards).tanh())

    options = {"reward": [length, digits], "reward_weights": [0.0, 2.0]}
    batch, step, made = batch_of(tmp_path, squash, **options)
    torch.testing.assert_close(step.rollouts.rewards, 2 * torch.tensor(digits(step.responses)))
    shaped = (3 * step.rollouts.rewards).tanh()
    assert close(entering(made, batch)) == close(expected_rows(step, by_hand(shaped)))
    logged = made._metrics["train"]
    assert logged["reward"] == pytest.approx([step.rollouts.rewards.mean().item()])
    assert logged["geoalign/curated_reward"] == pytest.approx([shaped.mean().item()])
    with pytest.raises(UnsupportedError, match="normalize_then_sum"):
        batch_of(tmp_path, squash, multi_objective_aggregation="normalize_then_sum", **options)


def test_a_subset_with_repeats(tmp_path):
    source = torch.tensor([0, 1, 1, 5, 6, 4])
    batch, step, made = batch_of(tmp_path, lambda rollouts: curation(rollouts, source=source))
    # Position 2 takes the repeat of row 1, positions 3 and 7 are dropped: no tokens and no say in the statistics.
    texts = [text for _, text, _ in entering(made, batch)]
    said = step.responses
    assert texts == [said[0], said[1], said[1], "", said[4], said[5], said[6], ""]
    kept = [0, 1, 1, 4, 5, 6]
    expected = by_hand(step.rollouts.rewards[kept], size=3).view(2, 3)
    found = batch["advantages"].view(2, 4)[:, :3]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    tokens = int(step.lengths[kept].sum())
    assert int(batch["num_items_in_batch"]) == int(batch["completion_mask"].sum()) == tokens


@pytest.mark.parametrize("loss", ["dapo", "grpo"])
def test_everything_dropped_trains_nothing(tmp_path, loss):
    nothing = torch.tensor([], dtype=torch.long)
    made = record(tmp_path, lambda rollouts: curation(rollouts, source=nothing), loss_type=loss, max_steps=1)
    assert made.state.log_history[0]["loss"] == made.state.log_history[0]["grad_norm"] == 0


def test_old_and_reference_log_probabilities_travel_with_their_row(tmp_path):
    model().save_pretrained(tmp_path / "model")
    options = {"beta": 0.1, "num_iterations": 2, "model_init_kwargs": {"dtype": "float32"}}
    batch, _, made = batch_of(tmp_path, best_of_group, policy=str(tmp_path / "model"), **options)
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
    options = {"mask_truncated_completions": True, "max_completion_length": 8, "per_device_train_batch_size": 32}
    batch, step, made = batch_of(tmp_path, second_half_from_first, **options, **SHORT)
    fit, source = step.rollouts.donor_ok, step.curation.source
    assert 0 < int(fit.sum()) < len(fit)
    ends = ["</s>" in text for text in made._tokenizer.batch_decode(batch["completion_ids"])]
    assert (batch["completion_mask"].sum(1) > 0).tolist() == ends == fit[source].tolist()
    # TRL 1.8 counts truncated responses, too: what comes and goes is added to its own count.
    plain, _, _ = batch_of(tmp_path / "plain", curation, **options, **SHORT)
    counts = [one["num_items_in_batch"] - one["completion_mask"].sum() for one in (plain, batch)]
    assert counts[0] == counts[1]
    assert int(plain["completion_mask"].sum()) != int(batch["completion_mask"].sum())
