"""Runs `train` in a process that kills itself with SIGKILL at a given file operation inside the run folder."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}


def train_and_die(settings: dict[str, Any], root: str, kill_at: int | str | None, counter: str) -> None:
    """Goes on with the run in `root`; dies at file operation number `kill_at`, or at the first on a path that ends so.

    With None it lives, and writes the number of operations to `counter`.
    """
    from geoalign.lab.train.read_settings import parse_run_config
    from geoalign.lab.train.train import train

    config = parse_run_config(settings)
    seen = 0
    inside = os.path.join(os.path.abspath(root), "")

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in _EVENTS or not arguments or not isinstance(arguments[0], (str, os.PathLike)):
            return
        path = os.path.abspath(os.fspath(arguments[0]))
        if path.startswith(inside):
            seen += 1
            if seen == kill_at or (isinstance(kill_at, str) and path.endswith(kill_at)):
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(listen)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    train(config, Path(root), resume=True)
    if kill_at is None:
        Path(counter).write_text(str(seen))
