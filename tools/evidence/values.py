"""Every number that the prose of the pages on evidence may print, computed from `evidence/`, by a name.

`python -m tools.evidence.values [PREFIX]` prints names and values. Which page prints which of them is declared in
`tools.evidence.pages`. A value is the text that stands on the page: `0.62`, `93% (83% to 106%)`, `77 of 84`.
"""

from __future__ import annotations

import functools
import json
import sys
from statistics import mean
from typing import Any

from geoalign.lab.compare.table import EXPLORATORY
from geoalign.statistics import Interval, holm, seed_interval
from tools.evidence import audit, counting, newest_plans, runs
from tools.evidence.comparisons import (
    GROUPS,
    SHARES,
    comparisons,
    on_seeds_with_true_rewards,
    shares,
    substring_final,
)
from tools.evidence.counting import SEED, WARM_START
from tools.evidence.curves import auroc_at_reward, gold_at, gold_beside_oracle, last_gold, unchanged
from tools.evidence.outlier_rule import batches
from tools.evidence.printing import Named, interval, percent, plain, probability, signed, signed_number
from tools.evidence.results import ROOT, Level, level_of

# The arms whose final scores are told together, and their names in the names of values.
ARM_NAMES = {"grpo": "grpo", "denoise": "denoise", "clean": "true"}


def _of_the_audit() -> Named:
    real, *_, everything = audit.by_source()
    yield "audit.real_held", str(real.both)
    yield "audit.real_width", f"{real.both.median_width:.2f}"
    yield "audit.intervals_held", str(everything.both)
    yield "audit.bounds_held", str(everything.bounds)
    yield "audit.model_held", str(everything.model)
    yield "audit.not_known", str(everything.not_known)
    row_of = {row.words: row for row in audit.that_failed()}
    yield "audit.offsets_model_held", str(row_of.pop("a score with offsets of prompts").model)
    spellings = row_of.pop("right answers in two spellings")
    yield "audit.spellings_bounds_held", str(spellings.bounds)
    yield "audit.spellings_model_held", str(spellings.model)
    yield "audit.quarter_model_held", str(row_of.pop("a quarter of the errors repeat").model)
    yield "audit.near_coin_model_held", str(row_of.pop("hardly better than a coin").model)
    if row_of:
        raise LookupError(f"intervals of the audit fail where no page says so: {', '.join(row_of)}")


def _of_comparisons() -> Named:
    """Each comparison: its estimate, its estimate with the interval, and its p value."""
    for group in GROUPS:
        for one in comparisons(group):
            yield one.name, signed_number(one.gain.interval.estimate, one.digits)
            yield f"{one.name}.interval", signed(one.gain.interval, one.digits)
            yield f"{one.name}.p", probability(one.p)
    (eight,) = [one for one in comparisons("substring") if one.name == "substring.gain"]
    yield "substring.gain.p_exactly", f"{eight.p:.4f}"
    for group in SHARES:
        for share in shares(group):
            yield share.name, f"{share.share.estimate:.0%}"
            yield f"{share.name}.interval", percent(share.share)


def _of_smollm2() -> Named:
    """Final scores of SmolLM2, level by level, and how many runs are above GRPO."""
    for arm, name in ARM_NAMES.items():
        yield f"substring.{name}_final", plain(substring_final(arm), 2)
    for arm in ("grpo", "denoise"):
        yield f"substring.{arm}_final_beside_true", plain(mean(on_seeds_with_true_rewards(arm)), 2)
    levels = [runs.ROUND_4.level, runs.ROUND_5.level]
    # GRPO has two runs on each warm start of round 4, and one of round 5.
    yield "substring.before", plain(mean([level.before() for level in levels]), 2)
    yield "flipped.before", plain(runs.FLIPPED.level.before(), 2)
    above = [denoise > level.scores("grpo")[seed] for level in levels for seed, denoise in _runs_of_denoise(level)]
    yield "substring.runs_above", f"{sum(above)} of {len(above)}"
    for name, level in {"flipped": runs.FLIPPED.level, "flipped_expected": runs.FLIPPED_EXPECTED.level}.items():
        for row in level.table.rows:
            if row.seeds:
                yield f"{name}.{row.arm}_final", plain(level.final(row.arm), 2)
    below = [gain < 0 for gain in runs.FLIPPED.level.by_warm_start("denoise")]
    yield "flipped.warm_starts_below", f"{sum(below)} of {len(below)}"
    above_expected = [gain > 0 for gain in runs.FLIPPED_EXPECTED.level.by_warm_start("denoise_expected")]
    yield "flipped_expected.warm_starts_above", f"{sum(above_expected)} of {len(above_expected)}"
    measures = runs.FLIPPED.level.row("geoalign_mean").measures
    yield "flipped.new_group_accuracy", interval(measures["new_group_accuracy"].interval)
    yield "flipped.heldout_accuracy", plain(measures["heldout_accuracy"].interval.estimate, 2)
    in_states = runs.IN_STATES.level.row("geoalign").measures["new_group_accuracy"].interval
    yield "in_states.new_group_accuracy", interval(in_states)


def _runs_of_denoise(level: Level) -> list[tuple[int, float]]:
    return list(level.scores("denoise").items())


def _of_the_twelve() -> Named:
    """Version 3 of `denoise` with one seed on each of twelve fresh warm starts."""
    levels = {one.label: one.level for one in runs.TWELVE}
    gains = [level.score("denoise") for level in levels.values()]
    corrected = holm([gain.p for gain in gains])
    found = [gain.interval.low > 0 and p < 0.05 for gain, p in zip(gains, corrected, strict=True)]
    yield "twelve.significant", f"{sum(found)} of {len(found)}"
    above = [gain > 0 for level in levels.values() for gain in level.by_warm_start("denoise")]
    yield "twelve.runs_above", f"{sum(above)} of {len(above)}"
    found_shares = [level.share("denoise", "clean") for level in levels.values()]
    yield "twelve.share_lowest", f"{min(share.estimate for share in found_shares):.0%}"
    yield "twelve.share_highest", f"{max(share.estimate for share in found_shares):.0%}"
    yield "twelve.share_interval_lowest", f"{min(share.low for share in found_shares):.0%}"
    yield "twelve.share_interval_highest", f"{max(share.high for share in found_shares):.0%}"
    for arm, name in ARM_NAMES.items():
        yield f"three_numbers_40.{name}_final", plain(levels[runs.THREE_40].final(arm), 2)
        yield f"five_numbers_40.{name}_final", plain(levels[runs.FIVE_40].final(arm), 2)
    five_40 = levels[runs.FIVE_40]
    of_grpo = five_40.scores("grpo")
    gains = [score - of_grpo[seed] for seed, score in five_40.scores("denoise").items()]
    yield "five_numbers_40.farthest_below", plain(-min(gains), 3)
    yield "three_numbers_40.before", plain(levels[runs.THREE_40].before(), 2)
    yield "five_numbers_40.before", plain(levels[runs.FIVE_40].before(), 2)
    on_dialogue = [levels[label].row("denoise").gold for label in (runs.DIALOGUE_20, runs.DIALOGUE_40, runs.LESS_BIAS)]
    fell = sum(gold.difference.interval.high < 0 for gold in on_dialogue)
    yield "twelve.gold_fell", f"{fell} of {len(on_dialogue)}"
    gold = levels[runs.DIALOGUE_40].row("denoise").gold.difference.interval
    yield "twelve.gold_at_dialogue_40", signed_number(gold.estimate, 2)
    yield "twelve.gold_at_dialogue_40.interval", signed(gold, 2)


def _of_the_earlier() -> Named:
    """Version 2 of `denoise`: twenty seeds in four blocks, eleven levels."""
    levels = {one.label: one.level for one in runs.EARLIER}
    by_level = {label: level.by_warm_start("denoise") for label, level in levels.items()}
    means = [gain for gains in by_level.values() for gain in gains]
    yield "earlier.means_above", f"{sum(gain > 0 for gain in means)} of {len(means)}"
    of_pairs: dict[tuple[str, int], list[float]] = {}
    for one in runs.EARLIER:
        for place, gain in enumerate(by_level[one.label]):
            of_pairs.setdefault((one.folder, place), []).append(gain)
    pairs_above = sum(mean(gains) > 0 for gains in of_pairs.values())
    yield "earlier.pairs_above", f"{pairs_above} of {len(of_pairs)}"
    by_seeds = counting.counted(SEED)
    yield "earlier.counted_by_seeds", f"{len(by_seeds)} of {len(levels)}"
    yield "earlier.counted_by_warm_starts", f"{len(counting.counted(WARM_START))} of {len(levels)}"
    found_shares = {label: level.share("denoise").estimate for label, level in levels.items()}
    counted_shares = [found_shares[label] for label in by_seeds]
    yield "earlier.counted_share_lowest", f"{min(counted_shares):.0%}"
    yield "earlier.counted_share_highest", f"{max(counted_shares):.0%}"
    yield "earlier.share_lowest", f"{min(found_shares.values()):.0%}"
    yield "earlier.share_highest", f"{max(found_shares.values()):.0%}"
    flipped = [one.level for one in runs.EARLIER if "flipped" in one.label]
    for arm in ("denoise", "oracle"):
        cosines = [level.cosine(arm) for level in flipped]
        yield f"earlier.{arm}_cosine_lowest", plain(min(cosines), 2)
        yield f"earlier.{arm}_cosine_highest", plain(max(cosines), 2)
    yield from _of_geoalign(levels)
    vote = level_of("math_hard_denoise", "flip_40")
    voted = vote.scores("majority_vote")
    grpo = [score for seed, score in vote.scores("grpo").items() if seed in voted]
    yield "earlier.majority_vote_final_five_40", plain(vote.final("majority_vote"), 3)
    yield "earlier.grpo_final_five_40", plain(mean(grpo), 3)
    for name, (folder, level_name) in _WITHOUT_WRONG_REWARDS.items():
        level = level_of(folder, level_name)
        yield f"clean.{name}_costs", signed(level.score("denoise_clean", "clean").interval)
        yield f"clean.{name}_final", plain(level.final("clean"), 3)


_WITHOUT_WRONG_REWARDS = {
    "dialogue": ("dialogue_denoise_again", "extremes_40"),
    "three_numbers": ("math_denoise", "flip_40"),
}


def _of_geoalign(levels: dict[str, Level]) -> Named:
    tried = {label: level for label, level in levels.items() if level.has("geoalign")}
    gains = {label: level.score("geoalign").interval for label, level in tried.items()}
    confirmed = sum(gain.low > 0 for gain in gains.values())
    yield "geoalign.levels_gained", f"{confirmed} of {len(tried)}"
    yield "geoalign.best", signed(max(gains.values(), key=lambda gain: gain.estimate))
    yield "geoalign.five_20", signed(gains[runs.FIVE_20])
    beside = [level for level in tried.values() if level.has("pair_count")]
    above = sum(level.score("geoalign", "pair_count").interval.low > 0 for level in beside)
    yield "geoalign.levels_above_pair_count", f"{above} of {len(beside)}"
    beaten = sum(level.score("denoise", "geoalign").interval.low > 0 for level in tried.values())
    yield "geoalign.below_denoise", f"{beaten} of {len(tried)}"
    for name, label in {"dialogue_40": runs.DIALOGUE_40, "five_40": runs.FIVE_40}.items():
        yield f"geoalign.share_at_most_{name}", f"{levels[label].share('geoalign').high:.0%}"


def _of_dialogue() -> Named:
    """True utility, labels, and the first rounds on dialogue."""
    level_at = {rate: level_of("dialogue_denoise_again", f"extremes_{rate}") for rate in (20, 40)}
    labels = "denoise_labels_48"
    for rate, level in level_at.items():
        yield f"gold.labels_{rate}", _gold(level, labels)
        beside = level.minus(labels, last_gold, "denoise").interval
        yield f"gold.labels_minus_denoise_{rate}", signed(beside, 2)
        permuted = list(unchanged(level, "denoise_permuted"))
        yield f"dialogue.permuted_unchanged_{rate}", f"{sum(permuted)} of {len(permuted)}"
    yield "gold.labels_proxy_20", signed(level_at[20].score(labels).interval)
    for arm in ("rank_trim", "tie_detector"):
        yield f"dialogue.minus_{arm}_20", signed(level_at[20].score("denoise", arm).interval)
    for arm in ("denoise", "oracle"):
        yield f"gold.{arm}_dialogue_40", _gold(level_at[40], arm)
    yield "gold.denoise_less_bias", _gold(level_of("dialogue_unbiased", "extremes_40"), "denoise")
    wide = level_of("dialogue_wide", "extremes_40")
    yield "gold.denoise_wider", _gold(wide, "denoise")
    grpo_wide = wide.minus("grpo", lambda run: gold_at(run, 1.0), "oracle")
    yield "gold.grpo_wider_at_1", signed(grpo_wide.interval, 2)
    flattery = level_of("dialogue_denoise_again", "shortcut_50")
    grpo_flattery = flattery.minus("grpo", lambda run: gold_at(run, 1.5), "oracle")
    yield "gold.grpo_flattery_at_1_5", signed(grpo_flattery.interval, 2)
    for rate in (40, 20):
        first = level_of("dialogue_denoise", f"extremes_{rate}")
        share = first.share("denoise")
        yield f"first_round.share_{rate}", percent(share)
        yield f"first_round.gold_{rate}", _gold(first, "denoise")
    yield "first_round.geoalign_p", f"{level_of('dialogue', 'extremes_20').score('geoalign').p:.3f}"
    yield "first_round.geoalign_again", signed(level_of("dialogue_again", "extremes_20").score("geoalign").interval)


def _gold(level: Level, arm: str) -> str:
    return signed(level.row(arm).gold.difference.interval, 2)


def _of_repeated_errors() -> Named:
    """Final scores where errors repeat with the answer, on the warm starts on which `appeals` ran."""
    for arm, name in {**ARM_NAMES, "appeals": "appeals", "checked_majority": "checked_majority"}.items():
        yield f"repeated_40.{name}_final", plain(runs.APPEALS.level.final(arm), 2)
    yield "repeated_40.before", plain(runs.APPEALS.level.before(), 2)


def _of_tuning() -> Named:
    five = runs.TUNED[1].setting.level
    yield "tuned.lowest_default_five_numbers", plain(min(five.scores("denoise").values()), 2)
    dialogue = runs.LONG_DIALOGUE.level
    yield "long.dialogue_passed", f"{dialogue.passed('denoise', dialogue.final('grpo'))} of {dialogue.updates()}"


# --- the paper's claims -----------------------------------------------------------------------------------------------

CLEAN = {"maths": ("math", "flip_00"), "dialogue": ("dialogue", "extremes_00")}
# The paper's gain over GRPO on maths without injected errors, as a share of GRPO's score.
GAIN_OF_THE_PAPER = 0.016
AT_FORTY = {"math": "flip_40", "dialogue": "extremes_40"}
ABLATIONS = ("strategies", "alpha", "depth")


def _of_the_paper() -> Named:
    for task, (folder, name) in CLEAN.items():
        level = level_of(folder, name)
        gain = level.score("geoalign").interval
        yield f"paper.clean_{task}", signed(gain)
        yield f"paper.heldout_{task}", plain(level.row("geoalign").measures["heldout_accuracy"].interval.estimate, 2)
        yield f"paper.new_groups_{task}", plain(_on_new_groups(level), 2)
    for task, folder, name, digits in (
        ("maths", "math_headroom", "flip_05", 3),
        ("dialogue", "dialogue_headroom", "extremes_05", 2),
    ):
        level = level_of(folder, name)
        yield f"paper.grpo_5_{task}", plain(level.final("grpo"), digits)
        yield f"paper.true_5_{task}", plain(level.final("clean"), digits)
    yield "paper.auroc_dialogue_20", plain(_auroc(level_of("dialogue", "extremes_20")), 2)
    yield "paper.auroc_dialogue_20_again", plain(_auroc(level_of("dialogue_again", "extremes_20")), 2)
    yield "paper.auroc_dialogue_40", plain(_auroc(level_of("dialogue", "extremes_40")), 2)
    for rate in (20, 40):
        for reward in (1, 0):
            yield f"paper.auroc_maths_{rate}_reward_{reward}", plain(_auroc_at(f"flip_{rate}", reward), 2)
    for task, name in AT_FORTY.items():
        held = _held_out(level_of(f"{task}_depth", name))
        yield f"paper.depth_{task}_lowest", plain(min(held), 2)
        yield f"paper.depth_{task}_highest", plain(max(held), 2)
    depths = [row for name in AT_FORTY for row in _depth_accuracies(name)]
    yield "paper.depth_new_groups_lowest", plain(min(depths), 2)
    yield "paper.depth_new_groups_highest", plain(max(depths), 2)
    yield "paper.gain_on_maths", signed_number(GAIN_OF_THE_PAPER * level_of(*CLEAN["maths"]).final("grpo"))
    yield from _of_the_arms_of_the_paper()
    yield from _of_ablations()


def _depth_accuracies(task: str) -> list[float]:
    level = level_of(f"{task}_depth", AT_FORTY[task])
    return [_on_new_groups(level, row.arm) for row in level.table.rows if "layers" in row.arm]


def _of_the_arms_of_the_paper() -> Named:
    """The best guess on dialogue at 20%, GeoAlign and its rivals on maths at 40%, and the outlier rule of the runs."""
    for name, folder in {"best_guess": "dialogue", "best_guess_again": "dialogue_again"}.items():
        level = level_of(folder, "extremes_20")
        gain = level.score("geoalign_best_guess")
        yield f"paper.{name}", signed_number(gain.interval.estimate)
        yield f"paper.{name}.interval", signed(gain.interval)
        yield f"paper.{name}.p", probability(gain.p)
        gold = level.row("geoalign_best_guess").gold.difference.interval
        yield f"paper.{name}_gold", signed_number(gold.estimate, 2)
        yield f"paper.{name}_gold.interval", signed(gold, 2)
    for name, (folder, proxy) in {"best_guess": ("dialogue", 1.5), "best_guess_again": ("dialogue_again", 2.0)}.items():
        (gold,) = gold_beside_oracle(level_of(folder, "extremes_20"), "geoalign_best_guess", (proxy,))
        yield f"paper.{name}_gold_at_equal_proxy", signed(gold.interval, 2)
    maths = level_of("math", "flip_40")
    for arm in ("grpo", "geoalign", "pf_ppo_br", "pf_ppo_bw", "pods"):
        yield f"paper.{arm}_maths_40", plain(maths.final(arm), 3)
    for arm in ("pf_ppo_br", "pf_ppo_bw", "pods", "par", "seed_grpo"):
        for task, level in {"maths": maths, "dialogue": level_of("dialogue", "extremes_40")}.items():
            yield f"paper.geoalign_minus_{arm}_{task}_40", signed(level.score("geoalign", arm).interval)
    for task in ("maths", "dialogue"):
        found = batches(task)
        yield f"rule.{task}_batches_that_differ", f"{found.differ} of {found.count}"
        yield f"rule.{task}_flags", f"{found.flags_then:,} and {found.flags_today:,}"


def _of_ablations() -> Named:
    """The smallest p value of the ablations, rounded down, and accuracy on new groups in them."""
    levels = [level_of(f"{task}_{kind}", name) for task, name in AT_FORTY.items() for kind in ABLATIONS]
    tests = [one.adjusted_p for level in levels for one in level.table.comparisons if one.kind == EXPLORATORY]
    yield "paper.ablations_p", str(int(10 * min(tests)) / 10)
    rows = [(level, row.arm) for level in levels for row in level.table.rows if "geoalign" in row.arm]
    accuracies = [_on_new_groups(level, arm) for level, arm in rows]
    yield "paper.ablations_new_groups_lowest", plain(min(accuracies), 2)
    yield "paper.ablations_new_groups_highest", plain(max(accuracies), 2)


def _on_new_groups(level: Level, arm: str = "geoalign") -> float:
    return level.row(arm).measures["new_group_accuracy"].interval.estimate


def _held_out(level: Level) -> list[float]:
    return [row.measures["heldout_accuracy"].interval.estimate for row in level.table.rows if "layers" in row.arm]


def _auroc(level: Level) -> float:
    detection = level.row("geoalign").detection
    assert detection is not None
    return next(row for row in detection.rows if row.score == "score").auroc.estimate


def _auroc_at(level: str, reward: float) -> float:
    areas = level_of("math", level).of("geoalign", lambda run: auroc_at_reward(run, reward))
    return seed_interval(list(areas.values())).estimate


# --- real wrong rewards -----------------------------------------------------------------------------------------------

HUMANEVAL = {
    "verdicts": "observed reward",
    "denoise": "denoise",
    "denoise_all_states": "denoise, all states",
    "geoalign": "geoalign, paper's",
    "consensus": "consensus of checks",
}


def _of_humaneval() -> Named:
    """P(a correct solution stands above a wrong one), and what a score gains over the verdicts."""
    for name, score in HUMANEVAL.items():
        row = _humaneval_row(score)
        yield f"humaneval.{name}", f"{row['order'][0]:.3f}"
        if name != "verdicts":
            yield f"humaneval.{name}_gain", signed(Interval(*row["gain"]))


def _humaneval_row(score: str) -> dict[str, Any]:
    rows = []
    for name in ("positions", "geoalign"):
        file = ROOT / "evidence" / "wrong_rewards" / f"humaneval_codegen16b_{name}.json"
        rows += json.loads(file.read_text(encoding="utf-8"))["rows"]
    return next(
        row
        for row in rows
        if row["view"] == "verdict: at least 0.5" and row["batches"] == "one" and row["score"] == score
    )


SOURCES = (
    _of_the_audit,
    _of_comparisons,
    _of_smollm2,
    _of_the_twelve,
    _of_the_earlier,
    _of_dialogue,
    _of_repeated_errors,
    newest_plans.all_values,
    _of_tuning,
    _of_the_paper,
    _of_humaneval,
)


@functools.cache
def values() -> dict[str, str]:
    """Every value by its name."""
    found: dict[str, str] = {}
    for source in SOURCES:
        for name, value in source():
            if name in found:
                raise LookupError(f"two values are called {name}")
            found[name] = value
    return found


def main(arguments: list[str]) -> int:
    """Prints the values whose names begin with a prefix; where none does, the known beginnings."""
    prefix = "".join(arguments[:1])
    found = {name: value for name, value in values().items() if name.startswith(prefix)}
    for name, value in found.items():
        print(f"{name:44}  {value}")
    if found:
        return 0
    beginnings = dict.fromkeys(name.partition(".")[0] for name in values())
    print(f"No name begins with {prefix!r}. Names begin with: {', '.join(beginnings)}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
