"""The browser that the page tests drive: the system's own, found as `make` found it."""

from __future__ import annotations

import os
import shutil
import tomllib
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from playwright.async_api import Browser, ConsoleMessage, Locator, Page, async_playwright, expect

from tests.conftest import wait_until

expect.set_options(timeout=60_000)  # the usual five seconds are short on a busy machine

FOUND = Path(__file__).parents[2] / ".tools" / "browser"
SHOTS = Path(__file__).parents[1] / "screenshots"
PICTURES = Path(__file__).parents[2] / "docs" / "images" / "pictures.toml"
ALL_SHOTS = "ALL_SCREENSHOTS"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CARET = "colour => document.activeElement?.style.setProperty('caret-color', colour)"  # it blinks


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


@cache
def shots_of_docs() -> frozenset[str]:
    """The names of the screenshots that become pictures of the docs."""
    pictures = tomllib.loads(PICTURES.read_text())
    return frozenset(each["shot"].removesuffix(".png") for each in pictures.values())


async def shoot(page: Page, name: str, *, full_page: bool = False) -> None:
    """Saves a screenshot under this name: one of the docs always, the others for people who ask for all."""
    if name not in shots_of_docs() and not os.environ.get(ALL_SHOTS):
        return
    SHOTS.mkdir(exist_ok=True)
    session = await page.context.new_cdp_session(page)
    try:
        await page.evaluate(CARET, "transparent")
        taken = await session.send(
            "Page.captureScreenshot",
            # Packing the picture tightly took longer than drawing it.
            {"format": "png", "optimizeForSpeed": True, "captureBeyondViewport": full_page},
        )
        await page.evaluate(CARET, "")
    finally:
        await session.detach()
    (SHOTS / f"{name}.png").write_bytes(b64decode(taken["data"]))


async def follow(control: Locator) -> None:
    """Click what leads to another page, and wait for that: the page before may show the same, live or anyway."""
    async with control.page.expect_navigation():
        await control.click()


async def log_in(page: Page, name: str, password: str) -> None:
    """By the form of the page."""
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await follow(page.get_by_role("button", name="Log in"))


async def until(page: Page, truth: str) -> None:
    """Waits until this script is true; asked from here, because the policy of our pages forbids `eval`."""
    await wait_until(lambda: page.evaluate(truth))


async def until_seen(page: Page) -> None:
    """Waits until every picture in the window is loaded, or has failed to load."""
    await until(
        page,
        "[...document.images].every(image => { const box = image.getBoundingClientRect();"
        " return image.complete || box.bottom < 0 || box.top > innerHeight || !box.width })",
    )


OVERTAKEN = ("htmx:afterRequest", "htmx:sendAbort")  # a question by a newer one; htmx calls that an error


def watch_console(page: Page) -> list[str]:
    """What the page complains about."""
    complaints: list[str] = []

    def note(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning") and not said.text.startswith(OVERTAKEN):
            complaints.append(said.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
