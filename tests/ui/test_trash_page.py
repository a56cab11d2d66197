from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from mediamill.libraries.erase import erase_marked
from mediamill.libraries.trash import remove_library
from mediamill.videos.trash import delete_video
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.filming import show_film
from tests.ui.picturing import many_rows
from tests.videos.played import Ground


async def remove(served: Served, slug: str) -> None:
    async with served.database.transaction() as connection:
        await remove_library(connection, slug)


@pytest.mark.spec("L14", "L15")
async def test_a_library_comes_back_from_the_trash_or_is_erased_after_a_second_thought(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    for name in ("Keep", "Drop"):
        await remove(served, await many_rows(served, tmp_path / name, 30, name=name))
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/trash")
    await expect(page.locator(".library")).to_have_count(2)
    await follow(page.get_by_role("button", name="Restore Keep"))
    await expect(page).to_have_url(f"{served.url}/libraries")
    await expect(page.locator("#library-keep")).to_contain_text("27 images, 3 videos")
    await follow(page.locator("main").get_by_role("link", name="Trash"))
    erase = page.get_by_role("button", name="Erase for good: Drop")
    await expect(erase).to_be_hidden()
    await page.get_by_text("Erase …").click()
    await expect(page.locator("#library-drop")).to_contain_text("The files in the folder stay as they are")
    await erase.click()
    await expect(page.locator("#library-drop")).to_contain_text("being erased")
    await expect(page.locator("#library-drop")).to_contain_text("30 left")
    await expect(page.get_by_role("button", name="Restore Drop")).to_have_count(0)
    await erase_marked(served.database)
    await expect(page.locator("#trash")).to_contain_text("There are no libraries in the trash")
    assert await served.one("select array_agg(slug) from libraries") == ["keep"]
    assert complaints == []


@pytest.mark.spec("L14", "V14")
async def test_the_trash_shows_videos_and_libraries_and_is_emptied_of_both(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    ground = Ground.on(served.database, served.app.state.deps.settings.data_folder)
    await remove(served, await many_rows(served, tmp_path / "Drop", 3, name="Drop"))
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/trash")
    await expect(page.locator("#library-drop")).to_be_visible()
    await expect(page.get_by_text("There are no videos in the trash.")).to_be_visible()
    video_id = await show_film(ground)
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
    await expect(page.locator("#videos .video")).to_have_count(1)  # it appears by itself
    await shoot(page, "trash-of-both")
    await page.get_by_text("Empty the trash …").click()
    await follow(page.get_by_role("button", name="Empty the trash for good"))
    await expect(page.get_by_text("There are no videos in the trash.")).to_be_visible()
    await expect(page.locator("#library-drop")).to_contain_text("being erased")
    assert await served.one("select count(*) from videos") == 0
    assert complaints == []


async def test_what_was_counted_while_a_library_was_restored_is_not_shown_after_it(
    served: Served, tmp_path: Path
) -> None:
    await remove(served, await many_rows(served, tmp_path / "keep", 5, name="Keep"))
    async with served.database.transaction() as slow:
        await slow.execute("lock table library_counts")
        before = asyncio.create_task(served.client.get("/trash"))
        await wait_until(
            lambda: served.one(
                "select exists (select from pg_locks where relation = 'library_counts'::regclass and not granted)"
            )
        )
        assert (await served.client.post("/libraries/keep/restore")).status_code == 303
    assert "Restore Keep" in (await before).text
    assert "Restore Keep" not in (await served.client.get("/trash")).text


async def test_the_whole_trash_is_emptied_at_once(served: Served, browser: Browser, tmp_path: Path) -> None:
    for name in ("One", "Two"):
        await remove(served, await many_rows(served, tmp_path / name, 5, name=name))
    await many_rows(served, tmp_path / "kept", 5, name="Kept")
    page = await browser.new_page()
    await page.goto(f"{served.url}/trash")
    await page.get_by_text("Empty the trash …").click()
    await page.get_by_role("button", name="Empty the trash for good").click()
    await expect(page.locator(".library .state.bad")).to_have_count(2)
    await erase_marked(served.database)
    assert await served.one("select array_agg(slug) from libraries") == ["kept"]
    assert await served.one("select count(*) from assets") == 5
    answer = await served.client.post("/trash/kept/erase")
    assert answer.status_code == 409
