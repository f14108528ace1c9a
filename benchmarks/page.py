"""How large the page of inspected rollouts is and how fast it answers, in headless Chromium.

python -m benchmarks.page --rollouts 800 20000 --characters 5000
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from geoalign.lab.reports.inspection import build_inspection
from geoalign.lab.store.curation import SCORES

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
GROUP = 8
READY = "() => document.documentElement.dataset.ready === 'yes'"
COUNT = "() => document.querySelector('#count').innerText"


def write_folder(folder: Path, rollouts: int, characters: int) -> None:
    """Random words of a vocabulary with the frequencies of a language, every fortieth rollout flagged."""
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = np.array(["".join(generator.choice(letters, generator.integers(2, 9))) for _ in range(8000)])
    shares = 1 / np.arange(1, len(words) + 1)
    shares /= shares.sum()
    schema, writer = SCORES, pyarrow.parquet.ParquetWriter(folder / "scores.parquet", SCORES)
    for first in range(0, rollouts, 800):
        rows = []
        for index in range(first, min(first + 800, rollouts)):
            text = (
                " ".join(generator.choice(words, characters // 5, p=shares))[: characters - 20] + " so $\\frac{1}{2}$"
            )
            flagged = index % 40 == 1
            source = index - index % GROUP if flagged else index
            rows.append(
                {
                    "index": index, "step": 1, "file": "dump.jsonl", "row": index // GROUP, "sample": index % GROUP,
                    "id": str(index), "group": index // GROUP, "prompt": f"Problem {index // GROUP}", "response": text,
                    "reward": float(index % GROUP), "correct": bool(index % 2), "characters": len(text),
                    "score": float(generator.gamma(2)) + 9 * flagged, "anomalous": flagged, "source": source,
                    "weight": 1.0, "group_size": GROUP, "group_pairs": 28, "group_flagged": 0,
                }
            )  # fmt: skip
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    writer.close()
    (folder / "summary.json").write_text(json.dumps({"curator": {"type": "geoalign"}, "steps": []}))


def measure(page: Path) -> dict[str, float]:
    """Seconds until the page can be used, of filters, of steps through the list, and of searches through all texts."""
    from playwright.sync_api import sync_playwright

    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.set_default_timeout(600_000)
        start = time.perf_counter()
        tab.goto(page.as_uri(), wait_until="commit")
        wait(tab, READY)
        found["ready"] = time.perf_counter() - start
        wait(tab, "() => document.querySelectorAll('.side').length === 2")
        found["first texts"] = time.perf_counter() - start
        found["filter"] = timed(tab, "() => { document.querySelector('#flagged').click(); }")
        tab.evaluate("() => document.querySelector('#flagged').click()")
        found["sort"] = timed(
            tab, "() => { const s = document.querySelector('#sort'); s.value = 'low'; "
            "s.dispatchEvent(new Event('change', { bubbles: true })); }",
        )  # fmt: skip
        down = "() => document.querySelector('#list').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' }))"
        found["one group down"] = sorted(timed(tab, down) for _ in range(20))[10]
        for name, words in (("first search", "problem 77"), ("second search", "problem 55")):
            start = time.perf_counter()
            tab.get_by_label("Search").fill(words)
            wait(tab, f"() => document.querySelector('.hit')?.innerText === '{words.capitalize()}'")
            found[name] = time.perf_counter() - start
        browser.close()
    return found


def wait(tab, script: str) -> None:
    # Asked from outside: the page's policy lets no string run inside.
    while not tab.evaluate(script):
        tab.wait_for_timeout(10)


def timed(tab, script: str) -> float:
    """Seconds from an action to the frame after it."""
    return tab.evaluate(
        f"""async () => {{ const start = performance.now(); ({script})();
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        return (performance.now() - start) / 1000; }}"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[800, 20_000])
    parser.add_argument("--characters", type=int, default=5000)
    options = parser.parse_args()
    for rollouts in options.rollouts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_folder(folder, rollouts, options.characters)
            start = time.perf_counter()
            page = build_inspection(folder)
            built = time.perf_counter() - start
            size = page.stat().st_size / 1e6
            print(f"{rollouts:,} rollouts of {options.characters:,} characters: {size:.1f} MB, built in {built:.1f} s")
            for action, seconds in measure(page).items():
                print(f"  {action:<16}{1000 * seconds:>9,.0f} ms")


if __name__ == "__main__":
    main()
