"""From a folder of `geoalign audit` to one self-contained page that opens from disk."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from markupsafe import Markup

from geoalign.lab.analysis.audited import Audited, audited
from geoalign.lab.reports.audit.bundle import MAX_BYTES, bundle
from geoalign.lab.reports.documents import Count, Drawn, Gallery, first_middle_last, inline, write_page
from geoalign.lab.reports.figures.scores import cosine_panel, density_panel, suspect_panels
from geoalign.lab.store.audit import FIGURES, REPORT_FILE, AuditResults, read_audit
from geoalign.lab.store.json_files import float_or_nan
from geoalign.lab.store.rollouts import Density, RolloutStep
from geoalign.text import visible

ASSETS = Path(__file__).parent / "assets"
# In the order in which they build on one another; one program, so that none of their names is a global one.
PROGRAM = ("dom", "store", "diff", "formulas", "model", "search", "list", "texts", "labels", "detail", "main")
SUMMARY_LIMIT = 20_000


def build_audit_page(folder: Path) -> Path:
    """Writes report.html and figures/ into a folder of `geoalign audit`, from its tables alone; returns the page."""
    audit = read_audit(folder)
    summary, scored, gallery = audit.summary, audit.scored, Gallery(audit.folder / FIGURES)
    said = audited(summary)
    sections = [gallery.section(name, title, drawn) for name, title, drawn in audit_sections(audit)]
    pictures = sum(len(picture.light) + len(picture.dark) for section in sections for picture in section.pictures)
    packed, score = bundle(audit, max(MAX_BYTES - pictures, 0)), score_name(audit)
    # What the program must know before it opens a piece; whole numbers and fixed words only.
    settings = {
        "score": score, "redacted": audit.redacted, "texts": len(packed.texts), "pairs": len(packed.pairs),
        "compares": audit.pairs is not None,
    }  # fmt: skip
    # Which filters make sense here.
    columns = {"correct": "correct", "scores": "score", "probabilities": "probability_wrong"}
    has = {name: bool(scored[column].notna().any()) for name, column in columns.items()}
    return write_page(
        audit.folder / REPORT_FILE,
        "audit.html.j2",
        title=visible(audit.folder.resolve().name, 80),
        facts=facts(audit),
        sheets=["report.css", "audit.css"],
        scripts=scripts(),
        verdict=said.consensus,
        counts=counts(scored),
        verifier=verifier(said),
        sections=sections,
        bundle=packed,
        settings=json.dumps(settings),
        has=has | {"steps": scored["step"].nunique() > 1},
        score=score,
        redacted=audit.redacted,
        skipped=len(summary["skipped"]),
        summary=visible(json.dumps(dict(summary), indent=2, ensure_ascii=False), SUMMARY_LIMIT),
    )


def scripts() -> list[Markup]:
    """The page's programs: the vendored library with its licence, and our own."""
    temml = ASSETS / "temml"
    licence = (temml / "LICENSE").read_text(encoding="utf-8")
    library = (temml / "temml.min.js").read_text(encoding="utf-8")
    ours = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in PROGRAM)
    return [
        inline(f"/*! Temml 0.13.5, https://temml.org\n{licence}*/\n{library}"),
        inline(f'"use strict";\n(() => {{\n{ours}\n}})();\n'),
    ]


# --- figures ----------------------------------------------------------------------------------------------------------

GEOMETRIC = ("geoalign", "geoalign_released")


def audit_sections(audit: AuditResults) -> list[tuple[str, str, list[Drawn]]]:
    steps = steps_of(audit)
    suspects = [*suspect_panels(steps, score_name(audit)), *_densities(audit, steps)]
    return [
        ("scores", "Who is suspected, and where the threshold lies", suspects),
        ("directions", "Directions before and after the projector", _directions(audit)),
    ]


def score_name(audit: AuditResults) -> str:
    kind = audit.curator.get("type")
    return "GDI" if kind in GEOMETRIC else "log-odds" if kind == "denoise" else "score"


def _densities(audit: AuditResults, steps: Sequence[RolloutStep]) -> list[Drawn]:
    table = audit.densities
    if table is None or not len(table):
        return ["No density was drawn: this curator has none, or there were too few scores, or all of them were equal."]
    alpha = float_or_nan(audit.curator.get("alpha"))
    rollouts = {step.step: step for step in steps}
    panels: list[Drawn] = []
    for step in first_middle_last(np.unique(table["step"]).tolist()):
        rows = table[table["step"] == step]
        grid, heights = rows["score"].to_numpy(), rows["density"].to_numpy()
        density = Density(
            grid=grid,
            density=heights,
            peak=float(rows["peak"].iloc[0]),
            mode=float(grid[np.argmax(heights)]),
            alpha=alpha,
            threshold=float(rows["threshold"].iloc[0]),
        )
        panels.append(density_panel(step, density, rollouts.get(step)))
    return panels


def _directions(audit: AuditResults) -> list[Drawn]:
    pairs = audit.pairs
    if pairs is None or not len(pairs):
        return ["This curator compares no pairs, or no group had two different rewards."]
    step = int(pairs["step"].max())
    raw, projected = (pairs.loc[pairs["step"] == step, name].to_numpy() for name in ("raw_cosine", "projected_cosine"))
    if not (np.isfinite(raw).all() and np.isfinite(projected).all()):
        return ["The curator kept no cosines of its pairs."]
    return [cosine_panel(step, raw, projected)]


# --- words and numbers ------------------------------------------------------------------------------------------------

_COLUMNS = ("group", "reward", "true_reward", "score", "anomalous", "source", "weight")


def counts(scored: pandas.DataFrame) -> list[Count]:
    """The rollouts by what became of them; lines that are zero and say nothing are left out."""
    rollouts = len(scored)
    own = scored["source"] == np.arange(rollouts)
    pairs = scored.drop_duplicates("group")["group_pairs"]
    known, flagged = scored["correct"].notna(), scored["anomalous"]
    wronged = flagged & (scored["correct"] == 1)
    changed = own & (scored["new_reward"] != scored["reward"]) & scored[["reward", "new_reward"]].notna().all(axis=1)
    every = [
        _count("groups", len(pairs), math.nan, f"{(pairs > 0).sum():,} of them with different rewards, so with pairs"),
        _count("rollouts", rollouts, math.nan, f"{scored['score'].notna().sum():,} of them have a score"),
        _count("pairs", pairs.sum(), math.nan, "a better and a worse response to the same prompt"),
        _count("flagged", flagged.sum(), rollouts, "their rewards do not fit what the others agree on"),
        _count("replaced", (~own & (scored["source"] >= 0)).sum(), rollouts, "the content of another rollout instead"),
        _count("left out", (scored["source"] < 0).sum(), rollouts, "in no group afterwards"),
        _count("correct but flagged", wronged.sum(), known.sum(), "marked as correct in the input"),
        _count("unscored rewards", scored["reward"].isna().sum(), rollouts, "form no pair and replace nothing"),
        # Without a share: nearly every reward is moved a little, which is no alarm.
        _count("estimated rewards", changed.sum(), math.nan, "for training, mostly close to the reward: no alarm"),
    ]
    always = ("groups", "rollouts", "pairs", "flagged")
    return [item for item in every if item.name in always or item.value]


def _count(name: str, value: float, of: float, note: str) -> Count:
    return Count(name, float(value), value / of if of and not math.isnan(of) else math.nan, note)


def facts(audit: AuditResults) -> list[tuple[str, str]]:
    inputs = audit.summary["inputs"]
    names = [item["file"].rsplit("/", 1)[-1] for item in inputs]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    formats = sorted({item["format"] for item in inputs})
    steps = len(np.unique(audit.scored["step"].to_numpy()))
    hidden = audit.summary["hidden"]
    states = hidden.get("note") or hidden["from"]
    known = [
        ("from", shown),
        ("read as", ", ".join(formats)),
        ("curator", str(audit.curator.get("type", ""))),
        ("hidden states", "" if states == "none" else states),
        ("seed", str(audit.summary.get("seed", ""))),
        ("steps", str(steps) if steps > 1 else ""),
        ("texts", "left out (redacted)" if audit.redacted else ""),
    ]
    return [(name, visible(value, 160)) for name, value in known if value]


def verifier(said: Audited, limit: int = 100) -> dict[str, Any]:
    """What binary rewards say of their verifier, with at most `limit` prompts whose agreed answer it always refuses."""
    texts = ("answer", "gold")
    rows = [{**prompt, **{key: visible(prompt[key] or "", 120) for key in texts}} for prompt in said.prompts]
    return {"lines": said.verifier, "refused": said.refused, "prompts": rows[:limit], "listed": len(rows)}


def steps_of(audit: AuditResults) -> list[RolloutStep]:
    """The folder as the figures of a run read it: a dump is a step, its number in the input is its row."""
    steps = []
    for step in sorted(audit.scored["step"].unique().tolist()):
        rows = audit.scored[audit.scored["step"] == step]
        columns = {name: rows[name].to_numpy() for name in _COLUMNS}
        known = (rows["true_reward"].notna() & rows["reward"].notna()).to_numpy()
        flipped = known & (columns["true_reward"] != columns["reward"])
        row = rows.index.to_numpy()
        steps.append(RolloutStep(step, audit.folder, row=row, flipped=flipped, flip_known=known, **columns))
    return steps
