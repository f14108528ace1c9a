"""The kinds of tables on the pages, each a function that makes it from `evidence/`.

In a page a table stands between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from statistics import stdev

from geoalign.lab.compare.table import ArmRow
from geoalign.statistics import PairedDifference, holm
from tools.evidence import audit, counting, index, paper_arms, runs, twenty_seeds, verdicts
from tools.evidence.comparisons import Comparison
from tools.evidence.comparisons import comparisons as comparisons_of
from tools.evidence.comparisons import shares as shares_of
from tools.evidence.printing import (
    bold_if,
    excludes_zero,
    listed,
    percent,
    plain,
    probability,
    signed,
    signed_number,
    table,
)
from tools.evidence.runs import Setting
from tools.evidence.values import values

TABLE_BEGINS = "<!-- evidence:"
TABLE = re.compile(rf"({TABLE_BEGINS} (\w+)((?: [\w=]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


# --- version 3 of `denoise`, twelve warm starts -----------------------------------------------------------------------


def twelve() -> str:
    """One seed on each of twelve warm starts; bold: p < 0.05 after Holm, or a gold utility that excludes zero."""
    found = [one.level.score("denoise") for one in runs.TWELVE]
    corrected = holm([gain.p for gain in found])

    def row_of(setting: Setting, gain: PairedDifference, p: float) -> Iterator[str]:
        level = setting.level
        gold = level.row("denoise").gold.difference.interval
        yield setting.label
        yield plain(level.final("grpo"), 2)
        yield bold_if(gain.interval.low > 0 and p < 0.05, signed(gain.interval))
        yield probability(p)
        yield percent(level.share("denoise", "clean"))
        yield "-" if math.isnan(gold.estimate) else bold_if(excludes_zero(gold), signed(gold, 2))

    heads = [
        "level",
        "GRPO",
        "`denoise`, minus GRPO's (95%)",
        "p after Holm",
        "of ceiling (95%)",
        "gold, minus GRPO's",
    ]
    return table(heads, map(row_of, runs.TWELVE, found, corrected))


def by_start() -> str:
    """The same, warm start by warm start, and by the last evaluation alone."""

    def row_of(setting: Setting) -> Iterator[str]:
        yield setting.label
        yield listed(setting.level.by_warm_start("denoise"))
        yield signed(setting.level.last_evaluation("denoise").interval)

    return table(["level", "gain by warm start", "last evaluation alone (95%)"], map(row_of, runs.TWELVE))


# --- every arm of some levels, and the comparisons of the plans -------------------------------------------------------

SCORES = {
    "substring": (runs.BEFORE_MENDED, runs.ROUND_4, runs.ROUND_5, runs.ROUND_6, runs.ROUND_8),
    "pretrained": (runs.STRICT, runs.FLIPPED, runs.FLIPPED_EXPECTED, runs.IN_STATES),
    "repeated": (runs.REPEATED, runs.APPEALS, runs.APPEALS_20),
    "checks": runs.CHECKS,
    "recipe": (runs.RECIPE,),
    "smollm2": runs.SMOLLM2,
    "tuned": tuple(one.setting for one in runs.TUNED),
    "long": runs.LONG,
}


def scores(group: str) -> str:
    """Every arm of some levels: its final score, and what it gains with warm starts as units."""

    def row_of(setting: Setting, row: ArmRow) -> Iterator[str]:
        level = setting.level
        yield setting.label
        yield f"`{row.arm}`"
        yield str(len(row.seeds))
        yield plain(row.score.interval.estimate, 2)
        yield "-" if row.arm == "grpo" else signed(level.over_warm_starts(row.arm).interval)
        yield plain(row.measures["advantage_cosine"].interval.estimate, 2)

    rows = [(setting, row) for setting in SCORES[group] for row in setting.level.table.rows if row.seeds]
    heads = ["level", "arm", "runs", "final score", "minus GRPO's (95%)", "cosine"]
    return table(heads, (row_of(*each) for each in rows))


def comparisons(*groups: str) -> str:
    """The comparisons of some groups, with p after Holm's correction where the plan calls them primary."""

    def row_of(one: Comparison) -> Iterator[str]:
        yield one.where
        yield one.what
        yield str(one.gain.pairs)
        yield signed(one.gain.interval, one.digits)
        yield _three_digits(one.p)
        yield one.planned

    heads = ["where", "what", "warm starts", "difference (95%)", "p after Holm", "in the plan"]
    return table(heads, (row_of(one) for group in groups for one in comparisons_of(group)))


def _three_digits(p: float) -> str:
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def shares(group: str) -> str:
    """How much of what true rewards gain some arms have."""
    rows = ([one.where, one.what, percent(one.share)] for one in shares_of(group))
    return table(["where", "arm", "of what true rewards gain (95%)"], rows)


# --- no harm where nothing can be known -------------------------------------------------------------------------------


def no_harm(plan: str = "no_harm") -> str:
    """One row a level: GRPO's score, what `denoise` adds with the rule and without, and what is kept of the gain."""
    settings = {"no_harm": runs.NO_HARM, "chance": runs.CHANCE.settings, "kept": runs.KEPT}[plan]

    def row_of(setting: Setting) -> Iterator[str]:
        share = verdicts.share_kept(setting)
        yield setting.label
        yield str(setting.level.over_warm_starts("denoise").pairs)
        yield plain(setting.level.final("grpo"), 2)
        yield signed(verdicts.gain(setting, "denoise"))
        yield signed(verdicts.gain(setting, "denoise_modelled"))
        yield "-" if share is None else f"{share:.0%}"

    heads = [
        "level",
        "warm starts",
        "GRPO",
        "`denoise` minus GRPO (95%)",
        "`unidentified: modelled` minus GRPO (95%)",
        "kept",
    ]
    return table(heads, map(row_of, settings))


def by_seed(plan: str) -> str:
    """One row a level: GRPO's score, what `denoise` adds, and the lowest and highest gain of a seed."""
    settings = {
        "mended": runs.MENDED,
        "exact": runs.EXACT.settings,
        "praise": runs.PRAISE.settings,
        "smollm2": runs.SMOLLM2,
    }[plan]
    secondary = (runs.MENDED_REPEATED, *runs.SMOLLM2)

    def row_of(setting: Setting) -> Iterator[str]:
        gains = verdicts.gains_by_seed(setting)
        yield setting.label
        yield "secondary" if setting in secondary else "primary"
        yield str(setting.level.over_warm_starts("denoise").pairs)
        yield plain(setting.level.final("grpo"), 2)
        yield signed(verdicts.gain(setting, "denoise"))
        yield f"{signed_number(min(gains), 3)} to {signed_number(max(gains), 3)}"

    heads = ["level", "in the plan", "warm starts", "GRPO", "`denoise` minus GRPO (95%)", "by seed"]
    return table(heads, map(row_of, settings))


def by_answers() -> str:
    """One row a level of version 8: what `denoise` adds to GRPO by answers alone, and how that differs from states."""

    def row_of(setting: Setting) -> Iterator[str]:
        gains = verdicts.gains_by_seed(setting, "denoise_answers")
        yield setting.label
        yield str(setting.level.over_warm_starts("denoise_answers").pairs)
        yield plain(setting.level.final("grpo"), 2)
        yield signed(verdicts.gain(setting, "denoise_answers"))
        yield f"{signed_number(min(gains), 3)} to {signed_number(max(gains), 3)}"
        yield signed(verdicts.gain(setting, "denoise_answers", against="denoise"))

    heads = ["level", "warm starts", "GRPO", "`geometry: none` minus GRPO (95%)", "by seed", "minus states (95%)"]
    return table(heads, map(row_of, runs.EXACT.settings))


def two_versions() -> str:
    """One row a level: what versions 8 and 9 add to GRPO, and how they differ on the same warm starts."""

    def row_of(eight: Setting, nine: Setting) -> Iterator[str]:
        yield eight.label
        yield signed(verdicts.gain(eight, "denoise"))
        yield signed(verdicts.gain(nine, "denoise"))
        yield signed(verdicts.difference(nine, eight))

    heads = ["level", "version 8 minus GRPO (95%)", "version 9 minus GRPO (95%)", "version 9 minus version 8 (95%)"]
    return table(heads, map(row_of, runs.EXACT.settings, runs.PRAISE.settings))


def scatter() -> str:
    """How far runs end from GRPO's run of the same seed: of GRPO, nudged, and of `denoise`."""

    def row_of(setting: Setting, arm: str) -> Iterator[str]:
        gains = verdicts.gains_by_seed(setting, arm)
        yield setting.label
        yield f"`{arm}`"
        yield str(len(gains))
        yield signed(verdicts.gain(setting, arm))
        yield plain(stdev(gains), 3)
        yield f"{signed_number(min(gains), 3)} to {signed_number(max(gains), 3)}"

    rows = [
        row_of(setting, arm)
        for nudged, exact in zip(runs.NUDGED, runs.EXACT.hardly, strict=True)
        for setting, arm in ((nudged, "grpo_nudged"), (exact, "denoise"), (exact, "denoise_answers"))
    ]
    heads = ["level", "arm", "warm starts", "minus GRPO (95%)", "standard deviation", "by seed"]
    return table(heads, rows)


# --- the paper, real wrong rewards, the audit, what has not run -------------------------------------------------------


def _filled(text: str) -> str:
    """The text with each `{name}` replaced by that value."""
    return re.sub(r"\{([\w.]+)\}", lambda match: values()[match[1]], text)


PAPER = (
    (
        "Highest score without injected errors (maths +1.6% and +2.1%)",
        "maths {paper.clean_maths}, dialogue {paper.clean_dialogue}",
        "not tested: five seeds of one warm start, and the paper's gain would be {paper.gain_on_maths} here, well "
        "inside the interval",
    ),
    (
        "5% errors cost GRPO much, GeoAlign less",
        "GRPO with 5% and without errors: maths {paper.grpo_5_maths} and {paper.true_5_maths}, "
        "dialogue {paper.grpo_5_dialogue} and {paper.true_5_dialogue}",
        "not testable",
    ),
    (
        "Errors concentrate at high GDI, on dialogue",
        "AUROC {paper.auroc_dialogue_20} at 20%, on new seeds {paper.auroc_dialogue_20_again}; "
        "{paper.auroc_dialogue_40} at 40%",
        "at 20%, not at 40%",
    ),
    (
        "The same on maths",
        "AUROC at 20% and 40%, among rewards of 1 {paper.auroc_maths_20_reward_1} and {paper.auroc_maths_40_reward_1}, "
        "among rewards of 0 {paper.auroc_maths_20_reward_0} and {paper.auroc_maths_40_reward_0}",
        "it finds wrong answers, not wrong rewards",
    ),
    (
        "Accuracy on held-out pairs above 97%, 85%",
        "without errors {paper.heldout_maths} (maths) and {paper.heldout_dialogue} (dialogue); on new groups "
        "{paper.new_groups_maths} and {paper.new_groups_dialogue}",
        "not reproduced here",
    ),
    (
        "Accuracy does not depend on depth",
        "held-out pairs, 2 to 5 layers: maths {paper.depth_math_lowest} to {paper.depth_math_highest}, dialogue "
        "{paper.depth_dialogue_lowest} to {paper.depth_dialogue_highest}; on new groups "
        "{paper.depth_new_groups_lowest} to {paper.depth_new_groups_highest}",
        "not testable: accuracy on new groups is at chance",
    ),
    (
        "Which strategy is best, a peak of alpha",
        "every p after Holm is {paper.ablations_p} or more; accuracy on new groups "
        "{paper.ablations_new_groups_lowest} to {paper.ablations_new_groups_highest}",
        "not distinguishable",
    ),
)


def paper() -> str:
    """The paper's claims, what was measured here, and the verdict."""
    return table(["claim of the paper", "here", "verdict"], ([_filled(cell) for cell in row] for row in PAPER))


HUMANEVAL = {
    "verdicts": "the verdicts",
    "denoise": "`denoise`, one chosen state",
    "denoise_all_states": "`denoise`, all 24 states",
    "geoalign": "GeoAlign, the paper's settings",
    "consensus": "CodeT's consensus of checks, without any states",
}


def humaneval() -> str:
    """How often a correct solution stands above a wrong one."""

    def row_of(name: str, words: str) -> Iterator[str]:
        yield words
        yield values()[f"humaneval.{name}"]
        yield values().get(f"humaneval.{name}_gain", "-")

    heads = ["score", "P(a correct solution stands above a wrong one)", "minus the verdicts' (95%)"]
    return table(heads, (row_of(*each) for each in HUMANEVAL.items()))


def audit_intervals() -> str:
    """How many of the intervals of the audit that say something hold, by source and kind."""
    return _audit_table(audit.by_source())


def audit_rows() -> str:
    """The same of every kind of tables."""
    return _audit_table(audit.rows())


def _audit_table(rows: tuple[audit.Tables, ...]) -> str:
    def row_of(one: audit.Tables) -> Iterator[str]:
        yield one.words
        for held in (one.bounds, one.model):
            yield str(held)
            yield "-" if held.median_width is None else f"{held.median_width:.2f}"
        yield str(one.not_known)

    heads = ["tables", "by bounds: held", "median width", "by the model: held", "median width", "not known"]
    return table(heads, map(row_of, rows))


NOT_RUN = {
    "math_hard": "five numbers",
    "math_wide": "three numbers, wider model",
    "dialogue_wide": "dialogue, wider model",
    "dialogue_unbiased": "dialogue, less bias",
}


def not_run() -> str:
    """The planned levels that have not run."""
    planned = counting.planned_levels()

    def rows() -> Iterator[list[str]]:
        for plan in dict.fromkeys(one.plan for one in planned):
            missing = [f"`{one.name}`" for one in planned if one.plan == plan and not one.has_run]
            if missing:
                yield [f"`{plan}.yaml`", NOT_RUN[plan], ", ".join(missing)]

    return table(["plan", "task", "levels without a run"], rows())


def arms_not_run() -> str:
    """The planned arms that have run at none of a task's levels."""
    rows = []
    for words, task in {"maths": "math", "dialogue": "dialogue"}.items():
        rows.append([words, ", ".join(f"`{arm}`" for arm in counting.arms_without_a_run(task))])
    return table(["task", "arms without a run"], rows)


KINDS: dict[str, Callable[..., str]] = {
    "twelve": twelve,
    "by_start": by_start,
    "scores": scores,
    "comparisons": comparisons,
    "shares": shares,
    "no_harm": no_harm,
    "by_seed": by_seed,
    "by_answers": by_answers,
    "scatter": scatter,
    "two_versions": two_versions,
    "settings": twenty_seeds.settings,
    "units": twenty_seeds.units,
    "blocks": twenty_seeds.blocks,
    "gold_at_the_end": twenty_seeds.gold_at_the_end,
    "gold": twenty_seeds.gold,
    "dialogue_40": twenty_seeds.dialogue_40,
    "controls": twenty_seeds.controls,
    "pairs": twenty_seeds.pairs,
    "paper": paper,
    "humaneval": humaneval,
    "audit": audit_intervals,
    "audit_rows": audit_rows,
    "index": index.index,
    "paper_arms": paper_arms.arms,
    "steady": paper_arms.steady,
    "not_run": not_run,
    "arms_not_run": arms_not_run,
}


@functools.cache
def table_of(kind: str, *arguments: str) -> str:
    """A table of the results."""
    return KINDS[kind](*arguments)


def with_tables(text: str) -> str:
    """The text of a page with every table made anew."""
    return TABLE.sub(lambda match: f"{match[1]}{table_of(match[2], *match[3].split())}{match[4]}", text)
