"""One's own account with a browser: the second factor, passkeys, single sign-on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser, CDPSession, Page, expect

from mediamill.access import users
from mediamill.access.model import Scope
from mediamill.access.second_factor import begin_enrolment, confirm_enrolment
from mediamill.access.single_sign_on import SignOnConfig, SingleSignOn
from mediamill.db.connection import Database
from mediamill.settings import Settings
from tests.access.people import PASSWORD, actions, clock_stands_still, code_at
from tests.api.serving import Served, serve
from tests.identity_provider.running import run_provider, settings_for
from tests.ui.browser import follow, log_in, watch_console
from tests.ui.conftest import on_the_shared_loop
from tests.ui.looks import find_faults

__all__ = ["clock_stands_still"]


@on_the_shared_loop
async def closed(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server that asks everybody to log in, with a user."""
    async with serve(database, tmp_path, pages=True, login="always") as served:
        async with database.transaction() as connection:
            await users.add_user(connection, "ann", PASSWORD, [Scope.READ])
        yield served


async def begin_factor(page: Page) -> str:
    """From the account page to the QR code; the secret."""
    await page.get_by_text("Set up …").click()
    await page.get_by_label("Your password", exact=True).fill(PASSWORD)
    await follow(page.get_by_role("button", name="Continue"))
    await expect(page.locator("svg.qr")).to_be_visible()
    return await page.locator("#totp-secret").inner_text()


async def test_a_second_factor_is_turned_on_asked_for_and_turned_off(
    closed: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{closed.url}/account")
    await log_in(page, "ann", PASSWORD)
    secret = await begin_factor(page)
    await page.get_by_label("Code").fill("000000")
    await follow(page.get_by_role("button", name="Turn on"))
    await expect(page.get_by_role("alert")).to_contain_text("That code is wrong")
    await page.get_by_label("Code").fill(code_at(secret, -1))
    await follow(page.get_by_role("button", name="Turn on"))
    await expect(page.locator("#recovery-codes li")).to_have_count(10)
    recovery = await page.locator("#recovery-codes li").first.inner_text()
    await page.context.clear_cookies()
    await page.goto(f"{closed.url}/account")
    await log_in(page, "ann", PASSWORD)
    await expect(page).to_have_title("Enter your code · mediamill")
    await expect(page.get_by_label("Code of your authenticator app")).to_be_focused()
    await page.get_by_label("Code of your authenticator app").fill(code_at(secret, -1))
    await follow(page.get_by_role("button", name="Continue"))
    await expect(page.get_by_role("alert")).to_contain_text("was used before")
    await page.get_by_label("Code of your authenticator app").fill(recovery)
    await follow(page.get_by_role("button", name="Continue"))
    await expect(page).to_have_url(f"{closed.url}/account")
    await expect(page.locator("body")).to_contain_text("9 recovery codes left")
    await page.get_by_text("Turn off …").click()
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Code").fill(code_at(secret))
    await follow(page.get_by_role("button", name="Turn off"))
    await expect(page.get_by_text("Set up …")).to_be_visible()
    assert [each for each in complaints if "status of 40" not in each] == []


async def new_device(page: Page, *, verified: bool = True) -> CDPSession:
    """An authenticator that the browser believes to be built in, with a user who touches it (and is recognised)."""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": verified,
        "automaticPresenceSimulation": True,
    }
    made = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    session.device = made["authenticatorId"]  # type: ignore[attr-defined]
    return session


async def add_passkey(page: Page, name: str, password: str = PASSWORD) -> None:
    await page.get_by_text("Add a passkey …").click()
    await page.get_by_label("Where it is").fill(name)
    await page.get_by_label("Your password, to be sure").fill(password)
    await page.get_by_role("button", name="Add", exact=True).click()


async def test_a_passkey_is_added_logs_in_without_a_code_and_is_removed(
    closed: Served, browser: Browser
) -> None:
    here = by_name(closed)
    async with closed.database.transaction() as connection:
        ann = await users.find_user(connection, "ann")
        secret = (await begin_enrolment(connection, ann["id"], "ann")).secret
        await confirm_enrolment(connection, ann["id"], code_at(secret, -1))
    page = await browser.new_page()
    complaints = watch_console(page)
    await new_device(page)
    await page.goto(f"{here}/account")
    await log_in(page, "ann", PASSWORD)
    await page.get_by_label("Code of your authenticator app").fill(code_at(secret))
    await follow(page.get_by_role("button", name="Continue"))
    await add_passkey(page, "my phone", "not the password")
    await expect(page.locator("#passkey-fault")).to_have_text("That is not your password.")
    await page.goto(f"{here}/account")
    await add_passkey(page, "my <b>phone</b>")
    await expect(page.locator("body")).to_contain_text("my <b>phone</b>")
    await add_passkey(page, "the same again")
    await expect(page.locator("#passkey-fault")).to_have_text("This device has a passkey for you already.")
    await page.context.clear_cookies()
    await page.goto(f"{here}/videos?q=cat")
    await page.get_by_role("button", name="Use a passkey").click()
    await expect(page).to_have_url(f"{here}/videos?q=cat")
    await expect(page.locator(".user-menu")).to_contain_text("ann")
    await page.goto(f"{here}/account")
    await expect(page.locator("body")).not_to_contain_text("never used")
    await page.get_by_text("Remove …").click()
    await follow(page.get_by_role("button", name="Remove my <b>phone</b> for good"))
    await expect(page.get_by_text("Remove …")).to_have_count(0)
    await page.context.clear_cookies()
    await page.goto(f"{here}/account")
    await page.get_by_role("button", name="Use a passkey").click()
    await expect(page.locator("#passkey-fault")).to_contain_text("That passkey is not known here")
    noted = [
        (entry[1], entry[2])
        for entry in await actions(closed.database)
        if entry[1].startswith(("login", "user."))
    ]
    assert ("login", "passkey") in noted
    assert ("login.failed", "passkey") in noted
    assert ("user.passkey", "ann: add my <b>phone</b>") in noted
    assert ("user.passkey", "ann: remove my <b>phone</b>") in noted
    assert [each for each in complaints if "status of 40" not in each] == []


async def test_a_device_that_does_not_check_its_user_is_not_let_in(closed: Served, browser: Browser) -> None:
    here = by_name(closed)
    page = await browser.new_page()
    session = await new_device(page)
    await page.goto(f"{here}/account")
    await log_in(page, "ann", PASSWORD)
    await add_passkey(page, "my phone")
    await expect(page.locator("body")).to_contain_text("never used")
    await page.context.clear_cookies()
    device = {"authenticatorId": session.device}  # type: ignore[attr-defined]
    await session.send("WebAuthn.setUserVerified", {**device, "isUserVerified": False})
    await page.goto(f"{here}/login")
    await page.get_by_role("button", name="Use a passkey").click()
    await expect(page.locator("#passkey-fault")).to_have_text("No passkey was used.")


async def test_where_passkeys_cannot_work_the_pages_say_so_and_offer_none(
    closed: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    await page.goto(f"{closed.url}/account")
    await expect(page.get_by_role("button", name="Use a passkey")).to_have_count(0)
    await log_in(page, "ann", PASSWORD)
    await page.get_by_role("link", name="Open this page as localhost").click()
    await expect(page).to_have_title("Log in · mediamill")
    await expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()


def by_name(served: Served) -> str:
    """The address by which passkeys work."""
    return served.url.replace("127.0.0.1", "localhost")


async def test_single_sign_on_leads_through_the_provider_and_back(closed: Served, browser: Browser) -> None:
    here = by_name(closed)
    page = await browser.new_page()
    async with run_provider(here) as issuer:
        chosen = Settings.model_validate(settings_for(issuer, oidc_users="neighbours"))
        config = SignOnConfig.of(chosen)
        assert config is not None
        closed.app.state.login_service.sign_on = SingleSignOn(config)
        await page.goto(f"{here}/videos?q=cat")
        await page.get_by_role("link", name="Continue with Home <ID>").click()
        await page.locator("input[name=login]").fill("subject-of-eve")
        await page.locator("input[name=password]").fill("x")
        await follow(page.locator("button[type=submit]"))
        await page.locator("button[type=submit]").click()
        await expect(page).to_have_url(f"{here}/videos?q=cat")
        await expect(page.locator(".user-menu")).to_contain_text("eve")
        await page.goto(f"{here}/account")
        await expect(page.get_by_role("heading", name="Passkeys")).to_have_count(0)


async def test_the_account_is_right_in_every_look_at_every_step(closed: Served, browser: Browser) -> None:
    page = await browser.new_page()
    faults = []
    config = SignOnConfig.of(Settings.model_validate(settings_for("https://id.example")))
    assert config is not None
    closed.app.state.login_service.sign_on = SingleSignOn(config)
    await page.goto(f"{by_name(closed)}/account")
    await log_in(page, "ann", "a wrong one")
    faults += await find_faults(page, "login-ways")
    await log_in(page, "ann", PASSWORD)
    secret = await begin_factor(page)
    faults += await find_faults(page, "account-enrolment")
    await page.get_by_label("Code").fill(code_at(secret, -1))
    await follow(page.get_by_role("button", name="Turn on"))
    faults += await find_faults(page, "account-codes")
    await page.goto(f"{by_name(closed)}/account")
    await new_device(page)
    await add_passkey(page, "a phone whose name is as long as it may be, and not less")
    await expect(page.locator("body")).to_contain_text("never used")
    await page.get_by_text("Add a passkey …").click()
    await page.get_by_text("Turn off …").click()
    await page.get_by_text("Remove …").click()
    faults += await find_faults(page, "account-ways")
    await page.context.clear_cookies()
    await page.goto(f"{by_name(closed)}/account")
    await log_in(page, "ann", PASSWORD)
    faults += await find_faults(page, "login-code")
    assert not faults, "\n".join(faults)
