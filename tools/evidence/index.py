"""The primary comparisons at a glance: where each was planned, on how many warm starts it ran, and what came out."""

from __future__ import annotations

from collections.abc import Iterator

from geoalign.statistics import holm
from tools.evidence import runs, verdicts
from tools.evidence.comparisons import comparisons
from tools.evidence.printing import probability, signed, table
from tools.evidence.values import values

# Words, name of the comparison, commit of its plan, folders in evidence/.
ONE = (
    (
        "SmolLM2, substring verifier, first test: `denoise` minus GRPO",
        "substring.earlier",
        "a934f109",
        "real_substring",
    ),
    ("the same after it was mended, round 4", "substring.round_4", "5fcd2144", "real_substring_again"),
    (
        "the same, rounds 4 and 5 together",
        "substring.gain",
        "55462575",
        "real_substring_again` and `real_substring_fresh",
    ),
    (
        "the same verifier: `denoise` minus `majority_vote`",
        "substring.minus_majority",
        "966ed2ee",
        "real_substring_controls",
    ),
    ("SmolLM2, strict verifier: `denoise` minus GRPO", "strict.gain", "966ed2ee", "real_strict_gpu"),
    ("SmolLM2, 40% flipped: `denoise` minus GRPO", "flipped.gain", "ff865e0d", "real_flip_gpu"),
    ("the same with `least_slope: 1`", "flipped.expected", "8e659a22", "real_flip_expected"),
    ("errors that repeat: `denoise` minus GRPO", "repeated.gain", "be91f494", "math_repeated"),
    ("errors that repeat: `appeals` minus GRPO", "appeals.gain", "d1c247c3", "math_appeals"),
)
TWELVE_PLAN = "d9a2cacc"
CHECKS_PLAN = "edcc4e52"
NO_HARM_PLAN = "98ff5050"
GEOALIGN_PLAN = "35dad7db"


def index() -> str:
    """One row a primary comparison; the seven levels of twelve warm starts share a row, and GeoAlign's eleven do."""
    heads = ["primary comparison", "plan", "warm starts", "estimate (95%)", "p after Holm", "folder"]
    return table(heads, rows())


def rows() -> Iterator[list[str]]:
    """The rows of the index."""
    by_name = {one.name: one for name in ("substring", "strict", "flipped", "repeated") for one in comparisons(name)}
    for words, name, plan, folder in ONE:
        one = by_name[name]
        estimate = signed(one.gain.interval, one.digits)
        yield [words, f"`{plan}`", str(one.gain.pairs), estimate, probability(one.p), f"`{folder}`"]
    gains = [setting.level.score("denoise") for setting in runs.TWELVE]
    corrected = sorted(holm([gain.p for gain in gains]))
    count = values()["twelve.significant"]
    spread = f"{probability(corrected[0])} to {probability(corrected[-1])}"
    injected = "injected errors, seven levels: `denoise` minus GRPO"
    yield [injected, f"`{TWELVE_PLAN}`", "12", f"significant at {count}", spread, "the four that end in `_twelve`"]
    for setting in runs.CHECKS:
        words = f"{setting.label}, 13 checks: `appeals` minus each of four rivals"
        beaten = f"interval above zero for {verdicts.rivals_beaten(setting)}"
        pairs = setting.level.over_warm_starts("appeals_13").pairs
        yield [words, f"`{CHECKS_PLAN}`", str(pairs), beaten, "-", f"`{setting.folder}`"]
    harm = "no harm, eight levels: `denoise` minus GRPO"
    unharmed = f"interval above {verdicts.MOST_HARM} at {verdicts.unharmed()}"
    pairs = min(setting.level.over_warm_starts("denoise").pairs for setting in runs.NO_HARM)
    yield [harm, f"`{NO_HARM_PLAN}`", str(pairs), unharmed, "-", "`math_no_harm` and `math_hard_no_harm`"]
    gained = f"above zero at {values()['geoalign.levels_gained']}"
    method = "injected errors, eleven levels: GeoAlign minus GRPO"
    folders = "`math_denoise`, `math_hard_denoise`, `dialogue_denoise_again`, `dialogue_wide`, `dialogue_unbiased`"
    yield [method, f"`{GEOALIGN_PLAN}` and later", "2 to 4", gained, "-", folders]
