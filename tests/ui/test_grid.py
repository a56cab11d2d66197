from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.browser import follow, watch_console
from tests.ui.conftest import shared_by_a_module
from tests.ui.picturing import many_rows, picture_library, until_filled

ROWS = 200_000
NODES = "document.getElementsByTagName('*').length"
MOST_NODES = 4_000


def month_of(index: int) -> str:
    """Of the generated rows."""
    return (datetime(2025, 6, 15, 12, tzinfo=UTC) - timedelta(minutes=10 * index)).strftime("%Y-%m")


async def shown_titles(page: Page) -> list[str]:
    """Of the cells that are in the window and filled."""
    titles: list[str] = await page.evaluate(
        "[...document.querySelectorAll('.cell a')].filter(a => { const box = a.getBoundingClientRect();"
        " return box.bottom > 0 && box.top < innerHeight }).map(a => a.title)"
    )
    return titles


@shared_by_a_module
async def everything(shared: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a large library for tests that only look at it."""
    slug = await many_rows(shared, tmp_path_factory.mktemp("everything") / "many", ROWS)
    return f"{shared.url}/libraries/{slug}"


@pytest.mark.spec("L19")
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
async def test_two_hundred_thousand_are_scrolled_through_without_loading_them(
    everything: str, browser: Browser, width: int, height: int
) -> None:
    page = await browser.new_page(viewport={"width": width, "height": height})
    complaints = watch_console(page)
    await page.goto(everything)
    await expect(page.locator("#grid.virtual")).to_be_visible()
    await until_filled(page)
    assert "00000000.jpg, 15 June 2025" in await shown_titles(page)
    slider = page.get_by_role("slider", name="Month")
    box = await slider.bounding_box()
    assert box is not None
    nodes = []
    for share in (0.5, 0.25, 0.9, 0.5):
        await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * share)
        await page.mouse.down()
        await page.mouse.up()
        await until_filled(page)
        here = await page.locator("#grid").get_attribute("data-here")
        near = {month_of(int(ROWS * share) + off) for off in (-4500, 0, 4500)}
        assert here in near
        name = datetime.strptime(here or "", "%Y-%m").strftime("%B %Y")
        assert any(title.endswith(name) for title in await shown_titles(page))
        nodes.append(await page.evaluate(NODES))
    for _ in range(30):
        await page.mouse.wheel(0, 3_000)
    await until_filled(page)
    nodes.append(await page.evaluate(NODES))
    await page.locator(".cell a").first.focus()
    await page.keyboard.press("End")
    await until_filled(page)
    await expect(page.locator(":focus")).to_have_attribute("title", re.compile(f"{ROWS - 1:08}.jpg"))
    nodes.append(await page.evaluate(NODES))
    await page.keyboard.press("Home")
    await expect(page.locator(":focus")).to_have_attribute("title", re.compile("00000000.jpg"))
    nodes.append(await page.evaluate(NODES))
    assert max(nodes) < MOST_NODES
    assert await page.evaluate("document.documentElement.scrollHeight") < 3_000_000
    assert complaints == []


async def test_every_cell_is_in_its_place_across_slabs_and_months(everything: str, browser: Browser) -> None:
    page = await browser.new_page(viewport={"width": 390, "height": 844})
    await page.goto(everything)
    await until_filled(page)
    for index in (0, 99, 100, 2_160, 4_470, 25_000, ROWS - 1):
        await page.evaluate("index => { grid.wanted = index; grid.focusWanted(true) }", index)
        await expect(page.locator(":focus")).to_have_attribute("title", re.compile(f"{index:08}.jpg"))
        await expect(page.locator(":focus")).to_be_in_viewport()
    # From one to the next, over the end of stretches and months, in both directions.
    await page.evaluate("grid.wanted = 2_150; grid.focusWanted(true)")
    for index in range(2_151, 2_175):
        await page.keyboard.press("ArrowRight")
        await expect(page.locator(":focus")).to_have_attribute("title", re.compile(f"{index:08}.jpg"))
    columns = await page.evaluate("grid.columns")
    await page.evaluate("grid.wanted = 30_000; grid.focusWanted(true)")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator(":focus")).to_have_attribute("title", re.compile(f"{30_000 + columns:08}.jpg"))
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(":focus")).to_have_attribute("title", re.compile(f"{29_999:08}.jpg"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/assets/\d+$"))
    await page.go_back()
    await until_filled(page)
    assert any("29999.jpg" in title for title in await shown_titles(page))


async def test_types_and_states_are_filtered_with_months_of_their_own(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    slug = await many_rows(served, tmp_path / "many", 20_000)
    await served.run("update assets set status = 'failed', error = 'x' where inode in (5, 19500)")
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(f"{served.url}/libraries/{slug}")
    await page.get_by_label("Type").select_option("video")
    await follow(page.get_by_role("button", name="Show"))
    await until_filled(page)
    assert await page.evaluate("grid.total") == 2_000
    assert all(int(title[:8]) % 10 == 0 for title in await shown_titles(page))
    await page.goto(f"{served.url}/libraries/{slug}?status=failed")
    await until_filled(page)
    assert [title[:8] for title in await shown_titles(page)] == ["00000005", "00019500"]
    await expect(page.locator("#grid h2")).to_have_count(2)
    await page.goto(f"{served.url}/libraries/{slug}?status=pending")
    await expect(page.locator("main")).to_contain_text("Nothing in it is like that")


async def test_the_grid_is_complete_without_javascript(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    slug = await many_rows(served, tmp_path / "many", 250)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/libraries/{slug}")
    seen = []
    for amount in (100, 100, 50):
        await expect(page.locator(".cell")).to_have_count(amount)
        seen += await page.locator(".cell a").evaluate_all("all => all.map(a => a.title.slice(0, 8))")
        if amount == 100:
            await follow(page.get_by_role("link", name="Older"))
    assert seen == [f"{index:08}" for index in range(250)]
    await expect(page.get_by_role("link", name="Older")).to_have_count(0)
    await page.get_by_role("link", name="Back to the newest").click()
    await expect(page.locator(".cell a").first).to_have_attribute("title", re.compile("00000000"))


async def test_a_count_that_is_no_longer_true_is_corrected_while_scrolling(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    slug = await many_rows(served, tmp_path / "many", 1_000)
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(f"{served.url}/libraries/{slug}")
    await until_filled(page)
    await served.run("delete from assets where inode between 900 and 999")
    await page.locator(".cell a").first.focus()
    await page.keyboard.press("End")

    async def is_corrected() -> bool:
        return int(await page.evaluate("grid.total")) == 900

    await wait_until(is_corrected)
    await page.keyboard.press("End")
    await expect(page.locator(":focus")).to_have_attribute("title", re.compile("00000899"))


async def test_a_video_previews_while_the_pointer_rests_on_it(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos")
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = watch_console(page)
    await page.goto(f"{served.url}/libraries/{made['slug']}")
    await until_filled(page)
    film = page.locator(".cell.video a").first
    await expect(film.locator(".length")).to_have_text("0:08")
    await film.hover()
    await expect(film.locator("video.clip")).to_be_visible()
    await wait_until(lambda: film.locator("video").evaluate("clip => clip.currentTime > 0.2 && clip.muted"))
    await page.mouse.move(5, 5)
    await expect(page.locator("video.clip")).to_have_count(0)
    assert complaints == []
