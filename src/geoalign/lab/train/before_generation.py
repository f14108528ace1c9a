"""What a checkpoint needs that generating changes, kept so that a generation that came to nothing leaves no trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from geoalign.lab.store.seals import MARK


class BeforeGeneration:
    """The random generators and the token count of a trainer, as they are now."""

    def __init__(self, trainer: Any) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self._tokens = trainer.state.num_input_tokens_seen

    def save_checkpoint(self, trainer: Any) -> None:
        """Writes the checkpoint of the trainer's last update, unless it is there: a run goes on from it bit for bit.

        Checkpoints lie where the trainer would generate anew, and here it was about to. Before the first update there
        is nothing to keep.
        """
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        trainer.state.num_input_tokens_seen = self._tokens
        step = trainer.state.global_step
        there = Path(trainer.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}" / MARK
        if step == 0 or not trainer.model.training or there.is_file():
            return
        trainer._save_checkpoint(trainer.model, trial=None)
        trainer.control = trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
