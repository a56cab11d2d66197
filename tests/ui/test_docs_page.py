from __future__ import annotations

import re
import shlex

import pytest
from playwright.async_api import Browser, expect

from mediamill.ui.docs import read_sections
from tests.api.serving import Served
from tests.ui.browser import watch_console
from tests.ui.test_bots_pages import LOOKS, SHOTS


async def test_every_route_of_the_document_is_on_the_page(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    page = (await served.client.get("/docs")).text
    shown = {
        (method.lower(), path)
        for method, path in re.findall(
            r'<span class="method \w+">(\w+)</span> <code class="path">([^<]+)<', page
        )
    }
    assert shown == {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert "image_total_bytes_exceeded" in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)


async def test_the_calls_that_it_shows_are_good_ones(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    [messages] = [section for section in read_sections(document, served.url) if section.name == "messages"]
    [route] = messages.routes
    body = next(each for each in route.bodies if each.media_type == "application/json")
    words = shlex.split(body.curl.replace("\\\n", ""))
    assert words[:4] == ["curl", "-X", "POST", f"{served.url}/v1/messages"]
    answer = await served.client.post(
        "/v1/messages", content=words[words.index("-d") + 1], headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 202, answer.text
    assert answer.json()["image_count"] == 1
    names = [fact.name for fact in body.facts]
    assert names[:2] == ["thread_key", "text"]
    assert "images[].data_base64" in names


@pytest.mark.parametrize(("name", "scheme", "width", "height"), LOOKS)
async def test_the_page_of_the_api_fits_its_window(
    served: Served, browser: Browser, name: str, scheme: str, width: int, height: int
) -> None:
    context = await browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}
    )
    page = await context.new_page()
    complaints = watch_console(page)
    SHOTS.mkdir(exist_ok=True)
    await page.goto(f"{served.url}/bots")
    if name.startswith("phone"):
        await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("navigation").get_by_role("link", name="API").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("API of mediamill")
    await page.screenshot(path=SHOTS / f"docs-{name}.png")
    summary = page.locator("summary", has_text="/v1/runs/{run_id}/events")
    await summary.click()
    await expect(page.get_by_text("Last-Event-Id", exact=False).first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await summary.scroll_into_view_if_needed()
    await page.screenshot(path=SHOTS / f"docs-run-{name}.png")
    assert complaints == []
