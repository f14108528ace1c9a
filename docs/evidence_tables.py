"""Writes the tables of evidence in docs/evidence.md and README.md from `evidence/`: `python docs/evidence_tables.py`.

With `--check` nothing is written: the exit status is 1 where a table, or a figure in a sentence, is not that of the
results. A table is between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`; figures in sentences are listed in
`docs/evidence_facts.py`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from evidence_count import SEED, WARM_START, Gain, counted, gains
from evidence_results import (
    FIRST,
    PLANNED,
    PROXIES,
    ROOT,
    SETTINGS,
    Level,
    Setting,
    gold_beside_oracle,
    level_of,
)
from evidence_words import percent, plain, probability, signed, signed_number, table

from geoalign.lab.analysis.comparison.table import EXPLORATORY, PRIMARY, ArmRow
from geoalign.lab.analysis.statistics import Interval, seed_interval

PAGES = (ROOT / "docs" / "evidence.md", ROOT / "README.md")
TABLE = re.compile(r"(<!-- evidence: (\w+)((?: [\w=]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
# The arms of the tables in their order; a comparison's report has all of them.
NAMES = {
    "grpo": "GRPO",
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


# What is shown of every setting beside GRPO and the oracle, where it was run.
SHOWN = {"geoalign": "GeoAlign (paper)", "geoalign_best_guess": "best guess", "denoise": "denoise"}
BOUNDS = ("oracle", "clean", "denoise_clean")
NOTHING = Interval(math.nan, math.nan, math.nan)


def arms(folder: str, name: str) -> str:
    """The arms of a level that have a name here."""
    level = level_of(folder, name)
    gold = any(not math.isnan(row.gold.interval.estimate) for row in level.table.rows)

    def row_of(row: ArmRow) -> Iterator[str]:
        kind = next((item for item in level.table.comparisons if (item.arm, item.against) == (row.arm, "grpo")), None)
        p = math.nan
        if kind is not None:
            p = {PRIMARY: kind.difference.p, EXPLORATORY: kind.adjusted_p}.get(kind.kind, math.nan)
        yield NAMES[row.arm]
        yield str(len(row.seeds))
        yield plain(row.score.interval.estimate, 3)
        yield "" if row.arm == "grpo" else signed(row.score.difference.interval)
        yield probability(p)
        yield "" if row.arm in ("grpo", *BOUNDS) else percent(level.share(row.arm))
        if gold:
            yield plain(row.gold.interval.estimate, 2) if row.arm == "grpo" else signed(row.gold.difference.interval, 2)
        replaced, right = (
            row.replaced.interval.estimate,
            row.detection.precision.estimate if row.detection else math.nan,
        )
        yield plain(replaced, 1) + ("" if math.isnan(right) or math.isnan(replaced) else f", {right:.0%}")

    heads = ["arm", "seeds", "final", "minus GRPO (95%)", "p", "share of headroom, %"]
    heads += ["gold minus GRPO"] if gold else []
    shown = [arm for arm in NAMES if level.has(arm)]
    return table([*heads, "replaced, right"], (row_of(level.row(arm)) for arm in shown))


def _detectable(level: Level) -> str:
    share = level.detectable()
    return "-" if math.isnan(share) else f"{share:.0%}"


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


def gold() -> str:
    """Gold utility of `denoise` minus the oracle's where each first reaches a proxy reward, and how many seeds do."""

    def row_of(words: str, folder: str, name: str, arm: str) -> Iterator[str]:
        level = level_of(folder, name)
        yield words
        for difference in gold_beside_oracle(level, arm):
            some = f", {difference.pairs} seeds" if difference.pairs < len(level.row(arm).seeds) else ""
            yield "-" if difference.pairs < 2 else signed(difference.interval, 2) + some

    heads = ["`denoise`", *(f"at {reward}" for reward in PROXIES)]
    return table(heads, (row_of(*row) for row in GOLD))


def settings() -> str:
    """One row a setting: GRPO's score, what each curator and the oracle add, and what that does to the gold utility.

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

    return table(["setting", "GRPO", *shown.values(), "oracle", "gold utility, minus GRPO's"], map(row_of, SETTINGS))


def first() -> str:
    """The same of the first comparisons, with the smallest share of the headroom that they could detect."""
    shown = {arm: label for arm, label in SHOWN.items() if any(item.level.has(arm) for item in FIRST)}

    def row_of(setting: Setting) -> Iterator[str]:
        yield from _gains(setting, shown)
        yield signed(setting.level.score("oracle").interval)
        yield _detectable(setting.level)
        yield _golds(setting.level, shown)

    heads = ["setting", "GRPO", *shown.values(), "oracle", "detectable share", "gold utility, minus GRPO's"]
    return table(heads, map(row_of, FIRST))


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
    """The headroom, and of `denoise` the gain by seeds and warm starts, at the last evaluation alone, and how soon."""
    found = {unit: gains(unit) for unit in (SEED, WARM_START)}
    of_seeds, of_warm_starts = counted(SEED), counted(WARM_START)

    def p(gain: Gain | None) -> str:
        return probability(gain.p) if gain else "-"

    def row_of(setting: Setting) -> Iterator[str]:
        level, label = setting.level, setting.label
        yield label
        yield signed(level.score("oracle").interval)
        yield _detectable(level)
        yield p(found[SEED].get(label))
        yield _means(level.by_warm_start("denoise"))
        yield p(found[WARM_START].get(label))
        yield "both" if label in of_warm_starts else "seeds" if label in of_seeds else "-"
        yield signed(level.last_evaluation("denoise").interval)
        end = level.row("grpo").score.interval.estimate
        updates = (level.passed(arm, end) for arm in ("denoise", "oracle", "grpo"))
        yield ", ".join(map(str, updates)) + f" of {level.curve('grpo').steps[-1]}"
        yield f"{100 * level.share('denoise').estimate:.0f}%"

    heads = ["setting", "headroom", "detectable", "p, seeds", "gain by warm start", "p, warm starts", "counts by"]
    heads += ["last evaluation alone", "GRPO's final score passed", "of the headroom"]
    return table(heads, map(row_of, SETTINGS))


# What `denoise` is measured against beside GRPO: rivals, with a table of their own, and what has a column each.
RIVALS = {
    "par": "PAR",
    "mc_grpo": "MC-GRPO",
    "quantile": "`quantile`",
    "noise_corrected": "`noise_corrected`",
    "confident_learning": "`confident_learning`",
    "nearest_centroid": "`nearest_centroid`",
    "score_agreement": "`score_agreement`",
}
COLUMNS = {
    "geoalign": "GeoAlign",
    "majority_vote": "`majority_vote`",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "denoise_permuted": "states permuted",
    "denoise_states": "without answers",
    "denoise_answers": "without states",
}


def against() -> str:
    """Scores of `denoise` minus those of GeoAlign, controls and its own halves, paired by seed."""
    shown = {arm: label for arm, label in COLUMNS.items() if any(item.level.has(arm) for item in SETTINGS)}

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        yield setting.label
        for arm in shown:
            yield signed(level.score("denoise", arm).interval) if level.has(arm) else "-"

    return table(["`denoise` minus", *shown.values()], map(row_of, SETTINGS))


def _means(means: list[float]) -> str:
    interval = seed_interval(means)
    ends = f" ({signed_number(interval.low, 3)} to {signed_number(interval.high, 3)})" if len(means) > 2 else ""
    return ", ".join(signed_number(mean, 3) for mean in means) + ends


def _gold(level: Level, shown: dict[str, str]) -> Iterator[str]:
    for arm, label in shown.items():
        interval = level.row(arm).gold.difference.interval if level.has(arm) else NOTHING
        if not math.isnan(interval.estimate):
            text = signed_number(interval.estimate, 2)
            yield f"{label.split(' (')[0]} " + (f"**{text}**" if interval.low > 0 or interval.high < 0 else text)


# What else was tried in place of a curator, or of the paper's settings.
TUNED = {
    "geoalign_mended": "GeoAlign mended",
    "grpo_slow": "GRPO, half the learning rate",
    "grpo_kl": "GRPO, KL term",
}


def rivals() -> str:
    """Final scores of what else was tried, minus GRPO's, in the settings where any of them ran."""
    others = {**RIVALS, **TUNED}
    where = [one for one in PLANNED if any(one.level.has(arm) for arm in others)]
    rows = (
        [one.label, *(signed(one.level.score(arm).interval) if one.level.has(arm) else "-" for arm in others)]
        for one in where
    )
    return table(["minus GRPO, six seeds", *others.values()], rows)


KINDS: dict[str, Callable[..., str]] = {
    "arms": arms,
    "gold": gold,
    "settings": settings,
    "units": units,
    "first": first,
    "against": against,
    "rivals": rivals,
}


def with_tables(page: str) -> str:
    """The page with every table made anew."""
    return TABLE.sub(lambda match: f"{match[1]}{KINDS[match[2]](*match[3].split())}{match[4]}", page)


def wrong(path: Path) -> list[str]:
    """What of a page is not as the results have it: its tables, and the sentences that state figures."""
    from evidence_facts import facts

    text = path.read_text(encoding="utf-8")
    words = " ".join(text.split())
    found = [] if with_tables(text) == text else [f"{path.name}: a table differs: run python docs/evidence_tables.py"]
    stated = [fact for page, fact in facts() if page == path.name]
    return found + [f"{path.name}: expected the words {fact!r}" for fact in stated if fact not in words]


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        for page in PAGES:
            page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    problems = [problem for page in PAGES for problem in wrong(page)]
    print("\n".join(problems) or "The tables and figures are those of the results.")
    sys.exit(bool(problems))
