"""The pages of storage and of settings: sizes, the quota changed with validation, secrets never shown."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from mediamill.conversations.configuration import quota_gb
from mediamill.settings import Settings
from mediamill.settings_facts import SECTIONS, explain_settings
from tests.api.serving import SECRET, Served
from tests.ui.browser import follow, watch_console
from tests.ui.busy import lay_out


async def quota(served: Served) -> float:
    async with served.database.connection() as connection:
        return await quota_gb(connection)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_what_lies_where_and_a_quota_that_is_judged(
    served: Served, browser: Browser, scripts: bool
) -> None:
    lay_out(served)
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/storage")
    await expect(page.locator("#place-videos")).to_contain_text("4.2 MB")
    await expect(page.locator("#place-pending_media")).to_contain_text("9.0 kB")
    await expect(page.locator("#storage")).to_contain_text("of 26.8 GB")  # 25 of 1024^3
    field = page.get_by_label("Gigabytes")
    for bad in ("-1", "plenty"):
        await field.fill(bad)
        await follow(page.get_by_role("button", name="Save"))
        await expect(page.get_by_role("alert")).to_contain_text("must be a number of gigabytes above 0")
        await expect(field).to_have_value(bad)
        assert await quota(served) == 25
    await field.fill("50")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    assert await quota(served) == 50
    await page.get_by_role("button", name="Default: 25").click()
    await expect(page.get_by_label("Gigabytes")).to_have_value("25")
    assert await quota(served) == 25
    assert [each for each in complaints if "422" not in each] == []
    told = (await served.client.get("/api/storage")).json()
    assert {place["name"]: place["bytes"] for place in told["places"]}["videos"] == 4_200_000


async def test_settings_are_shown_with_their_source_and_secrets_are_not(
    served: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    await page.goto(f"{served.url}/settings")
    secret = page.locator("#admin_secret")
    await expect(secret).to_contain_text("••••••••")
    await expect(page.locator("#data .tag")).to_have_text("environment")
    await expect(page.locator("#heartbeat_seconds")).to_contain_text("default")
    assert SECRET not in await page.content()
    assert SECRET not in (await served.client.get("/api/settings")).text
    await page.get_by_placeholder("Name or what it does").fill("heartbeat")
    await page.keyboard.press("Enter")
    await expect(page.locator("#heartbeat_seconds")).to_be_visible()
    await expect(page.locator("#admin_secret")).to_have_count(0)
    await page.goto(f"{served.url}/settings?changed=1")
    await expect(page.locator("#admin_secret")).to_be_visible()
    await expect(page.locator("#heartbeat_seconds")).to_have_count(0)


def test_every_section_begins_with_a_setting_and_credentials_in_addresses_are_left_out() -> None:
    assert set(SECTIONS) <= set(Settings.model_fields)
    facts = {
        fact.name: fact
        for fact in explain_settings(Settings(openai_url="http://me:pass@host/v1", openai_key="hush"))
    }
    assert facts["openai_url"].value == "http://…@host/v1"
    assert facts["openai_key"].value == "set"
    assert facts["openai_key"].secret
    assert facts["database_url"].value == ""
    assert all(fact.section and fact.description for fact in facts.values())
