"""Where rows are dropped, the gradient is that of a batch which holds only the kept rows."""

import pytest
import torch
from trl import GRPOTrainer
from trl_parts import Scripted, curated_batch, curation, model, trainer

from geoalign.adapters.grpo_trainer.moving_rows import LOSS_NORMALISERS, dropping_scale
from geoalign.adapters.trl import GeoAlignMixin
from geoalign.errors import UnsupportedError

ROWS = 16
KEPT = [0, 2, 4, 5, 6, 7, 8, 9, 11, 13]


def drop_some(rollouts):
    """Keeps 10 of 16 rows, an uneven number per group."""
    return curation(rollouts, source=torch.tensor(KEPT))


def gradient(made, batches, *, plain):
    """The summed gradient of the micro-batches, as TRL alone computes it or as the adapter does."""
    made.model.zero_grad()
    for batch in batches:
        loss = GRPOTrainer.compute_loss(made, made.model, batch) if plain else made.compute_loss(made.model, batch)
        loss.backward()
    return torch.cat([p.grad.flatten() for p in made.model.parameters()])


def rows_of(batch, index):
    return {key: value[index] if value.dim() else value for key, value in batch.items()}


def only_kept(batch):
    """What TRL would hold had only the kept rows been generated: no trace of the others, no scale."""
    kept = batch["completion_mask"].sum(1) > 0
    smaller = {key: value for key, value in rows_of(batch, kept).items() if key != "geoalign_loss_scale"}
    return {**smaller, "num_items_in_batch": smaller["completion_mask"].sum()}


def prepared(tmp_path, loss, **changes):
    """A trainer with a dropping curator, its batch, and a policy that has moved since (ratios differ from 1)."""
    if changes.get("beta"):
        # The reference model is loaded again by path.
        model().save_pretrained(tmp_path / "model")
        changes |= {"policy": str(tmp_path / "model"), "model_init_kwargs": {"dtype": "float32"}}
    options = {"per_device_train_batch_size": ROWS, "num_iterations": 2, "loss_type": loss, **changes}
    made = trainer(tmp_path / "run", Scripted(drop_some), **options)
    batch = curated_batch(made)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return made, batch


@pytest.mark.parametrize("loss", LOSS_NORMALISERS)
def test_gradient_is_that_of_the_kept_rows(tmp_path, loss):
    # Luspo knows sequences alone.
    changes = {"importance_sampling_level": "sequence"} if loss in ("grpo", "luspo") else {}
    changes |= {"entropy_coef": 0.5} if loss == "dapo" else {}
    made, batch = prepared(tmp_path, loss, beta=0.2, **changes)
    ours = gradient(made, [batch], plain=False)
    theirs = gradient(made, [only_kept(batch)], plain=True)
    assert theirs.abs().max() > 1e-3
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)
    if LOSS_NORMALISERS[loss] == "rows":
        # The test can fail: without the factor the gradient is 10/16 of it.
        unscaled = gradient(made, [batch], plain=True)
        torch.testing.assert_close(unscaled, theirs * 10 / 16, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_micro_batches_add_up_to_the_batch_of_kept_rows(tmp_path, loss):
    """Two micro-batches that keep 6 and 4 rows: their accumulated gradient is that of the 10 rows together."""
    made, batch = prepared(tmp_path, loss)
    theirs = gradient(made, [only_kept(batch)], plain=True)
    halves = [rows_of(batch, slice(0, 8)), rows_of(batch, slice(8, 16))]
    assert [int((half["completion_mask"].sum(1) > 0).sum()) for half in halves] == [6, 4]
    made.current_gradient_accumulation_steps = 2
    if LOSS_NORMALISERS[loss] == "tokens":
        # These losses know of the split only through steps_per_generation; their normaliser is the whole batch's.
        made.args.steps_per_generation = 2
    ours = gradient(made, halves, plain=False)
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("loss", ["bnpo", "future"])
def test_losses_that_are_refused_only_when_rows_are_dropped(tmp_path, loss):
    """bnpo divides each micro-batch by its own tokens: one that is dropped whole still counts among them."""
    made = trainer(tmp_path, Scripted(drop_some), per_device_train_batch_size=ROWS)
    made.loss_type = loss
    with pytest.raises(UnsupportedError, match=f"loss_type='{loss}'"):
        curated_batch(made)
    made.curator.decide = curation
    assert "geoalign_loss_scale" not in curated_batch(made)


def test_terms_of_the_loss_that_no_factor_serves(tmp_path):
    made = trainer(tmp_path, Scripted(drop_some), per_device_train_batch_size=ROWS, entropy_coef=0.1, loss_type="grpo")
    with pytest.raises(UnsupportedError, match="entropy bonus"):
        curated_batch(made)
    made.aux_loss_enabled = True
    with pytest.raises(UnsupportedError, match="router auxiliary loss"):
        dropping_scale(made, rows=16, kept=10)


class GeometricMean(GRPOTrainer):
    """A loss of its own, as `trl.experimental.gmpo`: the mean over all rows, whatever their masks."""

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, inputs)


class WithSupervision(GRPOTrainer):
    """A second term beside the loss, which a factor for dropped rows would scale, too."""

    def compute_loss(self, model, inputs, *args, **kwargs):
        return super().compute_loss(model, inputs, *args, **kwargs) + 1


@pytest.mark.parametrize("behind", [GeometricMean, WithSupervision])
def test_a_loss_of_its_own_is_refused_only_when_rows_are_dropped(tmp_path, behind):
    class Mine(GeoAlignMixin, behind):
        pass

    made = trainer(tmp_path, cls=Mine, extra={"curator": Scripted(curation)}, per_device_train_batch_size=ROWS)
    curated_batch(made)
    made.curator.decide = drop_some
    with pytest.raises(UnsupportedError, match=rf"Scripted drops rows, and {behind.__name__} has a .*compute_loss of"):
        curated_batch(made)


@pytest.mark.parametrize(("low", "beta"), [("old", 0.0), ("current", 0.2)])
def test_ratios_of_dropped_rows_do_not_overflow(tmp_path, monkeypatch, low, beta):
    """exp(100) is infinite in float32, in the ratio or the KL term, and infinity times a mask's zero is no number."""
    plain = GRPOTrainer._get_per_token_logps_and_entropies
    dropped = torch.ones(ROWS).index_fill(0, torch.tensor(KEPT), 0.0)

    def improbable(self, *args, **kwargs):
        logps, *others = plain(self, *args, **kwargs)
        # The current policy's pass is the one with gradients.
        pass_is = "current" if torch.is_grad_enabled() else "old"
        if pass_is == low:
            logps = logps - 100 * dropped[:, None]
        return (logps, *others)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", improbable)
    made, batch = prepared(tmp_path, "grpo", beta=beta)
    ours = made.compute_loss(made.model, batch)
    gradients = gradient(made, [batch], plain=False)
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", plain)
    torch.testing.assert_close(ours, GRPOTrainer.compute_loss(made, made.model, only_kept(batch)))
    torch.testing.assert_close(gradients, gradient(made, [only_kept(batch)], plain=True), atol=2e-6, rtol=1e-4)
