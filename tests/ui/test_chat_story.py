"""The whole of it as its user meets it: `mediamill up`, a demo bot, a photo and a voice note that become text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.crash.processes import Mill
from tests.ui.browser import follow, shoot, watch_console

SAMPLES = Path(__file__).parents[2] / "samples"
LIMIT = 120_000


@pytest.fixture
async def mill(new_url: str, tmp_path: Path) -> AsyncIterator[Mill]:
    """A mill on a database of its own."""
    made = Mill(tmp_path, new_url, {"MEDIAMILL_WORKER_POOLS": ""})
    yield made
    made.close()


async def say(page: Page, text: str, *files: str) -> None:
    if files:
        await page.locator("#files").set_input_files([SAMPLES / file for file in files])
    await page.locator("#text").fill(text)
    await page.keyboard.press("Enter")


@pytest.mark.spec("C10", "C26")
async def test_a_photo_and_a_voice_note_become_text_in_the_chat_and_are_answered(
    mill: Mill, browser: Browser
) -> None:
    up = await mill.started("up")
    url = re.search(r"is up: (http://\S+)", up.said)
    assert url is not None
    context = await browser.new_context(viewport={"width": 960, "height": 880}, device_scale_factor=2)
    page = await context.new_page()
    complaints = watch_console(page)
    await page.goto(mill.link(url.group(1)))
    await page.goto(f"{url.group(1)}/bots")
    await follow(page.get_by_role("button", name="Create a demo bot and talk to it"))
    await say(page, "Good morning!")
    theirs = page.locator("#messages .theirs")
    await expect(theirs).to_have_count(1, timeout=LIMIT)
    await say(page, "From this morning", "photo.jpg")
    await expect(theirs.nth(1)).to_contain_text(re.compile("coffee|cup|espresso"), timeout=LIMIT)
    await say(page, "", "voice.ogg")
    await expect(theirs.nth(2)).to_contain_text(re.compile("[a-z]{3,}"), timeout=LIMIT)
    await expect(page.locator("#messages .mine", has_text="Voice note")).to_contain_text(re.compile("[.,]"))
    await say(page, "And the notes of our meeting", "notes.docx")
    await expect(page.locator("#messages .mine", has_text="Document")).to_be_visible(timeout=LIMIT)
    await shoot(page, "chat")
    await expect(theirs).to_have_count(4, timeout=LIMIT)
    await shoot(page, "chat-answered")
    assert complaints == []
