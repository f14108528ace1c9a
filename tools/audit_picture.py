"""Makes docs/pictures/audit_light.png and audit_dark.png again: the page of an audit of the example, without a model.

Run it as `python tools/audit_picture.py`, with chromium on the path. The pictures show the page's beginning: its
finding, the error rates and the first group of flagged rewards. What lies between them is left out.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = "recipes/rollouts/substring_reward.jsonl"
PICTURES = ROOT / "docs" / "pictures"
# As wide as a README shows it, at twice the resolution.
WIDTH, SCALE = 800, 2
COLOURS = 64
# What lies between the finding, the rates and the first flagged rewards.
LEFT_OUT = [
    "#verifier .side-by-side > div",
    "#labelling",
    "#label-command",
    "#views",
    "#tools",
    "#count",
    "header p",
    "#finding p + p",
]


def audit(output: Path) -> Path:
    """Audits the example and returns the page."""
    command = [sys.executable, "-m", "geoalign", "audit", EXAMPLE, "--output", str(output)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return output / "report.html"


def photograph(page: Page) -> Image.Image:
    """The beginning of the page, down to the end of the first group."""
    for selector in LEFT_OUT:
        page.locator(selector).evaluate_all("nodes => nodes.forEach((node) => { node.style.display = 'none'; })")
    for section in ("#verifier", "#browser"):
        page.locator(section).evaluate("node => { node.style.marginTop = '1.25rem'; }")
    box = page.locator(".card").first.bounding_box()
    assert box is not None
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + 16}
    return Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))


def save(picture: Image.Image, path: Path) -> None:
    """Saves a picture in few colours, which a page of text hardly needs more of."""
    picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        address = audit(Path(folder) / "audit").as_uri()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            viewport = {"width": WIDTH, "height": 900}
            page = browser.new_page(viewport=viewport, device_scale_factor=SCALE, color_scheme=scheme)
            page.goto(address)
            page.locator(".card .label-button").first.wait_for()
            save(photograph(page), PICTURES / f"audit_{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
