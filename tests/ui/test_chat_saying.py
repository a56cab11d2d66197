from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from mediamill.conversations import bots
from tests.conftest import wait_until
from tests.ui.browser import follow, open_browser, watch_console
from tests.ui.looks import DESKTOP, PHONE, find_faults
from tests.ui.talking import LIMIT, VOICE, Talking, open_chat, send_file

SAMPLES = Path(__file__).parents[2] / "samples"
DROP = """([target, name, type]) => {
    const carried = new DataTransfer();
    carried.items.add(new File(["some bytes"], name, { type: "image/png" }));
    const told = { dataTransfer: carried, clipboardData: carried, bubbles: true, cancelable: true };
    const event = type === "paste" ? new ClipboardEvent(type, told) : new DragEvent(type, told);
    document.querySelector(target).dispatchEvent(event);
}"""


@pytest.mark.spec("C4")
async def test_a_placeholder_shows_its_progress_and_becomes_text_without_a_reload(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser, by="echo")
    complaints = watch_console(page)
    await send_file(page, VOICE, "listen to this")
    bubble = page.locator("#messages .mine")
    await expect(bubble).to_contain_text("Voice note", timeout=LIMIT)
    await expect(bubble).to_contain_text("note.ogg")
    await expect(bubble).to_contain_text("listen to this")
    await expect(bubble).to_contain_text("Waiting for its turn…")
    await expect(page.locator("#sending li")).to_have_count(0)
    [job] = await talking.claim()
    await talking.report(job, 40)
    await expect(bubble).to_contain_text("Listening…", timeout=LIMIT)
    await expect(bubble.locator("progress")).to_have_attribute("value", "40", timeout=LIMIT)
    await talking.report(job, 80)
    await expect(bubble.locator("progress")).to_have_attribute("value", "80", timeout=LIMIT)
    await page.locator("#text").fill("and this is said meanwhile")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .theirs")).to_contain_text("said meanwhile", timeout=LIMIT)
    await talking.ground.finish(job, text="Hello from the garden.")
    await expect(bubble.first).to_contain_text("Hello from the garden.", timeout=LIMIT)
    await expect(bubble.locator("progress")).to_have_count(0)
    await expect(page.locator("#messages .theirs").nth(1)).to_contain_text(
        "Hello from the garden.", timeout=LIMIT
    )
    assert await page.evaluate("window.stayed") is True
    assert complaints == []


async def test_an_upload_that_fails_says_so_where_it_happened_and_is_sent_once(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    await page.route("**/media?**", lambda route: route.abort())
    await send_file(page, VOICE)
    waiting = page.locator("#sending li")
    await expect(waiting.get_by_role("alert")).to_contain_text("The connection was lost", timeout=LIMIT)
    await page.unroute("**/media?**")
    await waiting.get_by_role("button", name="Try again").click()
    await expect(page.locator("#messages .mine")).to_have_count(1, timeout=LIMIT)
    await expect(waiting).to_have_count(0, timeout=LIMIT)
    assert await talking.served.one("select count(*) from arrivals where guid is not null") == 1


async def test_an_answer_that_was_lost_does_not_make_two_messages(talking: Talking, browser: Browser) -> None:
    page = await open_chat(talking, browser)

    async def lose_the_answer(route: Route) -> None:
        if route.request.method == "POST":
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/chat/guest-1", lose_the_answer)
    await page.locator("#text").fill("only once")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .mine")).to_have_count(1, timeout=LIMIT)
    await expect(page.locator("#sending li")).to_have_count(0, timeout=LIMIT)
    await page.unroute("**/chat/guest-1")
    await page.locator("#text").fill("the next")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .mine")).to_have_count(2, timeout=LIMIT)


async def test_a_stopped_bot_is_started_from_the_chat_and_what_waits_goes(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    async with talking.served.database.transaction() as connection:
        await bots.stop_bot(connection, "anna")

    async def has_stopped() -> bool:  # the page knows that it should before it has
        return bool(await talking.served.one("select status -> 'chat' ->> 'state' = 'stopped' from bots"))

    await wait_until(has_stopped)
    await expect(page.locator("#talk-state")).to_contain_text("stopped", timeout=LIMIT)
    await page.locator("#text").fill("wake up")
    await page.keyboard.press("Enter")
    waiting = page.locator("#sending li")
    await expect(waiting.get_by_role("alert")).to_contain_text("does not run", timeout=LIMIT)
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator("#talk-state")).to_contain_text("running", timeout=LIMIT)
    await waiting.get_by_role("button", name="Try again").click()
    await expect(page.locator("#messages .mine")).to_contain_text("wake up", timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True


async def test_files_are_dropped_pasted_thrown_out_and_several_sent_at_once(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser)
    await page.evaluate(DROP, ["#scroller", "dropped.png", "dragenter"])
    await expect(page.locator(".dropzone")).to_be_visible()
    await page.evaluate(DROP, ["#scroller", "dropped.png", "drop"])
    await expect(page.locator(".dropzone")).to_be_hidden()
    await page.evaluate(DROP, ["#text", "pasted.png", "paste"])
    await page.evaluate(DROP, ["#scroller", "wrong.png", "drop"])
    await page.get_by_role("button", name="Do not send wrong.png").click()
    await expect(page.locator("#chosen li")).to_have_count(2)
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.type("two pictures")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .mine")).to_have_count(2, timeout=LIMIT)
    await expect(page.locator("#messages")).to_contain_text("dropped.png")
    await expect(page.locator("#messages")).to_contain_text("pasted.png")
    assert (await page.locator("#messages").inner_text()).count("two pictures") == 1
    await expect(page.locator("#sending li")).to_have_count(0)


async def test_a_voice_note_is_recorded_and_sent(talking: Talking) -> None:
    await talking.create("anna")
    fake = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    async with open_browser(*fake) as with_microphone:
        page = await with_microphone.new_page()
        await page.goto(f"{talking.served.url}/bots/anna/chat/guest-1")
        await page.get_by_role("button", name="Record a voice note").click()
        stop = page.get_by_role("button", name="Stop and send the voice note")
        await expect(stop).to_be_visible(timeout=LIMIT)
        await stop.click()
        await expect(page.locator("#messages .mine")).to_contain_text("Voice note voice note.", timeout=LIMIT)
        await page.get_by_role("button", name="Record a voice note").click()
        await expect(stop).to_be_visible(timeout=LIMIT)
        await page.keyboard.press("Escape")
        await expect(stop).to_have_count(0)
        await expect(page.locator("#messages li")).to_have_count(1)
    [job] = await talking.claim()
    assert job.mime_type is not None
    assert job.mime_type.startswith("audio/")


async def test_the_chat_goes_without_javascript(talking: Talking, browser: Browser) -> None:
    await talking.create("anna", by="echo")
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{talking.served.url}/bots/anna/chat")
    await page.get_by_label("Message", exact=True).fill("plain\nold form")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("#messages .mine .text")).to_have_text("plain\nold form")

    async def is_answered() -> bool:
        await follow(page.get_by_role("link", name="Look for new messages"))
        return await page.locator("#messages .theirs").count() == 1

    await wait_until(is_answered)
    await expect(page.locator("#choose")).to_be_hidden()
    for number in range(60):
        await talking.served.client.post(page.url, content=f"text=number+{number}")
    await page.goto(page.url)
    await expect(page.locator("#messages li").last).to_be_in_viewport()
    await page.get_by_role("link", name="Older messages").click()
    await page.get_by_role("link", name="Back to the newest messages").click()
    await expect(page.locator("#messages li")).to_have_count(50)


async def test_the_chat_goes_with_the_keyboard_alone(talking: Talking, browser: Browser) -> None:
    page = await open_chat(talking, browser)
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.type("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .text")).to_have_text("one\ntwo", timeout=LIMIT)
    await expect(page.locator("#text")).to_have_value("")
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.press("Enter")
    async with page.expect_file_chooser() as choosing:
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Enter")
    await (await choosing.value).set_files(VOICE)
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .mine")).to_have_count(2, timeout=LIMIT)
    for _ in range(2):
        await page.keyboard.press("Shift+Tab")
    await expect(page.locator("#scroller")).to_be_focused()


async def test_ones_own_conversation_is_kept_by_a_cookie(talking: Talking, browser: Browser) -> None:
    await talking.create("anna", runs=False)
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna/chat")
    first = page.url
    assert re.search("/chat/guest-[0-9a-f]{8}$", first)
    await page.goto(f"{talking.served.url}/bots/anna/chat")
    assert page.url == first
    other = await browser.new_page()
    await other.goto(f"{talking.served.url}/bots/anna/chat")
    assert other.url != first


async def test_the_chat_is_right_in_every_look_with_all_that_can_happen_in_it(
    talking: Talking, browser: Browser
) -> None:
    page = await open_chat(talking, browser, by="echo")
    complaints = watch_console(page)
    await send_file(page, SAMPLES / "sticker.webp")
    [job] = await talking.claim()
    await talking.ground.fail(job, "the picture ends in the middle")
    await expect(page.get_by_role("button", name="Try again: sticker")).to_be_visible(timeout=LIMIT)
    await send_file(page, SAMPLES / "video.mp4", "The start of the rocket, and a few words about it")
    [job] = await talking.claim()
    await talking.report(job, 62)
    await expect(page.locator("progress")).to_have_attribute("value", "62", timeout=LIMIT)
    assert complaints == []
    await page.route("**/media?**", lambda route: route.abort())
    await send_file(page, VOICE)
    await expect(page.locator("#sending").get_by_role("alert")).to_be_visible(timeout=LIMIT)
    await page.locator("#files").set_input_files([SAMPLES / "photo.jpg", SAMPLES / "notes.docx"])
    await page.locator("#text").fill("Two more,\nin two lines")
    await expect(page.locator("#chosen li")).to_have_count(2)
    faults = []
    for look in DESKTOP + PHONE:
        faults += await find_faults(page, "chat", [look], full_page="never")
        assert await page.evaluate("document.documentElement.scrollHeight") <= look.height
        await expect(page.locator("#send")).to_be_in_viewport()
    assert not faults, "\n".join(faults)
