"""Every page that shows texts of a model shows these as texts: elements and attributes are those of harmless ones."""

import json
from html.parser import HTMLParser

import generated_comparisons
import generated_runs
import pyarrow
import pyarrow.parquet
import pytest
import yaml
from audit_folders import INPUT, write_audit
from chromium import Watched, until
from chromium import chromium as headless_chromium
from payloads import MARK, PAYLOADS

from geoalign.pages import documents
from geoalign.report import build_report


def write_folder(kind, folder):
    """A small whole folder: "run", "comparison" or "curation"."""
    if kind == "run":
        generated_runs.write_run_folder(folder, steps=2, flip=0.1, curator="geoalign")
    elif kind == "comparison":
        scores = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.55, "oracle": 0.7}
        generated_comparisons.comparison_folder(folder, {"flip": scores}, seeds=(0, 1, 2))
    else:
        write_audit(folder, groups=2, size=3)


# One browser for this file.
@pytest.fixture(scope="module")
def chromium():
    with headless_chromium() as browser:
        yield browser


KINDS = ("run", "comparison", "curation")


class Skeleton(HTMLParser):
    """Tags with the names of their attributes, in order; ids and addresses by themselves."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.acting: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.acting += [value for name, value in attrs if name in ("id", "class", "href", "src", "srcset", "style")]

    def handle_comment(self, data):
        self.tags.append(("comment", ()))

    handle_decl = unknown_decl = handle_pi = handle_comment


def texts_in(kind, folder, payloads):
    """Writes a folder of a kind with these texts wherever it has one."""
    write_folder(kind, folder)
    turn = iter(payloads * 50)
    {"run": _run, "comparison": _comparison, "curation": _curation}[kind](folder, payloads, lambda: next(turn))
    return folder


def _clean(text):
    return text.encode("utf-8", "replace").decode("utf-8")


def _run(folder, payloads, another):
    for path in sorted((folder / "rollouts").glob("*.parquet")):
        table = pyarrow.parquet.read_table(path)
        rows = table.to_pylist()
        flagged = {row["row"] for row in rows if row["anomalous"]} | {row["source"] for row in rows if row["anomalous"]}
        for row in rows:
            if row["row"] in flagged:
                row.update(prompt=_clean(another()), response=_clean(another()))
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=table.schema), path)
    lines = [json.loads(line) for line in (folder / "evaluation.jsonl").read_text().splitlines()]
    named = [{**line, "set": f"{at} {text}"} for at, text in enumerate(payloads[:40]) for line in lines]
    (folder / "evaluation.jsonl").write_text("".join(json.dumps(line) + "\n" for line in named))
    kinds = {"curator": {"type": another()}, "task": {"type": another()}}
    config = {**kinds, "seed": another(), "model": {"path": another()}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "versions.json").write_text(json.dumps({"schema_version": 1, "notes": list(payloads)}))
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"stage": text, "step": 1, text: "x"}) + "\n" for text in payloads[:10])


def _comparison(folder, payloads, another):
    path = folder / "compare.yaml"
    settings = yaml.safe_load(path.read_text())
    settings["seeds"] = [0, 1, 2, *range(3, 3 + len(payloads))]
    path.write_text(yaml.safe_dump(settings, allow_unicode=False))
    whole = json.loads((folder / "results/flip/geoalign/seed-0.json").read_text())
    for at, text in enumerate(payloads):
        failed = {**whole, "arm": "grpo", "seed": 3 + at, "status": "failed", "error": text}
        (folder / f"results/flip/grpo/seed-{3 + at}.json").write_text(json.dumps(failed))
    (folder / "versions.json").write_text(json.dumps({"notes": list(payloads)}))


def _curation(folder, payloads, another):
    groups = -(-len(payloads) // 6)

    def change(rows):
        for row, text in zip(rows, payloads * 2, strict=False):
            clean = _clean(text)
            row.update(prompt=clean, response=clean, id=clean, answer=clean, file=clean[:200], characters=len(text))

    write_audit(
        folder, groups=groups, size=6, change=change,
        inputs=[{**INPUT, "file": another(), "format": another(), "remark": another()}],
        skipped=[{"file": text, "line": 1, "field": text, "reason": text} for text in payloads],
        repeated=[{"file": text, "same_as": text} for text in payloads], curator={"type": another()},
        hidden={"from": another(), "files": [], "note": another()}, seed=another(),
        consensus={"new_group_accuracy": None, "reason": another()},
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """For each kind of folder its page with harmless texts, and with the payloads."""
    root = tmp_path_factory.mktemp("payloads")
    harmless = tuple(f"word {at}" for at in range(len(PAYLOADS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "render", lambda panel, theme: b"<svg/>")
        return {
            kind: [build_report(texts_in(kind, root / name / kind, texts)) for name, texts in
                   (("plain", harmless), ("hostile", PAYLOADS))]
            for kind in KINDS
        }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_payloads_add_no_element_and_no_attribute(pages, kind):
    plain, hostile = (Skeleton(path.read_text(encoding="utf-8")) for path in pages[kind])
    assert pages[kind][1].read_text(encoding="utf-8").count(MARK) >= 25  # so that there is something to look at
    tags = [tag for tag, _ in hostile.tags]
    assert "script" not in tags or kind == "curation"
    # Flags and figures do not depend on texts, so neither does the skeleton; data pieces depend on their length.
    pieces = ("script", ("type", "id"))
    assert [tag for tag in hostile.tags if tag != pieces] == [tag for tag in plain.tags if tag != pieces]
    assert not [value for value in hostile.acting if MARK in value or "127.0.0.1" in value]


ALIEN = """mark => [...document.querySelectorAll('*')].filter((node) => node.localName.includes(mark)
  || [...node.attributes].some(({ name, value }) => name.includes(mark) || /^on/.test(name)
    || (['id', 'class', 'href', 'src', 'style'].includes(name) && value.includes(mark))))
  .map((node) => node.outerHTML)"""


def test_nothing_acts_in_a_browser(pages, chromium):
    context = chromium.new_context()
    context.set_default_timeout(30_000)
    try:
        for kind in KINDS:
            watched = Watched(context.new_page())
            page, watched.address = watched.page, pages[kind][1].as_uri()
            page.goto(watched.address)
            if kind == "curation":
                until(page, "() => document.documentElement.dataset.ready === 'yes'")
            _wake(page)
            if kind == "curation":
                _read_all(page)
            assert page.evaluate(f"window.{MARK}") is None
            assert page.evaluate(ALIEN, MARK) == []
            assert watched.wrong == [], kind
    finally:
        context.close()


def _wake(page):
    page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    page.mouse.move(200, 200)
    page.keyboard.press("Tab")


def _read_all(page):
    """Chooses every rollout in turn and looks, after each, for what came from its text."""
    found = page.evaluate(
        """async ([count, mark]) => {
          const wrong = () => [...document.querySelectorAll('#detail *, #list *')].filter((node) =>
            node.localName.includes(mark)
            || ['script', 'iframe', 'object', 'embed', 'img', 'link', 'style', 'base', 'form'].includes(node.localName)
            || [...node.attributes].some(({ name }) => name.includes(mark) || /^on/.test(name)));
          const found = [];
          for (let row = 0; row < count; row++) {
            location.hash = `#rollout-${row}`;
            const end = performance.now() + 3000;
            const chosen = () => document.querySelector(`input[name=rollout]:checked`)?.value === String(row)
              && document.querySelector('.text.left')?.textContent;
            while (!chosen() && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 5));
            if (!chosen()) found.push(`rollout ${row} was not shown`);
            found.push(...wrong().map((node) => `${row}: ${node.outerHTML.slice(0, 200)}`));
          }
          return found;
        }""",
        [len(PAYLOADS), MARK],
    )
    assert found == []
