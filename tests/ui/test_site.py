"""The site of docs/ in a browser: it asks nobody else for anything, finds, and fits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest
from playwright.async_api import Browser, BrowserContext, expect

from scripts.site import ROOT, Pages
from tests.built_site import built_site
from tests.ui.browser import shoot, watch_console
from tests.ui.looks import DESKTOP, PHONE, turn_to

PAGES = sorted(Pages(ROOT).names.values())
LOOKS = {"desktop": DESKTOP[0], "phone": PHONE[1]}
SCHEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")


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


# A frame is a window to the page in it, and cheaper than one: what it lays out, asks for and complains of is the same.
LOAD = """async ([address, widths]) => {
    const frame = document.querySelector('iframe') || document.body.appendChild(document.createElement('iframe'));
    frame.style = `border: 0; height: 900px; width: ${widths[0]}px`;
    await new Promise((loaded) => { frame.onload = loaded; frame.src = address; });
    const shown = frame.contentDocument, wide = {}, frames = 300;
    for (const width of widths) {
        frame.style.width = `${width}px`;
        const found = () => shown.documentElement.scrollWidth;
        // A long page takes a moment to be laid out again.
        for (let left = frames; left && found() > width; left--) await new Promise(requestAnimationFrame);
        if (found() > width) wide[width] = found();
    }
    const broken = [...shown.images].filter((each) => each.complete && !each.naturalWidth);
    return {title: shown.title, wide, broken: broken.length, drawings: shown.querySelectorAll('pre.mermaid').length};
}"""


async def test_every_page_fits_and_asks_nobody_else_for_anything(site_url: str, browser: Browser) -> None:
    context = await browser.new_context(color_scheme="light")
    wrong = watch_requests(context, site_url)
    page = await context.new_page()
    complaints = watch_console(page)
    await page.route(
        "**/frame", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>")
    )
    await page.goto(f"{site_url}/frame")
    widths = [look.width for look in LOOKS.values()]
    for name in PAGES:
        found = await page.evaluate(LOAD, [f"{site_url}/{name}.html", widths])
        assert found["title"], name
        assert (found["wide"], found["broken"]) == ({}, 0), name
        widths.reverse()  # the next page is loaded as this one was left
        if found["drawings"]:
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme)
                drawn = page.frame_locator("iframe").locator(f"pre.mermaid[data-drawn={scheme}] svg")
                await expect(drawn).to_have_count(found["drawings"])
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
