"""Every sentence of an audit, written once: the terminal, the page and a notebook show the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.audit.words import other_findings, reading
from geoalign.audit.words.datasheet import exported
from geoalign.audit.words.degenerate import degenerate
from geoalign.audit.words.finding import Finding, finding, unread_answers
from geoalign.audit.words.golds import suspicious_golds
from geoalign.audit.words.several_verifiers import VerifierWords, several_verifiers
from geoalign.audit.words.verifier import Verifier, verifier
from geoalign.pages.headlines import Verdict


@dataclass(frozen=True)
class Words:
    """What an audit found, in sentences; those that have nothing to say are empty.

    Attributes:
        degenerate: why the verifier seems not to judge at all, a sentence or two for each symptom.
        unread_answers: that most responses have no answer that can be read.
        judged_by_spelling: on which prompts the verdict on an answer goes with its spelling.
        second_verifier: what a second verifier said.
        several: what several verifiers say of the same rows.
        trained_on: how flags are spread over rollouts that were trained on and others.
        suspicious_golds: how many gold answers look wrong, what that rests on, and how far to trust it.
        exported: what stands in the exported data set.
        new_prompts: whether the pattern behind the flags holds on new prompts.
        filtered: what stands in the file of rollouts that remain.
        read: how the files were read, a paragraph each.
        others: everything else that was found but the second verifier, a paragraph each.
        compared: what was not compared or not written.
    """

    finding: Finding
    degenerate: list[str]
    unread_answers: str
    verifier: Verifier
    judged_by_spelling: str
    second_verifier: str
    several: VerifierWords
    trained_on: str
    suspicious_golds: str
    exported: str
    new_prompts: Verdict
    filtered: str
    read: list[str]
    others: list[str]
    compared: list[str]


def in_words(summary: Mapping[str, Any]) -> Words:
    """The sentences that the content of a `summary.json` stands for."""
    return Words(
        finding=finding(summary),
        degenerate=degenerate(summary),
        unread_answers=unread_answers(summary),
        verifier=verifier(summary),
        judged_by_spelling=other_findings.judged_by_spelling(summary),
        second_verifier=other_findings.second_verifier(summary),
        several=several_verifiers(summary),
        trained_on=other_findings.trained_on(summary),
        suspicious_golds=suspicious_golds(summary),
        exported=exported(summary),
        new_prompts=other_findings.new_prompts(summary),
        filtered=other_findings.filtered(summary),
        read=list(reading.what_was_read(summary)),
        others=list(other_findings.other_findings(summary)),
        compared=list(other_findings.what_was_compared(summary)),
    )
