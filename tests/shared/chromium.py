"""A headless Chromium that opens pages from disk, and a watch of what a page does wrong."""

import os
import shutil
import time
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


def until(page, script, arg=None, seconds=60):
    """Waits until a function of the page's is true; asked from outside, for the page's policy lets no string run."""
    end = time.monotonic() + seconds
    while not page.evaluate(script, arg):
        assert time.monotonic() < end, f"not within {seconds} s: {script} {arg or ''}"
        page.wait_for_timeout(20)


class Watched:
    """A page with all it did wrong: console messages, errors, dialogs, requests beyond its own file."""

    def __init__(self, page):
        self.page = page
        self.wrong = []
        self.asked = 0  # times that the browser asked before it left the page
        page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.wrong.append(f"popup: {popup.url}"))

    def _dialog(self, dialog):
        if dialog.type == "beforeunload":
            self.asked += 1
            dialog.accept()
            return
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        if not request.url.startswith("data:") and request.url.partition("#")[0] != self.address:
            self.wrong.append(f"request: {request.url}")

    def open(self, path, fragment=""):
        self.address = path.as_uri()
        self.page.goto(self.address + fragment)
        until(self.page, "() => document.documentElement.dataset.ready === 'yes'")
