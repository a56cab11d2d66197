"""A 4K clip: dropped in a browser, made into a stream by two machines of which one dies, and played."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, mill
from tests.namespaces import Namespace, namespaces, skip_unless_possible
from tests.stories.remote_workers import SECRET, far, let_leases_end, serve
from tests.ui.browser import open_browser
from tests.ui.filming import make_clip

__all__ = ["mill"]

SHOTS = Path(__file__).parents[1] / "screenshots"
LIMIT = 300_000  # milliseconds, on a machine that has other things to do
SECONDS = 8
LADDER = ["2160p", "1440p", "1080p", "720p", "480p", "360p"]
WIDTH = "document.getElementById('film').videoWidth"
RATE = "document.getElementById('film').playbackRate"
TIME = "document.getElementById('film').currentTime"


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    skip_unless_possible()
    with namespaces(2) as made:
        yield made


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Every finished file, by what changes if it is written again."""
    found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


async def kill_in_the_middle(
    mill: Mill, workers: dict[str, Process]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """-9 for whoever has it, when the first segments of all qualities are there. Who was it, and what was finished."""
    count = "select count(*) from kept_files where name ~ '^[0-9]+p-[0-9]+[.]m4s$'"
    await mill.until(
        f"select ({count}) >= {2 * len(LADDER)} and exists (select from jobs where state = 'running')"
    )
    name = str(await mill.one("select worker_name from jobs where kind = 'video.transcode'"))
    workers[name].kill()
    assert await mill.one(count) < SECONDS * len(LADDER), "it was finished before it could be killed"
    rows = await mill.one("select jsonb_agg(name) from kept_files")
    [folder] = (mill.folder / "data" / "kept").glob("*/*")
    there = files_of(folder)
    return name, {each: there[each] for each in json.loads(rows)}


async def log_in(page: Page, url: str) -> None:
    await page.goto(f"{url}/login")
    await page.get_by_label("Password").fill(SECRET)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(f"{url}/")


async def watch(page: Page, seconds: float) -> None:
    await wait_until(lambda: page.evaluate(f"{TIME} > {seconds}"))


@pytest.mark.timeout(900)
@pytest.mark.spec("V1", "V2", "V4", "V5", "V6", "V8", "V9", "V12", "V15", "E9", "E23", "E31")
async def test_a_4k_clip_dropped_in_a_browser_is_made_by_two_machines_of_which_one_dies_and_plays(
    mill: Mill, spaces: list[Namespace], tmp_path: Path
) -> None:
    clip = make_clip(tmp_path / "the_big_one.mp4", 3840, 2160, seconds=SECONDS)
    mill.settings |= {
        "MEDIAMILL_HOST": "0.0.0.0",
        "MEDIAMILL_VIDEO_PRESET": "ultrafast",
        "MEDIAMILL_VIDEO_SEGMENT_SECONDS": "1",
        "MEDIAMILL_VIDEO_CAPTIONS": "false",
    }
    url = f"http://127.0.0.1:{urlsplit(await serve(mill)).port}"
    workers = {}
    for space, name in zip(spaces, ("attic", "cellar"), strict=True):
        server = url.replace("127.0.0.1", space.here)
        workers[name] = (await far(mill, name, server, space.inside))[1]
    SHOTS.mkdir(exist_ok=True)
    async with open_browser("--autoplay-policy=no-user-gesture-required") as browser:
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await log_in(page, url)
        await page.goto(f"{url}/videos")
        await page.locator("#files").set_input_files(clip)
        await expect(page.locator(".about h2")).to_have_text("the big one", timeout=LIMIT)
        await expect(page.locator(".videos")).to_contain_text("2160p", timeout=LIMIT)  # its bars, live

        dead, finished = await kill_in_the_middle(mill, workers)
        await page.screenshot(path=SHOTS / "story-video-processing.png")
        await let_leases_end(mill, dead)
        await expect(page.locator("li.video.ready")).to_be_visible(timeout=LIMIT)

        done = json.loads(await mill.one("select row_to_json(f)::text from finished_jobs f"))
        assert (done["attempts"], done["worker_name"]) == (2, next(name for name in workers if name != dead))
        assert [one["name"] for one in done["result"]["qualities"] if one["state"] == "completed"] == LADDER
        [output] = (mill.folder / "data" / "videos").glob("*/[0-9]*")
        published = files_of(output)
        again = {name for name in finished if published[name] != finished[name]}
        assert again == set(), "what the dead one had finished was made again"

        await page.get_by_role("link", name="the big one").first.click()
        await expect(page).to_have_url(re.compile("/videos/the-big-one$"))
        await page.get_by_role("button", name="Play").first.click()
        await watch(page, 1)
        await page.evaluate(f"{RATE} = 0.0625")  # on a busy machine it would end before the last switch
        # By the keyboard: a film that plays hides its controls from a pointer that rests.
        await page.get_by_role("button", name="Quality and speed").press("Enter")
        for quality, width in (("2160p", 3840), ("360p", 640), ("1080p", 1920)):
            await page.locator("#menu").get_by_text(quality, exact=True).click()
            await wait_until(lambda width=width: page.evaluate(f"{WIDTH} === {width}"), 300)  # type: ignore[misc]
            await expect(page.locator("#playing")).to_have_text(quality)
        await page.screenshot(path=SHOTS / "story-video-playing.png")
        await page.evaluate(f"{RATE} = 1")
        await wait_until(lambda: page.evaluate("document.getElementById('film').ended"), 300)
        assert abs(await page.evaluate(TIME) - SECONDS) < 0.2
        await page.goto(f"{url}/workers")
        await expect(page.locator("main")).to_contain_text("attic")
        await page.screenshot(path=SHOTS / "story-video-workers.png")
    mill.assert_no_traceback()
