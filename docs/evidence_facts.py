"""The figures that sentences of docs/evidence.md, evidence/tables.md and README.md state, from `evidence/`.

Each is a run of words that must stand in the page, white space aside: change the sentence and its words here together.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import evidence_claims as claims
import evidence_results as results
from evidence_claims import NUMBERS
from evidence_count import judged
from evidence_results import Level, auroc_at_reward, last_gold, level_of
from evidence_words import probability, signed

from geoalign.lab.analysis.comparison.table import EXPLORATORY
from geoalign.lab.analysis.statistics import holm, paired_difference, seed_interval, share_interval


def facts() -> Iterator[tuple[str, str]]:
    """Name of the page, and words with figures that it must have."""
    for words in (*_summary(), *_parts(), *_paper(), *_verifier(), *_controls(), *_flipped(), *_in_states()):
        yield "evidence.md", words
    for words in (*_tuned(), *_long(), *_of_the_ceiling(), *_ceiling_with_repeated_errors(), *claims.page()):
        yield "evidence.md", words
    for words in (*_twelve(), *_fresh(), *_voted(), *_repeated(), *_appeals(), *_flipped_first()):
        yield "evidence.md", words
        yield "README.md", words
    for words in (*_again(), *_fresh_in_full(), *_appeals_in_full()):
        yield "evidence.md", words
    for words in (*_beside(), *_denoise()):
        yield "tables.md", words
    for words in claims.both_pages():
        yield "evidence.md", words
        yield "README.md", words


def _summary() -> Iterator[str]:
    levels = judged()
    biased, less = levels["dialogue, 40% reversed"], levels["dialogue, less bias, 40% reversed"]
    yield f"at dialogue 40% {_gold(biased, 'denoise')} beside GRPO's, the oracle {_gold(biased, 'oracle')}"
    wide = levels["dialogue, wider model, 40% reversed"]
    gains = _gold(less, "denoise"), _gold(wide, "denoise")
    yield f"with less bias it gains {gains[0]}, with a wider model and reward model {gains[1]}"
    right = [level_of(folder, name) for folder, name in CLEAN_AT.items()]
    costs = [
        f"{signed(one.score('denoise_clean', 'clean').interval)} beside {_final(one, 'clean'):.3f}" for one in right
    ]
    yield "without wrong rewards {} on dialogue, {} with three numbers".format(*costs)
    tried = [level for level in levels.values() if level.has("geoalign")]
    best = max((level.score("geoalign").interval for level in tried), key=lambda interval: interval.estimate)
    yield f"at {NUMBERS[len(tried)]} levels, at best {signed(best)}"
    lost = levels["five numbers, 20% flipped"].score("geoalign").interval
    yield f"with five numbers at 20% it loses {signed(lost)}"
    beaten = sum(level.score("denoise", "geoalign").interval.low > 0 for level in tried)
    yield f"`denoise` is better than it at {NUMBERS[beaten]}"
    vote = level_of("math_hard_denoise", "flip_40")
    voted = vote.row("majority_vote").score.values
    grpo = [value for seed, value in vote.row("grpo").score.values.items() if seed in voted]
    yield f"majority vote ends at {_final(vote, 'majority_vote'):.3f}, GRPO at {sum(grpo) / len(grpo):.3f}"
    top = [_at_most(one.level, "geoalign") for one in results.PLANNED if one.label in LIMITED]
    yield "at most {1} of the headroom on dialogue, {0} on maths with five numbers".format(*top)
    areas = [_auroc_at(level, reward) for reward in (1, 0) for level in ("flip_20", "flip_40")]
    yield (
        f"AUROC {areas[0]:.2f} (20%) and {areas[1]:.2f} (40%) among rollouts with reward 1, {areas[2]:.2f} and "
        f"{areas[3]:.2f} among those with reward 0"
    )


def _at_most(level: Level, arm: str) -> str:
    return f"{100 * level.share(arm).high:.0f}%"


# What else was tried, in the words of the page.
RIVALS = {
    "noise_corrected": "`noise_corrected`",
    "grpo_slow": "half the learning rate",
    "grpo_kl": "a KL term",
    "confident_learning": "`confident_learning`",
    "nearest_centroid": "`nearest_centroid`",
    "score_agreement": "`score_agreement`",
    "par": "PAR",
    "mc_grpo": "MC-GRPO",
    "quantile": "`quantile`",
}


def _beside() -> Iterator[str]:
    """Rivals minus GRPO, and `denoise` minus controls."""
    for level in (level_of("math_denoise", "flip_40"), level_of("dialogue_denoise_again", "extremes_40")):
        for arm, words in RIVALS.items():
            if level.has(arm):
                yield f"{words} {signed(level.score(arm).interval)}"
    twenty = level_of("dialogue_denoise_again", "extremes_20")
    a, b = (signed(twenty.score("denoise", arm).interval) for arm in ("rank_trim", "tie_detector"))
    yield f"`denoise` gains {a} and {b} at dialogue 20%"


def _denoise() -> Iterator[str]:
    first, again = level_of("dialogue", "extremes_20"), level_of("dialogue_again", "extremes_20")
    yield f"p = {first.score('geoalign').p:.3f} of four primary levels"
    yield f"ten new seeds gave {signed(again.score('geoalign').interval)}"
    forty, twenty = (level_of("dialogue_denoise", f"extremes_{rate}") for rate in (40, 20))
    yield f"`denoise` recovered {_share(forty)} of the headroom at 40%, {_share(twenty)} at 20%"
    a, b = (_gold(level, "denoise") for level in (forty, twenty))
    yield f"its gold utility fell: {a} and {b}"
    forty, twenty = (level_of("dialogue_denoise_again", f"extremes_{rate}") for rate in (40, 20))
    few = "denoise_labels_48"
    a, b = (signed(level.minus(few, last_gold, "denoise").interval, 2) for level in (forty, twenty))
    yield f"Gold utility beside `denoise` without labels {a} at 40% and {b} at 20%"
    yield f"proxy reward is then {signed(twenty.score(few).interval)} beside GRPO's"
    maths = level_of("math_denoise", "flip_40")
    parts = level_of("math_denoise", "flip_20")
    counted = [forty, maths, parts, level_of("math_hard_denoise", "flip_40")]
    values = (signed(level.score("geoalign", "pair_count").interval) for level in counted)
    yield "dialogue at 40% {}, three numbers {} and at 20% {}, five numbers {}".format(*values)
    yield _grpo_below_the_oracle()

    ends = [list(results.unchanged(level, "denoise_permuted")) for level in (forty, twenty)]
    a, b = (f"{sum(permuted)} of {len(permuted)}" for permuted in ends)
    yield f"with permuted states {a} generations at 40% and {b} at 20%"


def _parts() -> Iterator[str]:
    """What labels add."""
    twenty, forty = (level_of("dialogue_denoise_again", f"extremes_{rate}") for rate in (20, 40))
    few = "denoise_labels_48"
    yield f"Gold utility beside GRPO's at 20% is {_gold(twenty, few)}, at 40% {_gold(forty, few)}"


def _gold(level: Level, arm: str) -> str:
    return signed(level.row(arm).gold.difference.interval, 2)


def _share(level: Level) -> str:
    share = level.share("denoise")
    return f"{100 * share.estimate:.0f}% ({100 * share.low:.0f} to {100 * share.high:.0f})"


def _grpo_below_the_oracle() -> str:
    """How far below the oracle's GRPO's gold utility is where that of `denoise` is, at equal proxy reward."""
    wide = level_of("dialogue_wide", "extremes_40"), 1.0
    flattery = level_of("dialogue_denoise_again", "shortcut_50"), 1.5
    a, b = (
        level.minus("grpo", lambda cell, at=at: results.gold_at(cell, at), "oracle") for level, at in (wide, flattery)
    )
    return f"{signed(a.interval, 2)} at 1.0 ({a.pairs} seeds), with flattery {signed(b.interval, 2)} at 1.5"


def _verifier() -> Iterator[str]:
    """Under a verifier that errs by itself: the first round, and the other arms."""
    earlier = results.VERIFIER.level.over_warm_starts("denoise").interval
    yield f"it gained {signed(earlier)} over GRPO, not significant"
    level = results.ARMS.level
    arms = ("grpo", "geoalign", "denoise", "denoise_answers", "clean")
    yield "GRPO ends at {:.2f}, GeoAlign at {:.2f}, `denoise` at {:.2f}, without states at {:.2f}, the truth".format(
        *(_final(level, arm) for arm in arms)
    )
    yield f"the truth as the reward at {_final(level, 'clean'):.2f}"
    tests = level.over_warm_starts("geoalign"), level.over_warm_starts("denoise", against="denoise_answers")
    yield f"GeoAlign minus GRPO: {signed(tests[0].interval)}"
    yield f"`denoise` minus itself without states: {signed(tests[1].interval)}"
    (p,) = {f"{each:.2f}" for each in holm([test.p for test in tests])}
    yield f"(both p = {p} after Holm)"
    yield f"ends at {_final(level, 'appeals'):.2f}, {signed(level.over_warm_starts('appeals').interval)} over GRPO"
    share = level.share("appeals", "clean")
    yield f"{share.estimate:.0%} ({share.low:.0%} to {share.high:.0%}) of what the truth gains"
    yield f"{signed(level.over_warm_starts('appeals', against='denoise').interval)} over `denoise`"


def _controls() -> Iterator[str]:
    """Majority vote and labels beside `denoise`, and the strict verifier."""
    level = results.CONTROLS.level
    arms = ("grpo", "majority_vote", "denoise", "denoise_labels_48", "answered", "clean")
    yield (
        "GRPO ends at {:.2f}, a majority vote at {:.2f}, `denoise` at {:.2f}, with 48 labels at {:.2f}, "
        "`answered` at {:.2f}, the truth at {:.2f}".format(*(_final(level, arm) for arm in arms))
    )
    vote = level.over_warm_starts("denoise", against="majority_vote")
    labels = level.over_warm_starts("denoise_labels_48", against="denoise")
    p = holm([vote.p, labels.p])
    yield f"labels minus none: {signed(labels.interval)} (p = {p[0]:.2f} and {p[1]:.2f} after Holm)"
    strict = results.STRICT.level
    truth, ours = (signed(strict.over_warm_starts(arm).interval) for arm in ("clean", "denoise"))
    yield f"the truth as the reward minus GRPO {truth}, `denoise` minus GRPO {ours}"


def _voted() -> Iterator[str]:
    """What both pages say of the majority vote, and of all warm starts together."""
    vote = results.CONTROLS.level.over_warm_starts("denoise", against="majority_vote")
    yield f"`denoise` minus majority vote: {signed(vote.interval)}"
    rounds = (results.AGAIN, results.FRESH, results.ARMS, results.CONTROLS)
    gains = [gain for one in rounds for gain in one.level.by_warm_start("denoise")]
    gain = paired_difference(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0))
    yield f"over all {len(gains)} warm starts `denoise` gains {signed(gain.interval)}"


def _in_states() -> Iterator[str]:
    """GeoAlign where the reward is linear in the states that it reads."""
    level = results.IN_STATES.level
    new = level.row("geoalign").measures["new_group_accuracy"].interval
    yield f"orders {new.estimate:.2f} ({new.low:.2f} to {new.high:.2f}) of new groups' pairs"
    gold = level.minus("geoalign", lambda cell: results.final_score(cell, "gold_utility", 2)[0])
    yield f"minus GRPO {signed(level.over_warm_starts('geoalign').interval)}, gold {signed(gold.interval, 2)}"


def _tuned() -> Iterator[str]:
    """`denoise` and GRPO with the learning rate and KL term that suit each."""
    gains = [one.level.over_warm_starts(ours, against=theirs) for one, ours, theirs in results.TUNED]
    p = holm([gain.p for gain in gains])
    for (one, *_), gain, each in zip(results.TUNED, gains, p, strict=True):
        yield f"{signed(gain.interval)} {one.label} (p = {each:.3f})"
    defaults = (one.level.over_warm_starts("denoise", against=theirs) for one, _, theirs in results.TUNED)
    yield f"by default minus tuned GRPO {', '.join(signed(default.interval) for default in defaults)}"
    fallen = min(results.TUNED[1][0].level.row("denoise").score.values.values())
    yield f"one of four fell to {fallen:.2f}"
    one, ours, theirs = results.TUNED[0]
    yield f"gold then {signed(one.level.minus(ours, last_gold, theirs).interval, 2)}"


def _repeated() -> Iterator[str]:
    """Where the verdict on an answer is wrong each time that it is given."""
    level = results.REPEATED.level
    gain, vote = (level.over_warm_starts("denoise", against=arm) for arm in ("grpo", "majority_vote"))
    p = holm([gain.p, vote.p])
    yield f"{signed(gain.interval)} over GRPO (p = {p[0]:.2f})"
    yield f"{signed(vote.interval)} over a majority vote (p = {p[1]:.2f})"


def _ceiling_with_repeated_errors() -> Iterator[str]:
    """What was there to gain, on the page alone."""
    yield f"right rewards {signed(results.REPEATED.level.over_warm_starts('clean').interval)}"


def _appeals() -> Iterator[str]:
    """And where 26 of 256 responses are checked, `denoise` behind it; what both pages say."""
    level = results.APPEALS.level
    yield f"{signed(level.over_warm_starts('appeals').interval)} over GRPO"
    share = level.share("appeals", "clean")
    yield f"{share.estimate:.0%} ({share.low:.0%} to {share.high:.0%}) of what right rewards gain"
    yield f"with 13 {signed(level.over_warm_starts('appeals_13').interval)}"
    yield f"is {signed(level.over_warm_starts('checked_majority').interval)} over GRPO"


def _appeals_in_full() -> Iterator[str]:
    """And what the page alone says."""
    level = results.APPEALS.level
    gain, vote, rule = (
        level.over_warm_starts("appeals", against=arm) for arm in ("grpo", "majority_vote", "checked_majority")
    )
    (p,) = {probability(each) for each in holm([gain.p, vote.p])}
    yield f"over GRPO and {signed(vote.interval)} over a majority vote (both p {p})"
    yield f"`appeals` {signed(rule.interval)} over it"
    alone = (one.level.over_warm_starts("denoise").interval for one in (results.APPEALS, results.APPEALS_20))
    yield "{}, at 20% {} over GRPO".format(*map(signed, alone))


def _long() -> Iterator[str]:
    """Three times as long: what is left of the gain at the end."""
    gains = [one.level.over_warm_starts("denoise") for one in results.LONG]
    p = holm([gain.p for gain in gains])
    for one, gain, each in zip(results.LONG, gains, p, strict=True):
        steps = one.level.curve("grpo").steps[-1]
        yield f"{signed(gain.interval)} {one.label.split(',')[0]} after {steps} updates (p = {each:.3f})"
    level = results.LONG[0].level
    end = level.row("grpo").score.interval.estimate
    yield f"at update {level.passed('denoise', end)} of {level.curve('grpo').steps[-1]}"
    yield f"gold {signed(level.minus('denoise', last_gold).interval, 2)} after"


def _flipped_first() -> Iterator[str]:
    """Injected flips beside the pretrained model, what both pages say of `denoise`."""
    level = results.FLIPPED.level
    gains = level.by_warm_start("denoise")
    yield signed(level.over_warm_starts("denoise").interval)
    yield f"below GRPO on {NUMBERS[sum(gain < 0 for gain in gains)]} of {NUMBERS[len(gains)]}"
    mended = results.EXPECTED.level.over_warm_starts("denoise_expected")
    yield f"{signed(mended.interval)} over GRPO (p = {mended.p:.3f})"


def _flipped() -> Iterator[str]:
    """The same in full."""
    level = results.FLIPPED.level
    arms = ("grpo", "denoise", "geoalign_mean")
    yield "GRPO ends at {:.2f}, `denoise` at {:.2f}, GeoAlign on the same states at {:.2f}".format(
        *(_final(level, arm) for arm in arms)
    )
    tests = [level.over_warm_starts(arm) for arm in arms[1:]]
    (p,) = {f"{each:.2f}" for each in holm([test.p for test in tests])}
    yield f"{signed(tests[0].interval)} and {signed(tests[1].interval)} over GRPO (both p = {p} after Holm)"
    measures = level.row("geoalign_mean").measures
    new, held = (measures[name].interval for name in ("new_group_accuracy", "heldout_accuracy"))
    yield f"{new.estimate:.2f} ({new.low:.2f} to {new.high:.2f}) of the pairs of new groups"
    yield f"{held.estimate:.2f} of held-out pairs"
    mended = results.EXPECTED.level
    ends = [_final(mended, arm) for arm in ("grpo", "denoise_expected")]
    yield "on four fresh warm starts GRPO ends at {:.2f}, `denoise` at {:.2f}".format(*ends)
    gains = mended.by_warm_start("denoise_expected")
    yield f"above it on {NUMBERS[sum(gain > 0 for gain in gains)]} of {NUMBERS[len(gains)]}"


def _again() -> Iterator[str]:
    """The same with `denoise` mended, on fresh seeds: the primary comparisons."""
    level = results.AGAIN.level
    arms = ("grpo", "answered", "denoise")
    tests = [level.over_warm_starts("denoise", against=arm) for arm in arms[:2]]
    p = holm([test.p for test in tests])
    yield "GRPO ends at {:.2f}, `answered` at {:.2f}, `denoise` at {:.2f}".format(
        *(_over_warm_starts(level, arm) for arm in arms)
    )
    yield f"{signed(tests[0].interval)} over GRPO and {signed(tests[1].interval)} over `answered`"
    yield f"p = {p[0]:.3f} and {p[1]:.3f}"


def _fresh() -> Iterator[str]:
    """With four more warm starts: the primary comparison over all eight, and the share of the truth's gain."""
    levels = [one.level for one in (results.AGAIN, results.FRESH)]
    gains = [gain for level in levels for gain in level.by_warm_start("denoise")]
    gain = paired_difference(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0))
    ends = {arm: mean(end for level in levels for end in _by_warm_start(level, arm)) for arm in ("grpo", "denoise")}
    yield "GRPO ends at {grpo:.2f}, `denoise` at {denoise:.2f}".format(**ends)
    yield f"{signed(gain.interval)} over GRPO (p = {gain.p:.4f}"
    pairs = [pair for level in levels for pair in _above(level)]
    yield f"above GRPO in {sum(pairs)} of {len(pairs)} runs"
    scores = _with_truth(levels)
    truth, grpo, denoise = (scores[arm] for arm in ("clean", "grpo", "denoise"))
    lost = [best - theirs for best, theirs in zip(truth, grpo, strict=True)]
    cost = paired_difference(dict(enumerate(lost)), dict.fromkeys(range(len(lost)), 0.0))
    share = share_interval([mine - theirs for mine, theirs in zip(denoise, grpo, strict=True)], lost)
    yield f"the truth as the reward ends at {mean(truth):.2f}, {signed(cost.interval)} over GRPO"
    yield f"`denoise` has {share.estimate:.0%} ({share.low:.0%} to {share.high:.0%}) of that"


def _fresh_in_full() -> Iterator[str]:
    """What the page says beyond the README of these runs."""
    alone = results.FRESH.level.over_warm_starts("denoise")
    yield f"the four fresh ones alone {signed(alone.interval)}"


def _above(level: Level) -> list[bool]:
    """Of each seed whether `denoise` ends above GRPO."""
    grpo = level.row("grpo").score.values
    return [score > grpo[seed] for seed, score in level.row("denoise").score.values.items()]


def _with_truth(levels: list[Level]) -> dict[str, list[float]]:
    """Final scores of three arms on the seeds with the truth as reward, of which every warm start has one."""
    rows = [(level, seed) for level in levels for seed in level.row("clean").score.values]
    return {arm: [level.row(arm).score.values[seed] for level, seed in rows] for arm in ("clean", "grpo", "denoise")}


def _twelve() -> Iterator[str]:
    """Today's `denoise` under injected wrong rewards, a warm start a seed."""
    levels = [one.level for one in results.TWELVE]
    gains = [level.score("denoise") for level in levels]
    shown = sum(gain.interval.low > 0 and p < 0.05 for gain, p in zip(gains, holm([g.p for g in gains]), strict=True))
    (starts,) = {gain.pairs for gain in gains}  # a seed is reported when it has run at all levels
    above = [mean > 0 for level in levels for mean in level.by_warm_start("denoise")]
    yield f"at {NUMBERS[shown]} of {NUMBERS[len(levels)]} levels with {NUMBERS[starts]} fresh warm starts"
    yield f"in {sum(above)} of {len(above)} runs"
    shares = [level.share("denoise", "clean").estimate for level in levels]
    yield f"{min(shares):.0%} to {max(shares):.0%} of the ceiling"
    forty = next(one.level for one in results.TWELVE if one.label == claims.FORTY)
    yield f"{_gold(forty, 'denoise')} at dialogue 40%"


def _of_the_ceiling() -> Iterator[str]:
    """How uncertain the shares of the gain without wrong rewards are."""
    shares = [one.level.share("denoise", "clean") for one in results.TWELVE]
    yield f"(intervals: {min(share.low for share in shares):.0%} to {max(share.high for share in shares):.0%})"


def _paper() -> Iterator[str]:
    clean = {"math": level_of("math", "flip_00"), "dialogue": level_of("dialogue", "extremes_00")}
    maths, dialogue = (level.score("geoalign").interval for level in clean.values())
    yield f"maths {signed(maths)}, dialogue {signed(dialogue)}"
    yield f"gains above {maths.high:.3f} and {dialogue.high:.3f} are excluded"
    five = level_of("math_headroom", "flip_05"), level_of("dialogue_headroom", "extremes_05")
    a, b, c, d = (_final(level, arm) for level in five for arm in ("grpo", "clean"))
    yield f"GRPO at 5%: maths {a:.3f} against {b:.3f} without errors, dialogue {c:.2f} against {d:.2f}"
    twenty = [level_of(folder, "extremes_20") for folder in results.FIFTEEN]
    forty = level_of("dialogue", "extremes_40")
    yield (
        f"dialogue 20%: AUROC {_auroc(twenty[0], 'score'):.2f}, on new seeds {_auroc(twenty[1], 'score'):.2f}; "
        f"40%: {_auroc(forty, 'score'):.2f}"
    )
    held = [level.row("geoalign").measures["heldout_accuracy"].interval.estimate for level in clean.values()]
    new = [_on_new_groups(level) for level in clean.values()]
    yield f"{held[0]:.2f} and {held[1]:.2f} without errors; on new groups, the relevant number"
    yield f"on new groups, the relevant number, {new[0]:.2f} and {new[1]:.2f}"
    depths = [_held_out(level_of(f"{name}_depth", level)) for name, level in AT_FORTY.items()]
    yield f"maths {min(depths[0]):.2f} to {max(depths[0]):.2f}, dialogue {min(depths[1]):.2f} to {max(depths[1]):.2f}"
    ablations = [level_of(f"{name}_{kind}", level) for name, level in AT_FORTY.items() for kind in ABLATIONS]
    p = [item.adjusted_p for level in ablations for item in level.table.comparisons if item.kind == EXPLORATORY]
    yield f"every p after Holm is {int(10 * min(p)) / 10} or more"
    accuracies = [
        _on_new_groups(level, row.arm) for level in ablations for row in level.table.rows if "geoalign" in row.arm
    ]
    yield f"(accuracy on new groups {min(accuracies):.2f} to {max(accuracies):.2f})"


# Levels whose upper limit of GeoAlign's share the page states.
LIMITED = ("five numbers, 40% flipped", "dialogue, 40% reversed")
# Where the run without wrong rewards stands.
CLEAN_AT = {"dialogue_denoise_again": "extremes_40", "math_denoise": "flip_40"}
AT_FORTY = {"math": "flip_40", "dialogue": "extremes_40"}
ABLATIONS = ("strategies", "alpha", "depth")


def _final(level: Level, arm: str) -> float:
    return level.row(arm).score.interval.estimate


def _over_warm_starts(level: Level, arm: str) -> float:
    """The final score of an arm, of which a warm start's seeds are one."""
    return mean(_by_warm_start(level, arm))


def _by_warm_start(level: Level, arm: str) -> list[float]:
    """The final score of an arm on each warm start."""
    blocks: dict[int, list[float]] = {}
    for seed, score in level.row(arm).score.values.items():
        blocks.setdefault(seed // 2, []).append(score)
    return [mean(scores) for scores in blocks.values()]


def _on_new_groups(level: Level, arm: str = "geoalign") -> float:
    return level.row(arm).measures["new_group_accuracy"].interval.estimate


def _held_out(level: Level) -> list[float]:
    return [row.measures["heldout_accuracy"].interval.estimate for row in level.table.rows if "layers" in row.arm]


def _auroc(level: Level, score: str, arm: str = "geoalign") -> float:
    detection = level.row(arm).detection
    assert detection is not None
    return next(row for row in detection.rows if row.score == score).auroc.estimate


def _auroc_at(level: str, reward: float) -> float:
    areas = level_of("math", level).of("geoalign", lambda cell: auroc_at_reward(cell, reward))
    return seed_interval(list(areas.values())).estimate
