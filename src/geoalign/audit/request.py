"""What the command line may ask of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from geoalign.settings.arguments import _settings, argument, option


@dataclass(frozen=True)
class AuditRequest:
    """`geoalign audit`. `curator` and `overrides` are read into its settings; `command` is what was typed."""

    rollouts: Sequence[str] = argument("Dumps of rollouts or folders of them, in step order; - : stdin.", "ROLLOUTS")
    output: Path = option("New folder for the scores, pairs and the page.", Path("runs/audit"), "DIR")
    curator: str | None = option("What judges the rollouts; default: denoise.", None, "NAME")
    hidden: Sequence[Path] = option("States by row: .safetensors, .npy, or a folder of them.", (), "FILE|DIR")
    model: str | None = option("Model that computes the hidden states.", None, "ID_OR_PATH")
    cache: Path | None = option("Keep computed states there; default: in the output.", None, "DIR")
    format: str | None = option(
        "geoalign, trl, trinity, verl, nemo_rl, verifiers, slime, responses or plain.", None, "NAME"
    )
    fields: Sequence[str] = option(
        "Which field of the dumps holds a role; may be repeated.", (), "ROLE=NAME", option="field"
    )
    overrides: Sequence[str] = _settings("A setting, such as curator.alpha=0.1; may be repeated.")
    labels: Sequence[Path] = option(
        "Your labels.csv, or flagged.csv with true rewards in `label`; may be repeated.", (), "FILE"
    )
    second_verifier: str | None = option(
        "Checks the most informative rows: math_verify, a command or https://host/v1.", None, "WHO"
    )
    budget: str = option("Rows, or share of rows, that it checks in each step.", "10%", "N|N%")
    filtered: bool = option("Also write filtered.jsonl: the remaining rollouts, with their new rewards.", False)
    redact: bool = option("Write no texts: no prompts, responses, answers.", False)
    skip_bad: bool = option("Leave bad rows out and list them.", False)
    mixed_groups: bool = option("No longer needed: groups of any size are read.", False)
    overwrite: bool = option("Replace an earlier audit in DIR.", False)
    fail_above: Sequence[str] = option(
        "Exit code 3 where the interval of false_positive or false_negative lies above, 4 where unknown; repeatable.",
        (),
        "RATE=BOUND",
    )
    json: bool = option("Print summary.json and nothing else.", False)
    trust_remote_code: bool = option("Run the Python code that comes with the model.", False)
    command: Sequence[str] = ()
