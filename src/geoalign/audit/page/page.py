"""From a report to one self-contained page that opens from disk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas
from markupsafe import Markup

from geoalign.audit.folder import FIGURES, REPORT_FILE
from geoalign.audit.page.bundle import MAX_BYTES, Bundle, bundle
from geoalign.audit.page.figures import audit_sections
from geoalign.audit.results import AuditReport
from geoalign.audit.words.golds import golds_table, listed_golds
from geoalign.audit.words.next_steps import labels_file
from geoalign.audit.words.several_verifiers import HEADS, Contradictions
from geoalign.console.numbers import counted, short
from geoalign.pages.documents import Gallery, inline, write_page
from geoalign.text import visible

ASSETS = Path(__file__).parent / "assets"
# In the order in which they build on one another; one program, so that none of their names is a global one.
PROGRAM = ("dom", "store", "diff", "model", "search", "list", "texts", "labels", "detail", "cards", "main")
# Characters of summary.json that the page shows.
_SUMMARY = 20_000
# Prompts whose gold answer looks wrong that are listed.
_GOLDS = 100
_FILES_NAMED = 3


def build_audit_page(report: AuditReport) -> Path:
    """Writes report.html and figures/ into the report's folder, and returns the path of the page."""
    assert report.folder is not None
    summary = report.summary
    words = report.words
    gallery = Gallery(report.folder / FIGURES)
    # Where nothing could be judged, scores say nothing, drawn or not.
    drawn = audit_sections(report) if words.finding.level != "unjudged" else []
    sections = [gallery.section(name, heading, panels) for name, heading, panels in drawn]
    sections = [section for section in sections if section.pictures]
    pictures = [picture for section in sections for picture in section.pictures]
    room = MAX_BYTES - sum(len(picture.light) + len(picture.dark) for picture in pictures)
    packed = bundle(report, max(room, 0))
    golds = golds_table(summary, most=_GOLDS)
    prompt_names = golds.pop("prompt")
    rollouts = [entry["index"] for entry in listed_golds(summary, most=_GOLDS)]
    gold_rows = list(zip(rollouts, prompt_names, zip(*golds.values(), strict=True), strict=True))
    return write_page(
        report.folder / REPORT_FILE,
        Path(__file__).with_name("audit.html.j2"),
        title=title(report),
        facts=facts(report),
        sheets=["report.css", "audit.css"],
        scripts=scripts(),
        words=words,
        heads=HEADS,
        contradictions=contradictions(report),
        marked=marked(report),
        flagged=int(report.rows["anomalous"].sum()),
        labels=labelled_verdicts(report) is not None,
        label_command=summary["label_command"],
        labels_file=labels_file(summary),
        gold_heads=["prompt", *golds],
        gold_rows=gold_rows,
        sections=sections,
        reading=reading(report),
        bundle=packed,
        settings=Markup(json.dumps(settings(report, packed))),
        has=filters(report),
        score=score_name(report),
        redacted=not report.has_texts,
        summary=visible(json.dumps(summary, indent=2, ensure_ascii=False), _SUMMARY),
    )


def settings(report: AuditReport, packed: Bundle) -> dict[str, Any]:
    """What the program must know before it opens a piece; numbers and fixed words only."""
    return {
        "score": score_name(report),
        "redacted": not report.has_texts,
        # What all prompts begin with, counted as the program counts: cards leave it out.
        "common": len(report.common_beginning.encode("utf-16-le")) // 2,
        "texts": len(packed.texts),
        "pairs": len(packed.pairs),
        "compares": report.pairs is not None,
        # The reward of a refused and of an accepted response, where rewards can be called right or wrong.
        "verdicts": labelled_verdicts(report),
        # What the file of labels is called that the page saves.
        "labels_file": labels_file(report.summary),
        "judged": report.words.finding.level != "unjudged",
        # By which labels of this page are told from those of another one in the same browser.
        "key": hashlib.sha256(packed.columns.encode("ascii")).hexdigest()[:16],
    }


def score_name(report: AuditReport) -> str:
    """What the curator's score is called."""
    names = {"geoalign": "GDI", "geoalign_released": "GDI", "denoise": "log-odds"}
    return names.get(report.curator["type"], "score")


def labelled_verdicts(report: AuditReport) -> tuple[float, float] | None:
    """The two rewards, where a person can call one right or wrong: it is a verdict, and the curator reads labels."""
    return report.verdicts if report.summary["label_command"] is not None else None


def filters(report: AuditReport) -> dict[str, bool]:
    """Which filters and orders make sense on this page."""
    rows = report.rows
    judged = report.words.finding.level != "unjudged"
    return {
        "correct": bool(rows["correct"].notna().any()),
        "scores": judged and bool(rows["score"].notna().any()),
        "probabilities": judged and bool(rows["probability_wrong"].notna().any()),
        "steps": rows["step"].nunique() > 1,
    }


def contradictions(report: AuditReport) -> list[tuple[Contradictions, list[tuple[int, str]]]]:
    """The pairs of verifiers that contradict each other, each with rollouts to look at: their indices and places."""
    return [(pair, [(row, report.place(row)) for row in pair.rows]) for pair in report.words.several.pairs]


def scripts() -> list[Markup]:
    """The page's program, as the content of its one script."""
    modules = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in PROGRAM)
    return [inline(f'"use strict";\n(() => {{\n{modules}\n}})();\n')]


# --- what was audited -------------------------------------------------------------------------------------------------


def title(report: AuditReport) -> str:
    """What was audited, by the names of its files."""
    names = [str(entry["file"]).rsplit("/", 1)[-1] for entry in report.summary["inputs"]]
    named = ", ".join(names[:_FILES_NAMED])
    more = len(names) - _FILES_NAMED
    if more > 0:
        named = f"{named} and {counted(more, 'more file')}"
    return visible(f"Audit of {named}", 160)


def facts(report: AuditReport) -> list[tuple[str, str]]:
    """What was audited and by what, in a line; what is nothing to speak of is left out."""
    steps = report.rows["step"].nunique()
    known = [
        ("rollouts", f"{len(report.rows):,}"),
        ("groups", f"{report.rows['group'].nunique():,}"),
        ("steps", f"{steps:,}" if steps > 1 else ""),
        ("rewards", _range(report.rows["reward"])),
        ("judged by", visible(report.curator["type"], 160)),
        ("texts", "" if report.has_texts else "left out (--redact)"),
    ]
    return [(name, value) for name, value in known if value]


def _range(rewards: pandas.Series) -> str:
    """The values of the rewards: both of two, the ends of more."""
    values = sorted(rewards.dropna().unique().tolist())
    if not values:
        return "none"
    if len(values) <= 2:
        return " or ".join(map(short, values))
    return f"{short(values[0])} to {short(values[-1])}"


def reading(report: AuditReport) -> list[str]:
    """How the files were read and judged, for those who want to check it, a paragraph each."""
    summary = report.summary
    inputs = summary["inputs"]
    files = ", ".join(str(entry["file"]) for entry in inputs[:_FILES_NAMED])
    formats = ", ".join(sorted({entry["format"] for entry in inputs}))
    roles = dict.fromkeys(f"{role} from {name}" for entry in inputs for role, name in entry["fields"].items())
    paragraphs = [
        f"Read from {files}, format {formats}: {', '.join(roles)}.",
        *report.words.read,
        *report.words.compared,
        report.words.filtered,
        f"Seed {summary['seed']}.",
    ]
    return [visible(paragraph, 800) for paragraph in paragraphs if paragraph]


def marked(report: AuditReport) -> str:
    """How the file's own marks of correctness stand to verdicts and flags; empty where they say nothing else."""
    rows = report.rows
    if report.verdicts is None:
        return ""
    known = rows["correct"].notna() & rows["reward"].notna()
    rewarded = rows["reward"] == report.verdicts[1]
    wrong = known & (rewarded != (rows["correct"] == 1))
    if not wrong.any():
        return ""
    found = int((wrong & rows["anomalous"]).sum())
    are = "is" if found == 1 else "are"
    return (
        f"{counted(int(wrong.sum()), 'reward is', 'rewards are')} wrong by the file's marks of correct responses; "
        f"{found:,} of them {are} flagged."
    )
