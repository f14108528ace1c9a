"""Starting from another run folder's warm start and reward model, so that many runs train them once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.files import beside, replace_folder
from geoalign.lab.store.records import next_stage, note_records
from geoalign.lab.store.run_folder import RunFolder, first_difference

# The settings that decide what the shared stages make.
_SECTIONS = ("model", "task", "sft", "reward_model", "gold_model", "reward_head", "max_prompt_length")


def check_shared(shared: RunFolder, settings: Mapping[str, Any]) -> None:
    """Raises unless a run with these resolved settings may start from what lies in `shared`.

    The seed may differ, unless the task draws its problems from it (`task.seed` null): evaluation problems of one seed
    may be demonstrations of another.

    Raises:
        ConfigError: `model`, `task`, `sft`, `reward_model`, ... differ; the message names the first key.
        RunFolderError: the folder has no finished warm start.
    """
    if not shared.started() or not shared.warm_started.is_dir():
        raise RunFolderError(f"{shared.root}: expected a run folder with a finished warm start, got none there")
    sections = list(_SECTIONS)
    if "seed" in (task := settings.get("task", {})) and task["seed"] is None:
        sections.append("seed")
    difference = first_difference(_only(settings, sections), _only(shared.read_config(), sections))
    if difference is not None:
        key, now, then = difference
        raise ConfigError(f"{key}: expected {then}, as the shared run in {shared.root} was made with, got {now}")


def take_shared(shared: RunFolder, folder: RunFolder, *, learned: Sequence[str] = ()) -> None:
    """Puts the warm start (and reward model and gold model, where there are) of `shared` into `folder`, where it lacks
    them.

    Files are linked where the file system allows it, otherwise copied; neither run ever writes into them again. Each
    folder is there only if it is complete.

    Args:
        learned: the stages of the run that make a reward model or a gold model.
    """
    for model in (folder.reward_model, folder.gold_model, folder.warm_started):
        origin = shared.checkpoints / model.name
        if model.is_dir() or not origin.is_dir():
            continue
        written = beside(model)
        if written.exists():
            shutil.rmtree(written)
        shutil.copytree(origin, written, copy_function=_link_or_copy)
        replace_folder(written, model)
    note_records(folder, next_stage(folder, learned), 0)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _only(settings: Mapping[str, Any], sections: list[str]) -> dict[str, Any]:
    return {name: settings[name] for name in sections if name in settings}
