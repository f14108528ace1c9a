"""The kinds of tables on the pages, each a function that makes it from `evidence/`.

In a page a table stands between `<!-- evidence: KIND ARGUMENTS -->` and `<!-- end -->`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator

from geoalign.lab.compare.table import ArmRow
from geoalign.statistics import Interval, PairedDifference, holm
from tools.evidence import audit, counting, index, paper_arms, runs, verdicts
from tools.evidence.comparisons import PRIMARY, SECONDARY, Comparison
from tools.evidence.comparisons import comparisons as comparisons_of
from tools.evidence.comparisons import shares as shares_of
from tools.evidence.counting import SEED, WARM_START, counted, gains
from tools.evidence.curves import gold_beside_oracle
from tools.evidence.printing import percent, plain, probability, signed, signed_number, table
from tools.evidence.results import Level, level_of
from tools.evidence.runs import Setting
from tools.evidence.values import values

TABLE_BEGINS = "<!-- evidence:"
TABLE = re.compile(rf"({TABLE_BEGINS} (\w+)((?: [\w=]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


# --- a later `denoise`, twelve warm starts ----------------------------------------------------------------------------


def twelve() -> str:
    """One seed on each of twelve warm starts; bold: p < 0.05 after Holm, or a gold utility that excludes zero."""
    found = [one.level.score("denoise") for one in runs.TWELVE]
    corrected = holm([gain.p for gain in found])

    def row_of(setting: Setting, gain: PairedDifference, p: float) -> Iterator[str]:
        level = setting.level
        gold = level.row("denoise").gold.difference.interval
        yield setting.label
        yield plain(level.final("grpo"), 2)
        yield _bold_if(gain.interval.low > 0 and p < 0.05, signed(gain.interval))
        yield probability(p)
        yield percent(level.share("denoise", "clean"))
        yield "-" if math.isnan(gold.estimate) else _bold_if(_excludes_zero(gold), signed(gold, 2))

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
        yield _gains_by_warm_start(setting.level)
        yield signed(setting.level.last_evaluation("denoise").interval)

    return table(["level", "gain by warm start", "last evaluation alone (95%)"], map(row_of, runs.TWELVE))


def _gains_by_warm_start(level: Level) -> str:
    return ", ".join(signed_number(gain, 3) for gain in level.by_warm_start("denoise"))


def _excludes_zero(interval: Interval) -> bool:
    return interval.low > 0 or interval.high < 0


def _bold_if(condition: bool, text: str) -> str:
    return f"**{text}**" if condition else text


# --- every arm of some levels, and the comparisons of the plans -------------------------------------------------------

SCORES = {
    "substring": (runs.BEFORE_MENDED, runs.ROUND_4, runs.ROUND_5, runs.ROUND_6, runs.ROUND_8),
    "pretrained": (runs.STRICT, runs.FLIPPED, runs.FLIPPED_EXPECTED, runs.IN_STATES),
    "repeated": (runs.REPEATED, runs.APPEALS, runs.APPEALS_20),
    "checks": runs.CHECKS,
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


def no_harm() -> str:
    """One row a level: GRPO's score, what today's and the earlier `denoise` add to it, and what is kept of the gain."""

    def row_of(setting: Setting) -> Iterator[str]:
        share = verdicts.share_kept(setting)
        yield setting.label
        yield str(setting.level.over_warm_starts("denoise").pairs)
        yield plain(setting.level.final("grpo"), 2)
        yield signed(verdicts.gain(setting, "denoise"))
        yield signed(verdicts.gain(setting, "denoise_modelled"))
        yield "-" if share is None else f"{share:.0%}"

    heads = ["level", "warm starts", "GRPO", "`denoise` minus GRPO (95%)", "earlier `denoise` minus GRPO (95%)", "kept"]
    return table(heads, map(row_of, runs.NO_HARM))


# --- the earlier `denoise`, twenty seeds ------------------------------------------------------------------------------

EARLIER = (*runs.EARLIER, runs.EARLIER_SMOLLM2)


def settings() -> str:
    """One row a level: GRPO's score, and what GeoAlign, `denoise` and the oracle add; bold: the gain counts."""
    of_seeds = counted(SEED)

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        yield setting.label
        yield plain(level.final("grpo"), 2)
        yield _gain(level, "geoalign")
        yield _bold_if(setting.label in of_seeds, _gain(level, "denoise"))
        yield signed_number(level.score("oracle").interval.estimate, 3)

    return table(["level", "GRPO", "GeoAlign", "`denoise`", "oracle"], map(row_of, EARLIER))


def _gain(level: Level, arm: str) -> str:
    if not level.has(arm):
        return "-"
    gain = level.score(arm)
    some = f", {gain.pairs} seeds" if gain.pairs < len(level.seeds) else ""
    return signed(gain.interval) + some


def units() -> str:
    """p values by seeds and by warm starts, when `denoise` has GRPO's final score, and its share of the headroom."""
    by_seeds = gains(SEED)
    by_warm_starts = gains(WARM_START)
    count_by_seeds = counted(SEED)
    count_by_warm_starts = counted(WARM_START)

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        label = setting.label
        yield label
        yield probability(by_seeds[label].p) if label in by_seeds else "-"
        yield probability(by_warm_starts[label].p) if label in by_warm_starts else "-"
        if label in count_by_warm_starts:
            yield "both"
        else:
            yield "seeds" if label in count_by_seeds else "-"
        yield f"{level.passed('denoise', level.final('grpo'))} of {level.updates()}"
        yield f"{level.share('denoise').estimate:.0%}"

    heads = ["level", "p, seeds", "p, warm starts", "counts by", "passed", "of the headroom"]
    return table(heads, map(row_of, EARLIER))


def blocks() -> str:
    """The gain of `denoise` on each warm start, mean over its seeds."""
    rows = ([setting.label, _gains_by_warm_start(setting.level)] for setting in EARLIER)
    return table(["level", "gain by warm start"], rows)


def gold_at_the_end() -> str:
    """Gold utility minus GRPO's at the end of training; bold: the interval excludes zero."""

    def row_of(setting: Setting) -> Iterator[str]:
        yield setting.label
        for arm in ("geoalign", "denoise", "oracle"):
            gold = setting.level.row(arm).gold.difference.interval
            yield _bold_if(_excludes_zero(gold), signed_number(gold.estimate, 2))

    dialogue = [one for one in runs.EARLIER if "dialogue" in one.label]
    return table(["level", "GeoAlign", "`denoise`", "oracle"], map(row_of, dialogue))


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
SHOWN_PROXIES = (0.5, 1.0, 1.5, 2.0)


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


# The arms of dialogue at 40% in their order; a comparison's report has all of them.
DIALOGUE_ARMS = {
    "geoalign": "GeoAlign",
    "denoise": "`denoise`",
    "denoise_permuted": "`denoise`, states permuted",
    "denoise_labels_48": "`denoise`, 48 labels",
    "denoise_labels_256": "`denoise`, 256 labels",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "oracle": "oracle",
    "clean": "no wrong rewards: GRPO",
    "denoise_clean": "no wrong rewards: `denoise`",
}


def dialogue_40() -> str:
    """The arms of dialogue at 40%: score and gold utility minus GRPO's."""
    level = level_of("dialogue_denoise_again", "extremes_40")

    def row_of(arm: str, words: str) -> Iterator[str]:
        row = level.row(arm)
        yield words
        yield str(len(row.seeds))
        yield signed(row.score.difference.interval)
        yield signed(row.gold.difference.interval, 2)

    heads = ["arm", "seeds", "minus GRPO (95%)", "gold minus GRPO"]
    return table(heads, (row_of(arm, words) for arm, words in DIALOGUE_ARMS.items()))


# Levels at which parts of `denoise`, controls and rivals ran, and those arms.
COMPARED = (runs.THREE_20, runs.THREE_40, runs.FIVE_40, runs.DIALOGUE_20, runs.DIALOGUE_40)
CONTROLS = {
    "denoise_states": "`denoise`, its states alone",
    "denoise_answers": "`denoise`, its answers alone",
    "denoise_permuted": "`denoise`, states permuted",
    "majority_vote": "`majority_vote`",
    "rank_trim": "`rank_trim`",
    "tie_detector": "`tie_detector`",
    "pair_count": "`pair_count`",
    "noise_corrected": "`noise_corrected`",
    "grpo_slow": "GRPO, half the learning rate",
    "grpo_kl": "GRPO with a KL term",
    "par": "PAR",
    "mc_grpo": "MC-GRPO",
    "quantile": "`quantile`",
    "confident_learning": "`confident_learning`",
    "nearest_centroid": "`nearest_centroid`",
    "score_agreement": "`score_agreement`",
}


def controls() -> str:
    """Parts of `denoise`, controls and rivals, minus GRPO."""
    levels = {one.label: one.level for one in runs.EARLIER}

    def rows() -> Iterator[list[str]]:
        for label in COMPARED:
            for arm, words in CONTROLS.items():
                if levels[label].has(arm):
                    gain = levels[label].score(arm)
                    yield [label, words, str(gain.pairs), signed(gain.interval)]

    return table(["level", "arm", "seeds", "minus GRPO (95%)"], rows())


# Pairs of arms of which neither is GRPO: level, arm, other arm.
PAIRS = (
    (runs.DIALOGUE_20, "denoise", "denoise_permuted"),
    (runs.DIALOGUE_40, "denoise", "denoise_permuted"),
    (runs.DIALOGUE_20, "denoise", "rank_trim"),
    (runs.DIALOGUE_20, "denoise", "tie_detector"),
    (runs.THREE_20, "denoise", "denoise_answers"),
    (runs.FIVE_40, "denoise", "denoise_answers"),
    (runs.DIALOGUE_20, "geoalign", "pair_count"),
    (runs.DIALOGUE_40, "geoalign", "pair_count"),
    (runs.THREE_40, "geoalign", "pair_count"),
    (runs.THREE_20, "geoalign", "pair_count"),
    (runs.FIVE_40, "geoalign", "pair_count"),
)


def pairs() -> str:
    """`denoise` and GeoAlign minus controls."""
    levels = {one.label: one.level for one in runs.EARLIER}

    def row_of(label: str, arm: str, against: str) -> list[str]:
        gain = levels[label].score(arm, against)
        planned = PRIMARY if arm == "geoalign" else SECONDARY
        return [label, f"`{arm}` minus `{against}`", str(gain.pairs), signed(gain.interval), planned]

    return table(["level", "what", "seeds", "difference (95%)", "in the plan"], (row_of(*pair) for pair in PAIRS))


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
    "settings": settings,
    "units": units,
    "blocks": blocks,
    "gold_at_the_end": gold_at_the_end,
    "gold": gold,
    "dialogue_40": dialogue_40,
    "controls": controls,
    "pairs": pairs,
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
