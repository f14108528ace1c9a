"""The reward model's stage of a run: trained on the task's preference pairs, skipped where it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from geoalign.lab.evaluation.preference import hold_out_prompts, pair_accuracy
from geoalign.lab.models.models import save, trusts_code, weights_dtype
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.store.files import beside, replace_folder
from geoalign.lab.store.json_files import append_line, read_json, write_json
from geoalign.lab.store.records import note_records, records_of
from geoalign.lab.store.run_folder import ACCURACY_FILE, RunFolder
from geoalign.lab.store.seals import checkpoint_step, is_last, latest_complete, mark_complete
from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.train.callbacks import MetricLines, ProgressBar
from geoalign.lab.train.checkpoints import CompleteCheckpoints
from geoalign.lab.train.reward_model import first_reward_model, train_reward_model
from geoalign.lab.train.run import Run

STAGE = "reward_model"
# What the reward model gets right on held-out pairs; part of its folder, so that runs that share it know it.

_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.1, 1024


def reward_model_stage(run: Run) -> None:
    """Makes the reward model, `checkpoints/reward_model`, from the warm-started model; nothing if it is there.

    A tenth of the pairs (at most 1,024; with all pairs of their prompts) is held out. How often the chosen response of
    these has the higher score is logged at the end of the stage and kept in the folder. A task without pairs needs no
    reward model.
    """
    folder, config = run.folder, run.config
    if run.reward_model is None or folder.reward_model.is_dir():
        return
    run.processes.barrier()  # all have looked before one writes
    pairs, held_out = hold_out_prompts(
        run.task.preference_pairs(), _HELD_OUT_SHARE, most=_HELD_OUT_MOST, seed=config.seed
    )
    resume_from = latest_complete(folder.reward_model_checkpoints)
    last = resume_from is not None and is_last(resume_from)
    origin = resume_from if resume_from is not None and last else folder.warm_started
    model, tokenizer = first_reward_model(
        origin, dtype=weights_dtype(config.model), seed=config.seed, trust_remote_code=trusts_code(config.model)
    )
    if not last:
        bar = ProgressBar(run.console, "reward model", {"loss": "loss", "accuracy": "accuracy"})
        callbacks = [
            MetricLines(STAGE, lambda line: append_line(folder.metrics, line)),
            CompleteCheckpoints(
                folder.reward_model_checkpoints, config.output.keep_checkpoints, records_of(folder, STAGE)
            ),
            bar,
        ]
        with bar:
            train_reward_model(model, tokenizer, pairs, run.reward_model, callbacks=callbacks, resume_from=resume_from)
    if run.processes.is_main:
        _keep(run, model, tokenizer, held_out)
    run.processes.barrier()


def _keep(run: Run, model: Any, tokenizer: Any, held_out: Sequence[PreferencePair]) -> None:
    """Saves the reward model with what it gets right on the pairs held out; its folder is there only if complete."""
    folder = run.folder
    written = beside(folder.reward_model)
    save(model, tokenizer, written)
    with _scorer(run, written) as scorer:
        found = asdict(pair_accuracy(scorer, held_out, run.task.takes_shortcut))
    write_json(written / ACCURACY_FILE, found)
    step = checkpoint_step(latest) if (latest := latest_complete(folder.reward_model_checkpoints)) else 0
    append_line(folder.metrics, {"stage": STAGE, "step": step, **{f"heldout/{name}": found[name] for name in found}})
    mark_complete(written)
    replace_folder(written, folder.reward_model)
    note_records(folder, "rl", 0)


def open_reward_model(run: Run) -> RewardModelScorer:
    """The scorer of the run's reward model, on the device of training."""
    return _scorer(run, run.folder.reward_model)


def held_out_accuracy(folder: RunFolder) -> dict[str, Any] | None:
    """What `reward_model_stage` found on held-out pairs; None for a run without a reward model."""
    path = folder.reward_model / ACCURACY_FILE
    return read_json(path) if path.is_file() else None


def _scorer(run: Run, place: Path) -> RewardModelScorer:
    settings = run.config.reward.model
    return RewardModelScorer.load(place, replace(settings, device=settings.device or str(run.grpo.device)))
