"""A real browser on the page, with made-up answers; whatever it complains about on its console fails the test."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from browser.fake import Fake, serve

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WAIT = 10_000  # milliseconds
# `make test-browser` installs playwright; without it there is nothing to collect here.
collect_ignore_glob = [] if importlib.util.find_spec("playwright") else ["test_*.py"]


@dataclass
class Opened:
    """A page, the server behind it, and what may be on its console."""

    page: Any
    fake: Fake
    url: str
    allowed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def visit(self, tab: str = "") -> Any:
        self.page.goto(f"{self.url}#{tab}")
        self.page.wait_for_selector("body[data-ready]")
        return self.page

    def type(self, text: str) -> Any:
        self.page.fill("#text", text)
        return self.page

    def complaints(self) -> list[str]:
        return [line for line in self.console if not any(known in line for known in self.allowed)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any) -> Iterator[Opened]:
    fake = Fake()
    server, url = serve(fake)
    context = chromium.new_context(accept_downloads=True, viewport={"width": 1280, "height": 860})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
    context.set_default_timeout(WAIT)
    page = context.new_page()
    found = Opened(page, fake, url)
    page.on("console", lambda message: found.console.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.console.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((url, "blob:")) else found.console.append(asked.url))
    yield found
    context.close()
    server.shutdown()
    server.server_close()
    assert found.complaints() == []
