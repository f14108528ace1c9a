"""Keeps the libraries of pretrained models from writing to the terminal."""

from __future__ import annotations

import logging
import warnings

import datasets
import transformers

# Third-party warnings that a user can do nothing about; each by message, with its reason.
_IGNORED = (
    "'pin_memory' argument is set as true",  # torch's loader on a machine without an accelerator
    "Passing a tuple of `past_key_values`",  # transformers' own call
    "`torch.jit.script` is deprecated",  # imported by dependencies
    "`is_gradient_checkpointing` is deprecated",  # TRL reads the old name
    "`gradient_checkpointing",  # TRL's options have the old name
)


def silence_logs() -> None:
    """Turns off the log lines, progress bars and known warnings of transformers, datasets and TRL."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    for name in ("trl", "accelerate", "math_verify", "httpx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in _IGNORED:
        warnings.filterwarnings("ignore", message=f".*{message}.*")
