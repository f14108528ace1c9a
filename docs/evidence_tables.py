"""Writes the tables of evidence in evidence/tables.md and README.md from `evidence/`: `python docs/evidence_tables.py`.

With `--check` nothing is written: the exit status is 1 where a table, or a figure in a sentence, is not that of the
results. A table is between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`; figures in sentences are listed in
`docs/evidence_facts.py`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from evidence_count import SEED, WARM_START, Gain, counted, gains
from evidence_results import (
    APPEALS,
    APPEALS_20,
    LONG,
    PRETRAINED,
    REPEATED,
    ROOT,
    SETTINGS,
    TUNED,
    TWELVE,
    Level,
    Setting,
    gold_beside_oracle,
    level_of,
)
from evidence_words import plain, probability, signed, signed_number, table

from geoalign.lab.analysis.comparison.table import ArmRow
from geoalign.lab.analysis.statistics import Interval, PairedDifference, holm

PAGES = (ROOT / "docs" / "evidence.md", ROOT / "evidence" / "tables.md", ROOT / "README.md")
TABLE = re.compile(r"(<!-- evidence: (\w+)((?: [\w=]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
# The arms of the tables in their order; a comparison's report has all of them.
NAMES = {
    "geoalign": "**GeoAlign**",
    "denoise": "**ours: `denoise`**",
    "denoise_states": "`denoise` without answers",
    "denoise_answers": "`denoise` without states",
    "denoise_permuted": "`denoise`, states permuted",
    "denoise_labels_48": "`denoise`, 48 labels",
    "denoise_labels_256": "`denoise`, 256 labels",
    "majority_vote": "`majority_vote`",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "oracle": "oracle",
    "clean": "no wrong rewards: GRPO",
    "denoise_clean": "no wrong rewards: `denoise`",
}


# What is shown of every level beside GRPO and the oracle, where it was run.
SHOWN = {"geoalign": "GeoAlign (paper)", "geoalign_best_guess": "best guess", "denoise": "denoise"}
BOUNDS = ("oracle", "clean", "denoise_clean")
NOTHING = Interval(math.nan, math.nan, math.nan)


def arms(folder: str, name: str) -> str:
    """The arms of a level that have a name here: score and gold utility minus GRPO's."""
    level = level_of(folder, name)

    def row_of(row: ArmRow) -> Iterator[str]:
        yield NAMES[row.arm]
        yield str(len(row.seeds))
        yield signed(row.score.difference.interval)
        yield signed(row.gold.difference.interval, 2)

    heads = ["arm", "seeds", "minus GRPO (95%)", "gold minus GRPO"]
    return table(heads, (row_of(level.row(arm)) for arm in NAMES if level.has(arm)))


# Words, comparison, level and arm of each row of the table of gold utility at equal proxy reward.
GOLD = (
    ("old default, 40%", "dialogue_denoise", "extremes_40", "denoise"),
    ("40%", "dialogue_denoise_again", "extremes_40", "denoise"),
    ("20%", "dialogue_denoise_again", "extremes_20", "denoise"),
    ("10%", "dialogue_denoise_again", "extremes_10", "denoise"),
    ("flattery rewarded", "dialogue_denoise_again", "shortcut_50", "denoise"),
    ("wider model, 40%", "dialogue_wide", "extremes_40", "denoise"),
    ("less bias, 40%", "dialogue_unbiased", "extremes_40", "denoise"),
    ("48 labels, 40%", "dialogue_denoise_again", "extremes_40", "denoise_labels_48"),
    ("48 labels, 20%", "dialogue_denoise_again", "extremes_20", "denoise_labels_48"),
)

SHOWN_PROXIES = (1.0, 2.0)


def gold() -> str:
    """Gold utility of `denoise` minus the oracle's where each first reaches a proxy reward, and how many seeds do."""

    def row_of(words: str, folder: str, name: str, arm: str) -> Iterator[str]:
        level = level_of(folder, name)
        yield words
        for difference in gold_beside_oracle(level, arm, SHOWN_PROXIES):
            some = f", {difference.pairs} seeds" if difference.pairs < len(level.row(arm).seeds) else ""
            yield "-" if difference.pairs < 2 else signed(difference.interval, 2) + some

    heads = ["`denoise`", *(f"at {reward}" for reward in SHOWN_PROXIES)]
    return table(heads, (row_of(*row) for row in GOLD))


def settings() -> str:
    """One row a level: GRPO's score, what each curator and the oracle add, and what that does to the gold utility.

    A gain of `denoise` that counts is bold, with a star where it counts by warm starts, too.
    """
    shown = {arm: label for arm, label in SHOWN.items() if any(item.level.has(arm) for item in SETTINGS)}
    of_seeds, of_warm_starts = counted(SEED), counted(WARM_START)

    def row_of(setting: Setting) -> Iterator[str]:
        *others, ours = _gains(setting, shown)
        yield from others
        star = " \\*" if setting.label in of_warm_starts else ""
        yield f"**{ours}**{star}" if setting.label in of_seeds else ours
        yield f"{setting.level.score('oracle').interval.estimate:+.3f}"
        yield _golds(setting.level, shown)

    return table(["level", "GRPO", *shown.values(), "oracle", "gold utility, minus GRPO's"], map(row_of, SETTINGS))


def _gains(setting: Setting, shown: dict[str, str]) -> Iterator[str]:
    level = setting.level
    yield setting.label
    yield plain(level.row("grpo").score.interval.estimate, 2)
    for arm in shown:
        gain = level.score(arm) if level.has(arm) else None
        some = f", {gain.pairs} seeds" if gain and gain.pairs < len(level.seeds) else ""
        yield signed(gain.interval) + some if gain else "-"


def _golds(level: Level, shown: dict[str, str]) -> str:
    return ", ".join(_gold(level, {**shown, "oracle": "oracle"})) or "-"


def units() -> str:
    """The gain of `denoise` by seeds and warm starts, how soon it comes, and its share of the headroom."""
    found = {unit: gains(unit) for unit in (SEED, WARM_START)}
    of_seeds, of_warm_starts = counted(SEED), counted(WARM_START)

    def p(gain: Gain | None) -> str:
        return probability(gain.p) if gain else "-"

    def row_of(setting: Setting) -> Iterator[str]:
        level, label = setting.level, setting.label
        yield label
        yield p(found[SEED].get(label))
        yield ", ".join(signed_number(mean, 3) for mean in level.by_warm_start("denoise"))
        yield p(found[WARM_START].get(label))
        yield "both" if label in of_warm_starts else "seeds" if label in of_seeds else "-"
        end = level.row("grpo").score.interval.estimate
        yield f"{level.passed('denoise', end)} of {level.curve('grpo').steps[-1]}"
        yield f"{100 * level.share('denoise').estimate:.0f}%"

    heads = ["level", "p, seeds", "gain by warm start", "p, warm starts", "counts by", "passed", "of the headroom"]
    return table(heads, map(row_of, SETTINGS))


def twelve() -> str:
    """Today's `denoise`, a seed on each of several warm starts; bold: p < 0.05 after Holm; gold: excludes zero."""
    gains = [one.level.score("denoise") for one in TWELVE]
    p = holm([gain.p for gain in gains])

    def row_of(setting: Setting, gain: PairedDifference, p: float) -> Iterator[str]:
        level, gold = setting.level, setting.level.row("denoise").gold.difference.interval
        yield setting.label
        yield plain(level.row("grpo").score.interval.estimate, 2)
        yield f"**{signed(gain.interval)}**" if gain.interval.low > 0 and p < 0.05 else signed(gain.interval)
        yield probability(p)
        share = level.share("denoise", "clean")
        yield f"{share.estimate:.0%}" + ("" if math.isnan(share.low) else f" ({share.low:.0%} to {share.high:.0%})")
        shown = signed(gold, 2)
        yield "-" if math.isnan(gold.estimate) else f"**{shown}**" if gold.low > 0 or gold.high < 0 else shown

    heads = [
        "level",
        "GRPO",
        "`denoise`, minus GRPO's (95%)",
        "p after Holm",
        "of ceiling (95%)",
        "gold, minus GRPO's",
    ]
    return table(heads, map(row_of, TWELVE, gains, p))


def by_start() -> str:
    """The same, warm start by warm start, and by the last evaluation alone."""

    def row_of(setting: Setting) -> Iterator[str]:
        yield setting.label
        yield ", ".join(signed_number(mean, 3) for mean in setting.level.by_warm_start("denoise"))
        yield signed(setting.level.last_evaluation("denoise").interval)

    return table(["level", "gain by warm start", "last evaluation alone (95%)"], map(row_of, TWELVE))


def scores(group: str) -> str:
    """Every arm of some levels: its final score, and what it gains with warm starts as units."""

    def row_of(setting: Setting, row: ArmRow) -> Iterator[str]:
        level = setting.level
        yield setting.label
        yield row.arm
        yield str(len(row.seeds))
        yield plain(row.score.interval.estimate, 2)
        yield "-" if row.arm == "grpo" else signed(level.over_warm_starts(row.arm).interval)
        yield plain(row.measures["advantage_cosine"].interval.estimate, 2)

    rows = ((one, row) for one in GROUPS[group] for row in one.level.table.rows if row.seeds)
    heads = ["rewards", "arm", "runs", "final score", "minus GRPO's (95%)", "cosine"]
    return table(heads, (row_of(*each) for each in rows))


def _gold(level: Level, shown: dict[str, str]) -> Iterator[str]:
    for arm, label in shown.items():
        interval = level.row(arm).gold.difference.interval if level.has(arm) else NOTHING
        if not math.isnan(interval.estimate):
            text = signed_number(interval.estimate, 2)
            yield f"{label.split(' (')[0]} " + (f"**{text}**" if interval.low > 0 or interval.high < 0 else text)


GROUPS = {"pretrained": PRETRAINED, "tiny": (*(one for one, *_ in TUNED), *LONG, REPEATED, APPEALS, APPEALS_20)}

KINDS: dict[str, Callable[..., str]] = {
    "arms": arms,
    "gold": gold,
    "settings": settings,
    "twelve": twelve,
    "by_start": by_start,
    "scores": scores,
    "units": units,
}


@cache
def made(kind: str, *arguments: str) -> str:
    """A table of the results."""
    return KINDS[kind](*arguments)


@cache
def stated() -> list[tuple[str, str]]:
    """Pages with the words that they must have."""
    from evidence_facts import facts

    return list(facts())


def with_tables(page: str) -> str:
    """The page with every table made anew."""
    return TABLE.sub(lambda match: f"{match[1]}{made(match[2], *match[3].split())}{match[4]}", page)


def wrong(path: Path) -> list[str]:
    """What of a page is not as the results have it: its tables, and the sentences that state figures."""
    text = path.read_text(encoding="utf-8")
    words = " ".join(text.split())
    found = [] if with_tables(text) == text else [f"{path.name}: a table differs: run python docs/evidence_tables.py"]
    return found + [
        f"{path.name}: expected the words {fact!r}"
        for page, fact in stated()
        if page == path.name and fact not in words
    ]


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        for page in PAGES:
            page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    problems = [problem for page in PAGES for problem in wrong(page)]
    print("\n".join(problems) or "The tables and figures are those of the results.")
    sys.exit(bool(problems))
