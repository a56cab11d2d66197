"""What holds on every page of the product: for people with a screen reader, a keyboard, a phone, or no JavaScript."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.ui.axe import faults_of
from tests.ui.browser import watch_console
from tests.ui.touring import House, open_house

PHONES = (320, 390)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    server_url: str, template_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    """One for all tests of this file; none of them changes anything."""
    folder: Path = tmp_path_factory.mktemp("house")
    async with open_house(server_url, folder) as opened:
        yield opened


async def open_page(browser: Browser, **looks: Any) -> Page:
    context = await browser.new_context(**looks)
    return await context.new_page()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_page(house: House, browser: Browser, theme: Any) -> None:
    page = await open_page(browser, color_scheme=theme, viewport={"width": 1280, "height": 900})
    complaints = watch_console(page)
    faults = []
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        faults += [f"{name}: {fault}" for fault in await faults_of(page)]
    assert not faults, "\n".join(faults)
    assert [each for each in complaints if "404" not in each] == []


async def test_axe_finds_nothing_serious_on_a_phone_with_its_menu_open(
    house: House, browser: Browser
) -> None:
    page = await open_page(browser, viewport={"width": 390, "height": 844})
    faults = []
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        faults += [f"{name}: {fault}" for fault in await faults_of(page)]
    await page.get_by_role("button", name="Menu").click()
    faults += await faults_of(page)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("width", PHONES)
async def test_no_page_scrolls_sideways_on_a_phone(house: House, browser: Browser, width: int) -> None:
    page = await open_page(browser, viewport={"width": width, "height": 844})
    wide = {}
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        if (found := await page.evaluate("document.documentElement.scrollWidth")) > width:
            wide[name] = found
    assert wide == {}


async def test_every_page_is_whole_without_javascript(house: House, browser: Browser) -> None:
    scripted = await open_page(browser, viewport={"width": 1280, "height": 900})
    plain = await open_page(browser, java_script_enabled=False, viewport={"width": 1280, "height": 900})
    for name, path in house.pages.items():
        await scripted.goto(house.served.url + path)
        await plain.goto(house.served.url + path)
        for page in (scripted, plain):
            assert await page.locator("h1").count() == 1, name
            assert await page.title() != "mediamill", name
            assert await page.get_by_role("navigation", name="Pages").locator("a").count() > 8, name
            assert await page.locator("main").inner_text(), name
        assert await plain.locator(".scripted:visible").count() == 0, name


async def test_every_page_begins_with_a_link_past_the_menu_and_says_where_it_is(
    house: House, browser: Browser
) -> None:
    page = await open_page(browser)
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        assert await page.evaluate("document.querySelector('a').className") == "skip", name
        assert await page.locator(".site-menu [aria-current=page]").count() == (name != "sorry"), name


WHERE = """() => {
    const here = document.activeElement, box = here.getBoundingClientRect(), look = getComputedStyle(here);
    const around = here.closest('.search-box, .chip, .face') || here;
    const shown = [look, getComputedStyle(around)].some(
        (each) => (each.outlineStyle !== 'none' && parseFloat(each.outlineWidth) > 0) || each.boxShadow !== 'none');
    return {name: here.outerHTML.slice(0, 120), body: here === document.body, main: !!here.closest('main'), shown,
        seen: box.width > 0 && box.height > 0 && box.right > 0};
}"""
STOPS = 15


async def test_the_keyboard_gets_past_the_menu_and_always_shows_where_it_is(
    house: House, browser: Browser
) -> None:
    page = await open_page(browser, viewport={"width": 1280, "height": 900})
    faults = []
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        if await page.locator("[autofocus]").count():  # that may come after the page itself
            await expect(page.locator("[autofocus]")).to_be_focused()
        if (await page.evaluate(WHERE))["body"]:  # else the page has put the focus where one writes
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.className") == "skip", name
            await page.keyboard.press("Enter")
        for _ in range(STOPS):
            await page.keyboard.press("Tab")
            here = await page.evaluate(WHERE)
            if here["body"] or not here["main"]:
                break
            if not (here["shown"] and here["seen"]):
                faults.append(f"{name}: {here}")
    assert not faults, "\n".join(faults)


async def test_the_menu_of_a_phone_opens_and_closes_by_keys_without_javascript(
    house: House, browser: Browser
) -> None:
    page = await open_page(browser, viewport={"width": 390, "height": 844}, java_script_enabled=False)
    await page.goto(house.served.url + "/jobs")
    menu = page.get_by_role("navigation", name="Pages")
    await expect(menu).to_be_hidden()
    await page.get_by_role("button", name="Menu").focus()
    await page.keyboard.press("Enter")
    await expect(menu).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await page.keyboard.press("Enter")
    await menu.get_by_role("link", name="Dead letter").click()
    await expect(page).to_have_url(house.served.url + "/dead")
