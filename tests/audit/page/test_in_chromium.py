"""The page in a real browser, from disk. Every test also fails on any message of the console and on any request."""

import re

import pyarrow.parquet
import pytest

from geoalign.audit.page import bundle as bundle_module
from geoalign.audit.results import read_report
from geoalign.dumps.flagged_csv import safe
from geoalign.dumps.labels import read_labels

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def page(tmp_path_factory, write_audit, build_light):
    """Twelve groups of six in many small pieces; groups 0, 3, 6 and 9 have a flagged rollout, a wrong one in 3."""

    def wrong(rows):
        rows[3 * 6 + 1]["correct"] = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_module, "PIECE_CHARACTERS", 3000)
        patch.setattr(bundle_module, "PIECE_PAIRS", 40)
        return build_light(write_audit(tmp_path_factory.mktemp("chromium") / "dump", change=wrong))


@pytest.fixture(scope="module")
def shared(watch, page):
    watched = watch(page)
    all_groups(watched.page)
    return watched


@pytest.fixture
def opened(shared, until):
    """One page for many tests: nothing filtered, nothing searched for, the first group chosen."""
    shared.page.get_by_role("button", name="Clear").click()
    wait_for_count(until, shared.page, "12 groups, 72 rollouts")
    shared.page.locator("#list").focus()
    shared.page.keyboard.press("Home")
    yield shared.page
    wrong, shared.wrong = shared.wrong, []
    assert wrong == []


def all_groups(page):
    """Shows all groups instead of the flagged rewards, which a page begins with."""
    page.locator("#views button[data-view=prompts]").click()


def count(page):
    return page.locator("#count").inner_text()


def groups(until, page):
    """The groups in the list, in its order, by what their prompts say."""
    until(page, "() => document.querySelectorAll('.row').length || !document.querySelector('#rows').offsetHeight")
    rows = page.locator(".row").all()
    found = sorted((int(row.get_attribute("data-place")), row.get_attribute("data-group")) for row in rows)
    return [int(group) for _, group in found]


def wait_for_count(until, page, words):
    until(page, "words => document.querySelector('#count').innerText.includes(words)", words)


def chosen(page):
    return page.locator("input[name=rollout]:checked").get_attribute("value")


def test_the_most_suspicious_group_is_open_with_its_replacement_beside_it(until, opened):
    assert count(opened) == "12 groups, 72 rollouts"
    assert groups(until, opened)[:4] == [9, 6, 3, 0]
    assert opened.locator("#detail-title").inner_text() == "Group 9"
    opened.locator(".side").nth(1).wait_for()
    sides = opened.locator(".side h4").all_inner_texts()
    assert [re.sub(r"\s+", " ", side) for side in sides] == [
        "Response 1 flagged marked correct", "Response 5 replaces it in training marked correct",
    ]  # fmt: skip
    # One word and one formula differ.
    assert opened.locator(".text.left mark").first.inner_text() == "figures"
    assert opened.locator(".text.right mark").first.inner_text() == "numbers"
    formulas = {side: opened.locator(f".text.{side} mark:has(.tex)") for side in ("left", "right")}
    assert [found.count() for found in formulas.values()] == [1, 1]
    # Formulas stand as their source.
    assert opened.locator("#detail .prompt .tex").inner_text() == "$x_{9}$"


def test_filters_narrow_the_list_and_say_how_far(until, opened, page):
    lengths = pyarrow.parquet.read_table(page.parent / "scores.parquet")["characters"].to_pylist()
    inside = [row for row, length in enumerate(lengths) if 250 <= length <= 262]
    assert 0 < len(inside) < 72
    for filters, expected in (
        ({"flagged": None}, (4, 4)),
        ({"flagged": None, "marked correct in the file": None}, (3, 3)),
        ({"Reward from": "0.8"}, (12, 12)),
        ({"Reward from": "0.8", "Reward to": "0.81"}, (0, 0)),
        ({"Characters from": "250", "Characters to": "262"}, (len({row // 6 for row in inside}), len(inside))),
    ):
        for name, value in filters.items():
            box = opened.get_by_label(name, exact=True)
            box.check() if value is None else box.fill(value)
        assert count(opened) == f"{expected[0]} of 12 groups, {expected[1]} of 72 rollouts"
        assert expected[0] or "No group passes" in opened.locator("#detail").inner_text()
        opened.get_by_role("button", name="Clear").click()
        wait_for_count(until, opened, "12 groups, 72 rollouts")


def test_search_reaches_every_text_and_the_newest_words_win(until, opened):
    search = opened.get_by_label("Search")
    search.fill("pROBLEM 7: find")
    wait_for_count(until, opened, "1 of 12 groups, 6 of 72 rollouts")
    assert opened.locator(".row .hit").inner_text() == "Problem 7: find"
    search.fill("s1-g4-r2")
    wait_for_count(until, opened, "1 of 12 groups, 1 of 72 rollouts")
    search.press_sequentially("nothing like it")
    wait_for_count(until, opened, "0 of 12 groups")
    # Letters of a regular expression are letters.
    search.fill("\\frac{11}{7}")
    wait_for_count(until, opened, "1 of 12 groups, 1 of 72 rollouts")
    assert chosen(opened) == "71"
    search.press("Escape")
    wait_for_count(until, opened, "12 groups, 72 rollouts")
    search.fill("figures")
    wait_for_count(until, opened, "4 of 12 groups, 4 of 72 rollouts")
    until(opened, "() => CSS.highlights.get('found')?.size >= 1")


def focused(page):
    return page.evaluate("document.activeElement.id")


def test_everything_by_keyboard_and_with_names_for_those_who_cannot_see(until, opened):
    press, active = opened.keyboard.press, "aria-activedescendant"
    listed = opened.locator("#list")
    press("/")
    assert focused(opened) == "query"
    press("/")
    assert opened.get_by_label("Search").input_value() == "/"
    press("Escape")
    press("ArrowDown")
    assert focused(opened) == "list"
    for key, group in (("Home", 9), ("ArrowDown", 6), ("End", groups(until, opened)[-1]), ("Home", 9)):
        press(key)
        assert listed.get_attribute(active) == f"group-{group}"
        assert opened.locator("[role=option][aria-selected=true]").count() == 1
    press("PageDown")
    assert opened.locator("[aria-selected=true]").get_attribute("data-place") not in ("0", "1")
    press("PageUp")
    press("Control+/")
    assert focused(opened) == "list"
    press("Enter")
    assert focused(opened) == "detail-title"
    opened.locator("input[name=rollout]:checked").focus()
    press("ArrowDown")
    assert chosen(opened) != "55"
    press("Escape")
    assert focused(opened) == "list"
    nameless = opened.evaluate(
        """[...document.querySelectorAll('input, select, button, [tabindex="0"]')].filter((node) => !(
          node.getAttribute('aria-label') || node.labels?.length || node.innerText?.trim())).length"""
    )
    assert nameless == 0
    assert listed.get_by_role("option").first.get_attribute("aria-setsize") == "12"
    said = re.compile("Response 1: reward 0.167, GDI 5.9, flagged, marked correct, replaced by 5")
    assert opened.get_by_role("radio", name=said).count() == 1


def test_an_address_opens_its_rollout(watched, page):
    found = watched(page, "#rollout-14").page
    assert found.locator("#detail-title").inner_text() == "Group 2"
    assert chosen(found) == "14"
    found.locator("input[name=rollout]").first.check()
    assert re.search(r"#rollout-\d+$", found.url)


def test_on_a_phone_list_and_group_take_turns(watched, page):
    found = watched(page, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True).page
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert found.evaluate(overflow) <= 0
    all_groups(found)
    assert not found.locator("#detail").is_visible()
    found.locator(".row").nth(1).tap()
    assert found.locator("#detail").is_visible()
    assert not found.locator("#list").is_visible()
    found.locator(".side").nth(1).wait_for()
    assert found.evaluate(overflow) <= 0
    found.get_by_role("button", name="← All groups").tap()
    assert found.locator("#list").is_visible()


def test_steps_redaction_and_pages_without_scores(until, watched, tmp_path, write_audit, build_light):
    def plain(rows):
        for row in rows:
            row.update(score=None, anomalous=False, source=row["index"], reward=None, correct=None, group_pairs=0)

    several = watched(build_light(write_audit(tmp_path / "steps", groups=3, steps=2))).page
    all_groups(several)
    several.get_by_label("Step").select_option("2")
    assert count(several) == "3 of 6 groups, 18 of 36 rollouts"
    assert set(several.locator(".row-step").all_inner_texts()) == {"step 2"}
    redacted = watched(build_light(write_audit(tmp_path / "redacted", groups=3, redact=True))).page
    all_groups(redacted)
    redacted.get_by_text("left out of this folder").wait_for()
    redacted.get_by_label("Search").fill("g2-r4")
    wait_for_count(until, redacted, "1 of 3 groups, 1 of 18")
    bare = watched(build_light(write_audit(tmp_path / "bare", groups=3, pairs=False, change=plain))).page
    assert count(bare) == "3 groups, 18 rollouts"
    assert "no reward" in bare.locator("#detail").inner_text()


VERIFIER = {
    "groups_with_repeated_answers": 3, "groups_with_answers_judged_both_ways": 2,
    "groups_with_repeated_responses": 0, "groups_with_responses_judged_both_ways": 0, "answers": "exclusive",
    "rates": {name: {"estimate": 0.25, "low": 0.125, "high": 0.5, "by": "model"}
              for name in ("false_positive_rate", "false_negative_rate", "informedness")},
    "bounds": {name: {"low": 0.125, "high": 1.0} for name in ("false_positive_rate", "false_negative_rate")},
    "errors_at_least": 2, "known_truths": 0, "scored": 18, "rewarded": 9, "answered": 15, "doubt": None,
}  # fmt: skip
GOLD = {
    "problem": "p1", "step": 1, "group": 1, "index": 6, "gold": "z", "proposed": "y", "copies": 4, "rollouts": 6,
    "gold_copies": 0, "votes": {"reward": [0, 4]}, "score": 0.875,
}  # fmt: skip


@pytest.fixture(scope="module")
def denoised(watch, tmp_path_factory, write_audit, build_light):
    """Three groups of six verdicts: "x" rewarded twice and refused once, "y" refused twice, one without an answer."""

    def change(rows):
        for index, row in enumerate(rows):
            group, sample = divmod(index, 6)
            reward, wrong = (1, 1, 0, 0, 0, 1)[sample], (0.1, 0.1, 0.9 - group / 5, 0.0001, 0.2, 0.3)[sample]
            denoised = 1 - wrong if reward else wrong
            row.update(reward=reward, final_answer=("x", "x", "x", "y", "y", None)[sample], probability_wrong=wrong,
                       denoised_reward=denoised, new_reward=denoised, anomalous=wrong > 0.5, source=row["index"],
                       score=wrong * 4 - 2)  # fmt: skip

    golds = {"problems": 3, "rivalled": 1, "suspicious": 1, "least_score": 0.5, "accepted": 0.7, "trusted": True,
             "top": [GOLD]}  # fmt: skip
    folder = write_audit(
        tmp_path_factory.mktemp("denoised") / "dump", groups=3, change=change, pairs=False, verifier=VERIFIER,
        suspicious_golds=golds, curator={"type": "denoise"},
    )  # fmt: skip
    watched = watch(build_light(folder))
    all_groups(watched.page)
    return watched


def test_answers_stand_together_with_their_verdicts(until, denoised):
    found = denoised.page
    assert found.get_by_label("Sort by").input_value() == "wrong"
    assert groups(until, found) == [0, 1, 2]
    assert "wrong: 70%" in found.locator("#group-1").inner_text()
    found.locator("#group-0").click()
    lines = [re.sub(r"\s+", " ", line) for line in found.locator(".clusters tbody tr").all_inner_texts()]
    # Denoised: (0.9 + 0.9 + 0.9) / 3; (0.0001 + 0.2) / 2, to a ten-thousandth; 1 - 0.3.
    assert lines == ["x 3 2 1 0.9 rewarded and refused", "y 2 0 2 0.1 ", "no answer 1 1 0 0.7 "]
    heads = found.locator(".rollouts thead").inner_text().split("\t")
    assert heads[2:6] == ["reward", "chance to be wrong", "flagged", "in training"]
    first = re.sub(r"\s+", " ", found.locator(".rollouts tbody tr").first.inner_text()).strip()
    assert first.startswith("2 0 90% flagged reward 0.9 ")
    assert "under 1%" in found.locator(".rollouts tbody").inner_text()
    assert found.get_by_role("radio", name="Response 2: reward 0, estimated chance to be wrong 90%").count() == 1


def test_the_verifiers_rates_and_the_answers_that_it_always_refuses(until, denoised):
    found = denoised.page
    rates = [row.inner_text().split("\t") for row in found.locator("#verifier tbody tr").all()]
    assert [row[1:] for row in rates] == [["25.0% (12.5% to 50.0%)", "estimated"]] * 2
    assert found.locator("#golds tbody tr").inner_text().split("\t") == ["p1", "z", "y", "4 of 6", "0.88"]
    found.locator("#golds tbody a").click()
    until(found, "() => document.querySelector('#detail-title').innerText === 'Group 1'")
    assert chosen(found) == "6"
    assert denoised.wrong == []


HOSTILE = ["=HYPERLINK(1)", " +1", "\ttab", "bell \x07 and\r\nline", 'a "quoted", cell', "x" * 33_000, "𝔸" * 32_001]


@pytest.fixture
def labelled(watch, tmp_path_factory, write_audit, build_light):
    """Verdicts on hostile texts, two flagged in each of two steps."""

    def change(rows):
        for index, row in enumerate(rows):
            row.update(reward=float(index % 2), response=HOSTILE[index % len(HOSTILE)], anomalous=index % 6 in (2, 3),
                       source=row["index"], characters=len(HOSTILE[index % len(HOSTILE)]))  # fmt: skip

    folder = write_audit(
        tmp_path_factory.mktemp("labelled") / "dump", groups=2, steps=2, change=change, pairs=False,
        curator={"type": "denoise"},
    )  # fmt: skip
    page = watch(build_light(folder), accept_downloads=True)
    page.folder = folder
    return page


def downloaded(page, button, path):
    with page.expect_download() as found:
        page.locator(button).click()
    found.value.save_as(path)
    return found.value.suggested_filename


def test_flagged_rollouts_are_downloaded_as_the_audit_writes_them(labelled, tmp_path):
    path = tmp_path / "flagged.csv"
    assert downloaded(labelled.page, "#download-flagged", path) == "flagged.csv"
    found = read_labels(path)
    in_order = read_report(labelled.folder).flagged
    assert [key[:3] for key in found] == list(zip(in_order["step"], in_order["line"], in_order["sample"], strict=True))
    assert len(found) == 8
    assert all(row.label is None for row in found.values())
    scores = pyarrow.parquet.read_table(labelled.folder / "scores.parquet").to_pylist()
    flagged = {(row["step"], row["line"], row["sample"]): row for row in scores if row["anomalous"]}
    assert {key: row.cells["response"] for key, row in found.items()} == {
        key: safe(row["response"]) for key, row in flagged.items()
    }


def give(page, row, words):
    """Presses a button of the flagged reward on this row."""
    page.locator(f"[data-index='{row}'] .label-button", has_text=words).click()


def labels_of(page, tmp_path):
    path = tmp_path / "labels.csv"
    assert downloaded(page, "#download-labels", path) == "labels.csv"
    return {(key[0], key[1], key[2]): row.label for key, row in read_labels(path).items()}


def test_labels_given_on_the_page_are_read_back(labelled, tmp_path):
    """Rewards are 0 and 1 by turns: on row 2 it is 0, on row 3 it is 1."""
    page = labelled.page
    assert page.locator("#download-labels").is_disabled()
    give(page, 2, "reward is wrong")
    give(page, 3, "reward is right")
    for _ in range(2):  # given and taken back
        give(page, 8, "reward is right")
    assert "2 of 8" in page.locator("#labelled").inner_text()
    assert labels_of(page, tmp_path) == {(1, 1, 2): 1.0, (1, 1, 3): 1.0}
    for row, words in ((2, "reward is wrong"), (3, "reward is right")):
        give(page, row, words)
    assert page.locator("#download-labels").is_disabled()
    assert labelled.wrong == []


def test_labels_outlive_a_reload_and_are_the_same_in_both_views(until, labelled, tmp_path):
    page = labelled.page
    give(page, 2, "reward is right")
    page.reload()
    until(page, "() => document.documentElement.dataset.ready === 'yes'")
    all_groups(page)
    page.locator("#group-0").click()
    page.locator(".rollouts input[value='2']").click()
    pressed = page.locator("#detail .label-button[aria-pressed=true]")
    assert pressed.all_inner_texts() == ["reward is right"]
    assert labels_of(page, tmp_path) == {(1, 1, 2): 0.0}
    pressed.click()
    page.locator("#views button[data-view=flags]").click()
    assert labelled.wrong == []


def test_a_browser_asks_before_unsaved_labels_are_left_and_only_then(until, labelled, tmp_path):
    page = labelled.page
    before = labelled.asked
    give(page, 2, "reward is right")
    page.reload()
    assert labelled.asked == before + 1
    until(page, "() => document.documentElement.dataset.ready === 'yes'")
    labels_of(page, tmp_path)
    page.reload()
    assert labelled.asked == before + 1
    until(page, "() => document.documentElement.dataset.ready === 'yes'")
    page.locator("#views button[data-view=flags]").click()
    give(page, 2, "reward is right")  # taken back
    assert labelled.wrong == []


def test_the_same_response_with_the_same_reward_is_labelled_at_once(watched, tmp_path, write_audit, build_light):
    def change(rows):
        for index, row in enumerate(rows):
            row.update(reward=float(index % 6 > 2), response="the same", characters=8, anomalous=index in (3, 4, 5),
                       source=row["index"])  # fmt: skip

    folder = write_audit(tmp_path / "dump", groups=1, change=change, pairs=False, curator={"type": "denoise"})
    page = watched(build_light(folder), accept_downloads=True).page
    assert page.locator(".flag").count() == 1
    give(page, 5, "reward is wrong")  # the most suspicious of the three
    assert labels_of(page, tmp_path) == {(1, 1, sample): 0.0 for sample in (3, 4, 5)}


def test_flagged_rewards_come_first_each_with_its_reason(opened, page, watched):
    found = watched(page).page
    cards = found.locator(".card")
    assert [card.get_attribute("data-group") for card in cards.all()] == ["9", "6", "3", "0"]
    assert found.locator(".flag").count() == found.locator(".flag .why").count() == 4
    found.locator(".card button.link").first.click()
    assert found.locator("#detail-title").inner_text() == "Group 9"
    assert chosen(found) == "55"


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_makes_the_page_scroll_sideways(watched, page, width):
    found = watched(page, viewport={"width": width, "height": 800}).page
    found.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert found.evaluate(overflow) <= 0
    all_groups(found)
    assert found.evaluate(overflow) <= 0


def test_without_javascript_finding_and_rates_are_there(chromium, tmp_path, write_audit, build_light):
    folder = write_audit(tmp_path / "dump", verifier=VERIFIER, curator={"type": "denoise"})
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(build_light(folder).as_uri())
    assert page.locator("#finding .headline").is_visible()
    assert page.locator("#verifier tbody tr").count() == 2
    assert page.locator("noscript").is_visible()
    assert not page.locator("#tools, #panes").first.is_visible()
    context.close()
