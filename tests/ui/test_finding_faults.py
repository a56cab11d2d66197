"""What `find_faults` must find, and what it must leave as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.ui import browser as driven
from tests.ui.axe import faults_of
from tests.ui.looks import find_faults

HEAD = "<!doctype html><html lang=en><title>A page</title><meta name=color-scheme content='light dark'>"
PALE = "<p style='color: #ccc; background: #fff'>pale"


async def test_what_is_too_wide_pale_or_without_a_name_is_found_in_the_looks_that_show_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driven, "SHOTS", tmp_path / "shots")
    monkeypatch.setenv(driven.ALL_SHOTS, "1")
    monkeypatch.setattr("tests.ui.looks.SETTLE_MS", 200)
    page = await browser.new_page()
    await page.set_content(
        f"{HEAD}<style>.dark {{ color: #777; background: #999 }}"
        "@media (prefers-color-scheme: light) { .dark { color: #000; background: #fff } }</style>"
        "<main><h1>Here</h1><button></button><p class=dark>by night</p>"
        "<p style='width: 600px'>wide</p></main>"
    )
    found = {" ".join(fault.split()[:3]) for fault in await find_faults(page, "page")}
    assert found == {
        "page-light: critical button-name:",
        "page-dark: serious color-contrast:",
        "page-phone: 608 pixels",
        "page-phone: critical button-name:",
        "page-phone-dark: 608 pixels",
        "page-phone-dark: serious color-contrast:",
    }
    assert {path.stem for path in (tmp_path / "shots").iterdir()} == {
        f"page-{look}" for look in ("light", "dark", "phone", "phone-dark")
    }


async def test_what_is_folded_away_is_passed_over_stays_in_its_place_and_is_looked_at_when_it_is_open(
    browser: Browser,
) -> None:
    page = await browser.new_page()
    await page.set_content(
        f"{HEAD}<main><h1>Here</h1><details><summary>More</summary><p>one</p>{PALE}"
        f"<details><summary>Most</summary><p>in it</p>{PALE}</details></details></main>"
    )
    before = await page.content()
    assert await faults_of(page) == []
    assert await page.content() == before
    for opened, pale in ((1, 1), (2, 2)):
        await page.locator("details").nth(opened - 1).evaluate("each => each.open = true")
        assert len(await faults_of(page)) == pale


async def test_unless_all_are_asked_for_only_screenshots_of_the_docs_are_taken(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driven, "SHOTS", tmp_path / "shots")
    monkeypatch.delenv(driven.ALL_SHOTS, raising=False)
    page = await browser.new_page()
    for name in ("review-light", "review-dark"):
        await driven.shoot(page, name)
    assert [path.name for path in (tmp_path / "shots").iterdir()] == ["review-light.png"]
