"""A notebook as a page: its text, its code, and what the code printed and drew when it was last run."""

from __future__ import annotations

import json
from typing import Any

# Pictures, the best one first.
_PICTURES = ("image/svg+xml", "image/png", "image/jpeg")


def markdown_of_notebook(text: str) -> str:
    """The Markdown of a notebook in the format of Jupyter (nbformat 4). Nothing is run."""
    notebook = json.loads(text)
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(_fenced(source, "python"))
            parts.extend(_shown(output) for output in cell["outputs"])
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _printed(_joined(output["text"]))
    if output["output_type"] == "error":
        return _printed(f"{output['ename']}: {output['evalue']}")
    data = output["data"]
    for kind in _PICTURES:
        if kind in data:
            return _picture(kind, _joined(data[kind]))
    if "text/html" in data:
        return f"<div>{_joined(data['text/html'])}</div>"
    if "text/markdown" in data:
        return _joined(data["text/markdown"])
    return _printed(_joined(data.get("text/plain", "")))


def _picture(kind: str, content: str) -> str:
    """A picture within the page: PNG and JPEG are base64 in a notebook, SVG is text."""
    if kind == "image/svg+xml":
        return f"<div>{content[content.index('<svg') :]}</div>"
    encoded = "".join(content.split())
    return f'<img alt="What the cell above draws." src="data:{kind};base64,{encoded}">'


def _printed(text: str) -> str:
    return _fenced(text, "{.text .output .no-copy}") if text.strip() else ""


def _fenced(text: str, language: str) -> str:
    longest = 3
    while "`" * longest in text:
        longest += 1
    fence = "`" * longest
    return f"{fence} {language}\n{text.rstrip()}\n{fence}"


def _joined(source: str | list[str]) -> str:
    """Texts in notebooks are one string, or a list of lines."""
    return source if isinstance(source, str) else "".join(source)
