from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from mediamill.ui.asset_page import exposure, moments, place, taken
from tests.api.serving import Served
from tests.ui.browser import until, watch_console
from tests.ui.picturing import RTL, SCENES, TAGGER, XSS, picture_library

HTML = {"accept": "text/html"}
TIME = "document.getElementById('film').currentTime"


@pytest.mark.spec("L6", "L11")
async def test_scenes_of_a_video_are_jumped_to_and_followed(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=10)
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = watch_console(page)
    await page.goto(f"{served.url}/assets/{made['film']}?t=5.5")
    await until(page, f"document.getElementById('film').readyState >= 2 && Math.abs({TIME} - 5.5) < 0.3")
    assert (
        str(await page.evaluate("document.getElementById('film').currentSrc"))
        .split("#")[0]
        .endswith("/source")
    )
    await expect(page.locator("#moments li")).to_have_count(len(SCENES))
    await expect(page.locator("#moments [aria-current]")).to_contain_text("0:05 – 0:06")
    # Slowly: the scene is there for half a minute, long enough to be looked at on a busy machine.
    await page.evaluate("document.getElementById('film').playbackRate = 0.1")
    await page.get_by_role("link", name=re.compile("A market behind a wall")).click()
    await until(page, f"{TIME} >= 2.1 && {TIME} < 5")
    await expect(page.locator("#moments [aria-current]")).to_contain_text("A market behind a wall")
    await expect(page).to_have_url(re.compile(r"\?t=2\.10$"))
    await page.locator("#timeline a").last.click()
    await until(page, f"{TIME} >= 6.2")
    await expect(page.locator(".by code")).to_have_text(TAGGER)
    await expect(page.locator(".scored")).to_contain_text("93 %")
    assert complaints == []


async def test_a_film_that_the_browser_cannot_play_shows_its_first_seconds(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=10)
    (tmp_path / "photos" / "film" / "the harbour.mp4").write_bytes(b"this is no film at all" * 100)
    page = await browser.new_page()
    await page.goto(f"{served.url}/assets/{made['film']}")
    await expect(page.locator("#only-clip")).to_be_visible()
    assert str(await page.evaluate("document.getElementById('film').currentSrc")).endswith("/clip.mp4")


async def test_neighbours_are_an_arrow_away_and_what_failed_is_tried_again(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    made = await picture_library(served, tmp_path / "photos", pictures=10)
    ids = made["ids"]
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/assets/{ids[XSS]}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(XSS)
    assert await page.evaluate("window.hurt") is None
    await expect(page.locator("#facts")).to_contain_text(
        re.compile(r"Taken28 August 2024, 12:00 \+02:00\s*By the camera's clock")
    )
    await page.get_by_role("button", name="Make again").click()
    await expect(page.locator("#asset-state")).to_contain_text("It waits for its turn")
    assert await served.one("select status from assets where id = $1", ids[XSS]) == "pending"
    await expect(page.get_by_role("link", name="Newer")).to_have_count(0)
    await page.keyboard.press("ArrowRight")
    await expect(page).to_have_url(re.compile(f"/assets/{ids[RTL]}$"))
    await expect(page.get_by_role("heading", level=1)).to_have_text(RTL.replace("\u202e", r"\u202e"))
    await page.get_by_role("link", name="Older").click()
    await expect(page).to_have_url(re.compile(f"/assets/{made['film']}$"))
    await page.get_by_role("link", name="Older").click()
    await expect(page).to_have_url(re.compile(f"/assets/{ids['broken.jpg']}$"))
    await expect(page.locator("#asset-state")).to_contain_text("the file ends in the middle of a picture")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#asset-state")).to_contain_text("It waits for its turn")
    assert await served.one("select status from assets where id = $1", ids["broken.jpg"]) == "pending"
    assert complaints == []


async def test_an_asset_that_is_not_there_is_said(served: Served) -> None:
    answer = await served.client.get("/assets/77", headers=HTML)
    assert answer.status_code == 404
    assert "There is no asset 77" in answer.text
    assert (await served.client.get("/assets/x")).status_code == 422


def test_what_a_camera_wrote_reads_as_photographers_write_it() -> None:
    told = {"exposure_seconds": 0.004, "f_number": 2.8, "iso": 160, "focal_length_mm": 35}
    assert exposure(told) == "1/250 s, f/2.8, ISO 160, 35 mm"
    assert exposure({"exposure_seconds": 2.5, "iso": "loud", "f_number": float("nan")}) == "2.5 s"
    assert place({"gps": {"latitude": 1.5, "longitude": -2}}) == {"latitude": 1.5, "longitude": -2.0}
    assert place({"gps": {"latitude": "<b>", "longitude": 2}}) is None
    assert place({"gps": "here"}) is None


@pytest.mark.spec("L22")
def test_a_time_is_shown_with_its_offset_and_where_it_comes_from() -> None:
    at = datetime(2024, 6, 1, 0, 30)
    east = taken(at, {"taken_at": "2024-06-01T00:30:00+02:00", "taken_from": "exif_gps"})
    assert (east["name"], east["time"]) == ("Taken", "1 June 2024, 00:30 +02:00")
    assert (east["machine"], east["origin"]) == (
        "2024-06-01T00:30:00+02:00",
        "By the camera's clock; the offset by GPS",
    )
    bare = taken(at, {"taken_at": "2024-06-01T00:30:00", "taken_from": "exif"})
    assert (bare["time"], bare["machine"]) == ("1 June 2024, 00:30", "2024-06-01T00:30:00")
    utc = taken(at, {"taken_at": "2024-06-01T00:30:00+00:00", "taken_from": "container_utc"})
    assert (utc["time"], utc["origin"]) == ("1 June 2024, 00:30 UTC", "By the file, which only keeps UTC")
    for facts in ({}, {"taken_from": "<b>"}, {"taken_at": ["x"]}):
        changed = taken(at, facts)
        assert (changed["name"], changed["time"], changed["machine"]) == (
            "File changed",
            "1 June 2024, 00:30 UTC",
            "2024-06-01T00:30:00Z",
        )


def test_frames_last_until_the_next_one_and_nothing_leaves_the_time_line() -> None:
    frames = [{"seconds": 0.0}, {"seconds": 4.0}, {"seconds": 9.99}]
    found = moments({"scenes": [], "frames": frames, "duration_seconds": 10.0})
    assert [(one["at"], one["end"]) for one in found] == [(0, 4), (4, 9.99), (9.99, 10)]
    assert all(one["x"] >= 0 and one["x"] + one["width"] <= 100 for one in found)
    assert moments({"scenes": [], "frames": frames[:1], "duration_seconds": None})[0]["x"] == 0
