"""The page as a file: complete, its policy exact, no texts where they were left out; found by `build_report`."""

import base64
import hashlib
import json
import re

import pytest

from geoalign.audit.page.page import build_audit_page
from geoalign.audit.results import read_report
from geoalign.errors import InputError
from geoalign.pages.documents import inline
from geoalign.report import build_report


@pytest.fixture(scope="module")
def page(tmp_path_factory, write_audit):
    folder = write_audit(tmp_path_factory.mktemp("page") / "dump", steps=3)
    assert build_report(folder) == folder / "report.html"
    return folder / "report.html"


def test_the_page_has_its_parts(page):
    text = page.read_text(encoding="utf-8")
    parts = ["finding", "learnt", "browser", "cards", "correct", "step", "figures", "reading"]
    assert [part for part in parts if f'id="{part}"' not in text] == []
    pictures = sorted(path.stem for path in (page.parent / "figures").glob("*.svg"))
    assert pictures == [*(f"gdi-density-step-{step:06d}" for step in (1, 2, 3)), "pair-cosines"]
    assert not list(page.parent.glob("**/*.tmp"))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("answered", "said"), [(0, True), (3, True), (30, False)])
def test_that_answers_were_not_read_stands_in_the_finding(tmp_path, write_audit, answered, said):
    folder = write_audit(tmp_path)
    path = folder / "summary.json"
    summary = json.loads(path.read_bytes())
    summary["curator"] = {"type": "denoise"}
    unknown = {"estimate": 0.1, "low": 0.0, "high": 1.0, "by": "bounds"}
    summary["verifier"] = {
        "answered": answered, "scored": 40, "rewarded": 20, "answers": "exclusive", "errors_at_least": 1,
        "known_truths": 0, "doubt": "no reason",
        "rates": dict.fromkeys(("false_positive_rate", "false_negative_rate"), unknown),
        "groups_with_answers_judged_both_ways": 0, "groups_with_repeated_answers": 0,
        "groups_with_responses_judged_both_ways": 1, "groups_with_repeated_responses": 2,
    }  # fmt: skip
    path.write_text(json.dumps(summary))
    text = build_audit_page(read_report(folder)).read_text(encoding="utf-8")
    finding = text[text.index('id="finding"') : text.index("</section>", text.index('id="finding"'))]
    assert ('id="unread"' in finding) == said


def test_the_policy_names_every_style_and_script_by_its_hash(page):
    text = page.read_text(encoding="utf-8")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    policy = found[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["trusted-types"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        bodies = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
        assert rules[rule].split() == [f"'sha256-{value}'" for value in hashes]
    assert "unsafe" not in found[1]
    assert not re.search(r"\son\w+=|\sstyle=", re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("text", ["a </Script> b", "x <!-- y", "</style "])
def test_text_that_would_end_its_element_is_refused(text):
    with pytest.raises(InputError, match="ends its element"):
        inline(text)


@pytest.mark.usefixtures("undrawn")
def test_a_redacted_page_has_no_texts(tmp_path, write_audit):
    text = build_audit_page(read_report(write_audit(tmp_path, redact=True))).read_text(encoding="utf-8")
    assert 'id="texts-0"' not in text
    assert '"redacted": true' in text


@pytest.mark.usefixtures("undrawn")
def test_other_curators_and_empty_folders_have_a_page(tmp_path, write_audit):
    def plain(rows):
        for row in rows:
            row.update(score=None, anomalous=False, source=row["index"], reward=None, correct=None)

    unmeasured = {"new_group_accuracy": None, "reason": "None is measured."}
    folder = write_audit(tmp_path / "plain", pairs=False, change=plain, consensus=unmeasured, curator={"type": "pods"})
    text = build_audit_page(read_report(folder)).read_text(encoding="utf-8")
    for absent in ("figures", "correct", "labelling", "verifier", "learnt"):
        assert f'id="{absent}"' not in text
    assert build_audit_page(read_report(write_audit(tmp_path / "empty", groups=0, steps=1))).is_file()
