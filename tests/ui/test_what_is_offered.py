"""What a page offers is what whoever looks at it may do: no more, or a click ends at a refusal; no less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from mediamill.access import users
from mediamill.access.model import EVERYTHING, Caller, Scope
from mediamill.api.route_map import RouteMap
from mediamill.api.scopes import Door, access_to
from tests.access.people import PASSWORD
from tests.api.serving import SECRET
from tests.ui.browser import log_in, watch_console
from tests.ui.conftest import shared_by_a_module
from tests.ui.touring import House, open_house

PEOPLE: dict[str, list[Scope]] = {"reader": [Scope.READ], "helper": [Scope.READ, Scope.INGEST]}
DOORS = {Door.ANYBODY: None, Door.LOGGED_IN: None, Door.REGISTRATION: Scope.WORKER}
# Everything that an enabled control, a link or a script of the page would ask for, as method and path.
# `sent` is how the server sent the page: what people without scripts have, for whom nothing has to be drawn.
OFFERS = """({address, sent}) => {
    const shown = sent === null ? document : new DOMParser().parseFromString(sent, 'text/html');
    const found = [], path = (to) => new URL(to, address);
    const add = (method, where) => {
        const to = path(where);
        if (to.origin === location.origin) found.push([method.toUpperCase(), decodeURI(to.pathname)]);
    };
    for (const form of shown.forms) {
        const buttons = [...form.elements].filter((each) => each.matches(
            'button:not([type=button]), input[type=submit], input[type=image]') && !each.matches(':disabled'));
        const written = [...form.elements].some((each) => !each.matches('[type=hidden], fieldset, button, :disabled'));
        for (const button of buttons) {
            const own = button.hasAttribute('formaction');
            if (!own && !form.hasAttribute('action')) throw new Error(`a form goes nowhere: ${form.outerHTML}`);
            add(button.formMethod || form.method, (own ? button : form).getAttribute(own ? 'formaction' : 'action'));
        }
        if (!buttons.length && written) add(form.method, form.getAttribute('action'));
    }
    for (const each of shown.querySelectorAll('[data-api]')) add('POST', each.dataset.api);
    for (const each of shown.querySelectorAll('[data-to]')) add('POST', each.dataset.to);
    for (const method of ['get', 'post', 'put', 'patch', 'delete'])
        for (const each of shown.querySelectorAll(`[hx-${method}]`)) add(method, each.getAttribute(`hx-${method}`));
    for (const link of shown.querySelectorAll('a[href]')) add('GET', link.getAttribute('href'));
    for (const link of shown.querySelectorAll('[sse-connect]')) add('GET', link.getAttribute('sse-connect'));
    return found;
}"""


@shared_by_a_module
async def house(
    server_url: str, template_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    """One that asks everybody to log in; none of the tests changes anything."""
    async with open_house(server_url, tmp_path_factory.mktemp("house"), login="always") as opened:
        async with opened.served.database.transaction() as connection:
            for name, scopes in PEOPLE.items():
                await users.add_user(connection, name, PASSWORD, scopes)
        yield opened


class Rules:
    """What the table of routes says of addresses."""

    def __init__(self, house: House) -> None:
        self._app, self._routes = house.served.app, RouteMap()

    def allow(self, scopes: list[Scope], method: str, path: str) -> bool:
        """Whether somebody with these scopes may call it."""
        scope: dict[str, Any] = {"type": "http", "app": self._app, "method": method, "path": path}
        access = access_to(self._routes.find(scope))
        assert access is not None, f"a page offers {method} {path}, which is no route"
        needed = access.who if isinstance(access.who, Scope) else DOORS[access.who]
        return needed is None or Caller("user", "", frozenset(scopes)).may(needed)


async def enter(browser: Browser, house: House, name: str, password: str, **looks: Any) -> Page:
    context = await browser.new_context(**looks)
    page = await context.new_page()
    await page.goto(f"{house.served.url}/login")
    await log_in(page, name, password)
    await expect(page).to_have_title("Dashboard · mediamill")
    return page


async def offers_of(page: Page, address: str, *, scripts: bool) -> set[tuple[str, str]]:
    sent = None
    if scripts:
        await page.goto(address)
    else:
        answer = await page.context.request.get(address, headers={"Accept": "text/html"})
        sent = await answer.text()
    offers = await page.evaluate(OFFERS, {"address": address, "sent": sent})
    assert offers, address
    return {(method, to) for method, to in offers}


@pytest.mark.parametrize(("name", "scripts"), [("reader", True), ("helper", False)])
async def test_every_page_offers_exactly_what_whoever_looks_may_do_and_an_admin_all(
    house: House, browser: Browser, name: str, scripts: bool
) -> None:
    rules, scopes = Rules(house), PEOPLE[name]
    theirs = await enter(browser, house, name, PASSWORD, java_script_enabled=scripts)
    admins = await enter(browser, house, "", SECRET, java_script_enabled=scripts)
    complaints = watch_console(theirs)
    refused, hidden, changes = [], [], set()
    for page, path in house.pages.items():
        everything = await offers_of(admins, house.served.url + path, scripts=scripts)
        changes |= {offer for offer in everything if offer[0] != "GET"}
        if not rules.allow(scopes, "GET", path.partition("?")[0]):
            continue
        offered = await offers_of(theirs, house.served.url + path, scripts=scripts)
        refused += [f"{page}: {how} {to}" for how, to in offered if not rules.allow(scopes, how, to)]
        hidden += [
            f"{page}: {how} {to}"
            for how, to in everything - offered
            if how != "GET" and rules.allow(scopes, how, to)
        ]
    assert not refused, "\n".join(sorted(refused))
    assert not hidden, "\n".join(sorted(hidden))
    assert [each for each in complaints if "404" not in each] == []
    assert all(rules.allow(list(EVERYTHING), *offer) for offer in changes)
    for_admins = [offer for offer in changes if not rules.allow(PEOPLE["helper"], *offer)]
    for_helpers = [offer for offer in changes if not rules.allow(PEOPLE["reader"], *offer)]
    assert len(for_helpers) > len(for_admins) > 20


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/pools/default", "Changing it needs the scope admin"),
        ("/projects/invoices", "Changing them needs the scope admin"),
        ("/workers", "Making a key here needs the scope worker"),
        ("/bots/anna/chat/reader", "Writing here needs the scope ingest"),
    ],
)
async def test_where_something_would_be_missed_the_page_says_why_it_is_not_offered(
    house: House, browser: Browser, path: str, why: str
) -> None:
    page = await enter(browser, house, "reader", PASSWORD, java_script_enabled=False)
    await page.goto(house.served.url + path)
    await expect(page.locator("main")).to_contain_text(why)
