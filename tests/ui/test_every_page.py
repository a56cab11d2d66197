"""What holds on every page of the product: for people with a keyboard, a small phone, or no JavaScript."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.ui.axe import faults_of
from tests.ui.conftest import shared_by_a_module
from tests.ui.touring import House, open_house

SMALLEST = 320


@shared_by_a_module
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


WHERE = """() => {
    const here = document.activeElement, box = here.getBoundingClientRect(), look = getComputedStyle(here);
    const around = here.closest('.search-box, .chip, .face') || here;
    const shown = [look, getComputedStyle(around)].some(
        (each) => (each.outlineStyle !== 'none' && parseFloat(each.outlineWidth) > 0) || each.boxShadow !== 'none');
    return {name: here.outerHTML.slice(0, 120), body: here === document.body, main: !!here.closest('main'), shown,
        seen: box.width > 0 && box.height > 0 && box.right > 0};
}"""
# The link past the menu may put the focus on the whole, which is no stop.
NOTE = f"""() => {{
    window.stops = [];
    addEventListener('focusin', ({{target}}) => {{ if (!target.matches('main')) stops.push(({WHERE})()); }});
}}"""
STOPS, AT_ONCE = 15, 5


async def walk_by_keys(page: Page) -> list[dict[str, Any]]:
    """The stops of the keyboard in the page that cannot be seen."""
    if await page.locator("[autofocus]").count():  # that may come after the page itself
        await expect(page.locator("[autofocus]")).to_be_focused()
    if (await page.evaluate(WHERE))["body"]:  # else the page has put the focus where one writes
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip", page.url
        await page.keyboard.press("Enter")
    await page.evaluate(NOTE)
    inside: list[dict[str, Any]] = []
    for pressed in range(AT_ONCE, STOPS + 1, AT_ONCE):
        for _ in range(AT_ONCE):
            await page.keyboard.press("Tab")
        inside = list(itertools.takewhile(lambda here: here["main"], await page.evaluate("stops")))
        if len(inside) < pressed:
            break
    return [here for here in inside if not (here["shown"] and here["seen"])]


async def is_whole(page: Page, name: str) -> None:
    """It has a title and a heading, says where it is, and begins with a link past the menu."""
    assert await page.locator("h1").count() == 1, name
    assert await page.title() != "mediamill", name
    assert await page.get_by_role("navigation", name="Pages").locator("a").count() > 8, name
    assert await page.locator("main").inner_text(), name
    assert await page.locator("a").first.get_attribute("class") == "skip", name
    assert await page.locator(".site-menu [aria-current=page]").count() == (name != "sorry"), name


async def test_a_stop_of_the_keyboard_that_cannot_be_seen_is_found(browser: Browser) -> None:
    page = await open_page(browser)
    stops = "".join(f"<a href='#{number}' id=stop-{number}>stop</a> " for number in range(8))
    await page.set_content(
        f"<style>#stop-1, #stop-6 {{ outline: none }}</style><a href='#main' class=skip>Skip</a>"
        f"<main id=main tabindex=-1 style='outline: none'>{stops}</main><a href='#out' style='outline: none'>out</a>"
    )
    unseen = await walk_by_keys(page)
    assert ["stop-1" in unseen[0]["name"], "stop-6" in unseen[1]["name"]] == [True, True]
    assert len(unseen) == 2


async def test_every_page_is_whole_and_the_keyboard_always_shows_where_it_is(
    house: House, browser: Browser
) -> None:
    page = await open_page(browser, viewport={"width": 1280, "height": 900})
    unseen = []
    for name, path in house.pages.items():
        await page.goto(house.served.url + path)
        await is_whole(page, name)
        unseen += [f"{name}: {stop}" for stop in await walk_by_keys(page)]
    assert not unseen, "\n".join(unseen)


async def test_every_page_is_whole_without_javascript_and_fits_the_smallest_phone(
    house: House, browser: Browser
) -> None:
    plain = await open_page(browser, java_script_enabled=False, viewport={"width": 1280, "height": 900})
    small = await open_page(browser, viewport={"width": SMALLEST, "height": 844})
    wide = {}
    for name, path in house.pages.items():
        await plain.goto(house.served.url + path)
        await is_whole(plain, name)
        assert await plain.locator(".scripted:visible").count() == 0, name
        await small.goto(house.served.url + path)
        if (found := await small.evaluate("document.documentElement.scrollWidth")) > SMALLEST:
            wide[name] = found
    assert wide == {}


async def test_axe_finds_nothing_serious_in_the_menu_of_a_phone(house: House, browser: Browser) -> None:
    page = await open_page(browser, viewport={"width": 390, "height": 844})
    await page.goto(house.served.url)
    await page.get_by_role("button", name="Menu").click()
    assert await faults_of(page) == []


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
