"""The levels that the pages report: the words for each, the comparison in `evidence/`, and the level's name there."""

from __future__ import annotations

from dataclasses import dataclass

from tools.evidence.results import Level, level_of


@dataclass(frozen=True)
class Setting:
    """A level that the pages report."""

    label: str
    folder: str
    name: str

    @property
    def level(self) -> Level:
        """Its results."""
        return level_of(self.folder, self.name)


THREE_20 = "three numbers, 20% flipped"
THREE_40 = "three numbers, 40% flipped"
THREE_SHORTCUT = "three numbers, shortcut rewarded"
FIVE_20 = "five numbers, 20% flipped"
FIVE_40 = "five numbers, 40% flipped"
DIALOGUE_10 = "dialogue, 10% reversed"
DIALOGUE_20 = "dialogue, 20% reversed"
DIALOGUE_40 = "dialogue, 40% reversed"
FLATTERY = "dialogue, flattery rewarded"
WIDER = "dialogue, wider model, 40% reversed"
LESS_BIAS = "dialogue, less bias, 40% reversed"

# The eleven levels with version 2 of `denoise`. A fixed share of every prompt's rewards is wrong, as in the paper.
EARLIER = (
    Setting(THREE_20, "math_denoise", "flip_20"),
    Setting(THREE_40, "math_denoise", "flip_40"),
    Setting(THREE_SHORTCUT, "math_denoise", "shortcut_50"),
    Setting(FIVE_20, "math_hard_denoise", "flip_20"),
    Setting(FIVE_40, "math_hard_denoise", "flip_40"),
    Setting(DIALOGUE_10, "dialogue_denoise_again", "extremes_10"),
    Setting(DIALOGUE_20, "dialogue_denoise_again", "extremes_20"),
    Setting(DIALOGUE_40, "dialogue_denoise_again", "extremes_40"),
    Setting(FLATTERY, "dialogue_denoise_again", "shortcut_50"),
    Setting(WIDER, "dialogue_wide", "extremes_40"),
    Setting(LESS_BIAS, "dialogue_unbiased", "extremes_40"),
)
# SmolLM2-135M with version 1 of `denoise`. Its plan is configs/real.
EARLIER_SMOLLM2 = Setting("SmolLM2, 40%, version 1, 3 seeds", "real_maths", "flip_40")

# Version 3 of `denoise`, with one seed on each of twelve fresh warm starts.
TWELVE = (
    Setting(THREE_20, "math_twelve", "flip_20"),
    Setting(THREE_40, "math_twelve", "flip_40"),
    Setting(FIVE_20, "math_hard_twelve", "flip_20"),
    Setting(FIVE_40, "math_hard_twelve", "flip_40"),
    Setting(DIALOGUE_20, "dialogue_twelve", "extremes_20"),
    Setting(DIALOGUE_40, "dialogue_twelve", "extremes_40"),
    Setting(LESS_BIAS, "dialogue_unbiased_twelve", "extremes_40"),
)

# SmolLM2-135M under the substring verifier, in the order of the rounds of the plan.
BEFORE_MENDED = Setting("substring, rounds 1 to 3, before it was mended", "real_substring", "as_given")
ROUND_4 = Setting("substring, round 4", "real_substring_again", "as_given")
ROUND_5 = Setting("substring, round 5", "real_substring_fresh", "as_given")
ROUND_6 = Setting("substring, round 6", "real_substring_gpu", "as_given")
ROUND_8 = Setting("substring, round 8", "real_substring_controls", "as_given")
# The same model under the strict verifier, with injected flips, and with a reward that is linear in its states.
STRICT = Setting("strict, round 8", "real_strict_gpu", "as_given")
FLIPPED = Setting("40% flipped, round 6", "real_flip_gpu", "flip_40")
FLIPPED_EXPECTED = Setting("40% flipped, round 7", "real_flip_expected", "flip_40")
IN_STATES = Setting("reward linear in the states, 20% reversed, round 8", "real_dialogue_gpu", "extremes_20")
PRETRAINED = (
    BEFORE_MENDED,
    ROUND_4,
    ROUND_5,
    ROUND_6,
    ROUND_8,
    STRICT,
    FLIPPED,
    FLIPPED_EXPECTED,
    IN_STATES,
)


@dataclass(frozen=True)
class Tuned:
    """A level at which `denoise` and GRPO were tuned alike, and the settings that were chosen for each."""

    setting: Setting
    denoise: str
    grpo: str


TUNED = (
    Tuned(Setting("dialogue", "dialogue_tuned", "extremes_40"), "denoise_fourfold", "grpo_double_kl_02"),
    Tuned(Setting("five numbers", "math_hard_tuned", "flip_40"), "denoise_half", "grpo_kl_10"),
    Tuned(Setting("three numbers", "math_tuned", "flip_40"), "denoise_half", "grpo_half"),
)
LONG_DIALOGUE = Setting("dialogue, three times as long", "dialogue_long", "extremes_40")
LONG_FIVE = Setting("five numbers, three times as long", "math_hard_long", "flip_40")
LONG = (LONG_DIALOGUE, LONG_FIVE)

# Errors that repeat with the answer; `appeals` ran on eight warm starts more.
REPEATED = Setting("three numbers, errors repeat, 40%", "math_repeated", "repeated_40")
APPEALS = Setting("three numbers, errors repeat, 40%, eight more", "math_appeals", "repeated_40")
APPEALS_20 = Setting("three numbers, errors repeat, 20%", "math_appeals", "repeated_20")

# The warm starts that the plans of the next two comparisons ask for.
PLANNED_WARM_STARTS = 8
# Which responses to check, at equal numbers of distinct checks.
CHECKS = (
    Setting("errors repeat, 40%", "math_checks", "repeated_40"),
    Setting("40% flipped", "math_checks", "flip_40"),
)
# GRPO, version 4 of `denoise` and `unidentified: modelled` side by side, where verdicts may not tell how far to believe
# them.
NO_HARM = (
    Setting("three numbers, no wrong rewards", "math_no_harm", "none"),
    Setting(THREE_20, "math_no_harm", "flip_20"),
    Setting(THREE_40, "math_no_harm", "flip_40"),
    Setting("three numbers, errors repeat, 20%", "math_no_harm", "repeated_20"),
    Setting("three numbers, errors repeat, 40%", "math_no_harm", "repeated_40"),
    Setting("five numbers, no wrong rewards", "math_hard_no_harm", "none"),
    Setting(FIVE_20, "math_hard_no_harm", "flip_20"),
    Setting(FIVE_40, "math_hard_no_harm", "flip_40"),
)
# GRPO and the mended `denoise`: a planned test at the levels with flips, and beside it one level where errors repeat.
MENDED_FLIPPED = (
    Setting(THREE_20, "math_mended", "flip_20"),
    Setting(THREE_40, "math_mended", "flip_40"),
    Setting(FIVE_20, "math_hard_mended", "flip_20"),
    Setting(FIVE_40, "math_hard_mended", "flip_40"),
)
MENDED_REPEATED = Setting("three numbers, errors repeat, 40%", "math_mended", "repeated_40")
MENDED = (*MENDED_FLIPPED, MENDED_REPEATED)


@dataclass(frozen=True)
class CoinTest:
    """A planned test where verdicts say little or nothing: two levels with 40% flipped, one with 45%, one with 50%."""

    flipped: tuple[Setting, Setting]
    five_45: Setting
    three_50: Setting

    @property
    def hardly(self) -> tuple[Setting, Setting]:
        """The levels at which verdicts are hardly better than a coin."""
        return self.five_45, self.three_50

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All four levels."""
        return *self.flipped, *self.hardly


def _coin_test(ending: str) -> CoinTest:
    """The test whose comparisons in `evidence/` have names with this ending."""
    three, five = f"math_{ending}", f"math_hard_{ending}"
    return CoinTest(
        flipped=(Setting(THREE_40, three, "flip_40"), Setting(FIVE_40, five, "flip_40")),
        five_45=Setting("five numbers, 45% flipped", five, "flip_45"),
        three_50=Setting("three numbers, 50% flipped", three, "flip_50"),
    )


# GRPO, version 7 of `denoise` and `unidentified: modelled`.
CHANCE = _coin_test("chance")
# GRPO and version 8 of `denoise` at the same levels: where the rates are not used, rewards stay bit for bit.
EXACT = _coin_test("exact")
# The same GRPO beside version 9 of `denoise`, which praises by states otherwise.
PRAISE = _coin_test("praise")
# GRPO beside GRPO with a learning rate that is hardly higher, on the same warm starts.
NUDGED = (
    Setting("five numbers, 45% flipped", "math_hard_nudged", "flip_45"),
    Setting("three numbers, 50% flipped", "math_nudged", "flip_50"),
)
# What version 8 keeps of the gains of `unidentified: modelled`, on the same warm starts.
KEPT = (
    Setting(THREE_40, "math_kept", "flip_40"),
    Setting(FIVE_40, "math_hard_kept", "flip_40"),
)
# `appeals` as README.md sets it up, by answers alone, beside the same with hidden states.
RECIPE = Setting("three numbers, errors repeat, 40%", "math_recipe", "repeated_40")
# Version 8 on SmolLM2-135M.
SMOLLM2_SUBSTRING = Setting("substring verifier", "real_substring_no_harm", "as_given")
SMOLLM2_FLIPPED = Setting("40% flipped", "real_flip_no_harm", "flip_40")
SMOLLM2 = (SMOLLM2_SUBSTRING, SMOLLM2_FLIPPED)
# Where one training of `denoise` collapsed, with the rule and without it.
COLLAPSED = NO_HARM[-1]
COLLAPSED_SEED = 430
