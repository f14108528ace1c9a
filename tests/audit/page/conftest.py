"""Pages of generated folders, and a real Chromium that opens them from disk."""

import audit_folders
import chromium as shared_chromium
import pytest

from geoalign.audit.page import page as page_module
from geoalign.audit.results import read_report


@pytest.fixture(scope="session")
def write_audit():
    return audit_folders.write_audit


@pytest.fixture(scope="session")
def build_light():
    """Builds the page without its figures, which take most of the time."""

    def build(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(page_module, "audit_sections", lambda *found: [])
            return page_module.build_audit_page(read_report(folder))

    return build


# Not for the session: while Playwright is open, this thread runs an event loop, and others' asyncio.run() would fail.
@pytest.fixture(scope="module")
def chromium():
    with shared_chromium.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def until():
    return shared_chromium.until


@pytest.fixture(scope="module")
def watch(chromium):
    """Opens pages in contexts of their own."""
    contexts = []

    def open_page(path, fragment="", **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = shared_chromium.Watched(context.new_page())
        page.open(path, fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def watched(watch):
    """Opens pages in which nothing may have gone wrong by the end of the test."""
    pages = []

    def open_page(*path, **options):
        pages.append(watch(*path, **options))
        return pages[-1]

    yield open_page
    wrong = [line for page in pages for line in page.wrong]
    for page in pages:
        page.page.context.close()
    assert wrong == []
