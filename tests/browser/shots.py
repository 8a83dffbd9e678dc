"""Screenshots for docs/page.md from a running server: `python -m tests.browser.shots http://127.0.0.1:8000/`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

IMAGES = Path(os.environ.get("IMAGES", Path(__file__).parent.parent.parent / "docs" / "images"))
TEXT = "A small domestic cat slept on the old sofa in the kitchen, while outside a musician played the saxophone."
WIDE, PHONE = {"width": 1200, "height": 800}, {"width": 390, "height": 780}


def tag(page: Any) -> None:
    page.fill("#text", TEXT)
    page.locator("#suggestions .accept").nth(0).click()
    page.locator("#suggestions .accept").nth(1).click()
    page.locator("#suggestions .reject").nth(5).click()
    page.locator("#suggestions .name").nth(2).click()
    page.wait_for_selector(".words")


def labels(page: Any) -> None:
    page.click("#tab-labels")
    page.fill("#find", "musical instr")
    page.locator("#found", has_text="found").wait_for()
    page.locator("#shelf .virtual-row").nth(1).click()
    page.wait_for_selector("#label h3")


def batch(page: Any) -> None:
    page.click("#tab-batch")
    texts = "\n".join(part.strip() for part in TEXT.replace(", while", ",").split(",")).encode()
    page.set_input_files("#files", [{"name": "texts.txt", "mimeType": "", "buffer": texts}])
    page.locator("#progress-says", has_text="Done").wait_for()


def compare(page: Any) -> None:
    page.click("#tab-compare")
    page.fill("#compare-text", TEXT)
    page.locator("#compare-says", has_text="in both").wait_for()


SHOTS = [
    ("page-tag", tag, "light", WIDE), ("page-tag-dark", tag, "dark", WIDE), ("page-phone", tag, "light", PHONE),
    ("page-labels", labels, "light", WIDE), ("page-batch", batch, "light", WIDE),
    ("page-compare", compare, "light", WIDE),
]  # fmt: skip


def main(url: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, prepare, scheme, size in SHOTS:
            page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page.goto(url)
            page.wait_for_selector("body[data-ready]")
            prepare(page)
            page.evaluate("scrollTo(0, 0)")
            page.mouse.move(0, 0)
            page.wait_for_timeout(400)
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
