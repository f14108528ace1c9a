"""Texts that try to run, load, link, hide or deceive stay texts, in a real browser."""

import pytest
from audit_folders import INPUT

RUN = "window.hacked=1"
TEXTS = [
    f"</script><script>{RUN}</script><img src=x onerror={RUN}><svg onload={RUN}><!-- <script>",
    f"<a href='javascript:{RUN}'>x</a> <iframe srcdoc='<script>parent.{RUN}</script>'></iframe> {{{{7*7}}}} ${{1}}",
    f"$\\href{{javascript:{RUN}}}{{click}}$ $\\htmlClass{{tool}}{{x}}$ $\\htmlId{{count}}{{x}}$ "
    f"$\\url{{javascript:{RUN}}}$",
    "$\\includegraphics{http://127.0.0.1:9/x.png}$ $\\htmlStyle{background:url(http://127.0.0.1:9/y)}{z}$ "
    "$\\htmlData{foo=a}{x}$",
    "$$\\def\\a#1{\\a{#1#1}}\\a{xx}$$ $$\\newcommand{\\b}{\\b\\b}\\b$$ \\[ \\edef\\x{\\x\\x}\\x \\] $\\let\\a\\b$",
    "$\\text{<img src=x onerror=window.hacked=1>}$ $\\text{</math><script>window.hacked=1</script>}$",
    "$\\color{white}{hidden}$ $\\phantom{secret}$ $\\rule{9999em}{9999em}$ $\\hspace{-999em}over$ $\\kern{9999em}x$",
    "$" + "{" * 500 + "x" + "}" * 500 + "$ $" + "\\frac{1}{" * 80 + "2" + "}" * 80 + "$",
    "abc\u202egpj.exe\u2066\u200b\ufeff\x00\x07\x1b[31m\x7f\x9b tab\there\r\nnext\rlone e" + "\u0301" * 200,
    "\\(" * 3000 + "\\[" * 3000 + "$a" * 3000 + "\\begin{align}" * 300,
    "]]> &lt;b&gt; &#x3c;script&#x3e; \u2028 \u2029 \\u003cscript>",
    "word " * 20_000,
]  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory, write_audit, build_light):
    folder = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=window.hacked=1>"

    def spoil(rows):
        for row, text in zip(rows, TEXTS, strict=True):
            row.update(prompt=TEXTS[0], response=text, id=f"<b>{text[:60]}", answer=text[:200], file=TEXTS[0][:80])
            row.update(characters=len(text), final_answer=text[:200], probability_wrong=0.5, denoised_reward=0.5)

    write_audit(
        folder, groups=2, size=6, change=spoil, curator={"type": TEXTS[0], "alpha": 0.05},
        inputs=[
            {**INPUT, "file": TEXTS[1], "format": TEXTS[0], "fields": {TEXTS[0]: TEXTS[1]}, "remark": TEXTS[8]}
        ],
        skipped=[{"file": TEXTS[0], "line": 1, "field": None, "reason": TEXTS[8]}],
        consensus={"new_group_accuracy": None, "reason": TEXTS[0]}, note="\ud800",
        hidden={"from": "file", "files": [], "note": TEXTS[1]},
        suspicious_golds={"problems": 12, "rivalled": 12, "suspicious": 12, "least_score": 0.5, "accepted": 0.7,
                          "trusted": True, "top": [
            {"problem": text, "group": 0, "index": at, "step": 1, "gold": text, "proposed": text, "copies": 3,
             "rollouts": 6, "gold_copies": 0, "votes": {"reward": [0, 3], text: [3, 3]}, "score": 0.9}
            for at, text in enumerate(TEXTS)
        ]},
    )  # fmt: skip
    return build_light(folder)


def shown(until, found, row):
    found.locator(f"input[name=rollout][value='{row}']").check()
    until(found, "name => document.querySelector('.side h4').innerText.startsWith(name)", f"Response {row % 6}")
    return found.locator(".text.left").evaluate("node => node.textContent")


def test_what_is_invisible_is_shown_and_what_is_long_is_cut(until, watched, page):
    found = watched(page, "#rollout-0").page
    assert shown(until, found, 0).startswith("</script><script>window.hacked=1</script><img")
    refused = shown(until, found, 4)
    assert "\\def\\a#1{\\a{#1#1}}" in refused
    found.evaluate("location.hash = '#rollout-8'")
    until(found, "() => document.querySelector('#detail-title').innerText === 'Group 1'")
    text = shown(until, found, 8)
    for expected in ("abc⟨U+202E⟩gpj", "⟨U+0000⟩⟨U+0007⟩⟨U+001B⟩[31m⟨U+007F⟩⟨U+009B⟩", "here\nnext⟨U+000D⟩lone e"):
        assert expected in text
    assert text.count("\u0301") == 3
    long = shown(until, found, 11)
    assert len(long) == 50_000
    found.get_by_role("button", name="Show the other 50,000 characters").click()
    until(found, "() => document.querySelector('.text.left').textContent.length > 60000")
    assert found.evaluate("window.hacked") is None
