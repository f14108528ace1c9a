"""The tables of version 2 of `denoise`: twenty seeds, true utility on dialogue, controls and rivals."""

from __future__ import annotations

from collections.abc import Iterator

from tools.evidence import runs
from tools.evidence.comparisons import PRIMARY, SECONDARY
from tools.evidence.counting import SEED, WARM_START, counted, gains
from tools.evidence.curves import gold_beside_oracle
from tools.evidence.printing import (
    bold_if,
    excludes_zero,
    listed,
    plain,
    probability,
    signed,
    signed_number,
    table,
)
from tools.evidence.results import Level, level_of
from tools.evidence.runs import Setting

EARLIER = (*runs.EARLIER, runs.EARLIER_SMOLLM2)


def settings() -> str:
    """One row a level: GRPO's score, and what GeoAlign, `denoise` and the oracle add; bold: the gain counts."""
    of_seeds = counted(SEED)

    def row_of(setting: Setting) -> Iterator[str]:
        level = setting.level
        yield setting.label
        yield plain(level.final("grpo"), 2)
        yield _gain(level, "geoalign")
        yield bold_if(setting.label in of_seeds, _gain(level, "denoise"))
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
    rows = ([setting.label, listed(setting.level.by_warm_start("denoise"))] for setting in EARLIER)
    return table(["level", "gain by warm start"], rows)


def gold_at_the_end() -> str:
    """Gold utility minus GRPO's at the end of training; bold: the interval excludes zero."""

    def row_of(setting: Setting) -> Iterator[str]:
        yield setting.label
        for arm in ("geoalign", "denoise", "oracle"):
            gold = setting.level.row(arm).gold.difference.interval
            yield bold_if(excludes_zero(gold), signed_number(gold.estimate, 2))

    dialogue = [one for one in runs.EARLIER if "dialogue" in one.label]
    return table(["level", "GeoAlign", "`denoise`", "oracle"], map(row_of, dialogue))


# Words, comparison, level and arm of each row of the table of gold utility at equal proxy reward.
GOLD = (
    ("version 1, 40%", "dialogue_denoise", "extremes_40", "denoise"),
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
