"""What the site makes of pages that are written for GitHub."""

import json

import pytest
from tools.site.github_markdown import anchors, lists_of_four_spaces, pictures_of_both_schemes
from tools.site.links import Links
from tools.site.markdown import table
from tools.site.network import addresses_fetched
from tools.site.notebooks import markdown_of_notebook

PLACES = {"docs/a.md": "a.md", "docs/notebooks/b.ipynb": "notebooks/b.ipynb", "evidence/README.md": "evidence/data.md"}


@pytest.fixture
def root(tmp_path):
    for path in ("docs/a.md", "docs/notebooks/b.ipynb", "evidence/README.md", "README.md", "configs/one.yaml"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# Title\n\n## A part\n", encoding="utf-8")
    (tmp_path / "evidence" / "curves.svg").write_text("<svg/>", encoding="utf-8")
    return tmp_path


def linked(markdown, root, *, path="docs/a.md", address=None):
    return Links(places=PLACES, address=address, root=root).of_the_site(markdown, path)


@pytest.mark.parametrize(
    ("path", "link", "there"),
    [
        ("docs/a.md", "[x](../evidence/README.md#part)", "[x](evidence/data.md#part)"),
        ("evidence/README.md", "[x](../docs/a.md)", "[x](../a.md)"),
        ("evidence/README.md", "[`x`](../docs/notebooks/b.ipynb)", "[`x`](../notebooks/b.ipynb)"),
        ("docs/notebooks/b.ipynb", '<a href="../a.md#part">x</a>', '<a href="../a.html#part">x</a>'),
    ],
)
def test_a_link_to_a_file_that_is_a_page_leads_to_the_page(root, path, link, there):
    result = linked(link, root, path=path)
    assert result.markdown == there
    assert result.problems == []


@pytest.mark.parametrize(
    ("link", "there"),
    [
        ("[one](../configs/one.yaml)", "one (`configs/one.yaml`)"),
        ("[`one.yaml`](../configs/one.yaml)", "`configs/one.yaml`"),
        ("[the folder](../configs/)", "the folder (`configs`)"),
    ],
)
def test_a_link_to_another_file_is_its_path_where_the_repository_has_no_address(root, link, there):
    assert linked(link, root).markdown == there


def test_a_link_to_another_file_leads_into_the_repository_where_it_has_an_address(root):
    result = linked("[x](../configs/one.yaml) [y](../configs)", root, address="https://host/repository/")
    assert result.markdown == (
        "[x](https://host/repository/blob/main/configs/one.yaml) [y](https://host/repository/tree/main/configs)"
    )


@pytest.mark.parametrize("link", ["[x](../configs/two.yaml)", "[x](../README.md#no-part)", "[x](../../outside.md)"])
def test_a_link_to_what_does_not_exist_is_a_problem(root, link):
    assert len(linked(link, root).problems) == 1


@pytest.mark.parametrize(
    "text", ["`[x](../gone.md)`", "```\n[x](../gone.md)\n```\n", "[x](https://host/gone.md)", "[x](#a)"]
)
def test_code_addresses_and_anchors_stay_as_they_are(root, text):
    result = linked(text, root)
    assert result.markdown == text
    assert result.problems == []


def test_a_picture_outside_docs_is_brought_in(root):
    result = linked("![x](curves.svg)", root, path="evidence/README.md")
    assert result.markdown == "![x](curves.svg)"
    assert result.pictures == ["evidence/curves.svg"]


@pytest.mark.parametrize(
    ("github", "site"),
    [
        ("Text:\n- one\n- two\n", "Text:\n\n- one\n- two\n"),
        ("- one\n  of two lines\n- two\n", "- one\n    of two lines\n- two\n"),
        ("1. one\n   - inner\n2. two\n", "1. one\n    - inner\n2. two\n"),
        ("1. one\n\n   ```\n   code\n     more\n   ```\n", "1. one\n\n    ```\n    code\n      more\n    ```\n"),
        ("Text\n| a |\n|---|\n| b |\n", "Text\n\n| a |\n|---|\n| b |\n"),
        ("It was in\n2026. And then\n", "It was in\n2026. And then\n"),
        ("!!! note\n    - one\n      - inner\n", "!!! note\n    - one\n        - inner\n"),
        ("- one\n\nText\n", "- one\n\nText\n"),
    ],
)
def test_lists_and_tables_of_github_are_those_of_the_site(github, site):
    assert lists_of_four_spaces(github) == site


def test_a_picture_for_dark_mode_is_a_second_picture():
    source = '<source media="(prefers-color-scheme: dark)" srcset="d.svg">'
    html = f'<picture>\n{source}\n<img alt="Curves" src="l.svg" width="640">\n</picture>'
    light, dark = "![Curves](l.svg#only-light)", "![Curves](d.svg#only-dark)"
    assert pictures_of_both_schemes(html) == f'{light}{{ width="640" }}{dark}{{ width="640" }}'


def test_anchors_are_those_of_github():
    text = "# A `code`, and more\n\n```\n# no heading\n```\n\n## Eq. -> [function](x.md)\n\n## Twice\n\n## Twice\n"
    assert anchors(text) == {"a-code-and-more", "eq---function", "twice", "twice-1"}


def test_bars_within_code_do_not_end_a_cell():
    assert table(["a"], [["`x|y` or z|w"]]).splitlines()[-1] == "| `x|y` or z\\|w |"


def test_a_notebook_shows_its_text_code_and_outputs():
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {
            "cell_type": "code",
            "source": "draw()",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["79 of 384\n"]},
                {"output_type": "display_data", "data": {"image/png": "QUJD\n", "text/plain": "<Figure>"}},
            ],
        },
    ]
    page = markdown_of_notebook(json.dumps({"nbformat": 4, "cells": cells}))
    for part in ("# Title\nText.", "``` python\ndraw()\n```", "79 of 384", 'src="data:image/png;base64,QUJD"'):
        assert part in page
    assert "<Figure>" not in page


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://host/x"></script>',
        '<img alt="" src="//host/x">',
        '<link rel="stylesheet" href="https://host/x">',
        '<link href="https://host/x" rel="preconnect">',
        "@font-face { src: url(https://host/x) }",
        '@import "https://host/x";',
    ],
)
def test_what_a_page_fetches_from_a_network_is_found(text):
    assert [address.removeprefix("https:") for address in addresses_fetched(text)] == ["//host/x"]


@pytest.mark.parametrize(
    "text",
    ['<a href="https://host/x">', '<link rel="canonical" href="https://host/x">', '<img src="data:image/png;x">'],
)
def test_a_link_that_a_reader_may_follow_fetches_nothing(text):
    assert addresses_fetched(text) == []
