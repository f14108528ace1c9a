"""The pages of a run and of a comparison in a real browser, at the width of a desk and of a phone."""

import pytest
from chromium import chromium

from geoalign.report import build_report

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory, write_run, write_comparison):
    """The page of a comparison with a run kept, and the page of that run."""
    scores = {
        "flip_20": {"grpo": 0.4, "geoalign": 0.5, "an_arm_with_a_rather_long_name_for_a_phone": 0.45, "clean": 0.6}
    }
    folder = write_comparison(tmp_path_factory.mktemp("chromium") / "comparison", scores, rates={"flip_20": 0.2})
    run = write_run(folder / "runs" / "flip_20" / "geoalign" / "seed-0", steps=3, flip=0.2, curator="geoalign")
    return {"comparison": build_report(folder), "run": build_report(run)}


@pytest.mark.parametrize("kind", ["comparison", "run"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_no_page_scrolls_sideways_with_everything_unfolded(browser, pages, kind, scheme, width):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(pages[kind].as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    # The summary stands on the first screen.
    assert page.locator("#summary .headline").first.bounding_box()["y"] < 900
    page.close()
    assert messages == []


def test_the_width_of_a_desk_is_used(browser, pages):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(pages["comparison"].as_uri())
    boxes = [picture.bounding_box() for picture in page.locator(".level .gallery figure").all()[:2]]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[1]["x"] + boxes[1]["width"] > 1200
    page.close()
