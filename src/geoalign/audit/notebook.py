"""An audit's report as a notebook or an interactive session shows it."""

from __future__ import annotations

from markupsafe import escape

from geoalign.audit.results import AuditReport
from geoalign.audit.words.several_verifiers import VerifierWords
from geoalign.text import shortened, visible

# Flagged rewards in the table, and characters of a prompt and of a response.
_ROWS = 10
_TEXT = 200

_COLUMNS = {
    "line": "line",
    "prompt": "prompt",
    "final_answer": "answer",
    "response": "response",
    "reward": "reward",
    "why": "why it looks wrong",
}


def as_text(report: AuditReport) -> str:
    """The finding and what is known of the verifier, a line each."""
    return "\n".join(_lines(report))


def as_html(report: AuditReport) -> str:
    """The finding, what is known of the verifier, and the most suspicious rewards as a table; all texts are escaped."""
    headline, *others = _lines(report)
    paragraphs = [f"<p><b>{escape(headline)}</b></p>"]
    paragraphs += [f"<p>{escape(line)}</p>" for line in others]
    flagged = report.flagged
    if flagged.empty:
        return "\n".join(paragraphs)
    names = [name for name in _COLUMNS if name in flagged and flagged[name].notna().any()]
    table = flagged[names].head(_ROWS).rename(columns=_COLUMNS)
    table = table.map(lambda cell: shortened(cell, _TEXT) if isinstance(cell, str) else cell)
    paragraphs.append(table.to_html(index=False, na_rep="", escape=True))
    if len(flagged) > _ROWS:
        paragraphs.append(f"<p>These are {_ROWS} of {len(flagged):,} rewards; <code>report.flagged</code> has all.</p>")
    return "\n".join(paragraphs)


def _verifier_lines(several: VerifierWords) -> list[str]:
    """A line for each of several verifiers."""
    lines = []
    for name, accepts, agrees, positive, negative in several.table:
        agreement = "" if agrees == "-" else f", agrees with the reward on {agrees}"
        rates = f"wrong accepted: {positive}; right refused: {negative}"
        lines.append(f"{name} accepts {accepts}{agreement}; {rates}")
    return lines


def _lines(report: AuditReport) -> list[str]:
    """The finding, the error rates and what is known beside them; what is invisible is shown."""
    words = report.words
    rates = []
    for rate in words.verifier.rates:
        by = f" ({rate.by})" if rate.by else ""
        rates.append(f"{rate.name}: {rate.value}{by}")
    finding = [*words.degenerate, words.finding.headline, words.finding.reason, words.unread_answers]
    lines = [*finding, *rates, *words.verifier.notes]
    if words.verifier.next_command:
        lines.append(f"{words.verifier.next_when} {words.verifier.next_command}")
    if words.several.table:
        lines += [*_verifier_lines(words.several), words.several.ranking]
    return [visible(line, len(line)) for line in lines if line]
