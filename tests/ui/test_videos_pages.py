from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Request, Route, expect

from mediamill.settings import Settings
from mediamill.videos.trash import delete_video
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.dropping import drop_paths
from tests.ui.filming import MEBIBYTE, fill_videos, large_clip, make_clip, show_film, slow_down, some_parts
from tests.ui.looks import find_faults
from tests.videos.played import Ground

LIMIT = 60_000


@pytest.fixture
def ground(served: Served) -> Ground:
    """A worker's part, on the server's data."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


@pytest.mark.spec("V14")
async def test_videos_are_listed_with_their_progress_live(
    served: Served, ground: Ground, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/videos")
    await expect(page.locator("#videos")).to_contain_text("No videos yet")
    await page.evaluate("window.stayed = true")
    await show_film(ground)
    card = page.locator(".video")
    await expect(card).to_contain_text("A morning at the harbour", timeout=LIMIT)
    await expect(card.locator(".length")).to_have_text("0:16", timeout=LIMIT)
    await expect(card).to_contain_text("720p")
    await page.locator(".thumb img").evaluate("image => image.decode()")
    await ground.add("The next one")
    (job,) = await ground.claim("gpu-box")
    await ground.report(job, percent=20.0, parts=some_parts(50))
    bar = card.first.get_by_role("progressbar", name="1080p")
    await expect(bar).to_have_attribute("value", "50.0", timeout=LIMIT)
    await expect(card.first).to_contain_text("Making the qualities on gpu-box")
    await bar.evaluate("bar => window.bar = bar")
    await ground.report(job, percent=30.0, parts=some_parts(75))
    await expect(bar).to_have_attribute("value", "75.0", timeout=LIMIT)
    assert await bar.evaluate("bar => window.bar === bar"), "it was replaced, not moved"
    await ground.fail(job, "the file is broken", permanent=True)
    await expect(card.first).to_contain_text("the file is broken", timeout=LIMIT)
    await page.get_by_role("button", name="Try again: The next one").click()
    await expect(page).to_have_url(re.compile("/videos/the-next-one$"))
    assert complaints == []


@pytest.mark.spec("V14")
async def test_videos_are_filtered_by_state_category_and_words_and_paged(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await fill_videos(ground)
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    titles = page.locator(".about h2")
    await expect(titles).to_have_count(5)
    await page.get_by_label("Category").select_option("Family")
    await page.get_by_role("button", name="Show").click()
    await expect(titles).to_have_count(3)
    await page.get_by_label("State").select_option("failed")
    await page.get_by_role("button", name="Show").click()
    await expect(titles).to_have_count(1)
    await follow(page.get_by_role("link", name="Clear"))
    await page.get_by_label("Words").fill("oranges")  # nobody wrote it, but somebody says it
    await page.keyboard.press("Enter")
    await expect(titles).to_have_text(["A morning at the harbour"])
    await page.get_by_label("Words").fill("nothing like that")
    await page.keyboard.press("Enter")
    await expect(page.locator("#videos")).to_contain_text("No video is like that")
    for number in range(21):
        await ground.add(f"Number {number}")
    await page.goto(f"{served.url}/videos")
    await expect(titles).to_have_count(24)
    await page.get_by_role("link", name="Older videos").click()
    await expect(titles).to_have_count(2)
    await expect(titles.last).to_have_text("A morning at the harbour")
    await page.get_by_role("link", name="Back to the newest").click()
    await expect(titles.first).to_have_text("Number 20")


async def test_the_trash_shows_what_was_deleted_and_gives_it_back(
    served: Served, ground: Ground, browser: Browser
) -> None:
    for title in ("One", "Two"):
        video_id = await ground.add(title)
        async with ground.database.transaction() as connection:
            await delete_video(connection, video_id)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/videos")
    await page.locator("main").get_by_role("link", name="Trash").click()
    await expect(page).to_have_url(re.compile("/trash$"))
    await expect(page.locator(".video")).to_have_count(2)
    await page.get_by_role("button", name="Restore One").click()
    await expect(page).to_have_url(re.compile("/videos/one$"))
    await page.goto(f"{served.url}/trash")
    await page.get_by_text("Erase …").click()
    await page.get_by_role("button", name="Erase for good: Two").click()
    await expect(page.get_by_text("There are no videos in the trash.")).to_be_visible()
    assert complaints == []


@pytest.mark.spec("V1")
async def test_several_files_are_uploaded_with_their_titles(
    served: Served, ground: Ground, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("clips")
    names = ("my_holiday.mp4", "Ünïcode – “quotes”.mp4", "third.mp4")
    clips = [make_clip(folder / name, 320, 180, seconds=1) for name in names]
    (folder / "empty.mp4").touch()
    (folder / "notes.txt").write_text("not a video")
    (folder / "liar.mp4").write_bytes(b"%PDF-1.4 not a video at all" * 100)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/videos")
    await page.evaluate("window.stayed = true")
    wrong = [folder / name for name in ("empty.mp4", "notes.txt", "liar.mp4")]
    await page.locator("#files").set_input_files([*clips, *wrong])
    await expect(page.locator("#upload-fault")).to_contain_text("empty.mp4 is empty.")
    await expect(page.locator("#upload-fault")).to_contain_text("notes.txt is not a video.")
    await expect(page.locator(".parcel[data-state=done]")).to_have_count(3, timeout=LIMIT)
    failed = page.locator(".parcel[data-state=failed]")
    await expect(failed.locator("[name=title]")).to_have_value("liar")
    await expect(failed.locator(".how")).to_contain_text(re.compile("this is no video", re.IGNORECASE))
    await expect(page.locator(".about h2")).to_have_count(3, timeout=LIMIT)
    shown = set(await page.locator(".about h2").all_inner_texts())
    assert shown == {"my holiday", "Ünïcode – “quotes”", "third"}
    # Words that stay true whatever becomes of the video; what becomes of it is in the list.
    done = page.locator(".parcel[data-state=done] .how")
    await expect(done).to_have_text(["Uploaded. The list below says how far it is."] * 3)
    row = page.locator(".parcel").first
    await row.get_by_text("Category and description").click()
    await row.get_by_label("Category").fill("Travel")
    await row.get_by_label("Title").fill("Our holiday")
    await row.get_by_label("Title").blur()

    async def is_saved() -> bool:
        return bool(
            await ground.one("select true from videos where title = 'Our holiday' and category = 'Travel'")
        )

    await wait_until(is_saved)
    await expect(page.locator("#videos")).to_contain_text("Our holiday", timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
    # Chromium itself complains of the refusal that was provoked.
    assert [said for said in complaints if "415" not in said] == []
    assert await ground.one("select count(*) from jobs where kind = 'video.transcode'") == 3


@pytest.mark.spec("V1")
async def test_an_upload_is_paused_resumed_and_survives_a_lost_line_and_a_reload(
    served: Served, ground: Ground, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clip = large_clip(tmp_path_factory.mktemp("clips"))
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    await slow_down(page, 2 * MEBIBYTE)  # it takes twenty seconds; what follows has to come before its end
    await page.locator("#files").set_input_files(clip)
    row = page.locator(".parcel")
    await expect(row.locator(".how")).to_contain_text(
        re.compile(r"[1-9]\d* % · .* of 42.0 MB · .*/s · .* left"), timeout=LIMIT
    )
    await row.get_by_label("Title").fill("The long way home")
    await row.get_by_role("button", name="Pause").click()
    await expect(row.locator(".how")).to_contain_text("Paused at")
    await row.get_by_role("button", name="Resume").click()
    await expect(row).to_have_attribute("data-state", "sending")

    # The line is cut within a chunk, and for a while there is no way to the server.
    async def cut(route: Route) -> None:
        await route.abort()

    await page.route("**/api/uploads/*", cut)
    await row.get_by_role("button", name="Pause").click()
    await row.get_by_role("button", name="Resume").click()
    await expect(row.locator(".how")).to_contain_text(
        "The connection is lost. Trying again in", timeout=LIMIT
    )
    await page.unroute("**/api/uploads/*")

    async def has_some() -> bool:
        parts = list((ground.data / "uploads").glob("*"))
        return any(part.is_file() and part.stat().st_size >= 16 * MEBIBYTE for part in parts)

    await wait_until(has_some)
    page.on("dialog", lambda dialog: dialog.accept())
    await page.reload()
    left = page.locator(".parcel.left")
    await expect(left).to_contain_text("my_holiday.mp4")
    await expect(left).to_contain_text(re.compile(r"[3-9]\d % of 42.0 MB is there. Choose this file again"))
    await slow_down(page, -1)  # a good one again
    await shoot(page, "upload-left")
    patches: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH" and "/api/uploads/" in request.url:
            patches.append(int(request.headers["upload-offset"]))

    page.on("request", note)
    await page.locator("#files").set_input_files(clip)
    await expect(left).to_have_count(0)
    await expect(page.locator(".parcel[data-state=done]")).to_have_count(1, timeout=LIMIT)
    assert patches[0] >= 16 * MEBIBYTE, "it began anew"
    await page.get_by_role("link", name="Its page").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("The long way home", timeout=LIMIT)
    assert await ground.one("select source_bytes from videos") == clip.stat().st_size
    assert await ground.one("select count(*) from videos") == 1


@pytest.mark.spec("V1")
async def test_an_upload_whose_end_was_not_heard_before_a_reload_is_found_again(
    served: Served, ground: Ground, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clip = make_clip(tmp_path_factory.mktemp("clips") / "my_holiday.mp4", 320, 180, seconds=1)
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")

    async def lose_the_answer(route: Route) -> None:
        if route.request.method == "PATCH":
            await route.fetch()
        await route.abort()

    await page.route("**/api/uploads/*", lose_the_answer)
    await page.locator("#files").set_input_files(clip)
    await expect(page.locator(".parcel .how")).to_contain_text("The connection is lost", timeout=LIMIT)
    await page.get_by_label("Title").fill("The long way home")
    await page.get_by_label("Title").blur()
    assert await ground.one("select count(*) from videos") == 1
    page.on("dialog", lambda dialog: dialog.accept())
    await page.goto("about:blank")  # it hears nothing any more, also when the way is free again
    await page.unroute("**/api/uploads/*")
    async with page.expect_response(lambda answer: answer.request.method == "HEAD"):
        await page.goto(f"{served.url}/videos")
    await expect(page.locator(".parcel.left")).to_have_count(0)

    async def choose_again() -> list[str]:
        sent: list[str] = []
        page.on(
            "request", lambda request: sent.append(request.method) if "/api/uploads" in request.url else None
        )
        async with page.expect_response(lambda answer: answer.request.method == "DELETE"):
            await page.locator("#files").set_input_files(clip)
        return sent

    assert await choose_again() == ["POST", "DELETE"], "it was sent again"
    await expect(page.locator(".parcel[data-state=done]")).to_have_count(1, timeout=LIMIT)
    await expect(page.locator(".about h2")).to_have_text("The long way home", timeout=LIMIT)
    assert await ground.one("select count(*) from videos") == 1
    assert "PATCH" in await choose_again()  # it was heard: another one
    await expect(page.locator(".parcel[data-state=done]")).to_have_count(2, timeout=LIMIT)
    assert await ground.one("select count(*) from videos") == 2


async def test_an_upload_is_cancelled_and_nothing_is_left(
    served: Served, ground: Ground, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clip = large_clip(tmp_path_factory.mktemp("clips"))
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    await slow_down(page, 2 * MEBIBYTE)
    await page.locator("#files").set_input_files(clip)
    await expect(page.locator(".parcel .how")).to_contain_text("left", timeout=LIMIT)
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".parcel")).to_have_count(0)

    async def is_empty() -> bool:
        return bool(await ground.one("select count(*) = 0 from uploads"))

    await wait_until(is_empty)
    await page.reload()
    await expect(page.locator(".parcel")).to_have_count(0)


async def test_files_can_be_dropped_anywhere(
    served: Served, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clip = make_clip(tmp_path_factory.mktemp("clips") / "dropped.mp4", 320, 180, seconds=1)
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    carried = await page.evaluate_handle(
        """bytes => { const carried = new DataTransfer();
        carried.items.add(new File([new Uint8Array(bytes)], 'dropped.mp4', {type: 'video/mp4'})); return carried; }""",
        list(clip.read_bytes()),
    )
    await page.dispatch_event("main", "dragenter", {"dataTransfer": carried})
    await expect(page.locator(".dropzone")).to_be_visible()
    await page.dispatch_event("main", "drop", {"dataTransfer": carried})
    await expect(page.locator(".dropzone")).to_be_hidden()
    await expect(page.locator(".about h2")).to_have_text("dropped", timeout=LIMIT)


async def test_a_folder_can_be_dropped_and_what_is_no_video_is_said(
    served: Served, browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "holiday" / "day 1").mkdir(parents=True)
    make_clip(tmp_path / "holiday" / "day 1" / "beach.mp4", 320, 180, seconds=1)
    (tmp_path / "holiday" / "notes.txt").write_text("sun")
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    await drop_paths(page, tmp_path / "holiday")
    await expect(page.locator("#upload-fault")).to_have_text("notes.txt is not a video.")
    await expect(page.locator(".about h2")).to_have_text("beach", timeout=LIMIT)


async def test_what_is_too_large_is_said_before_it_is_sent(
    served: Served, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings: Settings = served.app.state.deps.settings
    page = await browser.new_page()
    await page.goto(f"{served.url}/videos")
    assert await page.locator("#upload").get_attribute("data-limit") == str(settings.video_upload_limit_bytes)
    await page.evaluate("document.getElementById('upload').dataset.limit = 1000")
    await page.locator("#files").set_input_files(
        make_clip(tmp_path_factory.mktemp("clips") / "a.mp4", 320, 180, seconds=1)
    )
    await expect(page.get_by_role("alert")).to_contain_text("a.mp4 is too large")
    await expect(page.locator(".parcel")).to_have_count(0)


async def test_the_list_is_complete_without_javascript(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await fill_videos(ground)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{served.url}/videos")
    await expect(page.locator(".video")).to_have_count(5)
    await expect(page.locator("#upload noscript p")).to_be_visible()
    for text in (
        "62 %",
        "the file ends in the middle",
        "Waits for a worker",
    ):
        await expect(page.locator("main")).to_contain_text(text)
    await expect(page.get_by_role("button", name="Choose files")).to_be_hidden()


async def test_uploads_are_right_in_every_look(served: Served, browser: Browser, tmp_path: Path) -> None:
    clips = [
        large_clip(tmp_path),
        make_clip(tmp_path / f"{'a very long name ' * 8}.mp4", 320, 180, seconds=1),
    ]
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/videos")
    await slow_down(page, MEBIBYTE)
    await page.locator("#files").set_input_files(clips)
    await expect(page.locator(".parcel[data-state=done]")).to_have_count(1, timeout=LIMIT)
    await expect(page.locator(".parcel .how").first).to_contain_text("left", timeout=LIMIT)
    faults = await find_faults(page, "uploads", full_page="never")
    assert not faults, "\n".join(faults)
    assert complaints == []
