"""The pages on evidence and the results in `evidence/` cannot part: tables, numbers in sentences, pictures."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tools.evidence import audit, counting, curves, outlier_rule, pages, pictures, printing, table_kinds, values

from geoalign.files.columns import Series
from geoalign.method.density import sparse_tail
from geoalign.statistics import Interval

# Reading and analysing every comparison takes twenty seconds.
pytestmark = pytest.mark.pages

BY_NAME = {page.name: page for page in pages.PAGES}
DECLARING = [page for page in pages.PAGES if page.values]


@pytest.mark.parametrize("name", BY_NAME)
def test_tables_and_numbers_are_those_of_the_results(name):
    assert pages.wrong(BY_NAME[name]) == []


@pytest.mark.parametrize("page", DECLARING, ids=[page.name for page in DECLARING])
def test_a_changed_number_is_noticed(page):
    text = page.path.read_text(encoding="utf-8")
    value = next(values.values()[name] for name in page.values if values.values()[name][-1].isdigit())
    changed = value[:-1] + str((int(value[-1]) + 1) % 10)
    assert value in text
    assert pages.wrong(page, text.replace(value, changed)) != []


def test_a_changed_table_is_noticed():
    page = BY_NAME["evidence/tables.md"]
    text = page.path.read_text(encoding="utf-8")
    assert pages.wrong(page, text.replace("+1.058", "+1.059")) != []


PAGE = pages.Page("page.md", ("substring.denoise_final", "twelve.runs_above"))


def test_a_page_may_print_its_values_in_any_words():
    assert pages.wrong(PAGE, "Above GRPO in 77 of the 84 runs (p < 0.05). It ends at 0.62.") == []
    assert pages.wrong(PAGE, "0.62 | 77 of 84 | `x: 0.3` [0.62](page.md#0.1) <img width='1.5%'>") == []


@pytest.mark.parametrize(
    "text",
    ["77 of 84", "It ends at 0.62.", "0.62, 77 of 84, 0.4", "0.62, 77 of 84, 12%", "0.62, 77 of 84, six of seven"],
)
def test_a_value_that_is_missing_or_not_declared_is_noticed(text):
    assert len(pages.wrong(PAGE, text)) == 1


def test_of_a_page_with_marks_only_the_marked_part_must_be_declared():
    page = pages.Page("page.md", ("substring.denoise_final",), marked_only=True)
    assert pages.wrong(page, "Python 3.11. It ends at 0.62.") == []
    marked = "Python 3.11. <!-- figures -->It ends at 0.62, not {}.<!-- end figures -->"
    assert pages.wrong(page, marked.format("0.05")) == []
    assert len(pages.wrong(page, marked.format("0.77"))) == 1


def test_a_table_without_its_end_is_noticed():
    # Up to the end of the next table all would be replaced, the sentence between them too.
    page = BY_NAME["evidence/tables.md"]
    text = page.path.read_text(encoding="utf-8").replace("<!-- end -->", "<!-- ned -->", 1)
    assert any("has no '<!-- end -->'" in problem for problem in pages.wrong(page, text))


def test_numbers_of_prose():
    text = "From -0.02 to +1.5%, in six of seven and 3 of the 4, for Python 3.11.2 and SmolLM2-135M; 100%, 2.5."
    assert pages.numbers(text) == ["-0.02", "+1.5%", "100%", "2.5", "6 of 7", "3 of 4"]
    assert pages.numbers("Three of the nine hold.") == ["3 of 9"]


def test_no_gain_of_the_earlier_denoise_lies_below_zero():
    found = [gain for unit in (counting.SEED, counting.WARM_START) for gain in counting.gains(unit).values()]
    assert all(gain.score.interval.high > 0 for gain in found)


def test_every_claim_of_the_audit_is_counted_once():
    *parts, everything = audit.by_source()
    assert sum(part.both.printed + part.not_known for part in parts) == len(audit.claims())
    assert everything.both.printed == everything.bounds.printed + everything.model.printed


def claim(low, high, truth, by="bounds"):
    return audit.Claim("table", "verifier", "false_negative_rate", truth, low, high, by)


def test_an_interval_that_says_nothing_does_not_count_as_held():
    some = audit.Tables(
        "words", (claim(0, 1, 0.5), claim(0.2, 1, 0.5), claim(0.2, 0.4, 0.5), claim(0, 0.6, 0.5, "model"))
    )
    assert (str(some.bounds), str(some.model), str(some.both), some.not_known) == ("1 of 2", "1 of 1", "2 of 3", 1)


def test_an_unknown_beginning_of_a_name_lists_the_known_ones(capsys):
    assert values.main(["nosuch"]) == 1
    assert "substring" in capsys.readouterr().err
    assert values.main(["substring.grpo_final"]) == 0
    assert "0.40" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", pictures.THEMES)
@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_pictures_show_the_results(name, suffix):
    file = pictures.FOLDER / f"{name}{suffix}.svg"
    drawn = file.read_text(encoding="utf-8").rstrip().splitlines()[-1]
    assert json.loads(drawn.removeprefix("<!-- ").removesuffix(" -->")) == pictures.PICTURES[name].numbers()


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_the_pictures_can_be_drawn(name):
    assert pictures.render(name, pictures.THEMES[""]).startswith(b"<?xml")


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_count_in_the_title_of_a_picture_is_a_value(name):
    assert set(pages.numbers(pictures.PICTURES[name].title)) <= {values.values()["twelve.significant"]}


def test_a_number_without_an_interval_is_printed_alone():
    nan = math.nan
    assert printing.signed(Interval(0.5, nan, nan)) == "+0.500"
    assert printing.signed(Interval(-0.0001, -0.1, 0.2)) == "-0.000 (-0.100 to +0.200)"
    assert printing.percent(Interval(0.93, nan, nan)) == "93%"


def test_an_empty_cell_of_a_table_is_one_space():
    assert printing.table(["a", "b"], [["1", ""]]) == "| a | b |\n|---|---|\n| 1 | |\n"


def test_a_table_between_marks_is_made_anew():
    text = "before\n<!-- evidence: audit -->\nold\n<!-- end -->\nafter"
    assert table_kinds.with_tables(text) == text.replace("old\n", table_kinds.table_of("audit"))


def run(proxy, gold=(), steps=(0, 10, 20, 40)):
    """A run with these evaluations over steps."""
    curves = {"reward": proxy, "gold_utility": gold}
    return SimpleNamespace(
        curve=lambda metric: Series(np.array(steps[: len(curves[metric])]), np.array(curves[metric], dtype=float))
    )


def test_the_step_at_which_a_value_is_first_reached():
    rising = run([0.0, 1.0, 2.0, 3.0])
    # 2.5 is half of the way from step 20 to step 40.
    assert curves.step_of(rising, "reward", 2.5) == pytest.approx(30)
    assert curves.step_of(rising, "reward", 0.0) == 0
    assert math.isnan(curves.step_of(rising, "reward", 3.5))
    # It falls again: the first time counts, 0.5 / 2 of the way from step 0 to step 10.
    assert curves.step_of(run([0.0, 2.0, 0.0, 3.0]), "reward", 0.5) == pytest.approx(2.5)


def test_the_gold_utility_at_equal_proxy_reward():
    both = run([0.0, 1.0, 2.0, 3.0], [8.0, 6.0, 2.0, 1.0])
    # 1.5 is reached at step 15, half of the way from 6 to 2.
    assert curves.at_equal(both, "reward", 1.5, "gold_utility") == pytest.approx(4)
    assert math.isnan(curves.at_equal(both, "reward", 9, "gold_utility"))
    assert math.isnan(curves.at_equal(run([0.0, 1.0, 2.0, 3.0]), "reward", 1.5, "gold_utility"))


def test_a_score_of_wrong_answers_ranks_the_two_rewards_in_opposite_directions():
    # The score is 1 for wrong answers. Of rewards of 1 the corrupted ones are wrong answers, so they are found; of
    # rewards of 0 they are correct answers.
    wrong = np.array([1, 1, 0, 0, 1, 1, 0, 0], dtype=bool)
    reward = np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=float)
    corrupted = (reward == 1) == wrong
    snapshot = SimpleNamespace(score=wrong.astype(float), reward=reward, corrupted=corrupted)
    snapshots = (snapshot, SimpleNamespace(score=None, reward=None, corrupted=None))
    holder = SimpleNamespace(result=SimpleNamespace(snapshots=snapshots))
    assert curves.auroc_at_reward(holder, 1) == 1
    assert curves.auroc_at_reward(holder, 0) == 0
    assert math.isnan(curves.auroc_at_reward(SimpleNamespace(result=SimpleNamespace(snapshots=())), 1))


def test_the_outlier_rule_of_the_recorded_runs_flags_sparse_scores_in_a_valley():
    low = torch.linspace(0, 1, 40, dtype=torch.float64)
    scores = torch.cat([low, low + 10, torch.tensor([5.0], dtype=torch.float64)])
    lower_mode = torch.cat([low, low, scores])
    assert outlier_rule.flagged_then(lower_mode, alpha=0.2).nonzero().flatten().tolist() == [len(lower_mode) - 1]
    tail = sparse_tail(lower_mode, alpha=0.2)
    assert tail is not None
    assert not tail.flagged.any()
    ordinary = torch.cat([low, torch.tensor([3.0], dtype=torch.float64)])
    assert outlier_rule.flagged_then(ordinary, alpha=0.2).tolist() == sparse_tail(ordinary, alpha=0.2).flagged.tolist()


def test_an_arm_that_ran_in_a_comparison_of_the_paper_is_not_among_those_without_a_run():
    assert "geoalign_best_guess" not in counting.arms_without_a_run("dialogue")
    assert "denoise_expected" in counting.arms_without_a_run("dialogue")
