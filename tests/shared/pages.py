"""What a page holds: its tags and its visible words."""

import html
import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """Every tag with its attributes; fails where tags do not nest."""

    VOID = frozenset({"meta", "img", "source", "br", "link", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def attributes_of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def words(text: str) -> str:
    body = re.sub(r"<(style|title)>.*?</\1>", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))
