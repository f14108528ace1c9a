"""`geoalign bench --rollouts`: a dump of graded rollouts, the states of a model, the figures in tables and as JSON."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.bench.curators import parse_curators
from geoalign.lab.bench.labelled import LabelledRollouts, parse_roles, read_labelled
from geoalign.lab.bench.ordered import Measurement
from geoalign.lab.bench.rollouts_report import print_measurement, rollouts_json
from geoalign.lab.bench.wrong_rewards import ROLLOUT_CURATORS, measure_wrong_rewards
from geoalign.lab.config.requests import BenchRequest
from geoalign.lab.store.files import named
from geoalign.lab.terminal import Console, say
from geoalign.settings.hidden import HIDDEN_POSITIONS, HiddenPosition


def bench_rollouts(request: BenchRequest, console: Console) -> Measurement:
    """Measures every curator on the dump, prints the tables and writes the file.

    Raises:
        ConfigError: no such file or model, a layer that the model does not have, or an unknown curator.
        InputError: a row of the dump that is none, or no group with right and wrong responses.
    """
    assert request.rollouts is not None
    layers, positions = _layers(request.layers), _positions(request.positions)
    curators = {label: parse_curators([label])[label] for label in request.curators if label not in ROLLOUT_CURATORS}
    chosen = {label: ROLLOUT_CURATORS.get(label) or curators[label] for label in request.curators or ROLLOUT_CURATORS}
    dump = read_labelled(request.rollouts, parse_roles(request.fields))
    about = _about(request.rollouts, dump, request.threshold)
    say(console, ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items() if name != "sha256"))
    with tempfile.TemporaryDirectory() as folder:
        model: dict[str, Any] | None = None
        views: dict[tuple[int, str], Any] = {}
        if request.model is not None:
            model, views = _states(
                request, dump, request.states or Path(folder) / "states.npy", layers, positions, console
            )
        with console.status("Curating") as status:
            found = measure_wrong_rewards(
                dump,
                views,
                threshold=request.threshold,
                batch_groups=request.batch_groups,
                curators=chosen,
                progress=lambda name: status.update(f"Curating: {name}"),
            )
    print_measurement(console, found)
    if request.json_file is not None:
        with named(request.json_file):
            request.json_file.write_text(rollouts_json(about, model, found), encoding="utf-8")
        say(console, f"Written to {request.json_file}")
    return found


def _states(
    request: BenchRequest,
    dump: LabelledRollouts,
    file: Path,
    layers: list[int | float] | None,
    positions: list[HiddenPosition] | None,
    console: Console,
) -> tuple[dict[str, Any], dict[tuple[int, str], Any]]:
    """What is known of the states, and the states by layer and position."""
    from geoalign.lab.bench.layer_states import layer_states
    from geoalign.lab.models.process_setup import silence_logs

    silence_logs()
    assert request.model is not None
    groups = int(dump.groups.max()) + 1
    with console.status("States") as status:
        found = layer_states(
            request.model,
            dump,
            file,
            layers=layers,
            max_tokens=request.max_tokens,
            progress=lambda done: status.update(f"States: {done} of {groups} prompts"),
        )
    if found.cut_rows:
        say(console, f"{found.cut_rows} of {len(dump.groups)} rows were cut to {request.max_tokens} tokens")
    say(console, f"{len(dump.groups) - found.without_answer} of {len(dump.groups)} responses mark a final answer")
    views = found.views(positions)
    about = {
        "name": request.model.rstrip("/").rpartition("/")[2],
        "layers": found.layers,
        "positions": list(dict.fromkeys(position for _, position in views)),
        "dtype": found.dtype,
        "max_tokens": request.max_tokens,
        "cut_rows": found.cut_rows,
        "without_answer": found.without_answer,
    }
    return about, views


def _layers(text: str | None) -> list[int | float] | None:
    if text is None:
        return None
    try:
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--layers: expected numbers, as in 10,20,30 or 0.5,1.0, got {text!r}") from error


def _positions(text: str | None) -> list[HiddenPosition] | None:
    if text is None:
        return None
    wanted = text.split(",")
    found = [position for position in HIDDEN_POSITIONS if position in wanted]
    if len(found) != len(wanted):
        raise ConfigError(f"--positions: expected some of {', '.join(HIDDEN_POSITIONS)}, each once; got {text!r}")
    return found


def _about(path: Path, dump: LabelledRollouts, threshold: float) -> dict[str, Any]:
    verdicts = dump.rewards >= threshold
    return {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": len(dump.groups),
        "prompts": int(dump.groups.max()) + 1,
        "mixed_prompts": len(dump.mixed),
        "right": round(float(dump.correct.mean()), 4),
        "threshold": threshold,
        "wrong_verdicts": round(float((verdicts != dump.correct).mean()), 4),
        "right_with_wrong_verdict": round(float((~verdicts[dump.correct]).mean()), 4),
        "wrong_with_wrong_verdict": round(float(verdicts[~dump.correct].mean()), 4),
    }
