"""Writes the tables of evidence in docs/evidence.md and README.md from `evidence/`: `python docs/evidence_tables.py`.

With `--check` nothing is written: the exit status is 1 where a table, or a figure in a sentence, is not that of the
results. A table is between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`; figures in sentences are listed in
`docs/evidence_facts.py`.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from geoalign.lab.analysis.comparison.along_curves import at_equal, mean_over_curve
from geoalign.lab.analysis.comparison.analysis import analyse
from geoalign.lab.analysis.comparison.table import EXPLORATORY, PRIMARY, ArmRow, LevelTable
from geoalign.lab.analysis.statistics import (
    Interval,
    PairedDifference,
    paired_difference,
    share_interval,
    smallest_detectable,
    spread,
)
from geoalign.lab.store.comparison_plan import read_plan
from geoalign.lab.store.comparison_results import Cell, read_results

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "evidence.md", ROOT / "README.md")
TABLE = re.compile(r"(<!-- evidence: (\w+)((?: [\w=]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
# The arms of the tables in their order; a comparison's report has all of them.
NAMES = {
    "grpo": "GRPO",
    "geoalign": "**GeoAlign**",
    "pair_count": "`pair_count`",
    "reward_distance": "`reward_distance`",
    "pf_ppo_br": "PF-PPO BR",
    "pf_ppo_bw": "PF-PPO BW",
    "par": "PAR",
    "pods": "PODS",
    "seed_grpo": "Seed-GRPO",
    "geoalign_best_guess": "ours: best guess",
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


@dataclass(frozen=True)
class Level:
    """One level of one comparison: its table and its cells."""

    table: LevelTable
    cells: tuple[Cell, ...]
    metric: str

    def has(self, arm: str) -> bool:
        """Whether the arm has a finished run here."""
        row = self.table.row(arm)
        return row is not None and bool(row.seeds)

    def row(self, arm: str) -> ArmRow:
        """The row of an arm."""
        row = self.table.row(arm)
        if row is None:
            raise LookupError(f"evidence: expected an arm of {self.table.level}, got {arm}")
        return row

    def of(self, arm: str, number: Callable[[Cell], float]) -> dict[int, float]:
        """A number of each finished cell of an arm, by seed."""
        return {cell.seed: number(cell) for cell in self.cells if cell.arm == arm and cell.finished}

    def minus(self, arm: str, number: Callable[[Cell], float], against: str = "grpo") -> PairedDifference:
        """The paired difference of a number of two arms."""
        return paired_difference(self.of(arm, number), self.of(against, number))

    def score(self, arm: str, against: str = "grpo") -> PairedDifference:
        """The paired difference of the final scores of two arms."""
        return paired_difference(self.row(arm).score.values, self.row(against).score.values)

    def differences(self, arm: str, against: str = "grpo") -> list[float]:
        """Final scores minus those of another arm, of the seeds that GRPO, the oracle and both arms have."""
        mine, theirs = self.row(arm).score.values, self.row(against).score.values
        return [mine[seed] - theirs[seed] for seed in self.seeds if seed in mine and seed in theirs]

    @property
    def seeds(self) -> list[int]:
        """Seeds of both GRPO and the oracle."""
        return sorted(set(self.row("grpo").score.values) & set(self.row("oracle").score.values))

    def share(self, arm: str) -> Interval:
        """The share of the headroom that an arm recovered, with Fieller's interval."""
        mine = self.row(arm).score.values
        seeds = [seed for seed in self.seeds if seed in mine]
        grpo, oracle = self.row("grpo").score.values, self.row("oracle").score.values
        return share_interval([mine[s] - grpo[s] for s in seeds], [oracle[s] - grpo[s] for s in seeds])


@functools.cache
def level_of(folder: str, name: str) -> Level:
    """A level of the comparison in `evidence/<folder>`."""
    root = ROOT / "evidence" / folder
    plan, cells = read_plan(root), read_results(root)
    table = next(level for level in analyse(cells, plan).levels if level.level == name)
    return Level(table, tuple(cell for cell in cells if cell.level == name), plan.metric)


@dataclass(frozen=True)
class Setting:
    """A setting of the README's table and figure: words, and the comparison and level that it is."""

    label: str
    folder: str
    name: str

    @property
    def level(self) -> Level:
        """Its results."""
        return level_of(self.folder, self.name)


# The first comparisons: each reward corrupted independently, one warm start for all seeds.
FIRST_MATHS = (
    Setting("maths, 20% flipped", "math", "flip_20"),
    Setting("maths, 40%", "math", "flip_40"),
    Setting("maths, shortcut rewarded", "math_shortcut", "shortcut_50"),
)
FIRST_DIALOGUE = (
    Setting("dialogue, 20% reversed", "dialogue", "extremes_20"),
    Setting("dialogue, 20%, new seeds", "dialogue_again", "extremes_20"),
    Setting("dialogue, 40%", "dialogue", "extremes_40"),
    Setting("dialogue, flattery rewarded", "dialogue_shortcut", "shortcut_50"),
)
# As the paper corrupts, a fixed share of every prompt's rewards, on dialogue exactly on the extremes.
SETTINGS = (
    Setting("three numbers, 20% flipped", "math_denoise", "flip_20"),
    Setting("three numbers, 40% flipped", "math_denoise", "flip_40"),
    Setting("five numbers, 40% flipped", "math_hard_denoise", "flip_40"),
    Setting("dialogue, 10% reversed", "dialogue_denoise_again", "extremes_10"),
    Setting("dialogue, 20% reversed", "dialogue_denoise_again", "extremes_20"),
    Setting("dialogue, 40% reversed", "dialogue_denoise_again", "extremes_40"),
    Setting("dialogue, less bias, 40% reversed", "dialogue_unbiased", "extremes_40"),
    Setting("SmolLM2-135M, sums, 40% flipped", "real_maths", "flip_40"),
)
FIRST = (*FIRST_MATHS, *FIRST_DIALOGUE)
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


def arms(folder: str, name: str, *options: str) -> str:
    """The arms of a level that have a name here, but those that follow `without`."""
    level = level_of(folder, name)
    left_out = options[1:] if options[:1] == ("without",) else ()
    gold = any(not math.isnan(row.gold.interval.estimate) for row in level.table.rows)

    def row_of(row: ArmRow) -> Iterator[str]:
        kind = next((item for item in level.table.comparisons if (item.arm, item.against) == (row.arm, "grpo")), None)
        p = math.nan
        if kind is not None:
            p = {PRIMARY: kind.difference.p, EXPLORATORY: kind.adjusted_p}.get(kind.kind, math.nan)
        yield NAMES[row.arm]
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

    heads = ["arm", "final", "minus GRPO (95%)", "p", "share of headroom, %", "whole curve minus GRPO"]
    heads += ["gold minus GRPO"] if gold else []
    shown = [arm for arm in NAMES if arm not in left_out and level.has(arm)]
    return table([*heads, "replaced, right"], (row_of(level.row(arm)) for arm in shown))


def headroom() -> str:
    """Every setting's headroom, and the smallest share of it that the design detects."""

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        sd, judged = _judged(level)
        yield setting.label
        yield str(level.score("oracle").pairs)
        yield plain(level.row("grpo").score.interval.estimate, 3)
        yield signed(level.score("oracle").interval)
        yield f"{sd:.3f}" + ("" if judged == "geoalign" else " (oracle)")
        for seeds in (level.score("oracle").pairs, 20):
            yield _detectable(level, seeds)

    heads = ["setting", "seeds", "GRPO", "headroom: oracle minus GRPO (95%)", "sd of differences"]
    return table([*heads, "detectable share", "with 20 seeds"], map(row_of, SETTINGS))


def _judged(level: Level) -> tuple[float, str]:
    """The standard deviation of GeoAlign's differences to GRPO, or of the oracle's where it did not run; and whose."""
    arm = "geoalign" if level.has("geoalign") else "oracle"
    return spread(level.differences(arm)), arm


def _detectable(level: Level, seeds: int) -> str:
    """The smallest share of the headroom that so many seeds detect; a dash where there is none."""
    room = level.score("oracle").interval
    return f"{smallest_detectable(_judged(level)[0], seeds) / room.estimate:.0%}" if room.low > 0 else "-"


EQUAL_PROXY = 1.8
FIFTEEN = ("dialogue", "dialogue_again")


def fifteen(arm: str, number: Callable[[Cell], float]) -> dict[int, float]:
    """A number of an arm at dialogue 20%, by seed, of the five first and ten new seeds."""
    return {
        seed: value for folder in FIFTEEN for seed, value in level_of(folder, "extremes_20").of(arm, number).items()
    }


def gold_at_equal_proxy(arm: str) -> PairedDifference:
    """Gold utility minus GRPO's where each first reaches the same proxy reward, fifteen seeds."""

    def gold(cell: Cell) -> float:
        return gold_at(cell, EQUAL_PROXY)

    return paired_difference(fifteen(arm, gold), fifteen("grpo", gold))


# Words, comparison, level and arm of each row of the table of gold utility at equal proxy reward.
GOLD = (
    ("expected rewards, 40%", "dialogue_denoise", "extremes_40", "denoise"),
    *(
        (f"{words}, {rate}%", "dialogue_denoise_again", f"extremes_{rate}", arm)
        for words, arm, rates in (
            ("unbiased", "denoise", (40, 20)),
            ("48 labels", "denoise_labels_48", (40, 20)),
            ("256 labels", "denoise_labels_256", (40,)),
        )
        for rate in rates
    ),
)


def gold() -> str:
    """Gold utility of `denoise` minus the oracle's where each first reaches the same proxy reward."""
    rewards = (0.5, 1.0, 1.5, 2.0)

    def row_of(words: str, folder: str, name: str, arm: str) -> Iterator[str]:
        level = level_of(folder, name)
        yield words
        for reward in rewards:
            yield signed(level.minus(arm, lambda cell, at=reward: gold_at(cell, at), "oracle").interval, 2)

    return table(
        ["`denoise`", *(f"at a proxy reward of {reward}" for reward in rewards)], (row_of(*row) for row in GOLD)
    )


def gold_at(cell: Cell, proxy: float) -> float:
    """Gold utility where the run first reaches a proxy reward."""
    return at_equal(cell, "reward", proxy, "gold_utility")


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
        yield _detectable(setting.level, setting.level.score("oracle").pairs)
        yield _golds(setting.level, shown)

    heads = ["setting", "GRPO", *shown.values(), "oracle", "detectable share", "gold utility, minus GRPO's"]
    return table(heads, map(row_of, FIRST))


def _gains(setting: Setting, shown: dict[str, str]) -> Iterator[str]:
    level = setting.level
    yield setting.label
    yield plain(level.row("grpo").score.interval.estimate, 2)
    for arm in shown:
        yield signed(level.score(arm).interval) if level.has(arm) else "-"


def _golds(level: Level, shown: dict[str, str]) -> str:
    return ", ".join(_gold(level, {**shown, "oracle": "oracle"})) or "-"


# What `denoise` is measured against beside GRPO.
RIVALS = {
    "geoalign": "GeoAlign",
    "majority_vote": "`majority_vote`",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "pair_count": "`pair_count`",
    "denoise_permuted": "states permuted",
    "denoise_states": "without answers",
    "denoise_answers": "without states",
}


def unchanged(level: Level, arm: str) -> Iterator[bool]:
    """Of each generation whether the curator left its advantages as they were."""
    for cell in level.cells:
        if cell.arm == arm:
            cosines = (cell.series[name] for name in ("advantage_cosine", "observed_advantage_cosine"))
            yield from (given == observed for given, observed in zip(*cosines, strict=True) if not math.isnan(given))


def against() -> str:
    """Scores of `denoise` minus those of its rivals and controls, paired by seed, and the generations it left alone."""
    shown = {arm: label for arm, label in RIVALS.items() if any(item.level.has(arm) for item in SETTINGS)}

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        yield setting.label
        for arm in shown:
            yield signed(level.score("denoise", arm).interval) if level.has(arm) else "-"
        left = list(unchanged(level, "denoise"))
        yield f"{sum(left)} of {len(left)}"

    return table(["`denoise` minus", *shown.values(), "generations unchanged"], map(row_of, SETTINGS))


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
