"""The numbers in sentences on the newest plans: which responses to check, and whether `denoise` does harm."""

from __future__ import annotations

from statistics import stdev

from tools.evidence import runs, verdicts
from tools.evidence.curves import unchanged
from tools.evidence.printing import Named, plain, signed, signed_number


def all_values() -> Named:
    """All of them."""
    yield from _of_checks_and_harm()
    yield from _of_the_mended()
    yield from _of_coin_tests()
    yield from _of_one_coin_test()
    yield from _of_answers_alone()
    yield from _of_what_is_kept()
    yield from _of_smollm2()


def _of_checks_and_harm() -> Named:
    """The verdicts of no harm and of which responses to check, and on how many of the planned warm starts."""
    for name, settings in {
        "checks": runs.CHECKS,
        "no_harm": runs.NO_HARM,
        "mended": runs.MENDED,
        "chance": runs.CHANCE.settings,
        "exact": runs.EXACT.settings,
        "praise": runs.PRAISE.settings,
    }.items():
        whole = min(len(row.seeds) for setting in settings for row in setting.level.table.rows)
        yield f"{name}.warm_starts", f"{whole} of {runs.PLANNED_WARM_STARTS}"
    for setting in runs.CHECKS:
        yield f"checks.{setting.name}.beaten", str(verdicts.rivals_beaten(setting))
        yield f"checks.{setting.name}.leading", str(verdicts.rivals_that_lead(setting))
    collapsed = runs.COLLAPSED.level
    for arm in ("grpo", "denoise"):
        yield f"no_harm.collapsed_{arm}", plain(collapsed.scores(arm)[runs.COLLAPSED_SEED], 3)
    yield "no_harm.unharmed", str(verdicts.unharmed(runs.NO_HARM))
    yield "no_harm.kept", str(verdicts.kept(runs.NO_HARM))
    for setting in runs.NO_HARM:
        share = verdicts.share_kept(setting)
        if share is not None:
            yield f"no_harm.{setting.folder.removesuffix('_no_harm')}.{setting.name}.kept", f"{share:.0%}"


def _of_the_mended() -> Named:
    """The verdict of the mended rule, and how far the lowest run lies below GRPO's."""
    yield "mended.unharmed", str(verdicts.unharmed(runs.MENDED_FLIPPED))
    yield "mended.not_far_below", str(verdicts.not_far_below(runs.MENDED_FLIPPED))
    gains = [gain for setting in runs.MENDED_FLIPPED for gain in verdicts.gains_by_seed(setting)]
    yield "mended.lowest_gain", signed_number(min(gains), 3)
    yield "mended.farthest_below", plain(-min(gains), 3)
    where_errors_repeat = verdicts.gains_by_seed(runs.MENDED_REPEATED)
    yield "mended.farthest_below_where_errors_repeat", plain(-min(where_errors_repeat), 3)


def _of_coin_tests() -> Named:
    """Whether the tests where verdicts say little or nothing are passed, part by part, and how far below GRPO it is."""
    for name, test in {"chance": runs.CHANCE, "exact": runs.EXACT, "praise": runs.PRAISE}.items():
        yield f"{name}.unharmed", str(verdicts.unharmed(test.flipped))
        yield f"{name}.not_below", str(verdicts.not_below_on_average(test.hardly))
        yield f"{name}.not_far_below", str(verdicts.not_far_below(test.settings))
        gains = [gain for setting in test.settings for gain in verdicts.gains_by_seed(setting)]
        yield f"{name}.farthest_below", plain(-min(gains), 3)
        yield f"{name}.lowest_gain", signed_number(min(gains), 3)
        for level, setting in (("three_40", test.flipped[0]), ("five_45", test.five_45), ("three_50", test.three_50)):
            yield f"{name}.{level}", signed_number(verdicts.gain(setting, "denoise").estimate, 3)


def _of_answers_alone() -> Named:
    """The verdict of version 8 by answers alone, and how far GRPO's runs differ from nearly equal ones."""
    test, arm = runs.EXACT, "denoise_answers"
    yield "answers.unharmed", str(verdicts.unharmed(test.flipped, arm))
    yield "answers.not_below", str(verdicts.not_below_on_average(test.hardly, arm))
    yield "answers.not_far_below", str(verdicts.not_far_below(test.settings, arm))
    gains = [gain for setting in test.settings for gain in verdicts.gains_by_seed(setting, arm)]
    yield "answers.lowest_gain", signed_number(min(gains), 3)
    for level, setting in (("three_40", test.flipped[0]), ("five_45", test.five_45), ("three_50", test.three_50)):
        yield f"answers.{level}", signed_number(verdicts.gain(setting, arm).estimate, 3)
    for name, setting in {"answers.three_40": test.flipped[0], "answers.five_40": test.flipped[1]}.items():
        yield f"{name}.before", plain(setting.level.before(), 2)
        yield f"{name}.grpo_final", plain(setting.level.final("grpo"), 2)
        yield f"{name}.denoise_final", plain(setting.level.final(arm), 2)
    yield "nudged.not_far_below", str(verdicts.not_far_below(runs.NUDGED, "grpo_nudged"))
    yield "nudged.not_below", str(verdicts.not_below_on_average(runs.NUDGED, "grpo_nudged"))
    five_45 = runs.NUDGED[0]
    yield "nudged.five_45_deviation", plain(stdev(verdicts.gains_by_seed(five_45, "grpo_nudged")), 3)


def _of_one_coin_test() -> Named:
    """What only one of the two asks: what the rule keeps and prevents, and which runs end exactly where GRPO's do."""
    yield "chance.kept", str(verdicts.kept(runs.CHANCE.flipped))
    yield "chance.five_40_kept", f"{verdicts.share_kept(runs.CHANCE.flipped[1]):.0%}"
    for level, setting in (("five_45", runs.CHANCE.five_45), ("three_50", runs.CHANCE.three_50)):
        yield f"chance.{level}_below", plain(-verdicts.gain(setting, "denoise").estimate, 3)
        yield f"chance.modelled_{level}_below", plain(-verdicts.gain(setting, "denoise_modelled").estimate, 3)
    yield "exact.as_grpo", str(verdicts.as_grpo(runs.EXACT.settings))
    batches = list(unchanged(runs.EXACT.five_45.level, "denoise"))
    yield "exact.five_45_unchanged", f"{sum(batches)} of {len(batches)}"


def _of_what_is_kept() -> Named:
    """What version 8 keeps of the earlier rule's gains, and whether the checks of README.md passed."""
    yield "kept.verdict", str(verdicts.kept(runs.KEPT))
    yield "kept.by_answers", str(verdicts.kept(runs.KEPT, "denoise_answers"))
    five_40 = runs.KEPT[1]
    yield "kept.five_40_answers", f"{verdicts.share_kept(five_40, 'denoise_answers'):.0%}"
    # Version 9 has no arm without the rule: its gain is measured against that of version 8, on the same warm starts.
    for name, kept, version_9 in zip(("three_40", "five_40"), runs.KEPT, runs.PRAISE.flipped, strict=True):
        share = verdicts.gain(version_9, "denoise").estimate / verdicts.gain(kept, "denoise_modelled").estimate
        yield f"kept.version_9_{name}", f"{share:.0%}"
    yield "recipe.verdict", str(verdicts.recovered(runs.RECIPE, "appeals_answers"))
    recipe = runs.RECIPE.level
    yield "recipe.before", plain(recipe.before(), 2)
    for arm in ("grpo", "appeals_answers", "clean"):
        yield f"recipe.{arm}_final", plain(recipe.final(arm), 2)


def _of_smollm2() -> Named:
    """Version 8 on SmolLM2: scores, what it gains, and how many batches it left as they were."""
    for name, setting in {"smollm2_substring": runs.SMOLLM2_SUBSTRING, "smollm2_flipped": runs.SMOLLM2_FLIPPED}.items():
        level = setting.level
        yield f"{name}.before", plain(level.before(), 2)
        yield f"{name}.grpo_final", plain(level.final("grpo"), 2)
        yield f"{name}.denoise_final", plain(level.final("denoise"), 2)
        gain = verdicts.gain(setting, "denoise")
        yield f"{name}.gain", signed_number(gain.estimate, 3)
        yield f"{name}.gain.interval", signed(gain)
        gains = verdicts.gains_by_seed(setting)
        yield f"{name}.above", f"{sum(each > 0 for each in gains)} of {len(gains)}"
        yield f"{name}.below", f"{sum(each < 0 for each in gains)} of {len(gains)}"
        left = list(unchanged(level, "denoise"))
        yield f"{name}.unchanged", f"{sum(left)} of {len(left)}"
    flipped = runs.SMOLLM2_FLIPPED
    for arm in ("denoise_modelled", "denoise_expected"):
        yield f"smollm2_flipped.{arm}_final", plain(flipped.level.final(arm), 2)
        minus_grpo = verdicts.gain(flipped, arm)
        yield f"smollm2_flipped.{arm}_gain", signed_number(minus_grpo.estimate, 3)
        yield f"smollm2_flipped.{arm}_gain.interval", signed(minus_grpo)
        gains = verdicts.gains_by_seed(flipped, arm)
        yield f"smollm2_flipped.{arm}_above", f"{sum(each > 0 for each in gains)} of {len(gains)}"
        minus_arm = verdicts.gain(flipped, "denoise", against=arm)
        yield f"smollm2_flipped.minus_{arm}", signed_number(minus_arm.estimate, 3)
        yield f"smollm2_flipped.minus_{arm}.interval", signed(minus_arm)
    without_rule = verdicts.gains_by_seed(flipped, "denoise_modelled")
    yield "smollm2_flipped.denoise_modelled_farthest_below", plain(-min(without_rule), 3)
    with_rule = verdicts.gains_by_seed(flipped)
    yield "smollm2_flipped.denoise_farthest_below", plain(-min(with_rule), 3)
