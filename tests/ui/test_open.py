"""The link that logs a browser in, as a person meets it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from mediamill.cli import open as opening
from mediamill.db.connection import Database
from mediamill.local_key import local_key
from mediamill.settings import Settings
from tests.api.serving import serve
from tests.ui.browser import shoot


async def test_a_link_opens_the_pages_and_says_what_to_do_when_it_is_spent(
    database: Database, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(opening, "has_display", lambda _environment: True)
    monkeypatch.setattr("webbrowser.open", shown.append)
    async with serve(database, tmp_path, pages=True, login="always", admin_secret=None) as served:
        port = urlsplit(served.url).port
        assert port is not None
        local_key(tmp_path)
        settings = Settings(data=tmp_path, port=port)
        link = opening.make_link(settings)
        opening.show(link, settings)
        page = await browser.new_page(viewport={"width": 1280, "height": 640})
        await page.goto(served.url)
        await expect(page.get_by_text("mediamill open")).to_be_visible()
        await shoot(page, "open-login")
        await page.goto(*shown)  # a file that leads to the link
        await expect(page).to_have_url(f"{served.url}/")
        await page.goto(f"{served.url}/account")
        await expect(page.get_by_text("You came in as the user who runs the server")).to_be_visible()
        await shoot(page, "open-account")
        await page.goto(f"{served.url}/access")
        await expect(page.get_by_text("a link that mediamill open made")).to_be_visible()
        await page.goto(f"{served.url}/account")
        await page.locator("details.user-menu summary").click()
        await page.get_by_role("button", name="Log out", exact=True).click()
        await expect(page.get_by_label("Password")).to_be_visible()
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_have_text("This link has been used, or it has expired.")
        await shoot(page, "open-spent")
