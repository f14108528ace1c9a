"""What happens when the site is built, named in mkdocs.yml: events of MkDocs, each a function.

The site shows more than the folder docs/ holds. Pages that lie elsewhere in the repository are brought in, and
notebooks become pages. Links are written as GitHub needs them, from
file to file, and are turned here into links from page to page.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site import reference
from tools.site.github_markdown import lists_of_four_spaces, pictures_of_both_schemes
from tools.site.links import ROOT, Links, pages_outside_docs
from tools.site.network import files_that_fetch
from tools.site.notebooks import markdown_of_notebook

_LOG = get_plugin_logger("geoalign")


class NotebookFile(File):
    """A notebook, which is a page of the site."""

    def is_documentation_page(self) -> bool:
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/, and makes pages of the notebooks that are."""
    for name in reference.stale():
        _LOG.warning(f"docs/reference/{name} is not as the code has it; {reference.AGAIN}")
    for path, place in pages_outside_docs().items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            files.append(NotebookFile(file.src_uri, file.src_dir, file.dest_dir, file.use_directory_urls))
    return files


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """The Markdown of a notebook; all other pages are read as they are."""
    if page.file.src_uri.endswith(".ipynb"):
        return markdown_of_notebook(page.file.content_string)
    return None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns GitHub's Markdown into that of the site: lists, pictures for light and dark, links."""
    places = _places(files)
    paths = {place: path for path, place in places.items()}
    markdown = lists_of_four_spaces(markdown)
    markdown = pictures_of_both_schemes(markdown)
    linked = Links(places=places, address=config.repo_url).of_the_site(markdown, paths[page.file.src_uri])
    for problem in linked.problems:
        _LOG.warning(f"{page.file.src_uri}: {problem}")
    for picture in linked.pictures:
        if files.get_file_from_path(picture) is None:
            files.append(File.generated(config, picture, abs_src_path=str(ROOT / picture)))
    return linked.markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Shapes in the types of the API: jaxtyping wants a space in `" b"`, a reader does not."""
    if page.file.src_uri != "reference/api.md":
        return html
    return re.sub(r"(?P<quote>\"|'|&quot;|&#39;) (?=[a-z]\w*(?P=quote))", r"\g<quote>", html)


def on_post_build(config: MkDocsConfig) -> None:
    """Puts the licence of the theme beside its scripts, and warns of every page that would fetch something."""
    site = Path(config.site_dir)
    (site / "assets" / "LICENSE.mkdocs-material.txt").write_text(_licence("mkdocs-material"), encoding="utf-8")
    for name, address in files_that_fetch(site):
        _LOG.warning(f"{name} fetches {address}: the site has to work without a network")


def _licence(package: str) -> str:
    """The text of the licence that an installed package brings."""
    files = metadata.files(package) or []
    licence = next(file for file in files if file.match("*.dist-info/licenses/LICENSE"))
    return licence.read_text(encoding="utf-8")


def _places(files: Files) -> dict[str, str]:
    """The place on the site of each file that is shown there, by its path in the repository."""
    outside = {place: path for path, place in pages_outside_docs().items()}
    shown = [file.src_uri for file in files if not file.inclusion.is_excluded()]
    return {outside.get(place, f"docs/{place}"): place for place in shown}
