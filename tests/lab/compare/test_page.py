"""The page of a comparison: what stands at the top, what is drawn, what is said instead, hostile names as text."""

import csv
import itertools
import json
import re

import pytest
from pages import Page, words
from rich.console import Console

from geoalign.lab.compare.analysis import read_table
from geoalign.lab.compare.conclude import conclude
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.page import _facts, build_comparison_report, meaning
from geoalign.report import build_report

GEOALIGN = {"alpha": 0.05, "strategy": "replace", "aggregation": "sum", "projector": {"layers": 3, "steps": 50}}
SCORES = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.5, "oracle": 0.7}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, write_comparison):
    """Two levels, one of them with ablations and a failed run; its page, and the page's words."""
    settings = {
        "geoalign": GEOALIGN,
        "bolder": {"type": "geoalign", **GEOALIGN, "alpha": 0.1},
        "unprojected": {"type": "geoalign", **GEOALIGN, "projector": None},
    }
    more = dict.fromkeys(("bolder", "unprojected"), 0.55)
    folder = write_comparison(
        tmp_path_factory.mktemp("whole") / "a comparison",
        {"flip_10": {**SCORES, **more}, "flip_40": {**SCORES, "oracle": 0.5}},
        settings=settings, rates={"flip_10": 0.1, "flip_40": 0.4}, seeds=(0, 1, 2),
        failed=[("flip_40", "geoalign", 1)], missing=[("flip_10", "bolder", 2)],
        compare={"arms_at": {name: ["flip_10"] for name in more}},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("geoalign.pages.documents.render", lambda panel, theme: b"<svg/>")
        page = build_comparison_report(folder)
    assert page == folder / "report.html"
    text = page.read_text(encoding="utf-8")
    return folder, Page(text), words(text)


def test_the_title_says_what_was_compared(whole):
    _, _, said = whole
    assert "6 arms: 2 levels of wrong rewards, 3 seeds" in said


@pytest.mark.parametrize(
    ("levels", "minutes"),
    [
        # `clean` took a minute once for all levels, and the time of one GRPO is not known.
        (("flip_10", "flip_40"), 2),
        # Also where the level that it was run at has left the plan.
        (("flip_40",), 2),
    ],
)
def test_a_run_that_fills_two_levels_took_its_time_once(make_comparison, levels, minutes):
    folder = make_comparison({level: {"grpo": 0.5, "clean": 0.7} for level in levels}, seeds=(0,))
    for level, arm, seconds in itertools.product(levels, ("grpo", "clean"), [60]):
        path = folder / "results" / level / arm / "seed-0.json"
        result = {**json.loads(path.read_text()), "seconds": None if (level, arm) == ("flip_10", "grpo") else seconds}
        if (level, arm) == ("flip_40", "clean"):
            result["same_run_as"] = "flip_10/clean/seed-0"
        path.write_text(json.dumps(result))
    facts = dict(_facts(read_table(folder), ComparisonFolder(folder)))
    assert facts["time of all runs"] == f"{minutes} min"


def test_failures_stand_first_and_then_the_summary(whole):
    _, page, said = whole
    top = said[: said.index("By the share of wrong rewards")]
    assert "1 of the runs failed" in top
    assert "geoalign at flip_40 , seed 1: RuntimeError" in top
    assert "flip_10, seed 2: bolder" in top
    assert "geoalign scored better than grpo" in top
    # Without its failed run GeoAlign has two seeds at the other level.
    assert "Two seeds, an illustration." in top
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert ids[:3] == ["failures", "summary", "robustness"]
    links = [attributes["href"].removeprefix("#") for attributes in page.attributes_of("a")]
    assert links == ["level-flip_10", "level-flip_40"]
    assert set(links) <= set(ids)


def test_tables_and_settings_are_folded(whole):
    _, page, _ = whole
    assert not any("open" in attributes for attributes in page.attributes_of("details"))
    # Every table but that of flagged rollouts, of which these runs have kept none.
    depth = []
    for tag, _ in page.tags:
        depth.append(tag)
    assert depth.count("table") <= depth.count("summary")
    assert depth.index("details") < depth.index("table")


def test_the_figures_of_the_paper_are_drawn(whole):
    folder, page, _ = whole
    drawn = {attributes["id"] for attributes in page.attributes_of("figure")}
    at_both = (
        "differences", "evaluation", "rank-pooled", "projector", "training-reward", "true-reward", "kl",
        "clip-fraction", "pass-at-k",
    )  # fmt: skip
    assert {f"{name}-{level}" for name in at_both for level in ("flip_10", "flip_40")} <= drawn
    assert "robustness-flip" in drawn
    assert {path.stem for path in (folder / "figures").iterdir()} == drawn
    assert all(len(image["alt"]) > 40 for image in page.attributes_of("img"))
    assert not list(folder.glob("**/*.tmp"))


def test_numbers_of_the_tables(whole):
    _, _, said = whole
    table = said[said.index("Scores and gains") : said.index("Final accuracy of every seed")]
    # .6 with .1, -.1, .05 and .01, -.01, -.02: .71, .49, .63, mean .61, sd .1114, 4.302653 x .1114 / sqrt(3) = .2766.
    assert "geoalign primary 3 0.610 0.333 to 0.887 0.111" in table
    # Wobbles of seeds 0 to 2: -.02, .01, 0 of grpo, .01, -.01, -.02 of geoalign: differences .13, .08, .08.
    assert "+0.097" in table
    assert "bolder 2 1 missing" in table
    assert "no interval (2 paired)" in table
    assert "exploratory, Holm's p" in table
    assert "nan" not in table.lower()
    seeds = said[said.index("Final accuracy of every seed") :]
    assert "geoalign 0.710 0.490 0.630" in seeds


@pytest.mark.usefixtures("undrawn")
def test_build_report_knows_a_comparison_and_results_alone_are_enough(make_comparison):
    folder = make_comparison({"x": {"grpo": 0.5, "random": 0.5}}, seeds=(0,))
    (folder / "versions.json").unlink()
    page = build_report(folder)
    said = words(page.read_text(encoding="utf-8"))
    assert "grpo and random: 10% of the verdicts flipped, one seed" in said
    assert "One seed, an illustration." in said
    assert "judged here" not in said
    assert "versions.json is not there" in said
    # The same bytes from the same results.
    before = page.read_bytes()
    assert build_report(folder).read_bytes() == before


@pytest.mark.usefixtures("undrawn")
def test_dialogue_shows_proxy_and_gold(make_comparison):
    folder = make_comparison({"x": {"grpo": 0.9, "oracle": 0.8}}, seeds=(0, 1, 2), metric="reward", gold=-0.2)
    text = build_report(folder).read_text(encoding="utf-8")
    drawn = {attributes["id"] for attributes in Page(text).attributes_of("figure")}
    assert {"gold-reward-x", "proxy-reward-x"} <= drawn
    assert "Gold reward and proxy reward arm gold reward" in words(text)


@pytest.mark.usefixtures("undrawn")
def test_with_a_run_without_wrong_rewards_the_summary_says_what_was_recovered(make_comparison):
    scores = {"grpo": 0.4, "geoalign": 0.5, "pair_count": 0.42, "oracle": 0.58, "clean": 0.6}
    folder = make_comparison({"flip_40": scores, "flip_00": scores}, rates={"flip_40": 0.4, "flip_00": 0.0})
    said = words(build_comparison_report(folder).read_text(encoding="utf-8"))
    # Of a loss of 0.2 GeoAlign wins 0.1 back and the oracle 0.18.
    summary = said[said.index("Summary") :]
    assert "40% of the rewards were wrong." in summary
    assert "grpo 0.400, geoalign 0.500," in summary
    assert "geoalign 50%" in summary
    assert "oracle 90%" in summary
    assert said.count("of the rewards were wrong") == 1


@pytest.mark.usefixtures("undrawn")
def test_flagged_rollouts_are_shown_where_a_run_was_kept(make_comparison, write_run):
    folder = make_comparison({"x": {"grpo": 0.4, "geoalign": 0.5}}, seeds=(0, 1, 2))
    assert "Rollouts that were flagged" not in words(build_report(folder).read_text(encoding="utf-8"))
    write_run(folder / "runs" / "x" / "geoalign" / "seed-1", steps=2, flip=0.1, curator="geoalign")
    text = build_report(folder).read_text(encoding="utf-8")
    said = words(text[text.index('id="examples"') :])
    assert "geoalign at x, seed 1" in said
    # Prompt, response, and what the curator did, of six rows of the last generation.
    assert said.count("step 2, row") == 6
    assert said.count("replaced by row") == 6
    assert said.count("boxed") >= 12


HALF = 50


def concluded(root):
    console = Console(record=True, width=200)
    folder = ComparisonFolder(root)
    conclude(folder, console)
    with folder.table_csv.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    page = build_comparison_report(root).read_text(encoding="utf-8")
    table = page[page.index("How well wrong rewards were found") :]
    return console.export_text(), rows, table[: table.index("</table>")]


@pytest.mark.usefixtures("undrawn")
def test_it_stands_beside_detection(make_comparison):
    # Every second step has a generation: 50 of 0.625 and 50 without; as the rewards came 0.375.
    series = {"advantage_cosine": [0.625, None] * HALF, "observed_advantage_cosine": [0.375, None] * HALF}
    root = make_comparison({"flip": {"grpo": 0.4, "geoalign": 0.45}}, series=series)
    terminal, rows, page = concluded(root)
    (line,) = [line for line in terminal.splitlines() if "geoalign" in line and "0.625" in line]
    # Before curation, after it.
    assert re.split(r"\s*│\s*", line.strip(" │"))[-2:] == ["0.375", "0.625"]
    assert [row["advantage_cosine_mean"] for row in rows] == ["0.625", "0.625"]
    assert [row["observed_advantage_cosine_mean"] for row in rows] == ["0.375", "0.375"]
    assert page.count("0.625") == page.count("0.375") >= 2


@pytest.mark.parametrize(("model", "toy"), [({"type": "tiny"}, True), ({"type": "pretrained", "path": "a/b"}, False)])
def test_a_comparison_of_tiny_models_is_called_a_toy(make_comparison, model, toy):
    folder = make_comparison({"x": {"grpo": 0.4, "geoalign": 0.5}})
    assert ("toy" in meaning(read_table(folder), {"model": model})) is toy
