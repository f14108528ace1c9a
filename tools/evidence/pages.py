"""Which numbers the prose of each page on evidence prints, and whether they are those of the results.

A page declares the names of the values that stand in its prose (`python -m tools.evidence.values` prints all names).
Then two things are checked, and no wording:

- every declared value stands on the page;
- every decimal number, percentage and "N of M" in the prose is a declared value, or a constant of the design.

Tables between `<!-- evidence: ... -->` marks, code, links and pictures are no prose. Of README.md, where other things
have numbers, too, the second check reads only what stands between `<!-- figures -->` and `<!-- end figures -->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.evidence.results import ROOT
from tools.evidence.table_kinds import TABLE, TABLE_BEGINS, with_tables
from tools.evidence.values import values

FIGURES = re.compile(r"<!-- figures -->(.*?)<!-- end figures -->", re.DOTALL)
WORDS_OF_NUMBERS = (
    "none",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_COUNTED = rf"(\d+|{'|'.join(WORDS_OF_NUMBERS)})"
COUNT = re.compile(rf"\b{_COUNTED} of (?:the |its |all )?{_COUNTED}\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+%?|%)(?![\w.]*\w)")
NO_PROSE = (
    re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE),
    TABLE,
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"<[^>]+>"),
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),
)
# Numbers that no result has: sizes, shares and levels of the design.
DESIGN = ("95%", "5%", "10%", "15%", "20%", "40%", "45%", "50%", "0.05", "0.025")


@dataclass(frozen=True)
class Page:
    """A page, the names of the values in its prose, and the numbers there that are constants of the design."""

    name: str
    values: tuple[str, ...]
    constants: tuple[str, ...] = DESIGN
    marked_only: bool = field(default=False, kw_only=True)

    @property
    def path(self) -> Path:
        """Where it is."""
        return ROOT / self.name


PAGES: tuple[Page, ...] = (
    Page("benchmarks/verifier_rates.md", ("audit.intervals_held",), marked_only=True),
    Page(
        "README.md",
        (
            "answers.three_40.grpo_final",
            "answers.three_40.denoise_final",
            "recipe.grpo_final",
            "recipe.appeals_answers_final",
            "recipe.clean_final",
            "flipped.warm_starts_below",
            "smollm2_substring.grpo_final",
            "smollm2_substring.denoise_final",
            "smollm2_flipped.grpo_final",
            "smollm2_flipped.denoise_final",
        ),
        (*DESIGN, "0.1", "13 of 256"),
        marked_only=True,
    ),
    Page(
        "docs/evidence.md",
        (
            "audit.intervals_held",
            "substring.grpo_final",
            "substring.denoise_final",
            "substring.true_final",
            "audit.real_held",
            "audit.real_width",
            "appeals.share_with_13",
            "appeals.checked_majority_share",
            "appeals.majority_vote_share",
            "recipe.appeals_answers_share",
            "checks.repeated_40.appeals_6_share",
            "twelve.significant",
            "twelve.runs_above",
            "twelve.gold_fell",
            "twelve.gold_at_dialogue_40",
            "five_numbers_40.farthest_below",
            "geoalign.levels_gained",
            "flipped.warm_starts_below",
            "no_harm.unharmed",
            "no_harm.kept",
            "no_harm.collapsed_grpo",
            "no_harm.collapsed_denoise",
            "mended.farthest_below",
            "mended.farthest_below_where_errors_repeat",
            "chance.farthest_below",
            "chance.five_40_kept",
            "chance.five_45_below",
            "chance.three_50_below",
            "chance.modelled_five_45_below",
            "exact.three_40",
            "exact.five_45",
            "exact.three_50",
            "exact.farthest_below",
            "answers.three_40",
            "answers.five_45",
            "answers.three_50",
            "nudged.five_45_deviation",
            "kept.five_40_answers",
            "smollm2_substring.grpo_final",
            "smollm2_substring.denoise_final",
            "kept.version_9_five_40",
            "smollm2_flipped.gain",
            "smollm2_flipped.denoise_modelled_farthest_below",
        ),
        (*DESIGN, "0.1", "0.02", "-0.02", "90%"),
    ),
    Page(
        "docs/denoise.md",
        (
            "smollm2_substring.grpo_final",
            "smollm2_substring.denoise_final",
            "smollm2_flipped.grpo_final",
            "smollm2_flipped.denoise_final",
            "exact.three_40",
        ),
        marked_only=True,
    ),
    Page("evidence/README.md", (), (*DESIGN, "0.02", "0.1")),
    Page(
        "evidence/tables.md",
        (
            "audit.intervals_held",
            "audit.bounds_held",
            "audit.model_held",
            "audit.offsets_model_held",
            "audit.spellings_bounds_held",
            "audit.spellings_model_held",
            "audit.quarter_model_held",
            "audit.near_coin_model_held",
            "substring.grpo_final",
            "substring.denoise_final",
            "substring.true_final",
            "substring.runs_above",
            "substring.gain.p_exactly",
            "substring.grpo_final_beside_true",
            "substring.denoise_final_beside_true",
            "flipped.warm_starts_below",
            "flipped_expected.warm_starts_above",
            "flipped.new_group_accuracy",
            "flipped.heldout_accuracy",
            "in_states.new_group_accuracy",
            "checks.repeated_40.beaten",
            "checks.flip_40.beaten",
            "no_harm.warm_starts",
            "no_harm.unharmed",
            "no_harm.kept",
            "no_harm.math_hard.flip_20.kept",
            "no_harm.collapsed_grpo",
            "no_harm.collapsed_denoise",
            "mended.warm_starts",
            "mended.unharmed",
            "mended.not_far_below",
            "mended.lowest_gain",
            "mended.farthest_below_where_errors_repeat",
            "chance.warm_starts",
            "chance.unharmed",
            "chance.not_below",
            "chance.five_45",
            "chance.three_50",
            "chance.not_far_below",
            "chance.farthest_below",
            "chance.kept",
            "chance.five_40_kept",
            "chance.modelled_five_45_below",
            "chance.modelled_three_50_below",
            "exact.warm_starts",
            "exact.unharmed",
            "exact.not_below",
            "exact.five_45",
            "exact.three_50",
            "exact.not_far_below",
            "exact.lowest_gain",
            "exact.as_grpo",
            "exact.five_45_unchanged",
            "answers.unharmed",
            "answers.not_below",
            "answers.five_45",
            "answers.three_50",
            "answers.not_far_below",
            "answers.lowest_gain",
            "nudged.not_far_below",
            "nudged.not_below",
            "recipe.verdict",
            "kept.verdict",
            "kept.by_answers",
            "kept.five_40_answers",
            "praise.warm_starts",
            "praise.unharmed",
            "praise.not_below",
            "praise.not_far_below",
            "praise.five_45",
            "praise.three_50",
            "praise.lowest_gain",
            "smollm2_substring.grpo_final",
            "smollm2_substring.denoise_final",
            "smollm2_substring.above",
            "smollm2_substring.unchanged",
            "smollm2_flipped.gain.interval",
            "smollm2_flipped.above",
            "smollm2_flipped.unchanged",
            "smollm2_flipped.denoise_modelled_farthest_below",
            "smollm2_flipped.denoise_farthest_below",
            "smollm2_flipped.denoise_modelled_above",
            "smollm2_flipped.minus_denoise_modelled.interval",
            "smollm2_flipped.minus_denoise_expected.interval",
            "kept.version_9_three_40",
            "kept.version_9_five_40",
            "twelve.runs_above",
            "twelve.significant",
            "twelve.share_lowest",
            "twelve.share_highest",
            "twelve.share_interval_lowest",
            "twelve.share_interval_highest",
            "twelve.gold_at_dialogue_40.interval",
            "tuned.lowest_default_five_numbers",
            "long.dialogue_passed",
            "earlier.means_above",
            "earlier.pairs_above",
            "earlier.counted_by_seeds",
            "earlier.counted_by_warm_starts",
            "earlier.counted_share_lowest",
            "earlier.counted_share_highest",
            "earlier.share_lowest",
            "earlier.share_highest",
            "earlier.oracle_cosine_lowest",
            "earlier.oracle_cosine_highest",
            "earlier.denoise_cosine_lowest",
            "earlier.denoise_cosine_highest",
            "earlier.majority_vote_final_five_40",
            "earlier.grpo_final_five_40",
            "clean.dialogue_costs",
            "clean.dialogue_final",
            "clean.three_numbers_costs",
            "clean.three_numbers_final",
            "geoalign.levels_gained",
            "geoalign.best",
            "geoalign.five_20",
            "geoalign.below_denoise",
            "geoalign.share_at_most_dialogue_40",
            "geoalign.share_at_most_five_40",
            "first_round.geoalign_p",
            "first_round.geoalign_again",
            "first_round.share_40",
            "first_round.share_20",
            "first_round.gold_40",
            "first_round.gold_20",
            "gold.denoise_dialogue_40",
            "gold.oracle_dialogue_40",
            "gold.denoise_less_bias",
            "gold.denoise_wider",
            "gold.grpo_wider_at_1",
            "gold.grpo_flattery_at_1_5",
            "gold.labels_20",
            "gold.labels_40",
            "gold.labels_minus_denoise_20",
            "gold.labels_minus_denoise_40",
            "gold.labels_proxy_20",
            "rule.maths_batches_that_differ",
            "rule.maths_flags",
            "rule.dialogue_batches_that_differ",
            "paper.geoalign_maths_40",
            "paper.pf_ppo_br_maths_40",
            "paper.pf_ppo_bw_maths_40",
            "paper.pods_maths_40",
            "paper.grpo_maths_40",
            "paper.geoalign_minus_pf_ppo_br_maths_40",
            "paper.geoalign_minus_pods_maths_40",
            "paper.best_guess_gold_at_equal_proxy",
            "paper.best_guess_again_gold_at_equal_proxy",
            "paper.best_guess.interval",
            "paper.best_guess.p",
            "paper.best_guess_gold.interval",
            "paper.best_guess_again.interval",
            "paper.best_guess_again.p",
            "paper.best_guess_again_gold.interval",
            "dialogue.permuted_unchanged_40",
            "dialogue.permuted_unchanged_20",
        ),
        (*DESIGN, "0.1", "0.6", "1.0", "1.5", "2.0", "2.5", "-0.02", "90%"),
    ),
)


def prose(text: str) -> str:
    """A page without tables of results, code, comments, HTML and link targets."""
    for pattern in NO_PROSE:
        text = pattern.sub(" ", text)
    return " ".join(text.split())


def numbers(text: str) -> list[str]:
    """The decimal numbers, percentages and counts "N of M" in some prose; number words count as digits."""
    counts = [f"{_digits(match[1])} of {_digits(match[2])}" for match in COUNT.finditer(text)]
    return NUMBER.findall(COUNT.sub(" ", text)) + counts


def _digits(word: str) -> str:
    word = word.lower()
    return str(WORDS_OF_NUMBERS.index(word)) if word in WORDS_OF_NUMBERS else word


def wrong(page: Page, text: str | None = None) -> list[str]:
    """What of a page is not as the results have it: its tables, and the numbers in its prose."""
    if text is None:
        text = page.path.read_text(encoding="utf-8")
    problems = []
    lines_that_begin = [line for line in text.splitlines() if line.startswith(TABLE_BEGINS)]
    if len(lines_that_begin) != len(TABLE.findall(text)):
        problems.append(f"{page.name}: a mark '{TABLE_BEGINS} ...' has no '<!-- end -->'")
    if with_tables(text) != text:
        problems.append(f"{page.name}: a table differs; run python -m tools.evidence.tables")
    standing = numbers(prose(text))
    declared = set(page.constants)
    for name in page.values:
        of_value = numbers(values()[name])
        declared.update(of_value)
        if not set(of_value) <= set(standing):
            problems.append(f"{page.name}: {name} is {values()[name]}, which does not stand there")
    checked = " ".join(FIGURES.findall(text)) if page.marked_only else text
    for number in numbers(prose(checked)):
        if number not in declared:
            problems.append(f"{page.name}: {number} is no value that is declared in tools/evidence/pages.py")
    return problems
