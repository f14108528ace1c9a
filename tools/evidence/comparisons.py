"""The comparisons of two arms that the plans ask for, group by group, with p values after Holm's correction.

The names begin with the group, `substring.denoise_minus_grpo`: `tools.evidence.values` gives each as printed.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from geoalign.statistics import Interval, PairedDifference, holm, share_interval
from tools.evidence import runs
from tools.evidence.curves import last_gold
from tools.evidence.results import Level, difference_from_zero
from tools.evidence.runs import Setting

PRIMARY = "primary"
SECONDARY = "secondary"
UNPLANNED = "unplanned"


@dataclass(frozen=True)
class Comparison:
    """What an arm gains over another, and how the plan has it; `p` is NaN where the plan makes no claim."""

    name: str
    where: str
    what: str
    gain: PairedDifference
    planned: str
    p: float = math.nan
    digits: int = 3


@dataclass(frozen=True)
class Share:
    """How much of what true rewards gain an arm has, with Fieller's interval."""

    name: str
    where: str
    what: str
    share: Interval


def _corrected(*primary: Comparison) -> list[Comparison]:
    """Comparisons with their p values by Holm's correction over them."""
    p = holm([one.gain.p for one in primary])
    return [replace(one, p=float(corrected)) for one, corrected in zip(primary, p, strict=True)]


def _one(
    name: str,
    where: str,
    level: Level,
    arm: str,
    against: str = "grpo",
    *,
    planned: str = SECONDARY,
) -> Comparison:
    words = f"`{arm}` minus `{against}`"
    return Comparison(name, where, words, level.over_warm_starts(arm, against=against), planned)


def substring() -> list[Comparison]:
    """SmolLM2 under the verifier that rewards the correct number anywhere in a response."""
    first = runs.BEFORE_MENDED.level
    again = runs.ROUND_4.level
    fresh = runs.ROUND_5.level
    arms = runs.ROUND_6.level
    controls = runs.ROUND_8.level
    eight = difference_from_zero(again.by_warm_start("denoise") + fresh.by_warm_start("denoise"))
    of_all = [gain for level in (again, fresh, arms, controls) for gain in level.by_warm_start("denoise")]
    return [
        *_corrected(
            _one("substring.earlier", "rounds 1 to 3, before it was mended", first, "denoise", planned=PRIMARY),
            _one(
                "substring.earlier_minus_answer_mean",
                "rounds 1 to 3, before it was mended",
                first,
                "denoise",
                "answer_mean",
                planned=PRIMARY,
            ),
        ),
        *_corrected(
            _one("substring.round_4", "round 4", again, "denoise", planned=PRIMARY),
            _one("substring.minus_answered", "round 4", again, "denoise", "answered", planned=PRIMARY),
        ),
        *_corrected(
            Comparison("substring.gain", "rounds 4 and 5 together", "`denoise` minus `grpo`", eight, PRIMARY),
        ),
        _one("substring.round_5", "round 5 alone", fresh, "denoise"),
        Comparison("substring.true_gain", "rounds 4 and 5", "`clean` minus `grpo`", _true_gain(), SECONDARY),
        *_corrected(
            _one("substring.geoalign", "round 6", arms, "geoalign", planned=PRIMARY),
            _one("substring.states", "round 6", arms, "denoise", "denoise_answers", planned=PRIMARY),
        ),
        _one("substring.appeals", "round 6", arms, "appeals"),
        _one("substring.appeals_minus_denoise", "round 6", arms, "appeals", "denoise"),
        *_corrected(
            _one("substring.minus_majority", "round 8", controls, "denoise", "majority_vote", planned=PRIMARY),
            _one("substring.labels", "round 8", controls, "denoise_labels_48", "denoise", planned=PRIMARY),
        ),
        Comparison(
            "substring.all",
            f"rounds 4, 5, 6 and 8, {len(of_all)} warm starts",
            "`denoise` minus `grpo`",
            difference_from_zero(of_all),
            UNPLANNED,
        ),
    ]


def on_seeds_with_true_rewards(arm: str) -> list[float]:
    """Final scores in rounds 4 and 5 on the seeds on which `clean` has run, one on each warm start."""
    scores = []
    for level in (runs.ROUND_4.level, runs.ROUND_5.level):
        of_arm = level.scores(arm)
        scores += [of_arm[seed] for seed in level.scores("clean")]
    return scores


def _minus_grpo_with_true_rewards(arm: str) -> list[float]:
    grpo = on_seeds_with_true_rewards("grpo")
    return [mine - theirs for mine, theirs in zip(on_seeds_with_true_rewards(arm), grpo, strict=True)]


def _true_gain() -> PairedDifference:
    return difference_from_zero(_minus_grpo_with_true_rewards("clean"))


def substring_final(arm: str) -> float:
    """The final score over the eight warm starts of rounds 4 and 5: of true rewards on one seed of each."""
    if arm == "clean":
        ends = on_seeds_with_true_rewards(arm)
    else:
        ends = runs.ROUND_4.level.ends_by_warm_start(arm) + runs.ROUND_5.level.ends_by_warm_start(arm)
    return sum(ends) / len(ends)


def substring_shares() -> list[Share]:
    """How much of what true rewards gain under that verifier `denoise` and `appeals` have."""
    of_denoise = share_interval(_minus_grpo_with_true_rewards("denoise"), _minus_grpo_with_true_rewards("clean"))
    return [
        Share("substring.share", "rounds 4 and 5", "`denoise`", of_denoise),
        Share("substring.appeals_share", "round 6", "`appeals`", runs.ROUND_6.level.share("appeals", "clean")),
    ]


def strict() -> list[Comparison]:
    """SmolLM2 under the verifier that refuses correct answers for their form."""
    level = runs.STRICT.level
    return [
        _one("strict.true_gain", "round 8", level, "clean"),
        *_corrected(_one("strict.gain", "round 8", level, "denoise", planned=PRIMARY)),
    ]


def flipped() -> list[Comparison]:
    """SmolLM2 with 40% of the verdicts flipped, and with a reward that is linear in its states."""
    level = runs.FLIPPED.level
    in_states = runs.IN_STATES.level
    gold = in_states.minus("geoalign", lambda run: run.final_score("gold_utility", 2))
    reward = "reward linear in the states"
    return [
        *_corrected(
            _one("flipped.gain", "40% flipped, round 6", level, "denoise", planned=PRIMARY),
            _one("flipped.geoalign", "40% flipped, round 6", level, "geoalign_mean", planned=PRIMARY),
        ),
        *_corrected(
            _one(
                "flipped.expected",
                "40% flipped, `least_slope: 1`, round 7",
                runs.FLIPPED_EXPECTED.level,
                "denoise_expected",
                planned=PRIMARY,
            )
        ),
        *_corrected(
            _one("in_states.geoalign", f"{reward}, round 8, proxy reward", in_states, "geoalign", planned=PRIMARY),
        ),
        Comparison(
            "in_states.gold",
            f"{reward}, round 8, gold utility",
            "`geoalign` minus `grpo`",
            gold,
            SECONDARY,
            digits=2,
        ),
    ]


def repeated() -> list[Comparison]:
    """Three numbers, where the verdict on an answer is wrong each time that it is given."""
    first = runs.REPEATED.level
    level = runs.APPEALS.level
    twenty = runs.APPEALS_20.level
    eight = "40%, first eight warm starts"
    more = "40%, eight more"
    return [
        *_corrected(
            _one("repeated.gain", eight, first, "denoise", planned=PRIMARY),
            _one("repeated.minus_majority", eight, first, "denoise", "majority_vote", planned=PRIMARY),
        ),
        _one("repeated.true_gain", eight, first, "clean"),
        *_corrected(
            _one("appeals.gain", more, level, "appeals", planned=PRIMARY),
            _one("appeals.minus_majority", more, level, "appeals", "majority_vote", planned=PRIMARY),
        ),
        _one("appeals.with_13", more, level, "appeals_13"),
        _one("appeals.checked_majority", more, level, "checked_majority"),
        _one(
            "appeals.minus_checked_majority",
            more,
            level,
            "appeals",
            "checked_majority",
            planned=UNPLANNED,
        ),
        _one("appeals.denoise", more, level, "denoise"),
        _one("appeals.denoise_at_20", "20%, eight more", twenty, "denoise"),
    ]


def repeated_shares() -> list[Share]:
    """How much of what true rewards gain there other arms have."""
    first = runs.REPEATED.level
    level = runs.APPEALS.level
    twenty = runs.APPEALS_20.level
    return [
        _share("repeated.share", "40%, first eight warm starts", first, "denoise"),
        _share("repeated.majority_vote_share", "40%, first eight warm starts", first, "majority_vote"),
        _share("appeals.denoise_share", "40%, eight more", level, "denoise"),
        _share("appeals.majority_vote_share", "40%, eight more", level, "majority_vote"),
        Share("appeals.share", "40%, eight more", "`appeals`, 26 checks", level.share("appeals", "clean")),
        Share("appeals.share_with_13", "40%, eight more", "`appeals`, 13 checks", level.share("appeals_13", "clean")),
        Share(
            "appeals.checked_majority_share",
            "40%, eight more",
            "`checked_majority`, 16 checks",
            level.share("checked_majority", "clean"),
        ),
        _share("appeals.denoise_share_at_20", "20%, eight more", twenty, "denoise"),
        Share("appeals.share_at_20", "20%, eight more", "`appeals`, 26 checks", twenty.share("appeals", "clean")),
    ]


def _share(name: str, where: str, level: Level, arm: str) -> Share:
    return Share(name, where, f"`{arm}`", level.share(arm, "clean"))


# The rivals of `appeals_13`: all four have to be below it for it to lead at a level.
RIVALS = ("majority_13", "majority_denoise_13", "care_13", "care_denoise_13")
_OTHERS = ("informative_13", "negatives_13", "random_13", "appeals_13_shipped")
_OTHER_BUDGETS = {
    "appeals_6": ("majority_6", "care_6", "random_6", "majority_13", "care_13"),
    "appeals_26": ("majority_26", "care_26", "random_26"),
}


def checks() -> list[Comparison]:
    """Which responses to check: ours minus each rival, at equal numbers of distinct checks and with fewer."""
    found = []
    for setting in runs.CHECKS:
        for rival in RIVALS:
            found.append(_of_checks(setting, "appeals_13", rival, planned=PRIMARY))
        for other in _OTHERS:
            found.append(_of_checks(setting, "appeals_13", other))
        for ours, others in _OTHER_BUDGETS.items():
            for other in others:
                found.append(_of_checks(setting, ours, other))
    return found


def _of_checks(setting: Setting, ours: str, other: str, *, planned: str = SECONDARY) -> Comparison:
    name = f"checks.{setting.name}.{ours}_minus_{other}"
    return _one(name, setting.label, setting.level, ours, other, planned=planned)


def checks_shares() -> list[Share]:
    """How much of what true rewards gain the arms with checks have."""
    found = []
    for setting in runs.CHECKS:
        for row in setting.level.table.rows:
            if row.arm not in ("grpo", "clean"):
                share = setting.level.share(row.arm, "clean")
                found.append(Share(f"checks.{setting.name}.{row.arm}_share", setting.label, f"`{row.arm}`", share))
    return found


def recipe() -> list[Comparison]:
    """Does `appeals` do by answers alone what it does with hidden states?"""
    level = runs.RECIPE.level
    where = runs.RECIPE.label
    return [
        *_corrected(_one("recipe.gain", where, level, "appeals_answers", planned=PRIMARY)),
        _one("recipe.minus_states", where, level, "appeals_answers", "appeals_states"),
    ]


def recipe_shares() -> list[Share]:
    """How much of what true rewards gain both have."""
    level = runs.RECIPE.level
    return [
        Share(f"recipe.{arm}_share", runs.RECIPE.label, f"`{arm}`", level.share(arm, "clean"))
        for arm in ("appeals_answers", "appeals_states")
    ]


def no_harm() -> list[Comparison]:
    """Is `denoise` anywhere below GRPO, and does it keep what `denoise_modelled` gained?"""
    found = []
    for setting in runs.NO_HARM:
        key = f"no_harm.{setting.folder.removesuffix('_no_harm')}.{setting.name}"
        found.append(_one(key, setting.label, setting.level, "denoise", planned=PRIMARY))
        found.append(_one(f"{key}.modelled", setting.label, setting.level, "denoise_modelled"))
    return found


def mended() -> list[Comparison]:
    """Is the mended `denoise` anywhere below GRPO?"""
    found = []
    for setting in runs.MENDED:
        planned = PRIMARY if setting in runs.MENDED_FLIPPED else SECONDARY
        key = f"mended.{setting.folder.removesuffix('_mended')}.{setting.name}"
        found.append(_one(key, setting.label, setting.level, "denoise", planned=planned))
    return found


def tuned() -> list[Comparison]:
    """`denoise` and GRPO with the learning rate and KL term that suit each; 40% of the rewards are wrong."""
    primary = []
    defaults = []
    for one in runs.TUNED:
        key = one.setting.label.replace(" ", "_")
        where = one.setting.label
        level = one.setting.level
        primary.append(_one(f"tuned.{key}", where, level, one.denoise, one.grpo, planned=PRIMARY))
        defaults.append(_one(f"tuned.{key}_by_default", where, level, "denoise", one.grpo))
    dialogue = runs.TUNED[0]
    gold = dialogue.setting.level.minus(dialogue.denoise, last_gold, dialogue.grpo)
    words = f"`{dialogue.denoise}` minus `{dialogue.grpo}`"
    of_gold = Comparison("tuned.dialogue_gold", "dialogue, gold utility", words, gold, SECONDARY, digits=2)
    return [*_corrected(*primary), *defaults, of_gold]


def long() -> list[Comparison]:
    """Three times as many updates; 40% of the rewards are wrong."""
    dialogue = runs.LONG_DIALOGUE.level
    five = runs.LONG_FIVE.level
    gold = dialogue.minus("denoise", last_gold)
    after = f"dialogue, {dialogue.updates()} updates"
    return [
        *_corrected(
            _one("long.dialogue", after, dialogue, "denoise", planned=PRIMARY),
            _one("long.five_numbers", f"five numbers, {five.updates()} updates", five, "denoise", planned=PRIMARY),
        ),
        Comparison("long.dialogue_gold", f"{after}, gold utility", "`denoise` minus `grpo`", gold, SECONDARY, digits=2),
    ]


GROUPS = {
    "substring": substring,
    "strict": strict,
    "flipped": flipped,
    "repeated": repeated,
    "checks": checks,
    "recipe": recipe,
    "no_harm": no_harm,
    "mended": mended,
    "tuned": tuned,
    "long": long,
}
SHARES = {"substring": substring_shares, "repeated": repeated_shares, "checks": checks_shares, "recipe": recipe_shares}


@functools.cache
def comparisons(group: str) -> tuple[Comparison, ...]:
    """The comparisons of a group."""
    return tuple(GROUPS[group]())


@functools.cache
def shares(group: str) -> tuple[Share, ...]:
    """The shares of a group."""
    return tuple(SHARES[group]())
