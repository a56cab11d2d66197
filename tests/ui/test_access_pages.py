"""Logging in, users and tokens, one's own account, the audit log: with a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from mediamill.access import users
from mediamill.access.model import Scope
from mediamill.db.connection import Database
from tests.access.people import PASSWORD
from tests.api.serving import SECRET, Served, serve
from tests.ui.browser import follow, log_in, watch_console
from tests.ui.conftest import on_the_shared_loop


@on_the_shared_loop
async def closed(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server that asks everybody to log in."""
    async with serve(database, tmp_path, pages=True, login="always") as served:
        yield served


async def open_menu(page: Page) -> None:
    await page.locator(".user-menu summary").click()


async def test_from_the_first_login_to_a_user_of_ones_own_and_out_again(
    closed: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{closed.url}/videos?q=cat")
    await expect(page).to_have_title("Log in · mediamill")
    await expect(page.get_by_label("Name")).to_be_focused()
    await log_in(page, "", "not the secret")
    await expect(page.get_by_role("alert")).to_have_text("That is not the right name and password.")
    await log_in(page, "", SECRET)
    await expect(page).to_have_url(f"{closed.url}/videos?q=cat")
    await open_menu(page)
    await page.get_by_role("link", name="Users and tokens").click()
    await page.get_by_label("Name").fill("ann")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("group", name="Scopes").first.get_by_label("ingest").uncheck()
    await page.get_by_role("button", name="Add the user").click()
    await expect(page.locator(".people").first).to_contain_text("ann")
    await open_menu(page)
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_title("Log in · mediamill")
    await page.goto(f"{closed.url}/access")
    await log_in(page, "ann", PASSWORD)
    await expect(page.get_by_role("alert")).to_contain_text("This needs the scope admin; ann has read")
    await page.get_by_role("link", name="Back to the overview").click()
    await expect(page.get_by_role("link", name="Access")).to_have_count(0)
    await open_menu(page)
    await page.get_by_role("link", name="Account").click()
    await expect(page.get_by_role("heading", name="ann")).to_be_visible()
    await page.get_by_label("Password now").fill(PASSWORD)
    await page.get_by_label("New password").fill("another one entirely")
    await page.get_by_label("Once more").fill("another one entirely!")
    await page.get_by_role("button", name="Change it").click()
    await expect(page.get_by_role("alert")).to_have_text("The two passwords are not the same")
    await page.get_by_label("Password now").fill(PASSWORD)
    await page.get_by_label("New password").fill("another one entirely")
    await page.get_by_label("Once more").fill("another one entirely")
    await page.get_by_role("button", name="Change it").click()
    await expect(page).to_have_title("Log in · mediamill")
    await log_in(page, "ann", "another one entirely")
    await expect(page.locator(".user-menu")).to_contain_text("ann")
    refused = [
        complaint for complaint in complaints if "status of 40" not in complaint and "422" not in complaint
    ]
    assert refused == []


async def test_a_token_is_made_shown_once_and_revoked(closed: Served, browser: Browser) -> None:
    page = await browser.new_page()
    await page.goto(f"{closed.url}/access")
    await log_in(page, "", SECRET)
    await page.get_by_text("Make a token").click()
    await page.get_by_label("What it is for").fill("camera <b>")
    await page.get_by_role("button", name="Make the token").click()
    await expect(page.get_by_role("alert")).to_contain_text("No scope was given")
    await page.get_by_role("group", name="Scopes").last.get_by_label("ingest").check()
    await page.get_by_role("button", name="Make the token").click()
    token = await page.locator("#token").inner_text()
    assert token.startswith("mill_")
    headers = {"Authorization": f"Bearer {token}"}
    assert (await closed.client.get("/api/whoami", headers=headers)).json()["scopes"] == ["ingest"]
    await page.goto(f"{closed.url}/access")
    await expect(page.locator("body")).not_to_contain_text(token)
    await page.get_by_text("Revoke …").click()
    await page.get_by_role("button", name="Revoke for good: camera <b>").click()
    await expect(page.locator("body")).to_contain_text("There are no tokens that work")
    assert (await closed.client.get("/api/whoami", headers=headers)).status_code == 401
    await page.get_by_role("link", name="Audit log").first.click()
    await expect(page.locator("table.audit")).to_contain_text("token.revoke")
    await expect(page.locator("table.audit")).to_contain_text("admin secret")


async def test_users_are_changed_by_their_forms(closed: Served, browser: Browser) -> None:
    async with closed.database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, [Scope.READ])
    page = await browser.new_page()
    await page.goto(f"{closed.url}/access")
    await log_in(page, "", SECRET)

    async def change(button: str, **fill: str) -> None:
        await page.get_by_text("Change …").click()
        for label, text in fill.items():
            await page.get_by_label(label.replace("_", " ")).fill(text)
        await follow(page.get_by_role("button", name=button))

    await page.get_by_text("Change …").click()
    await page.locator(".changes").get_by_label("admin").check()
    await page.get_by_role("button", name="Save the scopes of ann").click()
    await expect(page.locator(".people .line")).to_contain_text("admin")
    await change("Disable ann")
    await expect(page.locator(".people .state")).to_have_text("disabled")
    await change("Enable ann")
    await expect(page.locator(".people .state")).to_have_count(0)
    await change("Set, and log them out: ann", New_password="another one entirely")
    async with closed.database.connection() as connection:
        assert await users.check_login(connection, "ann", "another one entirely") is not None
    await change("Remove for good: ann")
    await expect(page.locator("body")).to_contain_text("There are no users yet")


async def test_whoever_runs_the_server_has_all_scopes_and_the_page_says_so(
    served: Served, browser: Browser
) -> None:
    page = await browser.new_page()
    await page.goto(f"{served.url}/access")
    await expect(page.locator(".notice")).to_contain_text("You came in as the user who runs the server")
    await expect(page.locator(".user-menu")).to_have_count(0)
