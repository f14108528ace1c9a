"""The page: complete on a whole run and honest on a partial one."""

import math

import pytest
from pages import Page, words

from geoalign.pages.documents import gain
from geoalign.report import build_report
from geoalign.statistics import Interval, PairedDifference


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory, write_run):
    folder = write_run(tmp_path_factory.mktemp("whole") / "run", steps=9, flip=0.05, curator="geoalign")
    assert build_report(folder) == folder / "report.html"
    return folder


def test_the_page_of_a_whole_run(whole_run):
    folder, path = whole_run, whole_run / "report.html"
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    said = words(text)
    for expected in (
        "there was a consensus to trust", "30.0%", "62.0%", "+32.0 points", "number of pairs, fewest first", "PPO KL",
    ):  # fmt: skip
        assert expected in said or expected in text
    images = page.attributes_of("img")
    assert len(images) == len(page.attributes_of("source")) == len(list((folder / "figures").glob("*.svg"))) == 10
    assert all(len(image["alt"]) > 40 for image in images)
    assert len({attributes["id"] for _, attributes in page.tags if "id" in attributes}) == len(
        [1 for _, attributes in page.tags if "id" in attributes]
    )
    assert not list(folder.glob("**/*.tmp"))


def test_the_page_needs_no_network_and_forbids_scripts(whole_run):
    page = Page((whole_run / "report.html").read_text(encoding="utf-8"))
    policy = next(
        item["content"] for item in page.attributes_of("meta") if item.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert page.attributes_of("script") == page.attributes_of("link") == page.attributes_of("iframe") == []
    addresses = [item["src"] for item in page.attributes_of("img")] + [
        item["srcset"] for item in page.attributes_of("source")
    ]
    assert all(address.startswith("data:image/svg+xml;base64,") for address in addresses)


@pytest.mark.parametrize("part", ["metrics.jsonl", "summary.json", "rollouts"])
@pytest.mark.usefixtures("undrawn")
def test_a_run_without_one_of_its_parts_still_has_a_page(make_run, part):
    folder = make_run(steps=1)
    path = folder / part
    if path.is_dir():
        for item in path.iterdir():
            item.unlink()
    else:
        path.unlink()
    text = build_report(folder).read_text(encoding="utf-8")
    assert Page(text).open == []
    if part == "summary.json":
        assert "has not come to its end" in text
    assert ("Rollouts that were flagged" in text) == (part != "rollouts")


@pytest.mark.usefixtures("undrawn")
def test_a_run_of_grpo_has_no_section_of_curators(make_run):
    text = build_report(make_run(steps=2, curator="grpo", flip=0.0)).read_text(encoding="utf-8")
    ids = {attributes["id"] for _, attributes in Page(text).tags if "id" in attributes}
    assert ids.isdisjoint({"verdict", "flagged", "projector", "density", "cosines", "detection"})
    assert "nan" not in words(text).lower().replace("finance", "")


@pytest.mark.usefixtures("undrawn")
def test_the_page_opens_with_what_came_out_and_what_flags_were_worth(make_run):
    said = words(build_report(make_run(steps=4, flip=0.1)).read_text(encoding="utf-8"))
    summary = said[said.index("Summary") : said.index("Accuracy and reward")]
    assert "from 30.0% to 62.0%" in summary
    # Nine of 192 rollouts at each of four steps.
    assert "flagged 36 of 768" in summary
    assert "One seed, an illustration." in summary


@pytest.mark.parametrize(
    ("ends", "said"),
    [((0.1, 0.2), "knows more than that"), ((-0.2, -0.1), "knows less"), ((-0.1, 0.1), "cannot be told apart")],
)
def test_gain_over_the_pair_count_in_words(ends, said):
    assert said in gain(PairedDifference(Interval(sum(ends) / 2, *ends), 0.5, 5, 0))
    assert "Too few steps" in gain(PairedDifference(Interval(0.1, math.nan, math.nan), math.nan, 2, 0))
