from __future__ import annotations

import re
from uuid import UUID

import pytest
from playwright.async_api import Browser, Page, expect

from mediamill.api.security_headers import HEADERS
from mediamill.ui.watching import PLAYER_POLICY
from mediamill.videos.look import show_video
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.browser import follow, shoot, until, watch_console
from tests.ui.conftest import shared_by_a_module
from tests.ui.filming import SAID, SECONDS, fill_videos, film, show_film, some_parts
from tests.videos.played import Ground, keep_stream, play_captions

TIME = "document.getElementById('film').currentTime"
WIDTH = "document.getElementById('film').videoWidth"
LIMIT = 60_000


@pytest.fixture
def ground(served: Served) -> Ground:
    """A worker's part, on the server's data."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


@shared_by_a_module
async def harbour(shared: Served) -> str:
    """The page of a video for tests that only watch it."""
    ground = Ground.on(shared.database, shared.app.state.deps.settings.data_folder)
    return f"{shared.url}/videos/{await show_film(ground)}"


async def open_video(browser: Browser, url: str) -> Page:
    """Its page, once the player has its stream."""
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(url)
    await until(page, "document.getElementById('film').readyState >= 2")
    return page


async def time_of(page: Page) -> float:
    return float(await page.evaluate(TIME))


@pytest.mark.spec("V12")
async def test_a_video_plays_and_its_quality_can_be_switched(harbour: str, browser: Browser) -> None:
    page = await open_video(browser, harbour)
    complaints = watch_console(page)
    await expect(page).to_have_url(re.compile(r"/videos/a-morning-at-the-harbour$"))
    await page.get_by_role("button", name="Play").first.click()
    await until(page, f"{TIME} > 0.8")
    assert (
        await page.evaluate("document.getElementById('film').getVideoPlaybackQuality().totalVideoFrames") > 5
    )
    await page.get_by_role("button", name="Quality and speed").click()
    menu = page.locator("#menu")
    names = await menu.locator("#qualities-menu label").all_inner_texts()
    assert [name.split()[0] for name in names] == ["Auto", "720p", "480p", "360p"]
    for quality, width in (("360p", 640), ("720p", 1280), ("480p", 854)):
        await menu.get_by_text(quality, exact=True).click()
        await until(page, f"{WIDTH} === {width}")
        await expect(page.locator("#playing")).to_have_text(quality)
        assert (
            await page.evaluate("(({levels, currentLevel}) => levels[currentLevel].width)(player.hls)")
        ) == width
    await menu.get_by_text(re.compile("^Auto")).click()
    await expect(menu.locator("#qualities-menu label").first).to_contain_text(re.compile(r"Auto \(\d+p\)"))
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    assert complaints == []


@pytest.mark.spec("V12")
async def test_hovering_over_the_seek_bar_shows_the_picture_of_that_moment(
    harbour: str, browser: Browser
) -> None:
    page = await open_video(browser, harbour)
    seek = page.locator("#seek")
    box = await seek.bounding_box()
    assert box is not None
    picture = page.locator("#preview .picture")

    async def is_shown() -> bool:  # the list of pictures may come after the film; who moves then sees them
        for share in (0.5, 0.75):
            await page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        return await picture.is_visible()

    await wait_until(is_shown)
    await expect(page.locator("#preview .at")).to_have_text("0:12")
    first = await picture.evaluate(
        "element => [element.style.backgroundImage, element.style.backgroundPosition]"
    )
    assert "sprite-000.jpg" in first[0]
    await shoot(page, "video-seek")
    await page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    await expect(page.locator("#preview .at")).to_have_text("0:01")
    assert await picture.evaluate("element => element.style.backgroundPosition") != first[1]
    await page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    await until(page, f"Math.abs({TIME} - {SECONDS / 2}) < 0.5")
    await page.mouse.move(5, 5)
    await expect(page.locator("#preview")).to_be_hidden()


@pytest.mark.spec("V12", "V13")
async def test_captions_show_what_is_said_and_the_transcript_follows_leads_and_is_searched(
    harbour: str, browser: Browser
) -> None:
    page = await open_video(browser, harbour)
    await expect(page.locator("#cues")).to_be_hidden()
    # Slowly: each line is there for eight seconds, long enough to be looked at on a busy machine.
    await page.evaluate("document.getElementById('film').playbackRate = 0.25")
    await page.get_by_role("button", name="Captions", exact=True).click()
    await page.get_by_role("link", name=SAID[3]).click()
    await expect(page.locator("#cues")).to_have_text(SAID[3], timeout=LIMIT)
    await expect(page.locator("#lines [aria-current]")).to_contain_text(SAID[3])
    await shoot(page, "video-captions")
    await expect(page.locator("#cues")).to_have_text(SAID[4], timeout=LIMIT)
    await expect(page.locator("#lines [aria-current]")).to_contain_text(SAID[4])
    await page.locator("#film").hover()  # its controls are hidden while it plays and nobody moves
    await page.get_by_role("button", name="Captions", exact=True).click()
    await expect(page.locator("#cues")).to_be_hidden()
    await page.get_by_label("Find in the transcript").fill("THE WHOLE")
    await expect(page.locator("#lines li:visible")).to_have_count(1)
    await expect(page.locator("#lines mark")).to_have_text("the whole")
    await expect(page.locator("#found")).to_have_text("1 line")
    await page.get_by_label("Find in the transcript").fill("")
    await expect(page.locator("#lines li:visible")).to_have_count(len(SAID))


@pytest.mark.spec("V12")
async def test_the_player_is_ruled_by_the_keyboard(harbour: str, browser: Browser) -> None:
    page = await open_video(browser, harbour)
    paused = "document.getElementById('film').paused"
    await page.keyboard.press("5")
    await until(page, f"Math.abs({TIME} - {SECONDS / 2}) < 0.2")
    for key, place in (("ArrowRight", 13), ("ArrowLeft", 8), ("l", 15.9), ("j", 5.9), ("0", 0)):
        await page.keyboard.press(key)
        await until(page, f"Math.abs({TIME} - {place}) < 0.3")
    await page.keyboard.press(" ")
    await until(page, f"!{paused} && {TIME} > 0.2")
    await page.keyboard.press("k")
    await until(page, paused)
    at = await time_of(page)
    await page.keyboard.press("m")
    await expect(page.get_by_role("button", name="Sound off")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("m")
    await page.keyboard.press("c")
    await expect(page.get_by_role("button", name="Captions", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    await page.keyboard.press(">")
    assert await page.evaluate("document.getElementById('film').playbackRate") == 1.25
    await page.keyboard.press("<")
    await page.keyboard.press("<")
    assert await page.evaluate("document.getElementById('film').playbackRate") == 0.75
    await page.keyboard.press("f")
    await expect(page.locator("#player.full")).to_be_visible()
    await page.keyboard.press("ArrowDown")
    assert await page.evaluate("document.getElementById('film').volume") < 1
    await page.keyboard.press("f")
    await expect(page.locator("#player.full")).to_have_count(0)
    await page.get_by_label("Find in the transcript").fill("jkl mf 5")
    assert await page.evaluate(paused)
    assert await time_of(page) == pytest.approx(at, abs=0.1)


async def test_volume_speed_captions_and_place_are_remembered(harbour: str, browser: Browser) -> None:
    page = await open_video(browser, harbour)
    await page.evaluate("document.getElementById('film').volume = 0.3")
    for key in ("c", ">", "5"):
        await page.keyboard.press(key)
    await until(page, f"{TIME} > 7")
    await page.reload()
    await until(page, f"Math.abs({TIME} - {SECONDS / 2}) < 0.5")
    facts = await page.evaluate(
        "(({volume, playbackRate}) => [volume, playbackRate])(document.getElementById('film'))"
    )
    assert facts == [0.3, 1.25]
    await expect(page.get_by_role("button", name="Captions", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    await page.goto(f"{page.url}?t=4")
    await until(page, f"Math.abs({TIME} - 4) < 0.5")


@pytest.mark.spec("V14")
async def test_a_page_that_is_open_follows_its_video_until_it_plays(
    served: Served, ground: Ground, browser: Browser
) -> None:
    made = film()
    video_id = await ground.add("Soon", made.source)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/videos/soon")
    state = page.locator("#video-state")
    await expect(state).to_contain_text("Waits for a worker")
    (job,) = await ground.claim("gpu-box")
    await expect(state).to_contain_text("Being processed", timeout=LIMIT)
    await page.evaluate("window.stayed = true")
    await ground.report(job, percent=20.0, parts=some_parts())
    await expect(state.get_by_role("progressbar", name="1080p")).to_have_attribute(
        "value", re.compile("^62"), timeout=LIMIT
    )
    await expect(state).to_contain_text("gpu-box")
    await expect(page.locator("#qualities")).to_contain_text("25 / 40")
    await ground.report(job, percent=40.0, parts=some_parts(80))
    await expect(state.get_by_role("progressbar", name="1080p")).to_have_attribute(
        "value", "80.0", timeout=LIMIT
    )
    assert await page.evaluate("window.stayed") is True
    await keep_stream(ground, job, made.files)
    await ground.finish(job, made.result)
    await expect(page.locator("#film")).to_have_count(1, timeout=LIMIT)  # the page loads itself anew
    await until(page, "document.getElementById('film').readyState >= 2")
    await page.evaluate("window.stayed = true")
    await expect(page.locator("#transcript")).to_have_count(0)
    await play_captions(ground, SAID)
    await expect(page.locator("#lines li")).to_have_count(len(SAID), timeout=LIMIT)
    await page.evaluate("document.getElementById('film').playbackRate = 0.25")  # to be seen on a busy machine
    await page.keyboard.press("c")
    await page.get_by_role("link", name=SAID[1]).click()
    await expect(page.locator("#cues")).to_have_text(SAID[1], timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
    assert complaints == []
    async with ground.database.connection() as connection:
        assert (await show_video(connection, video_id))["state"] == "ready"


@pytest.mark.spec("V10", "V17")
async def test_a_new_version_is_asked_for_on_the_page_and_taken_up_without_a_reload(
    served: Served, ground: Ground, browser: Browser
) -> None:
    video_id = await show_film(ground)
    page = await open_video(browser, f"{served.url}/videos/{video_id}")
    await page.evaluate("window.stayed = true")
    await page.get_by_text("Re-encode …").click()
    await page.get_by_role("checkbox", name="360p").check()
    async with page.expect_navigation():
        await page.get_by_role("button", name="Re-encode").click()
    await expect(page.locator("#video-state")).to_contain_text(
        "The present version plays until the new one is ready"
    )
    payload = await ground.one(
        "select payload -> 'retranscode' ->> 'qualities' from jobs where kind = 'video.transcode'"
    )
    assert payload == '["360p"]'
    await expect(page.get_by_role("button", name="Low")).to_have_attribute("aria-pressed", "true")
    async with page.expect_navigation():
        await page.get_by_role("button", name="High").click()
    await expect(page.get_by_role("button", name="High")).to_have_attribute("aria-pressed", "true")
    await until(page, "document.getElementById('film').readyState >= 2")
    await page.evaluate("window.stayed = true")
    await page.keyboard.press("5")
    (job,) = await ground.claim("attic")
    await expect(page.locator("#video-state")).to_contain_text("Being re-encoded", timeout=LIMIT)
    await keep_stream(ground, job, film().files, ["720p", "480p"])
    await ground.finish(job, film().result)
    await until(page, f"player.dataset.output === '{job.id}'")
    await until(page, f"player.hls.url.includes('/{job.id}/') && {TIME} > 7")
    await until(page, "document.getElementById('film').readyState >= 2")
    await expect(page.locator("#qualities")).to_contain_text("Made by attic: 360p")
    assert await page.evaluate("window.stayed") is True


async def test_a_failed_video_says_why_and_is_tried_again(
    served: Served, ground: Ground, browser: Browser
) -> None:
    ids = await fill_videos(ground)
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos/{ids['failed']}")
    await expect(page.locator("#video-state")).to_contain_text("the file ends in the middle of a picture")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#video-state")).to_contain_text("Waits for a worker", timeout=LIMIT)
    assert await ground.one("select state from videos where id = $1", ids["failed"]) == "pending"


@pytest.mark.spec("V14")
async def test_a_video_is_edited_deleted_restored_and_erased(
    served: Served, ground: Ground, browser: Browser
) -> None:
    video_id = await show_film(ground)
    await ground.add("Another")
    page = await open_video(browser, f"{served.url}/videos/{video_id}")
    await page.get_by_text("Edit …").click()
    await page.get_by_label("Title").fill("The harbour <b>& more</b>")
    await page.get_by_label("Address").fill("another")
    await page.get_by_role("button", name="Save").click()
    await expect(
        page.get_by_role("alert").filter(has_text="Another video has the slug another")
    ).to_be_visible()
    await expect(page.get_by_label("Title")).to_have_value("The harbour <b>& more</b>")
    await page.get_by_label("Address").fill("the-harbour")
    await page.get_by_label("Category").fill("Sea")
    await page.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(re.compile("/videos/the-harbour$"))
    await expect(page.get_by_role("heading", level=1)).to_have_text("The harbour <b>& more</b>")
    await page.get_by_text("Delete …").click()
    await follow(page.get_by_role("button", name="Move to the trash"))
    await expect(page.locator("#video-state")).to_contain_text("in the trash")
    await expect(page.locator("#player")).to_have_count(0)
    await page.evaluate("window.stayed = true")
    for _ in range(2):
        async with page.expect_response(lambda answer: "part=live" in answer.url, timeout=LIMIT):
            pass
    assert await page.evaluate("window.stayed") is True
    await page.get_by_role("button", name="Restore").click()
    await expect(page.locator("#player")).to_be_visible()
    await page.get_by_text("Delete …").click()
    await follow(page.get_by_role("button", name="Move to the trash"))
    await page.get_by_text("Erase for good …").click()
    await page.get_by_role("button", name="Erase The harbour").click()
    await expect(page).to_have_url(re.compile("/trash$"))
    await expect(page.get_by_text("There are no videos in the trash.")).to_be_visible()
    assert await ground.one("select count(*) from videos") == 1


async def test_without_javascript_there_is_a_plain_player_and_the_transcript(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await show_film(ground)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/videos/a-morning-at-the-harbour")
    assert await page.locator("#film").get_attribute("controls") is not None
    await expect(page.locator("#film source")).to_have_attribute("src", re.compile(r"/master\.m3u8$"))
    await expect(page.locator("#lines li")).to_have_count(len(SAID))
    await expect(page.locator("#controls")).to_be_hidden()


async def test_only_the_player_may_feed_media_from_memory(served: Served, ground: Ground) -> None:
    await show_film(ground, captions=False)
    usual = HEADERS["Content-Security-Policy"]
    assert f"{usual}; media-src 'self' blob:" == PLAYER_POLICY
    answer = await served.client.get("/videos/a-morning-at-the-harbour")
    assert answer.headers["Content-Security-Policy"] == PLAYER_POLICY
    assert (await served.client.get("/videos")).headers["Content-Security-Policy"] == usual


async def test_what_is_not_there_and_what_others_wrote_does_no_harm(
    served: Served, ground: Ground, browser: Browser
) -> None:
    html = {"Accept": "text/html"}
    for path in ("/videos/nothing", "/videos/%00", f"/videos/{UUID(int=7)}", "/videos/" + "x" * 3000):
        assert (await served.client.get(path, headers=html)).status_code in (404, 422), path
    for path in ("/videos?before=x", "/videos?trash=perhaps", f"/videos?q={'x' * 600}"):
        assert (await served.client.get(path, headers=html)).status_code == 422, path
    evil = "<img src=x onerror=\"document.title='owned'\">'&{{7*7}}</script>"
    made = film()
    video_id = await ground.add(evil, made.source, description=evil, category=evil, source_name=evil)
    (job,) = await ground.claim()
    await keep_stream(ground, job, made.files)
    result = {**made.result, "warnings": [evil]}
    await ground.finish(job, result)
    await play_captions(ground, [evil] * 3)
    page = await open_video(browser, f"{served.url}/videos/{video_id}")
    complaints = watch_console(page)
    await page.evaluate("document.getElementById('film').playbackRate = 0.25")  # to be seen on a busy machine
    await page.keyboard.press("c")
    await page.locator("#lines a").first.click()
    await expect(page.locator("#cues")).to_contain_text("onerror", timeout=LIMIT)
    await page.goto(f"{served.url}/videos?category={'%3Cimg'}")
    await page.goto(f"{served.url}/videos")
    await expect(page.locator(".about h2")).to_have_text(evil)
    assert "owned" not in await page.title()
    assert complaints == []
    for path in ("retry", "retranscode", "edit", "delete", "restore", "erase"):
        answer = await served.client.post(
            f"/videos/{video_id}/{path}", headers={"Origin": "http://evil.example"}
        )
        assert answer.status_code == 403
    assert await ground.one("select deleted_at from videos") is None
