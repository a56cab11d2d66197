"""The site of docs/ in a browser: it asks nobody else for anything, finds, and fits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.async_api import Browser, BrowserContext, expect

from scripts.site import ROOT, Pages
from tests.built_site import built_site
from tests.ui.browser import shoot, watch_console
from tests.ui.looks import DESKTOP, PHONE, fits, turn_to

PAGES = sorted(Pages(ROOT).names.values())
LOOKS = {"desktop": DESKTOP[0], "phone": PHONE[1]}


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing of what it serves."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site on a port of its own."""
    folder = built_site(tmp_path_factory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def watch_requests(context: BrowserContext, url: str) -> list[str]:
    """What is asked of others, and what the site has not."""
    wrong: list[str] = []
    context.on(
        "request",
        lambda asked: None if asked.url.startswith((url, "data:", "blob:")) else wrong.append(asked.url),
    )
    context.on("response", lambda got: wrong.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    return wrong


async def test_every_page_fits_and_asks_nobody_else_for_anything(site_url: str, browser: Browser) -> None:
    context = await browser.new_context()
    wrong = watch_requests(context, site_url)
    page = await context.new_page()
    complaints = watch_console(page)
    looks = list(LOOKS.values())
    await turn_to(page, looks[0])
    for name in PAGES:
        await page.goto(f"{site_url}/{name}.html")
        for number, look in enumerate(looks):
            if number:  # else it was loaded like this
                await turn_to(page, look)
            assert await fits(page, look.width), name
        looks.reverse()  # the next page is loaded as this one was left
        broken = await page.evaluate(
            "[...document.images].filter(each => each.complete && !each.naturalWidth).length"
        )
        assert broken == 0, name
    assert wrong == []
    assert complaints == []


@pytest.mark.parametrize("name", ["index", "how-to/process-files", "reference/settings", "architecture"])
async def test_pictures_of_the_site_for_people_who_look_at_it(
    site_url: str, browser: Browser, name: str
) -> None:
    page = await browser.new_page()
    for kind, look in LOOKS.items():
        await turn_to(page, look)
        await page.goto(f"{site_url}/{name}.html")
        await expect(page.locator("article h1")).to_be_visible()
        for picture in await page.locator("pre.mermaid").all():
            await expect(picture.locator("svg")).to_be_visible()
        await shoot(page, f"site-{name.replace('/', '-')}-{kind}")


async def test_a_word_is_found(site_url: str, browser: Browser) -> None:
    context = await browser.new_context()
    wrong = watch_requests(context, site_url)
    page = await context.new_page()
    await page.goto(f"{site_url}/index.html")
    await page.get_by_placeholder("Search").fill("fencing token")
    await page.keyboard.press("Enter")
    hit = page.locator("#search-results li a[href^='decisions/fencing-token.html']")
    await expect(hit.first).to_be_visible()  # they come one after the other
    assert wrong == []


async def test_pictures_are_drawn_again_when_day_becomes_night(site_url: str, browser: Browser) -> None:
    context = await browser.new_context(color_scheme="light")
    wrong = watch_requests(context, site_url)
    page = await context.new_page()
    complaints = watch_console(page)
    await page.goto(f"{site_url}/state-machine.html")
    pictures = page.locator("pre.mermaid")
    await expect(pictures).to_have_count(2)
    for picture in await pictures.all():
        await expect(picture).to_have_attribute("data-drawn", "light")
        await expect(picture.locator("svg")).to_be_visible()
    day = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    toggle = page.locator(".theme-toggle:visible").first
    await toggle.click()
    if await page.locator("body").get_attribute("data-theme") == "light":
        await toggle.click()
    await expect(page.locator("body")).to_have_attribute("data-theme", "dark")
    for picture in await pictures.all():
        await expect(picture).to_have_attribute("data-drawn", "dark")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != day
    assert wrong == []
    assert complaints == []


async def test_on_a_phone_the_navigation_opens_and_leads_on(site_url: str, browser: Browser) -> None:
    page = await browser.new_page()
    await turn_to(page, LOOKS["phone"])
    await page.goto(f"{site_url}/index.html")
    link = page.locator(".sidebar-tree").get_by_role("link", name="Back up and restore")
    await expect(link).not_to_be_in_viewport()
    await page.locator(".nav-overlay-icon").first.click()
    await expect(link).to_be_visible()
    await link.click()
    await expect(page.locator("article h1")).to_contain_text("Back up and restore")
