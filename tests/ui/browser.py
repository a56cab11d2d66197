"""The browser that the page tests drive: the system's own, found as `make` found it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, async_playwright, expect

expect.set_options(timeout=60_000)  # the usual five seconds are short on a busy machine

FOUND = Path(__file__).parents[2] / ".tools" / "browser"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def browser_path() -> str:
    """Where it is."""
    named = os.environ.get("CHROMIUM") or (FOUND.read_text().strip() if FOUND.exists() else "chromium")
    path = shutil.which(named)
    assert path, "no browser; make .tools/browser finds or installs one"
    return path


@asynccontextmanager
async def open_browser(*more: str) -> AsyncIterator[Browser]:
    """One for a block."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=[*ARGUMENTS, *more])
        try:
            yield browser
        finally:
            await browser.close()


async def follow(control: Locator) -> None:
    """Click what leads to another page, and wait for that: the page before may show the same, live or anyway."""
    async with control.page.expect_navigation():
        await control.click()


def watch_console(page: Page) -> list[str]:
    """What the page complains about."""
    complaints: list[str] = []
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
