from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from mediamill.conversations import bots
from tests.api.serving import Served
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.talking import Talking, fill_family

LIMIT = 60_000


async def test_a_demo_bot_is_one_click_away_and_answers(talking: Talking, browser: Browser) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(talking.served.url)
    await page.get_by_role("navigation").get_by_role("link", name="Bots").click()
    await expect(page.get_by_role("heading", name="No bots yet")).to_be_visible()
    await follow(page.get_by_role("button", name="Create a demo bot and talk to it"))
    await expect(page).to_have_url(re.compile(r"/bots/demo/chat/guest-[0-9a-f]{8}$"))
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.type("Hello, who is there?")
    await page.keyboard.press("Enter")
    await expect(page.locator("#messages .mine")).to_contain_text("Hello, who is there?", timeout=LIMIT)
    await expect(page.locator("#messages .theirs")).to_contain_text("You said: Hello", timeout=LIMIT)
    await expect(page.locator("#sending li")).to_have_count(0)
    await page.get_by_role("link", name="All conversations of demo").click()
    await expect(page.locator(".talks li")).to_have_count(1)
    await page.get_by_role("link", name="Talk to it").click()
    await expect(page.locator("#messages li")).to_have_count(2)
    assert complaints == []


async def test_a_bot_is_created_with_the_keyboard_and_faults_are_told_with_what_was_typed(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna")
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots")
    await page.get_by_label("Name").focus()
    await page.keyboard.type("anna")
    for _ in range(2 + await page.get_by_role("checkbox").count()):
        await page.keyboard.press("Tab")
    await expect(page.get_by_label("Prompt")).to_be_focused()
    await page.keyboard.type("Be kind.")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("There is a bot anna already")
    await expect(page.get_by_label("Prompt")).to_have_value("Be kind.")
    await page.get_by_label("Name").fill("bella")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/bots/bella/chat/"))
    async with talking.served.database.connection() as connection:
        bot = await bots.show_bot(connection, "bella")
    assert bot["running"]
    assert bot["config"]["reply"] | {"by": "echo", "prompt": "Be kind."} == bot["config"]["reply"]


async def test_a_bot_without_a_network_is_refused(served: Served) -> None:
    answer = await served.client.post("/bots", content="name=x&reply=echo")
    assert answer.status_code == 422
    assert "A bot needs a provider" in answer.text
    answer = await served.client.post("/bots", content="name=X%2F..&provider=chat&reply=echo")
    assert answer.status_code == 422
    assert "cannot be the name of a bot" in answer.text
    assert await served.one("select count(*) from bots") == 0


async def test_bots_start_and_stop_and_the_list_shows_it_without_a_reload(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna")
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{talking.served.url}/bots")
    await page.evaluate("window.stayed = true")
    card = page.locator(".bot", has_text="anna")
    await expect(card).to_contain_text("connected", timeout=LIMIT)
    async with talking.served.database.transaction() as connection:
        await bots.stop_bot(connection, "anna")
    await expect(card.locator("header .state")).to_have_text("stopped", timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
    await page.get_by_role("button", name="Start anna").click()
    await expect(page).to_have_url(re.compile("/bots/anna$"))
    await expect(page.locator("#bot .networks")).to_contain_text("connected", timeout=LIMIT)
    assert complaints == []


@pytest.mark.spec("C53")
async def test_a_bot_is_deleted_only_when_stopped_and_confirmed(talking: Talking, browser: Browser) -> None:
    await talking.create("anna")
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna")
    await page.get_by_text("Delete this bot").click()
    await expect(page.get_by_text("It runs. Stop it first")).to_be_visible()
    await expect(page.get_by_role("button", name="Delete anna")).to_be_hidden()
    answer = await talking.served.client.post("/bots/anna/delete", headers={"Accept": "text/html"})
    assert answer.status_code == 409
    assert "The bot anna runs" in answer.text
    await follow(page.get_by_role("button", name="Stop"))
    await page.get_by_text("Delete this bot").click()
    await expect(page.get_by_text("There is no way back")).to_be_visible()
    await expect(page.get_by_text("backups that were made before")).to_be_visible()
    await shoot(page, "bot-delete", full_page=True)
    await page.get_by_role("button", name="Delete anna and its conversations").click()
    await expect(page).to_have_url(re.compile("/bots$"))
    await expect(page.get_by_role("heading", name="No bots yet")).to_be_visible()


TELEGRAM_TOKEN = "123456789:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"


async def config_of(served: Served, bot_id: str) -> dict[str, Any]:
    """As it is kept, secrets included."""
    config: dict[str, Any] = json.loads(await served.one("select config from bots where id = $1", bot_id))
    return config


@pytest.mark.spec("C53")
async def test_a_bot_on_telegram_is_created_with_its_token_which_is_never_shown_again(
    served: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/bots")
    token = page.get_by_label("Token of the Telegram bot")
    await expect(token).to_be_hidden()
    await page.get_by_label("Name").fill("tilda")
    await page.get_by_label("Chat in this browser").uncheck()
    await page.get_by_label("Telegram", exact=True).check()
    await expect(token).to_be_visible()
    await shoot(page, "bot-new-telegram", full_page=True)
    await page.get_by_role("button", name="Create and start").click()
    await expect(page.get_by_role("alert")).to_contain_text("Telegram needs the token of the bot")
    await expect(page.get_by_label("Name")).to_have_value("tilda")
    await token.fill(TELEGRAM_TOKEN)
    await page.get_by_role("button", name="Create and start").click()
    await expect(page).to_have_url(re.compile("/bots/tilda$"))
    assert (await config_of(served, "tilda"))["providers"] == {"telegram": {"token": TELEGRAM_TOKEN}}
    assert TELEGRAM_TOKEN not in await page.content()
    assert [complaint for complaint in complaints if "422" not in complaint] == []


@pytest.mark.spec("C53")
async def test_a_bot_is_changed_on_its_page_and_what_the_form_does_not_name_stays(
    served: Served, browser: Browser
) -> None:
    talking = Talking(served)
    given: dict[str, Any] = {
        "providers": {"telegram": {"token": TELEGRAM_TOKEN, "mode": "polling"}},
        "limits": {"max_messages": 7},
    }
    await talking.create("anna", by="echo", runs=False, **given)
    page = await browser.new_page()
    await page.goto(f"{served.url}/bots/anna")
    await page.get_by_text("Change this bot").click()
    await expect(page.get_by_label("Who answers")).to_have_value("echo")
    await expect(page.get_by_label("Token of the Telegram bot")).to_have_value("")
    await page.get_by_label("WhatsApp", exact=True).check()
    await page.get_by_label("Who answers").select_option("openai")
    await page.locator("#model").fill("small-model")
    await page.get_by_label("Prompt").fill("Be kind.")
    await shoot(page, "bot-change", full_page=True)
    await follow(page.get_by_role("button", name="Save changes"))
    config = await config_of(served, "anna")
    assert config["providers"] == {"telegram": given["providers"]["telegram"], "whatsapp": {}}
    assert config["reply"] == {"by": "openai", "model": "small-model", "prompt": "Be kind."}
    assert config["limits"]["max_messages"] == 7
    assert TELEGRAM_TOKEN not in await page.content()
    await page.get_by_text("Change this bot").click()
    for network in ("WhatsApp", "Telegram"):
        await page.get_by_label(network, exact=True).uncheck()
    await page.get_by_label("Prompt").fill("Be short.")
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_role("alert")).to_contain_text("A bot needs a provider")
    await expect(page.get_by_label("Prompt")).to_have_value("Be short.")
    await page.get_by_label("Telegram", exact=True).check()
    await page.get_by_label("Token of the Telegram bot").fill(TELEGRAM_TOKEN.replace("AA", "BB"))
    await follow(page.get_by_role("button", name="Save changes"))
    config = await config_of(served, "anna")
    assert config["providers"]["telegram"]["token"] == TELEGRAM_TOKEN.replace("AA", "BB")
    assert list(config["providers"]) == ["telegram"]


@pytest.mark.spec("C42")
async def test_the_pairing_code_is_shown_follows_and_goes_when_the_phone_is_paired(
    served: Served, browser: Browser
) -> None:
    talking = Talking(served)
    await talking.create("anna", providers={"whatsapp": {}})
    page = await browser.new_page(color_scheme="dark")
    complaints = watch_console(page)
    await page.goto(f"{served.url}/bots/anna")
    await page.evaluate("window.stayed = true")
    await expect(page.get_by_text("Connecting to whatsapp")).to_be_visible()
    await talking.tell_status("whatsapp", {"state": "pairing", "qr": "2@first,code"})
    code = page.get_by_role("img", name="QR code to pair a phone with anna")
    await expect(code).to_be_visible(timeout=LIMIT)
    first = await code.inner_html()
    await shoot(page, "pairing-dark")
    await talking.tell_status("whatsapp", {"state": "pairing", "qr": "2@second,code"})
    await expect(code.locator("path").nth(1)).not_to_have_attribute(
        "d", re.findall(r' d="([^"]+)"', first)[1], timeout=LIMIT
    )
    status = {"state": "connected", "qr": None, "me": {"identifier": "49", "display_name": "Anna's phone"}}
    await talking.tell_status("whatsapp", status)
    await expect(page.locator(".networks")).to_contain_text("as Anna's phone", timeout=LIMIT)
    await expect(code).to_have_count(0)
    await talking.tell_status("whatsapp", {"state": "failed", "detail": "the bridge cannot be started"})
    await expect(page.locator(".networks")).to_contain_text("the bridge cannot be started", timeout=LIMIT)
    assert await page.evaluate("window.stayed") is True
    assert complaints == []


async def test_conversations_are_listed_latest_first_with_what_is_at_work(
    served: Served, browser: Browser
) -> None:
    talking = Talking(served)
    await talking.create("anna", providers={"whatsapp": {}}, runs=False)
    await fill_family(talking)
    await talking.write("Good morning", correspondent="luis@s.whatsapp.net", name="Luis")
    page = await browser.new_page()
    await page.goto(f"{served.url}/bots/anna")
    rows = page.locator(".talks li")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("Luis")
    await expect(rows.nth(1)).to_contain_text("Family")
    await expect(rows.nth(1)).to_contain_text("1 being processed")
    await rows.nth(1).get_by_role("link").click()
    await expect(page.locator("#messages li")).to_have_count(8)
    await expect(page.locator("#composer")).to_have_count(0)


async def test_older_conversations_are_on_further_pages(served: Served, browser: Browser) -> None:
    talking = Talking(served)
    await talking.create("anna", providers={"whatsapp": {}}, runs=False)
    for number in range(52):
        await talking.write("hello", correspondent=f"p{number}", name=f"Person {number}")
    page = await browser.new_page()
    await page.goto(f"{served.url}/bots/anna")
    await expect(page.locator(".talks li")).to_have_count(50)
    await page.get_by_role("link", name="Older conversations").click()
    await expect(page.locator(".talks li")).to_have_count(2)
    await expect(page.locator(".talks li").nth(1)).to_contain_text("Person 0")


async def test_what_is_not_there_is_said_kindly(served: Served) -> None:
    html = {"Accept": "text/html"}
    for path in ("/bots/nobody", "/bots/nobody/chat", "/bots/nobody/chat/guest-1", "/bots/%00/whatsapp/x"):
        answer = await served.client.get(path, headers=html)
        assert answer.status_code in (404, 422), path
        assert "Back to the dashboard" in answer.text
    await Talking(served).create("anna", runs=False)
    answer = await served.client.get("/bots/anna/whatsapp/nobody", headers=html)
    assert answer.status_code == 404
    for path in (
        "/bots/anna/chat/guest-1?before=x",
        "/bots/anna?before=2026-01-01T00:00:00",
        "/bots/anna?before=x",
    ):
        answer = await served.client.get(path, headers=html)
        assert answer.status_code == 422, path
    answer = await served.client.post("/bots/anna/chat/guest-1", content="a=1&" * 200)
    assert answer.status_code == 422


async def test_another_site_cannot_press_the_buttons_of_bots(served: Served) -> None:
    await Talking(served).create("anna")
    evil = {"Origin": "http://evil.example"}
    for path in ("/bots", "/bots/anna/stop", "/bots/anna/delete", "/bots/anna/chat/guest-1"):
        answer = await served.client.post(path, headers=evil, content="name=x&provider=chat&text=hi")
        assert answer.status_code == 403, path
    assert await served.one("select running from bots where id = 'anna'") is True
