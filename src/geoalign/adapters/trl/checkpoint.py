"""The curator and the generator in the trainer's checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from geoalign.curators.base import Curator
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.errors import InputError

STATE_FILE = "geoalign_state.safetensors"


def save_curator(folder: str | Path, curator: Curator, generator: torch.Generator, generation: int) -> None:
    """Writes the curator's state, the generator's and the running index of generations to `folder`."""
    state = {
        "curator_class": type(curator).__name__,
        "curator": curator.state_dict(),
        "generator": generator.get_state(),
        "generation": generation,
    }
    save_state(Path(folder) / STATE_FILE, state)


def load_curator(folder: str | Path, curator: Curator, generator: torch.Generator) -> int:
    """Restores what `save_curator` wrote; returns the index of the next generation.

    Raises:
        InputError: `folder` holds no such state, or that of another curator.
    """
    path = Path(folder) / STATE_FILE
    if not path.is_file():
        raise InputError(
            f"resume_from_checkpoint: expected {STATE_FILE} in {folder}, got none; to start curating in the middle "
            "of a training that did not, pass its model as `model` instead of resuming"
        )
    state = load_state(path)
    if state["curator_class"] != type(curator).__name__:
        raise InputError(
            f"resume_from_checkpoint: expected the state of {type(curator).__name__}, "
            f"got that of {state['curator_class']} in {path}"
        )
    curator.load_state_dict(state["curator"])
    generator.set_state(state["generator"])
    return int(state["generation"])
