"""Every page in every look: it fits its window, bars nobody, complains of nothing; a screenshot of it if asked for.

A world is a server that is filled once. Each of its pages is loaded once and turned to all looks; but what a script
lays out, or what takes other steps on a phone, is loaded in a wide window and again on a phone. What a page shows only
after some steps is a row of its own, which goes on from the row above it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from mediamill.db.connection import Database
from tests.access.people import PASSWORD
from tests.api.serving import Served
from tests.ui.browser import follow, log_in, until, until_seen, watch_console
from tests.ui.looks import DESKTOP, PHONE, find_faults, turn_to
from tests.ui.papering import CHOSEN
from tests.ui.picturing import RTL, XSS, until_filled
from tests.ui.touring import PAGES, serve_all
from tests.ui.worlds import (
    Places,
    fill_access,
    fill_bots,
    fill_films,
    fill_jobs,
    fill_libraries,
    fill_nothing,
    fill_pictures,
    fill_projects,
    fill_system,
    fill_workers,
)

Step = Callable[[Page], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Row:
    """A page: the name of its screenshots, where it is (nowhere: where the row above was), and what is done there."""

    shot: str
    path: str = ""
    step: Step | None = None
    full_page: Literal["never", "always", "phone"] = "always"
    provoked: str = "nothing"  # a complaint of the browser about what the row is there to show
    twice: bool = False  # loaded again on a phone


@dataclass(frozen=True, slots=True)
class World:
    """How a server is filled, and its pages."""

    fill: Callable[[Served, Path], Awaitable[Places]]
    rows: tuple[Row, ...]
    settings: dict[str, Any] = field(default_factory=dict)


def click(text: str) -> Step:
    return lambda page: page.get_by_text(text).first.click()


def count(selector: str, amount: int) -> Step:
    return lambda page: expect(page.locator(selector)).to_have_count(amount)


def sees(selector: str) -> Step:
    return lambda page: expect(page.locator(selector)).to_be_visible()


async def open_traceback(page: Page) -> None:
    await page.get_by_text("Traceback", exact=True).click()
    await expect(page.locator("#trace-13 pre")).to_be_visible()


async def refuse_pool(page: Page) -> None:
    await page.get_by_label("At once").fill("0")
    await page.get_by_label("Takes").fill("audio/*")
    await follow(page.get_by_role("button", name="Save"))


async def go_to_docs(page: Page) -> None:
    if page.viewport_size == {"width": PHONE[0].width, "height": PHONE[0].height}:
        await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("navigation").get_by_role("link", name="API").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("API of mediamill")


async def open_route(page: Page) -> None:
    summary = page.locator("summary", has_text="/v1/runs/{run_id}/events")
    await summary.click()
    await expect(page.get_by_text("Last-Event-Id", exact=False).first).to_be_visible()
    await summary.scroll_into_view_if_needed()


async def enter_as_eve(page: Page) -> None:
    await log_in(page, "eve", PASSWORD)
    await page.get_by_text("Change …").first.click()
    await page.get_by_text("Make a token").click()
    await page.locator(".user-menu summary").click()


async def is_unhurt(page: Page) -> None:
    await expect(page.get_by_role("link", name=re.compile("<script>"))).to_be_visible()
    assert await page.evaluate("window.hurt") is None


async def list_libraries(page: Page) -> None:
    await expect(page.locator(".library")).to_have_count(3)
    await is_unhurt(page)


async def list_projects(page: Page) -> None:
    await expect(page.locator(".project")).to_have_count(3)
    await is_unhurt(page)


async def open_fields(page: Page) -> None:
    await page.locator(".mini img").first.evaluate("image => image.decode()")
    await page.locator("#fields > summary").click()


async def choose_total(page: Page) -> None:
    await expect(page.locator("#proposals")).to_be_visible()
    await page.locator(".picture img").evaluate("image => image.decode()")
    await page.get_by_role("link", name="1404.50").click()
    await expect(page.locator(".place.chosen")).to_be_visible()


async def has_searched(page: Page) -> None:
    await expect(page.locator(".spinner")).to_have_count(0)
    await until_seen(page)


async def fill_grid(page: Page) -> None:
    await until_filled(page)
    titles = await page.locator(".cell a").evaluate_all("all => all.map(a => a.title)")
    assert any(title.startswith(XSS) for title in titles)
    assert not any("\u202e" in title for title in titles)
    assert RTL.replace("\u202e", r"\u202e") in " ".join(titles)
    assert await page.evaluate("window.hurt") is None
    await until_seen(page)


async def scrub(page: Page) -> None:
    box = await page.get_by_role("slider").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.6)
    await page.mouse.down()
    await until_filled(page)
    await until_seen(page)


async def list_films(page: Page) -> None:
    await expect(page.locator(".video")).to_have_count(5)
    await page.locator(".thumb img").first.evaluate("image => image.decode()")


async def open_film_menu(page: Page) -> None:
    await until(page, "document.getElementById('film').readyState >= 2")
    await page.keyboard.press("c")
    await page.keyboard.press("3")
    await until(
        page,
        "document.getElementById('film').currentTime > 4 && !document.getElementById('cues').hidden",
    )
    await page.get_by_role("button", name="Quality and speed").click()


WORLDS = {
    "nothing": World(
        fill_nothing,
        (
            Row("bots-empty", "/bots", full_page="never"),
            Row("libraries-empty", "/libraries"),
            Row("projects-empty", "/projects"),
            Row("videos-empty", "/videos", full_page="never"),
            Row("trash-empty", "/trash", sees("#trash:has-text('There are no libraries in the trash')")),
            Row("docs", "/bots", go_to_docs, full_page="never", twice=True),
            Row("docs-run", step=open_route, full_page="never", twice=True),
            Row("sorry", "/videos/there-is-no-such-video", provoked="404"),
        ),
    ),
    "jobs": World(
        fill_jobs,
        (
            Row("first-page", "/", sees("#plot canvas"), full_page="phone", twice=True),
            Row("jobs", "/jobs", full_page="never"),
            Row("jobs-none", "/jobs?owner=nobody"),
            Row("job", "/jobs/13", full_page="never"),
            Row("job-running", "/jobs/{running}"),
            Row("dead-letter", "/dead", open_traceback, full_page="never"),
            Row("dead-none", "/dead?owner=nobody"),
        ),
    ),
    "system": World(
        fill_system,
        (
            Row("storage", "/storage", full_page="phone"),
            Row("settings", "/settings", full_page="never"),
            Row("dashboard", "/", full_page="phone", twice=True),
            Row("pools", "/pools", full_page="never"),
            Row("pool-default", "/pools/default"),
            Row("pool", "/pools/image", refuse_pool, provoked="422"),
        ),
    ),
    "workers": World(fill_workers, (Row("workers", "/workers", click("Shut down …")),)),
    "bots": World(
        fill_bots,
        (
            Row("bots", "/bots", count(".bot", 6)),
            Row("bot", "/bots/anna"),
            Row("group", "/bots/anna/whatsapp/family@g.us", full_page="never"),
            Row("bot-access", "/bots/shop", click("Change who may talk to it")),
            Row("bot-access-open", "/bots/hotline"),
        ),
    ),
    "access": World(
        fill_access,
        (
            Row("login", "/access", full_page="never"),
            Row("access", step=enter_as_eve),
            Row("account", "/account"),
            Row("audit", "/audit"),
        ),
        {"login": "always"},
    ),
    "libraries": World(
        fill_libraries,
        (Row("libraries", "/libraries", list_libraries), Row("trash", "/trash", click("Erase …"))),
    ),
    "pictures": World(
        fill_pictures,
        (
            Row("asset-image", "/assets/{image}", until_seen),
            Row("asset-video", "/assets/{film}", until_seen),
            Row("asset-failed", "/assets/{failed}", until_seen),
            Row("search-empty", "/search?library={slug}&type=document", has_searched),
            Row("search-newest", "/search", has_searched),
            Row("search-found", "/search?q=boat", has_searched),
            Row("search-similar", "/search?like=asset:{alike}", has_searched),
            Row("search-nothing", "/search?q=qqqq&library={slug}&type=audio", has_searched),
            Row("grid", "/libraries/{slug}", fill_grid, full_page="never", twice=True),
            Row("grid-scrubbed", step=scrub, full_page="never", twice=True),
        ),
    ),
    "projects": World(
        fill_projects,
        (
            Row("projects", "/projects", list_projects),
            Row("project", "/projects/invoices", open_fields),
            Row("review", "/projects/invoices/files/{invoice}", choose_total, full_page="never", twice=True),
            Row(
                "review-whole",
                step=lambda page: page.locator(CHOSEN).locator("summary").click(),
                twice=True,
            ),
            *(
                Row(
                    f"review-{what}",
                    f"/projects/invoices/files/{{{what}}}",
                    sees("#proposals"),
                    full_page="never",
                )
                for what in ("sheet", "broken", "working", "film")
            ),
        ),
    ),
    "videos": World(
        fill_films,
        (
            Row("videos", "/videos", list_films),
            Row("videos-trash", "/videos?trash=1", click("Erase …"), full_page="never"),
            Row("video-menu", "/videos/{ready}", open_film_menu, full_page="never", twice=True),
            Row("video-ready", step=lambda page: page.keyboard.press("Escape"), twice=True),
            Row("video-tall", "/videos/{tall}"),
            Row("video-processing", "/videos/{processing}"),
            Row("video-failed", "/videos/{failed}"),
        ),
    ),
}


def test_the_table_has_all_pages_of_the_house() -> None:
    assert set(PAGES) <= {row.shot for world in WORLDS.values() for row in world.rows}


@pytest.mark.parametrize("name", WORLDS)
async def test_every_page_is_right_in_every_look(
    database: Database, browser: Browser, tmp_path: Path, name: str
) -> None:
    world = WORLDS[name]
    async with serve_all(database, tmp_path / "data", **world.settings) as served:
        places = await world.fill(served, tmp_path)
        faults = []
        for twice, looks in ((False, DESKTOP + PHONE), (True, DESKTOP), (True, PHONE)):
            rows = [each for each in world.rows if each.twice is twice]
            if not rows:
                continue
            context = await browser.new_context()
            page = await context.new_page()
            complaints = watch_console(page)
            for row in rows:
                await turn_to(page, looks[0])
                if row.path:
                    await page.goto(served.url + row.path.format(**places))
                if row.step:
                    await row.step(page)
                faults += await find_faults(page, row.shot, looks, full_page=row.full_page)
                faults += [f"{row.shot}: {each}" for each in complaints if row.provoked not in each]
                complaints.clear()
            await context.close()
    assert not faults, "\n".join(faults)
