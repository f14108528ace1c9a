"""Which file of the repository is which page of the site, and links from page to page.

In the repository a link goes from file to file: `../configs/full/README.md#prompts`. On the site it leads to the page
that this file has become. A file without a page is linked in the public repository, where mkdocs.yml names its
address (`repo_url`); without an address its path stands in the text. A link to a file that does not exist is a problem.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.site.github_markdown import anchors, outside_fences

ROOT = Path(__file__).parents[2]

# Pages outside docs/ with a place of their own on the site; the others keep their path.
_PLACES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "evidence/README.md": "evidence/data.md",
    "configs/evidence/README.md": "evidence/plan.md",
    "configs/full/README.md": "configs/full.md",
    "recipes/rollouts/README.md": "recipes/rollouts.md",
}
# Every Markdown file in these folders is a page.
_FOLDERS = ("evidence", "configs/full", "benchmarks")

_LINK = re.compile(
    # Code within a line, which is left alone.
    r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    # [text](target "title"), with `!` before it a picture. A text may hold brackets, a picture for example.
    r"|(?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]"
    r"\((?P<target>[^()\s]+)(?P<title>\s+\"[^\"]*\")?\)"
    # An attribute of HTML.
    r"|\b(?P<attribute>src|srcset|href)=\"(?P<value>[^\"\s]+)\"",
    re.DOTALL,
)
# Addresses on the web or for mail, and anchors of the page itself.
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


def pages_outside_docs(root: Path = ROOT) -> dict[str, str]:
    """The pages of the site that do not lie in docs/: path in the repository to place on the site."""
    paths = {path for path in _PLACES if (root / path).exists()}
    for folder in _FOLDERS:
        paths |= {page.relative_to(root).as_posix() for page in (root / folder).glob("*.md")}
    return {path: _PLACES.get(path, path) for path in sorted(paths)}


@dataclass
class LinkedPage:
    """A page with the links of the site, the problems with them, and the pictures outside docs/ that it shows."""

    markdown: str
    problems: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Links:
    """What links are resolved against.

    Attributes:
        places: the place on the site of each file that is there, by its path in the repository.
        address: the address of the public repository, if there is one.
        root: the folder of the repository.
    """

    places: Mapping[str, str]
    address: str | None = None
    root: Path = ROOT

    def of_the_site(self, markdown: str, path: str) -> LinkedPage:
        """The page whose file is `path`, with links that lead to pages of the site."""
        result = LinkedPage(markdown)

        def link_of_the_site(match: re.Match[str]) -> str:
            target = match["target"] or match["value"]
            if target is None or _ELSEWHERE.match(target):
                return match[0]
            if match["attribute"]:
                is_picture = match["attribute"] != "href"
                address = self._address(target, path, result, is_picture=is_picture) or "#"
                # MkDocs changes no address in HTML, and a page has another ending there.
                address = re.sub(r"\.(?:md|ipynb)(?=$|#)", ".html", address)
                return f'{match["attribute"]}="{address}"'
            address = self._address(target, path, result, is_picture=bool(match["picture"]))
            if address is None:
                return _in_words(match["text"], _named(target, path))
            return f"{match['picture']}[{match['text']}]({address}{match['title'] or ''})"

        result.markdown = outside_fences(markdown, lambda text: _LINK.sub(link_of_the_site, text))
        return result

    def _address(self, target: str, path: str, result: LinkedPage, *, is_picture: bool) -> str | None:
        """What stands in place of `target` on the page `path`; None: there is nothing to link to."""
        hash_and_anchor = target[len(target.partition("#")[0]) :]
        named = _named(target, path)
        folder = posixpath.dirname(self.places[path]) or "."
        if named in self.places:
            return os.path.relpath(self.places[named], folder) + hash_and_anchor
        file = self.root / named
        if named.startswith("..") or not file.exists():
            result.problems.append(f"a link to '{target}', but there is no {named}")
            return target
        if is_picture:
            result.pictures.append(named)
            return os.path.relpath(named, folder) + hash_and_anchor
        if hash_and_anchor and hash_and_anchor[1:] not in _anchors_of(file):
            result.problems.append(f"a link to '{target}', but {named} has no such anchor")
        if self.address is None:
            return None
        kind = "tree" if file.is_dir() else "blob"
        return f"{self.address.rstrip('/')}/{kind}/main/{named}{hash_and_anchor}"


def _named(target: str, path: str) -> str:
    """The path in the repository that a link on the page `path` names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target.partition("#")[0]))


def _anchors_of(file: Path) -> set[str]:
    return anchors(file.read_text(encoding="utf-8")) if file.suffix == ".md" else set()


def _in_words(text: str, path: str) -> str:
    """A link's text where there is nothing to link to: with the path, unless the text is the path."""
    name = text.strip("`").rstrip("/")
    if path == name or path.endswith(f"/{name}"):
        return f"`{path}`"
    return f"{text} (`{path}`)"
