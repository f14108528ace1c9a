"""The curator and the generator beside verl's own checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from geoalign.curators.base import Curator
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.errors import InputError

STATE_FILE = "geoalign_state.safetensors"


def save_curator(folder: Path, curator: Curator, generator: torch.Generator, calls: int) -> None:
    """Writes the curator's state, the generator's and the number of curations to `folder`, which it makes."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "curator_class": type(curator).__name__,
        "curator": curator.state_dict(),
        "generator": generator.get_state(),
        "calls": calls,
    }
    save_state(folder / STATE_FILE, state)


def load_curator(folder: Path, curator: Curator, generator: torch.Generator) -> int:
    """Restores what `save_curator` wrote; returns the number of curations so far.

    Raises:
        InputError: `folder` holds no such state, or that of another curator.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise InputError(
            f"trainer.resume_mode: expected {STATE_FILE} in {folder}, got none; to start curating in the middle of a "
            "training that did not, give its model as actor_rollout_ref.model.path and set trainer.resume_mode=disable"
        )
    state = load_state(path)
    if state["curator_class"] != type(curator).__name__:
        raise InputError(
            f"trainer.resume_mode: expected the state of {type(curator).__name__}, got that of "
            f"{state['curator_class']} in {path}; set the same +geoalign.curator.type, or trainer.resume_mode=disable"
        )
    curator.load_state_dict(state["curator"])
    generator.set_state(state["generator"])
    return int(state["calls"])
