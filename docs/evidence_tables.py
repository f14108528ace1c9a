"""Writes the tables of evidence in docs/evidence.md and README.md from `evidence/`: `python docs/evidence_tables.py`.

With `--check` nothing is written: the exit status is 1 where a table, or a figure in a sentence, is not that of the
results. A table is between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`; figures in sentences are listed in
`docs/evidence_facts.py`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evidence_results import FIRST, PROXIES, ROOT, SETTINGS, Level, Setting, gold_beside_oracle, level_of, unchanged

from geoalign.lab.analysis.comparison.along_curves import mean_over_curve
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


def signed(interval: Interval, digits: int = 3) -> str:
    """`+0.039 (-0.036 to +0.113)`; the estimate alone where there is no interval."""
    if math.isnan(interval.estimate):
        return ""
    estimate, low, high = (_signed(end, digits) for end in (interval.estimate, interval.low, interval.high))
    if math.isnan(interval.low):
        return estimate
    return f"{estimate} ({low} to {high})"


def _signed(number: float, digits: int) -> str:
    text = f"{number:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def percent(interval: Interval) -> str:
    """`+24 (-25 to +64)`; nothing where it is undefined."""
    if math.isnan(interval.low):
        return "" if math.isnan(interval.estimate) else f"{100 * interval.estimate:+.0f}"
    estimate, low, high = (_signed(100 * end, 0) for end in (interval.estimate, interval.low, interval.high))
    return f"{estimate} ({low} to {high})"


def plain(number: float, digits: int) -> str:
    """A number, or nothing where it is unknown."""
    return "" if math.isnan(number) else f"{number:.{digits}f}"


def probability(p: float) -> str:
    """`0.043`, `<0.001`; nothing where it is unknown."""
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    heads = list(heads)
    lines = [f"| {' | '.join(line)} |\n" for line in [heads, *(list(row) for row in rows)]]
    return "".join([lines[0], "|" + "---|" * len(heads) + "\n", *lines[1:]]).replace("|  ", "| ")


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
        area = level.minus(row.arm, lambda cell: mean_over_curve(cell, level.metric)).interval
        yield "" if row.arm == "grpo" else signed(area)
        if gold:
            yield plain(row.gold.interval.estimate, 2) if row.arm == "grpo" else signed(row.gold.difference.interval, 2)
        replaced, right = (
            row.replaced.interval.estimate,
            row.detection.precision.estimate if row.detection else math.nan,
        )
        yield plain(replaced, 1) + ("" if math.isnan(right) or math.isnan(replaced) else f", {right:.0%}")

    heads = ["arm", "seeds", "final", "minus GRPO (95%)", "p", "share of headroom, %", "whole curve minus GRPO"]
    heads += ["gold minus GRPO"] if gold else []
    shown = [arm for arm in NAMES if level.has(arm)]
    return table([*heads, "replaced, right"], (row_of(level.row(arm)) for arm in shown))


def headroom() -> str:
    """Every setting's headroom, and the smallest share of it that the design detects."""

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        sd, judged = level.judged()
        yield setting.label
        yield str(level.score("oracle").pairs)
        yield plain(level.row("grpo").score.interval.estimate, 3)
        yield signed(level.score("oracle").interval)
        yield f"{sd:.3f}" + ("" if judged == "geoalign" else " (oracle)")
        yield _detectable(level)

    heads = ["setting", "seeds", "GRPO", "headroom: oracle minus GRPO (95%)", "sd of differences", "detectable share"]
    return table(heads, map(row_of, SETTINGS))


def _detectable(level: Level) -> str:
    share = level.detectable()
    return "-" if math.isnan(share) else f"{share:.0%}"


# Words, comparison, level and arm of each row of the table of gold utility at equal proxy reward.
GOLD = (
    ("expected rewards, 40%", "dialogue_denoise", "extremes_40", "denoise"),
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
    """One row a setting: GRPO's score, what each curator and the oracle add, and what that does to the gold utility."""
    shown = {arm: label for arm, label in SHOWN.items() if any(item.level.has(arm) for item in SETTINGS)}

    def row_of(setting: Setting) -> Iterator[str]:
        yield from _gains(setting, shown)
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


# What `denoise` is measured against beside GRPO: rivals, of which the best has a column, and what has one each.
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
    "geoalign_mended": "GeoAlign mended",
    "majority_vote": "`majority_vote`",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "denoise_permuted": "states permuted",
    "denoise_states": "without answers",
    "denoise_answers": "without states",
}


def against() -> str:
    """Scores of `denoise` minus those of GRPO, rivals and controls, paired by seed, and the generations it left alone.

    Minus GRPO's: the mean over the seeds of each warm start, and the interval over these where there are three or more.
    Of the rivals the one with the highest score.
    """
    shown = {arm: label for arm, label in COLUMNS.items() if any(item.level.has(arm) for item in SETTINGS)}

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        yield setting.label
        yield _means(level.by_warm_start("denoise"))
        for arm in shown:
            yield signed(level.score("denoise", arm).interval) if level.has(arm) else "-"
        run = [arm for arm in RIVALS if level.has(arm)]
        best = max(run, key=lambda arm: level.row(arm).score.interval.estimate, default=None)
        yield f"{RIVALS[best]}: {signed(level.score('denoise', best).interval)}" if best else "-"
        left = list(unchanged(level, "denoise"))
        yield f"{sum(left)} of {len(left)}"

    heads = ["`denoise` minus", "GRPO, by warm start", *shown.values(), "best rival", "generations unchanged"]
    return table(heads, map(row_of, SETTINGS))


def _means(means: list[float]) -> str:
    interval = seed_interval(means)
    ends = f" ({_signed(interval.low, 3)} to {_signed(interval.high, 3)})" if len(means) > 2 else ""
    return ", ".join(_signed(mean, 3) for mean in means) + ends


def _gold(level: Level, shown: dict[str, str]) -> Iterator[str]:
    for arm, label in shown.items():
        interval = level.row(arm).gold.difference.interval if level.has(arm) else NOTHING
        if not math.isnan(interval.estimate):
            text = _signed(interval.estimate, 2)
            yield f"{label.split(' (')[0]} " + (f"**{text}**" if interval.low > 0 or interval.high < 0 else text)


KINDS: dict[str, Callable[..., str]] = {
    "arms": arms,
    "headroom": headroom,
    "gold": gold,
    "settings": settings,
    "first": first,
    "against": against,
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
