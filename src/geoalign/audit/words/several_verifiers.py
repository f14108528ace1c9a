"""What an audit says of several verifiers on the same rows, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.audit.words.verifier import rate_in_words
from geoalign.console.numbers import counted, percent
from geoalign.text import enumerated, quote

Summary = Mapping[str, Any]

_RATES = ("false_positive_rate", "false_negative_rate")
# Pairs that are shown; summary.json has all.
_PAIRS = 6

PROVED = (
    "Wrong accepted and right refused: what the verdicts of each verifier alone prove, if equal answers to a prompt "
    "are equally right and at most one is right."
)
CHECKED = (
    "Wrong accepted and right refused: with 95% intervals, by the rows that were drawn at random and checked, inside "
    "what the verdicts of each verifier prove."
)
CHECKED_ALONE = (
    "Wrong accepted and right refused: with 95% intervals, by the rows that were drawn at random and checked."
)
ONE_ERRS = "Of every contradiction one of the two verifiers is wrong; which one, nothing here tells."
GUESSED = (
    "The model supposes that verifiers err for reasons of their own, or share how deceptive an answer is. These are "
    "its guesses, without intervals, for none of them would hold: do not report them as error rates."
)


@dataclass(frozen=True)
class Contradictions:
    """Two verifiers, on how many rows each alone accepts, and rows to look at by their index."""

    first: str
    second: str
    first_alone: int
    second_alone: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Mode:
    """One explanation of the model: its title, and for each verifier its name and both guessed rates."""

    title: str
    rates: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class VerifierWords:
    """What is said of several verifiers; empty where no further one judged.

    Attributes:
        table: for each verifier its name, the share that it accepts, how often it agrees with the reward, and both
            error rates.
        notes: what the table rests on, and which verifiers failed.
        pairs: who contradicts whom, the most contradictions first.
        more_pairs: that further pairs contradict each other; empty where none do.
        ranking: the verifiers from the best to the worst, or why there is no ranking.
        modes: the guesses of the model; none where it may not speak.
        model: what these guesses rest on, or why the model may not speak.
    """

    table: tuple[tuple[str, str, str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    pairs: tuple[Contradictions, ...] = ()
    more_pairs: str = ""
    ranking: str = ""
    modes: tuple[Mode, ...] = ()
    model: str = ""


HEADS = ("verifier", "accepts", "as the reward", "wrong accepted", "right refused")


def several_verifiers(summary: Summary) -> VerifierWords:
    """What the verifiers say beside the file's reward."""
    found = summary.get("verifiers")
    if not found:
        return VerifierWords()
    has_checks = any(entry["checks"] for entry in found["table"])
    notes = [*_failures(found), *_drawn(found)]
    if has_checks:
        is_anything_proved = any(entry["bounds"] for entry in found["table"])
        notes.append(CHECKED if is_anything_proved else CHECKED_ALONE)
    elif found["answers"] == "exclusive":
        notes.append(PROVED)
    else:
        notes.append("As several answers to a prompt may be right, no error rate is bounded.")
    copies = {entry["name"] for entry in found["table"] if entry["same_as"]}
    notes += _same_verdicts(found)
    pairs = [_contradictions(pair) for pair in found["pairs"] if copies.isdisjoint((pair["first"], pair["second"]))]
    pairs = [pair for pair in pairs if pair.rows]
    if pairs:
        notes.append(ONE_ERRS)
    more = len(pairs) - _PAIRS
    modes = found["model"].get("modes", [])
    return VerifierWords(
        table=tuple(_row(entry) for entry in found["table"] if entry["reason"] is None),
        notes=tuple(notes),
        pairs=tuple(pairs[:_PAIRS]),
        more_pairs=f"{counted(more, 'more pair')} of verifiers in summary.json." if more > 0 else "",
        ranking=_ranking(found["ranking"]),
        modes=tuple(_mode(mode, number, len(modes)) for number, mode in enumerate(modes, start=1)),
        model=GUESSED if modes else f"The model of several verifiers is not asked here. {found['model']['reason']}",
    )


def _row(entry: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """One verifier in the columns of `HEADS`."""
    agreement = entry["agrees_with_reward"]
    accepted = percent(entry["accepted"])
    rates = [rate_in_words(entry["rates"][name]) for name in _RATES]
    return (
        entry["name"],
        accepted if entry["drawn"] is None else f"{accepted} of {entry['drawn']:,} drawn rows",
        "-" if agreement is None else percent(agreement),
        rates[0],
        rates[1],
    )


def _failures(found: Mapping[str, Any]) -> list[str]:
    """Which verifiers failed on which share of the rows, gave no verdict, or give no verdicts at all."""
    lines = []
    for entry in found["table"]:
        name = quote(entry["name"], 60)
        asked = found["rows"] if entry["drawn"] is None else entry["drawn"]
        if entry["failed"]:
            first = f" The first time it said: {entry['first_failure']}" if entry["first_failure"] else ""
            share = percent(entry["failed"] / asked)
            lines.append(
                f"{name} failed on {counted(entry['failed'], 'row')} ({share}), which count as not judged.{first}"
            )
        if entry["reason"] is not None and entry["failed"] < asked:
            lines.append(f"{name} is left out: {entry['reason']}.")
        silent = asked - entry["judged"] - entry["failed"]
        if entry["reason"] is None and silent:
            lines.append(f"{name} gave no verdict on {counted(silent, 'row')}.")
    return lines


def _drawn(found: Mapping[str, Any]) -> list[str]:
    """Which verifiers judged drawn rows alone, and what that means for the table."""
    names = [entry["name"] for entry in found["table"] if entry["drawn"] is not None and entry["reason"] is None]
    if not names:
        return []
    what = "What is counted and proved of it is" if len(names) == 1 else "What is counted and proved of them is"
    return [f"{enumerated(names)} judged rows drawn at random. {what} of these rows alone."]


def _same_verdicts(found: Mapping[str, Any]) -> list[str]:
    """Which verifiers judge alike on every row: they count once where verifiers are compared."""
    alike: dict[str, list[str]] = {}
    for entry in found["table"]:
        if entry["same_as"]:
            alike.setdefault(entry["same_as"], [entry["same_as"]]).append(entry["name"])
    return [f"{enumerated(names)} judge every row alike, and count once below." for names in alike.values()]


def _contradictions(pair: Mapping[str, Any]) -> Contradictions:
    """How often two verifiers contradict each other, with two rows of either kind."""
    rows = [*pair["first_alone_rows"][:2], *pair["second_alone_rows"][:2]]
    return Contradictions(
        first=pair["first"],
        second=pair["second"],
        first_alone=pair["first_alone_accepts"],
        second_alone=pair["second_alone_accepts"],
        rows=tuple(rows),
    )


def _ranking(ranking: Mapping[str, Any]) -> str:
    """The verifiers from the best to the worst in a sentence, or why they have no order."""
    if ranking["by"] is None:
        return "There is no ranking: that would need checked rows, or the model."
    places = [enumerated(names) for names in ranking["places"]]
    by = {
        "checks": "by checks (balanced accuracy; tied where intervals overlap)",
        "model": "as the model guesses (balanced accuracy; tied where it cannot tell)",
    }[ranking["by"]]
    if len(places) == 1:
        return f"Ranking {by}: it cannot tell {places[0]} apart."
    return f"Ranking {by}: {'; then '.join(places)}."


def _mode(mode: Mapping[str, Any], number: int, count: int) -> Mode:
    """One explanation of the model, the `number`-th of `count`, the best first."""
    if count == 1:
        title = "A model's guess"
    elif number == 1:
        title = f"A model's guess, explanation 1 of {count}"
    else:
        title = f"Explanation {number} of {count}, nearly as likely ({mode['nats_behind']:.1f} nats less)"
    rates = []
    for name, guess in mode["rates"].items():
        positive, negative = (guess[rate] for rate in _RATES)
        rates.append((name, percent(positive), percent(negative)))
    return Mode(title=title, rates=tuple(rates))
