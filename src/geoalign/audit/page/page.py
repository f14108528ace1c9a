"""From a folder of `geoalign audit` to one self-contained page that opens from disk."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from markupsafe import Markup

from geoalign.audit import words as audited
from geoalign.audit.flags import by_suspicion, flag_reasons
from geoalign.audit.folder import FIGURES, REPORT_FILE
from geoalign.audit.gold import is_gold
from geoalign.audit.grouping import grouping_words
from geoalign.audit.page.bundle import MAX_BYTES, Bundle, bundle
from geoalign.audit.prompts import common_beginning, without_beginning
from geoalign.audit.results import AuditResults, read_audit
from geoalign.console.numbers import counted, short, whole_percent
from geoalign.files.json_files import float_or_nan
from geoalign.files.rollout_step import Density, RolloutStep
from geoalign.pages.documents import Drawn, Gallery, Section, first_middle_last, inline, write_page
from geoalign.pages.score_panels import cosine_panel, density_panel, suspect_panels
from geoalign.text import visible

ASSETS = Path(__file__).parent / "assets"
# In the order in which they build on one another; one program, so that none of their names is a global one.
PROGRAM = (
    "dom", "store", "diff", "formulas", "model", "search", "list", "texts", "labels", "detail", "cards", "main",
)  # fmt: skip
SUMMARY_LIMIT = 20_000
# Prompts with flagged rewards that stand in the page itself, so that it shows them without its program, and what it
# shows of a prompt and of a response there.
STATIC_CARDS = 10
STATIC_TEXT = 3000
# Prompts whose agreed answer is always refused that are listed.
REFUSED_LISTED = 100


def build_audit_page(folder: Path) -> Path:
    """Writes report.html and figures/ into a folder of `geoalign audit`, from its tables alone; returns the page."""
    audit = read_audit(folder)
    summary, scored = audit.summary, audit.scored
    found = audited.finding(summary)
    gallery = Gallery(audit.folder / FIGURES)
    # Where nothing could be judged, scores say nothing, drawn or not.
    drawn = audit_sections(audit) if found.level != "unjudged" else []
    sections = [gallery.section(name, heading, panels) for name, heading, panels in drawn]
    sections = [section for section in sections if section.pictures]
    packed = bundle(audit, max(MAX_BYTES - _size_of(sections), 0))
    return write_page(
        audit.folder / REPORT_FILE,
        Path(__file__).with_name("audit.html.j2"),
        title=title(audit),
        facts=facts(audit),
        sheets=["report.css", "audit.css"],
        scripts=scripts(),
        finding=replace(found, headline=_plain(found.headline), reason=_plain(found.reason)),
        marked=marked(audit.scored),
        unread=_plain(audited.unread_answers(summary)),
        verifier=audited.verifier(summary),
        remarks=remarks(summary),
        learnt=audited.new_prompts(summary),
        cards=static_cards(audit),
        flagged=int(scored["anomalous"].sum()),
        labels=takes_labels(audit),
        label_command=visible(summary.get("label_command") or "", 2000),
        refused=audited.refused(summary),
        prompts=refused_prompts(audit),
        refused_count=(summary.get("prompts") or {}).get("refused", 0),
        sections=sections,
        reading=reading(audit),
        bundle=packed,
        settings=json.dumps(settings(audit, packed)),
        has=filters(audit),
        score=score_name(audit),
        redacted=audit.redacted,
        summary=visible(json.dumps(dict(summary), indent=2, ensure_ascii=False), SUMMARY_LIMIT),
    )


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What else is said of the verifier and of what was trained on."""
    lines = [audited.judged_by_spelling(summary), audited.second_verifier(summary), audited.trained_on(summary)]
    return [line for line in lines if line]


def _size_of(sections: Sequence[Section]) -> int:
    """The characters that pictures take of the page."""
    return sum(len(picture.light) + len(picture.dark) for section in sections for picture in section.pictures)


def settings(audit: AuditResults, packed: Bundle) -> dict[str, Any]:
    """What the program must know before it opens a piece; numbers and fixed words only."""
    return {
        "score": score_name(audit),
        "redacted": audit.redacted,
        # What all prompts begin with, counted as the program counts: cards leave it out.
        "common": len(common_beginning(audit).encode("utf-16-le")) // 2,
        "texts": len(packed.texts),
        "pairs": len(packed.pairs),
        "compares": audit.pairs is not None,
        # The reward of a refused and of an accepted response, where rewards can be called right or wrong.
        "verdicts": sorted(audit.scored["reward"].dropna().unique().tolist()) if takes_labels(audit) else None,
        "judged": audited.finding(audit.summary).level != "unjudged",
        # By which labels of this page are told from those of another one in the same browser.
        "key": hashlib.sha256(packed.columns.encode("ascii")).hexdigest()[:16],
    }


def takes_labels(audit: AuditResults) -> bool:
    """Whether a reward can be called right or wrong here: it is a verdict, and the curator makes use of labels."""
    return bool(audit.summary.get("label_command")) and audit.scored["reward"].nunique() == 2


def _plain(text: str) -> str:
    """Words for the terminal as a page shows them."""
    return text.replace("`", "")


def filters(audit: AuditResults) -> dict[str, bool]:
    """Which filters and orders make sense on this page."""
    scored = audit.scored
    judged = audited.finding(audit.summary).level != "unjudged"
    return {
        "correct": bool(scored["correct"].notna().any()),
        "scores": judged and bool(scored["score"].notna().any()),
        "probabilities": judged and bool(scored["probability_wrong"].notna().any()),
        "steps": scored["step"].nunique() > 1,
    }


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


# --- what was audited -------------------------------------------------------------------------------------------------

_FILES_NAMED = 3


def title(audit: AuditResults) -> str:
    """What was audited, by the names of its files."""
    names = [str(entry["file"]).rsplit("/", 1)[-1] for entry in audit.summary["inputs"]]
    named = ", ".join(names[:_FILES_NAMED])
    more = len(names) - _FILES_NAMED
    return visible(f"Audit of {named} and {counted(more, 'more file')}" if more > 0 else f"Audit of {named}", 160)


def facts(audit: AuditResults) -> list[tuple[str, str]]:
    """What was audited and by what, in a line; what is nothing to speak of is left out."""
    scored = audit.scored
    steps = scored["step"].nunique()
    known = [
        ("rollouts", f"{len(scored):,}"),
        ("groups", f"{scored['group'].nunique():,}"),
        ("steps", f"{steps:,}" if steps > 1 else ""),
        ("rewards", _range(scored["reward"])),
        ("judged by", str(audit.curator.get("type", ""))),
        ("texts", "left out (--redact)" if audit.redacted else ""),
    ]
    return [(name, visible(value, 160)) for name, value in known if value]


def _range(rewards: pandas.Series) -> str:
    """The values of the rewards: both of two, the ends of more."""
    values = sorted(rewards.dropna().unique().tolist())
    if not values:
        return "none"
    if len(values) <= 2:
        return " or ".join(map(short, values))
    return f"{short(values[0])} to {short(values[-1])}"


def reading(audit: AuditResults) -> list[tuple[str, str]]:
    """How the files were read and judged, for those who want to check it."""
    summary, scored = audit.summary, audit.scored
    inputs = summary["inputs"]
    fields = {role: name for entry in inputs for role, name in (entry.get("fields") or {}).items()}
    hidden = summary["hidden"]
    states = hidden.get("note") or hidden.get("from") or ""
    missing = int(scored["reward"].isna().sum())
    skipped = len(summary["skipped"])
    known = [
        ("files", ", ".join(str(entry["file"]) for entry in inputs[:_FILES_NAMED])),
        ("format", ", ".join(sorted({str(entry["format"]) for entry in inputs}))),
        ("fields", ", ".join(f"{role} from {name}" for role, name in fields.items())),
        ("groups", grouping_words(summary) if fields else ""),
        ("no reward", counted(missing, "rollout") if missing else ""),
        ("skipped", f"{counted(skipped, 'row')}, listed in summary.json" if skipped else ""),
        ("hidden states", "" if states == "none" else str(states)),
        ("in training", _in_training(scored)),
        ("filtered.jsonl", audited.filtered(summary)),
        ("seed", str(summary.get("seed", ""))),
    ]
    return [(name, visible(_plain(value), 400)) for name, value in known if value]


def _in_training(scored: pandas.DataFrame) -> str:
    """What a training with this curator would do with the rollouts; empty where it would change nothing."""
    own = scored["source"] == np.arange(len(scored))
    known = scored[["reward", "new_reward"]].notna().all(axis=1)
    changes = {
        "replaced by another response": ~own & (scored["source"] >= 0),
        "left out": scored["source"] < 0,
        "given another reward, mostly close to its own": own & known & (scored["new_reward"] != scored["reward"]),
    }
    return ", ".join(f"{rows.sum():,} {what}" for what, rows in changes.items() if rows.any())


def marked(scored: pandas.DataFrame) -> str:
    """How the file's own marks of correctness stand to verdicts and flags; empty where they say nothing else."""
    values = sorted(scored["reward"].dropna().unique().tolist())
    known = scored["correct"].notna() & scored["reward"].notna()
    if len(values) != 2 or not known.any():
        return ""
    otherwise = known & ((scored["reward"] == values[1]) != (scored["correct"] == 1))
    if not otherwise.any():
        return ""
    found = int((otherwise & scored["anomalous"]).sum())
    wrong = counted(int(otherwise.sum()), "reward is", "rewards are")
    are = "is" if found == 1 else "are"
    return f"{wrong} wrong by the file's marks of correct responses; {found:,} of them {are} flagged."


# --- rows to look at --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flag:
    """A flagged reward in the page itself, or several of the same response.

    `gold` is how the answer stands to the gold answer, in words; empty where that is not known.
    """

    place: str
    times: int
    response: str
    answer: str
    gold: str
    reward: str
    why: str
    likely: str


@dataclass(frozen=True)
class Card:
    """A prompt with its flagged rewards."""

    prompt: str
    gold: str
    flags: tuple[Flag, ...]


def static_cards(audit: AuditResults, most: int = STATIC_CARDS) -> list[Card]:
    """The groups with the most suspicious rewards, as they stand in the page before its program has run."""
    flagged = by_suspicion(audit.scored)
    groups = flagged["group"].drop_duplicates().head(most).tolist()
    flagged = flagged[flagged["group"].isin(groups)]
    texts = audit.texts(flagged.index.tolist())
    reasons = flag_reasons(audit)
    common = common_beginning(audit)
    flagged = flagged.assign(
        why=[reasons[index] for index in flagged.index],
        is_gold=pandas.Series(is_gold(flagged), index=flagged.index, dtype=object),
        # Without texts every rollout stands by itself.
        response=[texts[index][1] if texts else str(index) for index in flagged.index],
    )
    cards = []
    for group in groups:
        rows = flagged[flagged["group"] == group]
        same = rows.groupby(["response", "reward"], sort=False, dropna=False)
        card = Card(
            prompt=visible(without_beginning(texts[rows.index[0]][0], common), STATIC_TEXT) if texts else "",
            gold=_text(rows["answer"].iloc[0]),
            flags=tuple(_flag(copies, redacted=not texts) for _, copies in same),
        )
        cards.append(card)
    return cards


def _flag(copies: pandas.DataFrame, *, redacted: bool) -> Flag:
    first = copies.iloc[0]
    lines = [f"{line:,}" for line in copies["line"].drop_duplicates()]
    # What was checked is known.
    likely = math.nan if first["checked"] else first["probability_wrong"]
    return Flag(
        place=f"{'line' if len(lines) == 1 else 'lines'} {', '.join(lines)}",
        times=len(copies),
        response="" if redacted else visible(first["response"], STATIC_TEXT),
        answer=_text(first["final_answer"]),
        gold=_beside_gold(first["is_gold"], _text(first["answer"])),
        reward=short(first["reward"]),
        why=first["why"],
        likely="" if math.isnan(likely) else whole_percent(likely),
    )


def _beside_gold(same: bool | None, gold: str) -> str:
    if same is None:
        return ""
    return "is the gold answer" if same else f"differs from gold answer {gold}"


def _text(cell: Any, limit: int = 120) -> str:
    return visible(cell, limit) if isinstance(cell, str) else ""


def refused_prompts(audit: AuditResults) -> list[dict[str, Any]]:
    """The prompts whose agreed answer is always refused, the strongest agreement first."""
    found = audited.refused_prompts(audit.summary)[:REFUSED_LISTED]
    return [{**prompt, "answer": _text(prompt["answer"]), "gold": _text(prompt["gold"])} for prompt in found]


# --- figures ----------------------------------------------------------------------------------------------------------

GEOMETRIC = ("geoalign", "geoalign_released")


def audit_sections(audit: AuditResults) -> list[tuple[str, str, list[Drawn]]]:
    steps = steps_of(audit)
    suspects = [*suspect_panels(steps, score_name(audit)), *_densities(audit, steps)]
    return [
        ("scores", "Which rewards are flagged, and where the threshold lies", suspects),
        ("directions", "Directions before and after the projector", _directions(audit)),
    ]


def score_name(audit: AuditResults) -> str:
    kind = audit.curator.get("type")
    return "GDI" if kind in GEOMETRIC else "log-odds" if kind == "denoise" else "score"


def _densities(audit: AuditResults, steps: Sequence[RolloutStep]) -> list[Drawn]:
    table = audit.densities
    if table is None or not len(table):
        return []
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
        return []
    step = int(pairs["step"].max())
    raw, projected = (pairs.loc[pairs["step"] == step, name].to_numpy() for name in ("raw_cosine", "projected_cosine"))
    if not (np.isfinite(raw).all() and np.isfinite(projected).all()):
        return []
    return [cosine_panel(step, raw, projected)]


_COLUMNS = ("group", "reward", "true_reward", "score", "anomalous", "source", "weight")


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
