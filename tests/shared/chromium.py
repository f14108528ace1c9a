"""A headless Chromium that opens pages from disk."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

# Without the background flags Chromium asks Google's hosts for updates at every start.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
MANDATORY = os.environ.get("GEOALIGN_REQUIRE_CHROMIUM") == "1"


@contextmanager
def chromium() -> Iterator:
    """The browser; the test is skipped where there is none, unless GEOALIGN_REQUIRE_CHROMIUM=1."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        if MANDATORY:
            pytest.fail("GEOALIGN_REQUIRE_CHROMIUM=1, but there is no chromium on the path")
        pytest.skip("no chromium on the path (apt-get install chromium)")
    if not MANDATORY:
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield browser
        browser.close()
