from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from mediamill.conversations import bots
from mediamill.conversations.bots import BotConfig
from mediamill.conversations.model import BOT
from tests.ui.browser import shoot, watch_console
from tests.ui.talking import LIMIT, Talking, open_chat, send_file

SAMPLES = Path(__file__).parents[2] / "samples"


async def top_of(page: Page, row: str) -> float:
    place = await page.locator(row).bounding_box()
    assert place is not None
    return place["y"]


async def test_live_means_told_not_only_asked_now_and_then(talking: Talking, browser: Browser) -> None:
    script = (await talking.served.client.get("/static/chat.js")).text
    assert "POLL_MILLISECONDS = 5000" in script

    async def without_the_poll(route: Route) -> None:
        slow = script.replace("POLL_MILLISECONDS = 5000", "POLL_MILLISECONDS = 1e9")
        await route.fulfill(content_type="text/javascript", body=slow)

    await talking.create("anna")
    page = await browser.new_page()
    await page.route("**/static/chat.js?v=*", without_the_poll)
    async with page.expect_response(lambda answer: "part=live" in answer.url):  # the stream of events is open
        await page.goto(f"{talking.served.url}/bots/anna/chat/guest-1")
    for number in range(3):
        await talking.write(f"number {number}", provider="chat", correspondent="guest-1")
        await expect(page.locator("#messages li").nth(number)).to_contain_text(
            f"number {number}", timeout=LIMIT
        )


async def test_failed_media_tell_why_and_are_tried_again_from_the_page(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    await send_file(page, SAMPLES / "photo.jpg", "the garden")
    [job] = await talking.claim()
    await talking.ground.fail(job, "the picture has no pixels", notice="[Nothing to be seen]")
    bubble = page.locator("#messages .mine")
    await expect(bubble.locator(".error")).to_have_text("the picture has no pixels", timeout=LIMIT)
    await expect(bubble).to_contain_text("Photo photo.jpg")
    await page.get_by_role("button", name="Try again: photo photo.jpg").click()
    await expect(bubble).to_contain_text("Waiting for its turn…", timeout=LIMIT)
    await expect(bubble.locator(".error")).to_have_count(0)
    [again] = await talking.claim()
    await talking.ground.finish(again, text="A lawn and a table.")
    await expect(bubble).to_contain_text("A lawn and a table.", timeout=LIMIT)
    await expect(bubble).not_to_contain_text("Nothing to be seen")
    assert await page.evaluate("window.stayed") is True


@pytest.mark.spec("C53")
async def test_a_failed_answer_appears_without_a_reload_tells_why_and_is_tried_again(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    for count, text in enumerate(("are you there?", "hello?", "nobody?"), 1):
        await page.locator("#text").fill(text)
        await page.keyboard.press("Enter")
        await expect(page.locator("#messages .mine")).to_have_count(count, timeout=LIMIT)
    await talking.served.run(
        "with failed as (insert into replies "
        "(bot_id, provider_name, correspondent_id, message_id, told, state, error) "
        "values ('anna', 'chat', 'guest-1', 1, 'are you there?', 'failed', 'the model is <b>asleep</b>')) "
        "insert into events (topic, subject, data) values ('reply.failed', 'anna', "
        """'{"provider_name": "chat", "correspondent_id": "guest-1", "id": 1}')"""
    )
    first = page.locator("#messages .mine").first
    await expect(first.locator(".trouble")).to_contain_text(
        "No answer: the model is <b>asleep</b>", timeout=LIMIT
    )
    await expect(page.locator("#messages .mine")).to_have_count(3)
    await shoot(page, "failed-answer")
    assert await page.evaluate("window.stayed") is True
    async with talking.served.database.transaction() as connection:
        await bots.change_bot(connection, "anna", BotConfig.model_validate({"reply": {"by": "echo"}}))
    await page.get_by_role("button", name="Try again to answer").click()
    await expect(page.locator("#messages .theirs")).to_contain_text("You said: are you there?", timeout=LIMIT)
    await expect(page.locator(".trouble")).to_have_count(0, timeout=LIMIT)


async def test_older_messages_come_when_one_scrolls_up_and_nothing_jumps(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna", runs=False)
    for number in range(130):
        await talking.write(f"message {number}", ago_seconds=1000 - number)
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{talking.served.url}/bots/anna/whatsapp/ann@example")
    rows = page.locator("#messages li")
    await expect(rows).to_have_count(50)
    await expect(rows.last).to_be_in_viewport()
    await page.evaluate("document.getElementById('scroller').scrollTop = -500")
    await expect(page.locator("#m110")).to_be_in_viewport()
    before = await top_of(page, "#m110")
    await talking.write("something new at the bottom")
    await expect(rows.last).to_contain_text("something new", timeout=LIMIT)
    assert abs(await top_of(page, "#m110") - before) < 1
    await expect(page.get_by_role("button", name="New messages")).to_be_visible()
    await page.evaluate("document.getElementById('scroller').scrollTop = -1e6")
    await expect(rows).to_have_count(101, timeout=LIMIT)
    await expect(page.locator("#m81")).to_be_in_viewport()
    await page.evaluate("document.getElementById('scroller').scrollTop = -1e6")
    await expect(rows).to_have_count(131, timeout=LIMIT)
    await expect(page.locator("#older a")).to_have_count(0)
    assert await page.locator(".day").count() == await page.evaluate(
        "new Set([...document.querySelectorAll('#messages li')].map("
        "(row) => new Date(row.dataset.at * 1000).toDateString())).size"
    )
    await page.get_by_role("button", name="New messages").click()
    await expect(rows.last).to_be_in_viewport()
    await expect(page.get_by_role("button", name="New messages")).to_be_hidden()
    await talking.write("and more")
    await expect(rows.last).to_contain_text("and more", timeout=LIMIT)
    await expect(rows.last).to_be_in_viewport()
    assert complaints == []


@pytest.mark.spec("C30")
async def test_media_that_arrived_late_stand_where_they_were_sent(talking: Talking, browser: Browser) -> None:
    await talking.create("anna", runs=False)
    await talking.write("before it", ago_seconds=90)
    await talking.write("after it", ago_seconds=30)
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna/whatsapp/ann@example")
    rows = page.locator("#messages li")
    await expect(rows).to_have_count(2)
    await talking.write("the slow video", ago_seconds=60, mime_type="video/mp4")
    said = [re.compile(text) for text in ("before it", "the slow video", "after it")]
    await expect(rows).to_contain_text(said, timeout=LIMIT)
    await talking.write("the last", ago_seconds=0)
    said.append(re.compile("the last"))
    await expect(rows).to_contain_text(said, timeout=LIMIT)
    await shoot(page, "chat-late-media")
    await page.reload()
    await expect(rows).to_contain_text(said)


async def test_texts_that_fill_in_above_and_below_move_nothing_that_is_read(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna", runs=False)
    above = await talking.write("", mime_type="audio/ogg")
    for number in range(40):
        await talking.write(f"message {number}")
    below = await talking.write("", mime_type="audio/ogg")
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna/whatsapp/ann@example")
    await page.evaluate("document.getElementById('scroller').scrollTop = -400")
    before = await top_of(page, "#m25")
    for guid, row in ((above, "#m1"), (below, "#m42")):
        await talking.settle(guid, "a long story\n" * 12)
        await expect(page.locator(row)).to_contain_text("a long story", timeout=LIMIT)
        assert abs(await top_of(page, "#m25") - before) < 1


async def test_long_texts_are_folded_and_stay_unfolded(talking: Talking, browser: Browser) -> None:
    await talking.create("anna", runs=False)
    await talking.write("word " * 1000 + "the end")
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna/whatsapp/ann@example")
    await expect(page.get_by_text("the end")).to_be_hidden()
    await page.get_by_text("Show all").click()
    await expect(page.get_by_text("the end")).to_be_visible()
    await talking.write("something after it")
    await expect(page.locator("#messages li")).to_have_count(2, timeout=LIMIT)
    await expect(page.get_by_text("the end")).to_be_visible()


HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>{{7*7}}</li></ol>",
    "javascript:alert(1) <a href='javascript:alert(1)'>x</a> https://example.org/\"onmouseover=\"x",
    "\u202eevil\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 mixed with latin",
    "W" * 5000,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea " + "\U0001f600" * 300,
    "nul\0here \ud800 and \x07 bells \x1b[31m",
    "Z" + "\u0300\u0301\u0302\u0489" * 60 + "algo",
    "\n" * 400 + "far below",
)


@pytest.mark.parametrize("width", [1280, 390])
async def test_what_strangers_write_and_call_themselves_is_harmless(
    talking: Talking, browser: Browser, width: int
) -> None:
    await talking.create("anna", runs=False)
    for number, text in enumerate(HOSTILE):
        nasty = text.replace("\n", " ")[:200] if number != 5 else text
        await talking.write(text, name=nasty, correspondent="x/../?#%", filename=nasty, mime_type="image/png")
        await talking.write(text, name=nasty, correspondent="x/../?#%", source=BOT)
    page = await browser.new_page(viewport={"width": width, "height": 900})
    complaints = watch_console(page)
    await page.goto(f"{talking.served.url}/bots/anna")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.locator(".talks a").click()
    await expect(page.locator("#messages > li")).to_have_count(2 * len(HOSTILE))
    await expect(page.locator("#messages")).to_contain_text("{{7*7}}")
    assert await page.locator("main img, main script, #messages a:not([href^='https://'])").count() == 0
    assert await page.locator("#messages a").first.get_attribute("href") == "https://example.org/"
    for box in await page.locator(".bubble").all():
        place = await box.bounding_box()
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= width
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.locator("#m9").scroll_into_view_if_needed()
    await shoot(page, f"hostile-{width}")
    await talking.write("still live", correspondent="x/../?#%")
    await expect(page.locator("#messages > li").last).to_contain_text("still live", timeout=LIMIT)
    assert "owned" not in await page.title()
    assert complaints == []


async def test_a_lost_connection_shows_and_what_came_meanwhile_comes_in(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    await page.route("**/chat/guest-1?**", lambda route: route.abort())
    await talking.write("said in between", provider="chat", correspondent="guest-1")
    await expect(page.get_by_text("Connection lost")).to_be_visible(timeout=LIMIT)
    await page.unroute("**/chat/guest-1?**")
    await expect(page.locator("#messages")).to_contain_text("said in between", timeout=LIMIT)
    await expect(page.get_by_text("Connection lost")).to_be_hidden()


async def test_after_a_long_sleep_the_page_begins_anew_without_a_gap(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna", runs=False)
    await talking.write("the first")
    page = await browser.new_page()
    await page.route("**/ann%40example?**", lambda route: route.abort())  # asleep before it can ask for news
    await page.goto(f"{talking.served.url}/bots/anna/whatsapp/ann@example")
    await page.evaluate("window.stayed = true")
    await asyncio.gather(*(talking.write(f"message {number}") for number in range(120)))
    await page.unroute("**/ann%40example?**")
    await expect(page.locator("#messages li").last).to_have_attribute("data-id", "121", timeout=LIMIT)
    ids = await page.locator("#messages li").evaluate_all(
        "(rows) => rows.map((row) => Number(row.dataset.id))"
    )
    assert ids == list(range(ids[0], 122))
    assert await page.evaluate("window.stayed") is None
