"""Who may talk to a bot, on its page: strangers appear with their codes, and are approved, blocked and let go."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from mediamill.conversations import bots
from mediamill.conversations.bots import AccessConfig, BotConfig
from tests.ui.browser import follow, watch_console
from tests.ui.talking import ANN, BEN, Talking, knock


async def access_of(talking: Talking, bot_id: str = "shop") -> AccessConfig:
    async with talking.served.database.connection() as connection:
        return BotConfig.model_validate((await bots.show_bot(connection, bot_id))["config"]).access


@pytest.mark.spec("C50")
async def test_a_stranger_appears_without_a_reload_and_is_approved_blocked_and_let_go(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("shop", runs=False, providers={"whatsapp": {}})
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{talking.served.url}/bots/shop")
    section = page.get_by_role("region", name="Who may talk to it")
    await expect(section).to_contain_text("Nobody yet")
    await knock(talking, ANN)
    await knock(talking, BEN)
    await expect(section.get_by_role("button", name=f"Approve {ANN.display_name}")).to_be_visible()
    await follow(section.get_by_role("button", name=f"Block {BEN.display_name}"))
    await follow(section.get_by_role("button", name=f"Approve {ANN.display_name}"))
    await expect(section).not_to_contain_text("Waiting for your approval")
    assert await knock(talking, ANN, "2")
    assert not await knock(talking, BEN, "2")
    await follow(section.get_by_role("button", name=f"Unblock {BEN.display_name}"))
    await follow(section.get_by_role("button", name=f"Revoke {ANN.display_name}"))
    await expect(section).to_contain_text("Nobody yet")
    assert not await knock(talking, ANN, "3")
    assert complaints == []


async def test_an_open_bot_says_so_and_is_closed_by_one_click(talking: Talking, browser: Browser) -> None:
    await talking.create("shop", runs=False, providers={"whatsapp": {}}, access={"mode": "open"})
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots")
    await page.get_by_role("link", name="anybody may talk to it").click()
    await expect(page.get_by_text("Anybody who knows its number or name may talk to it")).to_be_visible()
    await follow(page.get_by_role("button", name="Only people I approve"))
    await expect(page.get_by_text("Only people you allow, or pair by a code")).to_be_visible()
    assert (await access_of(talking)).mode == "paired"


async def test_groups_limits_and_numbers_are_set_by_forms_and_faults_keep_what_was_typed(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("shop", runs=False, providers={"whatsapp": {}})
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/shop")
    await page.get_by_text("Change who may talk to it").click()
    await page.get_by_label("In groups it answers").select_option("never")
    await page.get_by_label("Messages a day").fill("many")
    await follow(page.get_by_role("button", name="Save"))
    await expect(page.get_by_role("alert")).to_contain_text("Access.messages_per_day")
    await expect(page.get_by_label("Messages a day")).to_have_value("many")
    await page.get_by_label("Messages a day").fill("50")
    await page.get_by_label("Tokens of the model a day").fill("0")
    await follow(page.get_by_role("button", name="Save"))
    assert await access_of(talking) == AccessConfig(groups="never", messages_per_day=50, tokens_per_day=0)
    await expect(page.locator("#access")).to_contain_text(
        "Messages a day: 50. Seconds of sound and video a day: 3,600."
    )
    await page.get_by_text("Change who may talk to it").click()
    await page.get_by_label("Phone number").fill("ann")
    await follow(page.get_by_role("button", name="Allow", exact=True))
    await expect(page.get_by_role("alert")).to_contain_text("neither a phone number nor a WhatsApp id")
    await page.get_by_label("Phone number").fill("+49 170 1111111")
    await follow(page.get_by_role("button", name="Allow", exact=True))
    await expect(page.locator(".senders")).to_contain_text("491701111111@s.whatsapp.net")
    assert await knock(talking, ANN)


async def test_a_new_bot_is_open_only_if_that_is_chosen(talking: Talking, browser: Browser) -> None:
    page = await browser.new_page()
    for name, is_open in (("closed", False), ("hotline", True)):
        await page.goto(f"{talking.served.url}/bots")
        await page.get_by_label("Name").fill(name)
        await page.get_by_role("checkbox", name="Telegram").check()
        await page.get_by_label("Token of the Telegram bot").fill("123456789:" + "A" * 35)
        await page.get_by_label("Anybody").set_checked(is_open)
        await follow(page.get_by_role("button", name="Create and start"))
        await expect(page).to_have_url(re.compile(f"/bots/{name}$"))
        assert (await access_of(talking, name)).mode == ("open" if is_open else "paired")


async def test_a_bot_on_the_chat_alone_has_nothing_to_say_about_it(
    talking: Talking, browser: Browser
) -> None:
    await talking.create("anna", runs=False)
    page = await browser.new_page()
    await page.goto(f"{talking.served.url}/bots/anna")
    await expect(page.get_by_role("heading", name="Conversations")).to_be_visible()
    await expect(page.locator("#access, #access-forms")).to_have_count(0)
