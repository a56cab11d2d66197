from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, Route, expect

from mediamill.ui import static_files
from tests.api.serving import Served
from tests.ui.browser import shoot, watch_console
from tests.ui.busy import fill

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">'&{{7*7}}</td><script>document.title='owned'</script>"
)
LIMIT = 60_000


async def test_an_empty_mill_says_what_to_do_next(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(served.url)
    await expect(page.locator("#jobs")).to_contain_text("No jobs yet. Try: mediamill jobs add scripted.run")
    await expect(page.locator("#workers")).to_contain_text("No workers yet.")
    await expect(page.locator("#dead")).to_contain_text("Nothing has failed for good.")
    await expect(page.locator("#pools")).to_contain_text("17 pools with nothing to do")
    await expect(page.locator("#plot canvas")).to_be_visible()
    assert complaints == []


@pytest.mark.spec("E31")
async def test_a_job_enqueued_while_the_page_is_open_appears_without_a_reload(
    served: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(served.url)
    await page.evaluate("window.stayed = true")
    await served.enqueue(owner="somebody new", payload={"do": "report"})
    row = page.locator("#jobs tbody tr")
    await expect(row).to_contain_text("somebody new", timeout=LIMIT)
    await expect(row).to_contain_text("queued")
    await expect(page.locator("#pools")).to_contain_text("scripted")
    await served.run(
        "update jobs set state = 'running', percent = 40, step = 'kneading', attempts = 1, worker_name = 'w'"
    )
    await served.run("insert into events (topic, subject, data) values ('job.progress', '1', '{}')")
    await expect(row.locator("progress")).to_have_attribute("value", "40.0", timeout=LIMIT)
    await expect(row).to_contain_text("kneading")
    assert await page.evaluate("window.stayed") is True
    assert complaints == []


@pytest.mark.spec("C31")
async def test_a_model_server_that_is_waited_for_is_named(served: Served, browser: Browser) -> None:
    id_ = await served.enqueue()
    await served.run(
        "update jobs set state = 'scheduled', waits_for = 'gpu:4000', error = 'too many requests (429)', "
        "waiting_since = now() - interval '3 minutes', run_after = now() + interval '1 minute'"
    )
    page = await browser.new_page()
    await page.goto(served.url)
    notice = page.locator("#notice")
    await expect(notice).to_contain_text("Waiting for the model server at gpu:4000: 1 job, for 3 min.")
    await page.goto(f"{served.url}/jobs/{id_}")
    await expect(page.locator("#job .notice")).to_contain_text("Waiting for the model server at gpu:4000.")
    await served.run("update jobs set state = 'queued', waits_for = null")
    await expect(page.locator("#job .notice")).to_have_count(0, timeout=LIMIT)


@pytest.mark.spec("E31")
async def test_live_means_told_not_only_asked_now_and_then(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await _take_the_poll_away(page, served)
    await page.goto(f"{served.url}/")
    for number in range(1, 4):
        await served.enqueue(owner=f"o{number}")
        await expect(page.locator("#jobs tbody")).to_contain_text(f"o{number}", timeout=LIMIT)


@pytest.mark.spec("E31")
async def test_what_happens_before_the_stream_is_open_is_not_missed(served: Served, browser: Browser) -> None:
    page, happened = await browser.new_page(), asyncio.Event()

    async def later(route: Route) -> None:
        await happened.wait()
        await route.continue_()

    await _take_the_poll_away(page, served)
    await page.route("**/api/events?**", later)
    await page.goto(f"{served.url}/")
    await served.enqueue(owner="in between")
    happened.set()
    await expect(page.locator("#jobs tbody")).to_contain_text("in between", timeout=LIMIT)


async def _take_the_poll_away(page: Page, served: Served) -> None:
    """What the page does not learn by its stream, it does not learn."""

    async def without(route: Route) -> None:
        text = (await served.client.get("/")).text
        assert ", every 5s" in text
        await route.fulfill(content_type="text/html", body=text.replace(", every 5s", ""))

    await page.route(f"{served.url}/", without)


async def test_what_strangers_wrote_is_shown_as_text(served: Served, browser: Browser) -> None:
    await served.run(
        "insert into jobs (kind, pool, owner, state, step, percent, priority, payload, max_attempts, subject_id) "
        "values ($1, 'default', $1, 'running', $1, 50, 1, jsonb_build_object($1::text, $1::text), 3, $1)",
        HOSTILE,
    )
    await served.run(
        "insert into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, created_at, "
        "reason, error, traceback) values (900, $1, $1, $1, 1, '{}', 1, 1, 1, now(), $1, $1, $1)",
        HOSTILE,
    )
    await served.run(
        "insert into workers (name, type, state, hostname, heartbeat_at) values ($1, 'remote', 'idle', $1, now())",
        HOSTILE,
    )
    page = await browser.new_page()
    complaints = watch_console(page)
    for path, amount in (("/", 4), ("/jobs/1", 4), ("/jobs/900", 5)):
        await page.goto(served.url + path)
        text = await page.locator("main").inner_text()
        assert text.count("<img src=x") >= amount, path
        assert await page.locator("main img, main script").count() == 0
    assert "owned" not in await page.title()
    assert complaints == []


async def test_the_page_is_complete_without_javascript(served: Served, browser: Browser) -> None:
    await fill(served.database)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(served.url)
    for text in ("holidays", "gpu-box", "document too large", "database ok", "5 workers", "62 %"):
        await expect(page.locator("body")).to_contain_text(text)
    await expect(page.locator("#throughput tbody tr")).to_have_count(60)
    await expect(page.locator("#plot svg")).to_be_visible()


@pytest.mark.spec("E13")
async def test_a_dead_job_is_shown_run_again_and_purged_from_the_page(
    served: Served, browser: Browser
) -> None:
    await fill(served.database)
    page = await browser.new_page()
    await page.goto(served.url)
    await page.get_by_role("button", name="Run again: job 13").click()
    await expect(page).to_have_url(re.compile(r"/jobs/13$"))
    await expect(page.locator("#job")).to_contain_text("queued")
    await page.goto(served.url)
    await page.locator("#dead").get_by_role("link", name="9", exact=True).click()
    await expect(page.locator("#job")).to_contain_text("the voice note ends in the middle of a packet")
    await page.get_by_text("Forget it …").click()
    await page.get_by_role("button", name="Forget it", exact=True).click()
    await expect(page).to_have_url(f"{served.url}/dead")
    await expect(page.locator("#dead")).not_to_contain_text("voice note")
    answer = await served.client.get("/jobs/9", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "There is no job 9" in answer.text


async def test_another_site_cannot_press_the_buttons(served: Served) -> None:
    await fill(served.database)
    answer = await served.client.post("/jobs/13/retry", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert await served.one("select count(*) from dead_jobs") == 3


async def test_the_page_shows_that_the_server_is_gone(served: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(served.url)
    await page.route("**/live", lambda route: route.abort())
    await expect(page.get_by_text("Connection lost")).to_be_visible(timeout=LIMIT)
    await page.unroute("**/live")
    await expect(page.get_by_text("Connection lost")).to_be_hidden(timeout=LIMIT)


async def test_the_scripts_and_styles_that_pages_name_are_there_and_asked_for_once_in_each_version(
    served: Served,
) -> None:
    text = (await served.client.get("/")).text
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
    assert len(named) >= 6
    for path in named:
        answer: httpx.Response = await served.client.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable", path
        for other in (path.partition("?")[0], f"{path}0"):
            assert (await served.client.get(other)).headers["cache-control"] == "no-cache", other


def test_a_script_that_was_changed_has_another_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_files, "STATIC", tmp_path)
    script = tmp_path / "player.js"
    assert static_files.static_address("player.js") == "/static/player.js"
    addresses = set()
    for text in ("play()", "pause()"):
        script.write_text(text)
        addresses.add(static_files.static_address("player.js"))
    assert len(addresses) == 2


@pytest.mark.spec("K4")
async def test_an_unknown_address_is_a_page_with_a_way_back(served: Served, browser: Browser) -> None:
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    answer = await page.goto(f"{served.url}/nowhere")
    assert answer is not None
    assert answer.status == 404
    await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    await expect(page.get_by_role("alert")).to_contain_text("There is no page at this address")
    await shoot(page, "unknown-address")
    await page.get_by_role("link", name="Back to the dashboard").click()
    await expect(page).to_have_url(f"{served.url}/")
    answer = await page.goto(f"{served.url}/jobs/1/retry")
    assert answer is not None
    assert answer.status == 405
    await expect(page.get_by_role("alert")).to_contain_text("This address takes what a form sends")
