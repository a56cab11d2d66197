from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from mediamill.access import users
from mediamill.access.audit import list_entries
from mediamill.access.model import Scope
from mediamill.db.connection import Database
from mediamill.engine import workers
from mediamill.engine.flight_dumps import keep_dump, pack
from mediamill.engine.model import Command, WorkerState
from tests.access.people import PASSWORD
from tests.api.serving import Served, serve
from tests.ui.browser import follow, log_in, shoot, watch_console
from tests.ui.busy import add_worker
from tests.ui.filming import some_parts
from tests.videos.played import Ground

LIMIT = 60_000


@pytest.fixture
def ground(served: Served) -> Ground:
    """A worker's part, on the server's data."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


async def command_of(served: Served, worker_id: int) -> str | None:
    found: str | None = await served.one("select command from workers where id = $1", worker_id)
    return found


async def test_workers_are_shown_with_what_they_do_and_can_live(
    served: Served, ground: Ground, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/workers")
    await expect(page.locator("#workers")).to_contain_text("No workers yet")
    await page.evaluate("window.stayed = true")
    encoders = ["h264_nvenc", "libx264"]
    gaps = ["children can read and write all files of their user (this kernel has no Landlock)"]
    await add_worker(
        served, "gpu-box", WorkerState.ACTIVE, gpu=True, encoders=encoders, confinement_gaps=gaps
    )
    card = page.locator(".worker", has_text="gpu-box")
    await expect(card).to_contain_text("active", timeout=LIMIT)
    for text in (
        "remote",
        "GPU",
        "NVENC",
        "x264",
        "gpu-box.home.arpa",
        "1,204",
        "84.0 MB",
        "Nothing in hand",
        "Weak sandbox: children can read and write all files of their user",
    ):
        await expect(card).to_contain_text(text)
    video_id = await ground.add("Birthday, uncut")
    (job,) = await ground.claim("attic")
    await ground.report(job, percent=41.0, parts=some_parts())
    busy = page.locator(".worker", has_text="attic")
    await expect(busy.get_by_role("progressbar")).to_have_attribute("value", "41.0", timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
    await busy.get_by_role("link", name="Its video").click()
    await expect(page).to_have_url(re.compile("/videos/birthday-uncut$"))
    assert complaints == []
    assert await ground.one("select state from videos where id = $1", video_id) == "processing"


@pytest.mark.spec("E22")
async def test_workers_are_told_what_to_do_and_what_hurts_is_asked_twice(
    served: Served, browser: Browser
) -> None:
    worker_id = await add_worker(served, "gpu-box", WorkerState.IDLE)
    async with served.database.transaction() as connection:
        key = await workers.issue_key(connection, worker_id)
    page = await browser.new_page()
    await page.goto(f"{served.url}/workers")
    await follow(page.get_by_role("button", name="Pause gpu-box"))
    await expect(page.locator(".worker")).to_contain_text("told: pause")
    assert await command_of(served, worker_id) == "pause"
    await follow(page.get_by_role("button", name="Dump its log gpu-box"))
    await expect(page.locator(".worker")).to_contain_text("told: forensic dump")
    shutdown = page.get_by_role("button", name="Shut down gpu-box")
    await expect(shutdown).to_be_hidden()
    await page.get_by_text("Shut down …").click()
    async with page.expect_response(lambda answer: "part=live" in answer.url):
        await served.run("insert into events (topic, subject, data) values ('job.progress', '1', '{}')")
    await expect(shutdown).to_be_visible()  # what was opened stays open while the page lives
    await follow(shutdown)
    await expect(page.locator(".worker")).to_contain_text("told: shutdown")
    assert await command_of(served, worker_id) == "shutdown"
    await page.get_by_text("Disable …").click()
    await follow(page.get_by_role("button", name="Disable gpu-box"))
    await expect(page.locator(".worker header .state")).to_have_text("disabled")
    await follow(page.get_by_role("button", name="Enable gpu-box"))
    await expect(page.locator(".worker header .state")).to_have_text("offline")
    await page.get_by_text("Revoke its key …").click()
    await follow(page.get_by_role("button", name="Revoke its key gpu-box"))
    await expect(page.locator(".worker")).to_be_visible()
    async with served.database.connection() as connection:
        with pytest.raises(workers.WorkerKeyRevokedError):
            await workers.worker_of_key(connection, key)


async def test_a_worker_gets_its_key_and_command(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{served.url}/workers")
    command = page.locator("#command")
    await expect(command).to_have_text(f"mediamill worker --server {served.url} --key KEY")
    await page.get_by_label("Name").fill("attic")
    await page.get_by_label("It has a GPU").check()
    await page.get_by_role("button", name="Make a key").click()
    await expect(page.get_by_text("It is shown only now")).to_be_visible()
    key = (await command.inner_text()).rpartition(" ")[2]
    async with served.database.connection() as connection:
        worker_id = await workers.worker_of_key(connection, key)
        assert (await workers.show_worker(connection, worker_id))["gpu"] is True
    await expect(page.locator(".worker")).to_contain_text("attic", timeout=LIMIT)
    await expect(command).to_contain_text(key)  # the page that lives does not take it away


@pytest.mark.parametrize("scope", [Scope.ADMIN, Scope.WORKER])
async def test_whoever_is_logged_in_gets_a_key(
    database: Database, tmp_path: Path, browser: Browser, scope: Scope
) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, {Scope.READ, scope})
    async with serve(database, tmp_path, pages=True, login="always") as closed:
        page = await browser.new_page()
        await page.goto(f"{closed.url}/workers")
        await log_in(page, "ann", PASSWORD)
        await page.get_by_label("Name").fill("attic")
        await page.get_by_role("button", name="Make a key").click()
        await expect(page.get_by_text("It is shown only now")).to_be_visible()
        key = (await page.locator("#command").inner_text()).rpartition(" ")[2]
        async with database.connection() as connection:
            assert await workers.worker_of_key(connection, key)
            (entry,) = await list_entries(connection, action="worker.register")
        assert (entry["who"], entry["subject"]) == ("ann", "attic")


async def test_another_site_and_nonsense_are_refused(served: Served) -> None:
    worker_id = await add_worker(served, "gpu-box", WorkerState.IDLE)
    html = {"Accept": "text/html"}
    for path, status in (
        (f"/workers/{worker_id}/dance", 404),
        ("/workers/999/pause", 404),
        ("/workers/x/pause", 422),
    ):
        assert (await served.client.post(path, headers=html)).status_code == status, path
    evil = {"Origin": "http://evil.example"}
    for command in ("pause", "shutdown", "disable", "revoke"):
        answer = await served.client.post(f"/workers/{worker_id}/{command}", headers=evil)
        assert answer.status_code == 403
    assert await command_of(served, worker_id) is None


@pytest.mark.spec("E24")
async def test_flight_logs_come_to_the_page_and_are_downloaded(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/workers")
    await expect(page.locator("#dumps")).to_contain_text("None so far")
    worker_id = await add_worker(served, "gpu-box", WorkerState.IDLE)
    dump = page.get_by_role("button", name="Dump its log")
    await expect(dump).to_be_visible(timeout=LIMIT)
    await follow(dump)
    assert await command_of(served, worker_id) == Command.FORENSIC_DUMP
    name = f"{worker_id}_20261115T221730.210895Z.log"
    async with served.database.transaction() as connection:
        await keep_dump(connection, name, pack(b"an entry\n" * 100_000))
    link = page.locator("#dumps").get_by_role("link", name="gpu-box")
    await expect(link).to_be_visible(timeout=LIMIT)
    await shoot(page, "flight-logs", full_page=True)
    async with page.expect_download() as downloading:
        await link.click()
    download = await downloading.value
    assert download.suggested_filename == name
    saved = await download.path()
    assert await asyncio.to_thread(saved.read_bytes) == b"an entry\n" * 100_000
    assert complaints == []
