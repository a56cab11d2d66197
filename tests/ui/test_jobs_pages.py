"""The pages of jobs and of the dead letter: found by filters, opened, run again, forgotten; live, or with no script."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Browser, expect

from tests.api.serving import Served
from tests.ui.browser import follow, watch_console
from tests.ui.busy import TRACEBACK, fill

LIMIT = 60_000
HOSTILE = "<img src=x onerror=\"document.title='owned'\">'&{{7*7}}"


async def test_jobs_are_found_by_what_they_are_page_by_page_or_by_id(
    served: Served, browser: Browser
) -> None:
    await fill(served.database)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/jobs")
    rows = page.locator("#jobs tbody tr")
    await expect(rows).to_have_count(50)
    newest = await rows.first.locator("a").inner_text()
    await follow(page.get_by_role("link", name="Older jobs"))
    await expect(rows).to_have_count(50)
    assert int(await rows.first.locator("a").inner_text()) < int(newest) - 49
    await follow(page.get_by_role("link", name="Back to the newest"))
    await page.get_by_label("State").select_option("held")
    await page.get_by_label("Owner").fill("bot-luis")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(14)
    await expect(page).to_have_url(f"{served.url}/jobs?state=held&kind=&pool=&owner=bot-luis")
    await follow(page.get_by_role("link", name="Clear"))
    await page.get_by_label("Pool").select_option("videos")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(11)  # of all states, the dead one too
    await page.get_by_label("Id of a job").fill("seventeen")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("An id is a number")
    await page.get_by_label("Id of a job").fill("13")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{served.url}/jobs/13")
    assert complaints == []


@pytest.mark.spec("E31")
async def test_a_job_that_comes_and_goes_on_is_seen_without_a_reload(
    served: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/jobs?owner=anna")
    await expect(page.locator("#jobs")).to_contain_text("No such jobs")
    await page.evaluate("window.stayed = true")
    job_id = await served.enqueue(owner="anna")
    await served.enqueue(owner="luis")
    await expect(page.locator("#jobs tbody tr")).to_have_count(1, timeout=LIMIT)
    await page.get_by_role("link", name=str(job_id), exact=True).click()
    await expect(page.locator("#job")).to_contain_text("queued")
    await served.run(
        "update jobs set state = 'running', percent = 40, step = 'kneading', attempts = 1, worker_name = 'w', "
        "started_at = now(), lease_expires_at = now() + interval '5 minutes' where id = $1",
        job_id,
    )
    await served.run(
        "insert into events (topic, subject, data) values ('job.progress', $1::text, $2)",
        str(job_id),
        json.dumps({"id": job_id, "percent": 40, "step": "kneading"}),
    )
    await expect(page.locator("#job progress")).to_have_attribute("value", "40.0", timeout=LIMIT)
    await expect(page.locator(".events")).to_contain_text("Progress 40 % · kneading")
    await expect(page.locator("#job")).to_contain_text("What runs cannot be cancelled")
    assert complaints == []


async def test_a_finished_job_shows_its_result_files_and_times(served: Served, browser: Browser) -> None:
    result = {
        "content": HOSTILE,
        "files": {"captions.vtt": {"path": "derivatives/007/7-1/c.vtt", "bytes": 2048}},
    }
    await served.run(
        "insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at, started_at, finished_at, "
        "result) values (7, 'media.process', 'audio', 'anna', 1, 1, now() - interval '10 minutes', "
        "now() - interval '7 minutes', now() - interval '2 minutes', $1)",
        json.dumps(result),
    )
    page = await browser.new_page()
    await page.goto(f"{served.url}/jobs/7")
    for text in ("captions.vtt", "2.0 kB", "after 3 min", "after 5 min", HOSTILE):
        await expect(page.locator("#job")).to_contain_text(
            json.dumps(text)[1:-1] if text == HOSTILE else text
        )
    await expect(page.get_by_role("button", name="Run again")).to_have_count(0)
    assert await page.title() == "Job 7 · mediamill"


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_a_job_that_waits_is_cancelled_after_a_second_thought(
    served: Served, browser: Browser, scripts: bool
) -> None:
    job_id = await served.enqueue(owner="anna")
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    await page.goto(f"{served.url}/jobs/{job_id}")
    button = page.get_by_role("button", name="Cancel it", exact=True)
    await expect(button).to_be_hidden()
    await page.get_by_text("Cancel it …").click()
    await button.click()
    await expect(page).to_have_url(f"{served.url}/jobs")
    assert await served.one("select count(*) from jobs") == 0


@pytest.mark.spec("E13")
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_the_dead_are_read_run_again_and_forgotten(
    served: Served, browser: Browser, scripts: bool
) -> None:
    await fill(served.database)
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/dead")
    await expect(page.locator("#dead h2")).to_have_text("3 dead jobs")
    trace = page.locator("#trace-13 pre")
    await expect(trace).to_be_hidden()
    await page.get_by_text("Traceback", exact=True).click()
    assert (await trace.inner_text()).strip() == TRACEBACK.strip()
    await page.get_by_role("button", name="Run the chosen again").click()
    await expect(page.get_by_role("alert")).to_contain_text("No job was chosen (tick those that you mean)")
    await page.get_by_label("Choose job 13").check()
    await page.get_by_role("button", name="Run the chosen again").click()
    await expect(page.get_by_role("status").filter(has_text="1 queued again")).to_be_visible()
    assert await served.one("select state from jobs where id = 13") == "queued"
    await page.get_by_label("Reason").select_option("no_retry")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("#dead h2")).to_have_text("1 of 2")
    await page.get_by_text("Forget all that fit this filter …").click()
    await page.get_by_role("button", name="Forget all that fit this filter for good").click()
    await expect(page.get_by_role("status").filter(has_text="1 forgotten")).to_be_visible()
    assert await served.one("select array_agg(id) from dead_jobs") == [5]
    await page.goto(f"{served.url}/dead")
    await page.get_by_text("Run all dead jobs again …").click()
    await page.get_by_role("button", name="Run all dead jobs again").click()
    await expect(page.locator("#dead")).to_contain_text("Nothing has failed for good")
    assert await served.one("select count(*) from dead_jobs") == 0
    assert [each for each in complaints if "422" not in each] == []


async def test_a_job_that_dies_appears_and_what_was_ticked_and_opened_stays(
    served: Served, browser: Browser
) -> None:
    await fill(served.database)
    page = await browser.new_page()
    await page.goto(f"{served.url}/dead?owner=project-9")
    await expect(page.locator("#dead .deaths > li")).to_have_count(1)
    await page.get_by_label("Choose job 13").check()
    await page.get_by_text("Traceback", exact=True).click()
    await served.run(
        "insert into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, created_at, "
        "reason, error, traceback) values (900, $1, $1, 'project-9', 1, '{}', 1, 1, 1, now(), $1, $1, $1)",
        HOSTILE,
    )
    await served.run("insert into events (topic, subject, data) values ('job.failed', '900', '{}')")
    await expect(page.locator("#dead .deaths > li")).to_have_count(2, timeout=LIMIT)
    await expect(page.locator("#dead-900 .error")).to_have_text(HOSTILE)
    await expect(page.get_by_label("Choose job 13")).to_be_checked()
    await expect(page.locator("#trace-13 pre")).to_be_visible()
    await page.get_by_label("all on this page").check()
    await expect(page.get_by_label("Choose job 900")).to_be_checked()
    assert await page.title() == "Dead letter · mediamill"


async def test_another_site_and_nonsense_are_refused(served: Served) -> None:
    await fill(served.database)
    evil = {"Origin": "http://evil.example"}
    for path in ("/dead/purge", "/dead/requeue"):
        assert (await served.client.post(path, data={"all": "1"}, headers=evil)).status_code == 403
    assert await served.one("select count(*) from dead_jobs") == 3
    for path, status in (
        ("/jobs/0", 422),
        ("/jobs/999999", 404),
        ("/jobs?before=x", 422),
        ("/jobs?kind=%00", 422),
    ):
        assert (await served.client.get(path, headers={"Accept": "text/html"})).status_code == status, path
