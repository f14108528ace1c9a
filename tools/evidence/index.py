"""The primary comparisons at a glance: where each was planned, on how many warm starts it ran, and what came out."""

from __future__ import annotations

from collections.abc import Iterator

from geoalign.statistics import holm
from tools.evidence import runs, verdicts
from tools.evidence.comparisons import comparisons
from tools.evidence.printing import probability, signed, table
from tools.evidence.values import values

# Words for where it ran, name of the comparison, commit of its plan, folders in evidence/.
ONE = (
    ("SmolLM2, substring, first test", "substring.earlier", "a934f109", "real_substring"),
    ("SmolLM2, substring, first test", "substring.earlier_minus_answer_mean", "a934f109", "real_substring"),
    ("SmolLM2, substring, mended, round 4", "substring.round_4", "5fcd2144", "real_substring_again"),
    ("SmolLM2, substring, mended, round 4", "substring.minus_answered", "5fcd2144", "real_substring_again"),
    (
        "SmolLM2, substring, rounds 4 and 5",
        "substring.gain",
        "55462575",
        "real_substring_again` and `real_substring_fresh",
    ),
    ("SmolLM2, substring, round 6", "substring.geoalign", "ff865e0d", "real_substring_gpu"),
    ("SmolLM2, substring, round 6", "substring.states", "ff865e0d", "real_substring_gpu"),
    ("SmolLM2, substring, round 8", "substring.minus_majority", "966ed2ee", "real_substring_controls"),
    ("SmolLM2, substring, round 8", "substring.labels", "966ed2ee", "real_substring_controls"),
    ("SmolLM2, strict", "strict.gain", "966ed2ee", "real_strict_gpu"),
    ("SmolLM2, 40% flipped", "flipped.gain", "ff865e0d", "real_flip_gpu"),
    ("SmolLM2, 40% flipped", "flipped.geoalign", "ff865e0d", "real_flip_gpu"),
    ("SmolLM2, 40% flipped, `least_slope: 1`", "flipped.expected", "8e659a22", "real_flip_expected"),
    ("SmolLM2, reward linear in the states, 20% reversed", "in_states.geoalign", "966ed2ee", "real_dialogue_gpu"),
    ("errors that repeat, 40%", "repeated.gain", "be91f494", "math_repeated"),
    ("errors that repeat, 40%", "repeated.minus_majority", "be91f494", "math_repeated"),
    ("errors that repeat, 40%, eight more", "appeals.gain", "d1c247c3", "math_appeals"),
    ("errors that repeat, 40%, eight more", "appeals.minus_majority", "d1c247c3", "math_appeals"),
    ("errors that repeat, 40%, the checks of README.md", "recipe.gain", "00f3849c", "math_recipe"),
    ("both tuned, dialogue, 40%", "tuned.dialogue", "93d74e5c", "dialogue_tuned"),
    ("both tuned, five numbers, 40%", "tuned.five_numbers", "93d74e5c", "math_hard_tuned"),
    ("both tuned, three numbers, 40%", "tuned.three_numbers", "93d74e5c", "math_tuned"),
    ("three times as long, dialogue, 40%", "long.dialogue", "93d74e5c", "dialogue_long"),
    ("three times as long, five numbers, 40%", "long.five_numbers", "93d74e5c", "math_hard_long"),
)
TWELVE_PLAN = "d9a2cacc"
CHECKS_PLAN = "edcc4e52"
NO_HARM_PLAN = "98ff5050"
MENDED_PLAN = "bf6d8551"
CHANCE_PLAN = "995a111a"
EXACT_PLAN = "76729ecf"
ANSWERS_PLAN = "b8d5cc2a"
KEPT_PLAN = "a95db686"
PRAISE_PLAN = "3c404552"
GEOALIGN_PLAN = "35dad7db"
GAIN = "`denoise` minus `grpo`"


def index() -> str:
    """One row a primary comparison; those of the same arms at many levels share a row."""
    heads = ["where", "primary comparison", "plan", "warm starts", "estimate (95%)", "p after Holm", "folder"]
    return table(heads, rows())


def rows() -> Iterator[list[str]]:
    """The rows of the index."""
    groups = ("substring", "strict", "flipped", "repeated", "recipe", "tuned", "long")
    by_name = {one.name: one for group in groups for one in comparisons(group)}
    for where, name, plan, folder in ONE:
        one = by_name[name]
        estimate = signed(one.gain.interval, one.digits)
        yield [where, one.what, f"`{plan}`", str(one.gain.pairs), estimate, probability(one.p), f"`{folder}`"]
    gains = [setting.level.score("denoise") for setting in runs.TWELVE]
    corrected = sorted(holm([gain.p for gain in gains]))
    count = values()["twelve.significant"]
    spread = f"{probability(corrected[0])} to {probability(corrected[-1])}"
    folders = "the four that end in `_twelve`"
    injected = "injected errors, seven levels"
    yield [injected, GAIN, f"`{TWELVE_PLAN}`", "12", f"significant at {count}", spread, folders]
    for setting in runs.CHECKS:
        pairs = setting.level.over_warm_starts("appeals_13").pairs
        beaten = f"interval above zero for {verdicts.rivals_beaten(setting)}"
        words = "`appeals_13` minus each of four rivals"
        yield [setting.label, words, f"`{CHECKS_PLAN}`", str(pairs), beaten, "-", f"`{setting.folder}`"]
    pairs = min(setting.level.over_warm_starts("denoise").pairs for setting in runs.NO_HARM)
    folders = "`math_no_harm` and `math_hard_no_harm`"
    unharmed = f"interval above {verdicts.MOST_HARM} at {verdicts.unharmed(runs.NO_HARM)}"
    kept = f"at least {verdicts.LEAST_KEPT:.0%} of the gain at {verdicts.kept(runs.NO_HARM)}"
    yield ["no harm, eight levels", GAIN, f"`{NO_HARM_PLAN}`", str(pairs), unharmed, "-", folders]
    beside = "`denoise` beside `denoise_modelled`"
    yield ["the same, where `denoise_modelled` gained", beside, f"`{NO_HARM_PLAN}`", str(pairs), kept, "-", folders]
    pairs = min(setting.level.over_warm_starts("denoise").pairs for setting in runs.MENDED_FLIPPED)
    folders = "`math_mended` and `math_hard_mended`"
    unharmed = f"interval above {verdicts.MOST_HARM} at {verdicts.unharmed(runs.MENDED_FLIPPED)}"
    not_far = f"{verdicts.not_far_below(runs.MENDED_FLIPPED)} runs at most {verdicts.FARTHEST_BELOW} below"
    mended = "no harm, the mended rule, four levels"
    yield [mended, GAIN, f"`{MENDED_PLAN}`", str(pairs), f"{unharmed}, {not_far}", "-", folders]
    yield from _of_coin_tests()
    pairs = str(min(setting.level.over_warm_starts("denoise_modelled").pairs for setting in runs.KEPT))
    kept = f"at least {verdicts.LEAST_KEPT:.0%} of the gain at {verdicts.kept(runs.KEPT)}"
    folders = "`math_kept` and `math_hard_kept`"
    beside = "`denoise` beside `denoise_modelled`"
    yield ["what version 8 keeps, at 40%", beside, f"`{KEPT_PLAN}`", pairs, kept, "-", folders]
    gained = f"above zero at {values()['geoalign.levels_gained']}"
    injected = "injected errors, eleven levels"
    folders = "`math_denoise`, `math_hard_denoise`, `dialogue_denoise_again`, `dialogue_wide`, `dialogue_unbiased`"
    yield [injected, "`geoalign` minus `grpo`", f"`{GEOALIGN_PLAN}` and later", "2 to 4", gained, "-", folders]
    above = f"above zero at {values()['geoalign.levels_above_pair_count']}"
    injected = "injected errors, five levels"
    yield [injected, "`geoalign` minus `pair_count`", f"`{GEOALIGN_PLAN}` and later", "2 to 4", above, "-", folders]


def _of_coin_tests() -> Iterator[list[str]]:
    """The rows of the plans for verifiers hardly better than a coin: is GRPO reached, and what is kept of the gain."""
    by_answers = "`denoise` by answers alone minus `grpo`"
    for where, what, test, arm, plan, ending in (
        ("hardly better than a coin, four levels", GAIN, runs.CHANCE, "denoise", CHANCE_PLAN, "chance"),
        ("no harm, bit for bit, four levels", GAIN, runs.EXACT, "denoise", EXACT_PLAN, "exact"),
        ("the same, four levels", by_answers, runs.EXACT, "denoise_answers", ANSWERS_PLAN, "exact"),
        ("no harm, version 9, four levels", GAIN, runs.PRAISE, "denoise", PRAISE_PLAN, "praise"),
    ):
        pairs = str(min(setting.level.over_warm_starts(arm).pairs for setting in test.settings))
        folders = f"`math_{ending}` and `math_hard_{ending}`"
        unharmed = f"at 40% interval above {verdicts.MOST_HARM} at {verdicts.unharmed(test.flipped, arm)}"
        not_below = f"at 45% and 50% mean above it at {verdicts.not_below_on_average(test.hardly, arm)}"
        not_far = f"{verdicts.not_far_below(test.settings, arm)} runs at most {verdicts.FARTHEST_BELOW} below"
        yield [where, what, f"`{plan}`", pairs, f"{unharmed}, {not_below}, {not_far}", "-", folders]
        if test is runs.CHANCE:
            kept = f"at least {verdicts.LEAST_KEPT:.0%} of the gain at {verdicts.kept(test.flipped)}"
            beside = "`denoise` beside `denoise_modelled`"
            yield ["the same, at 40%", beside, f"`{plan}`", pairs, kept, "-", folders]
