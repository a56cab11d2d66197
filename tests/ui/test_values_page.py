"""The values of a project as a table: sorted by any column, with the export beside it."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from mediamill.intake.proposals import accept_all
from tests.api.serving import Served
from tests.intake.played import Ground, found
from tests.ui.browser import follow, shoot, watch_console
from tests.ui.papering import FIELDS


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


@pytest.mark.spec("P11")
async def test_accepted_values_are_a_table_sorted_by_any_column_with_the_export_beside_it(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    for number, total in (("A-2", "1404.50"), ("<b>A-1</b>", "99.00"), ("A-3", "250")):
        values = [found("invoice_number", number), found("total", total, unit="EUR")]
        await ground.done(content=number.encode(), fields=values)
    await ground.done(content=b"waits", fields=[found("invoice_number", "later")])
    async with served.database.transaction() as connection:
        await accept_all(connection, "invoices", minimum_confidence=0.5)
    late = await ground.done(content=b"late", fields=[found("invoice_number", "A-9"), found("total", "7")])
    page = await browser.new_page()
    complaints = watch_console(page)
    await page.goto(f"{served.url}/projects/invoices")
    await follow(page.get_by_role("link", name="Table of values"))
    totals = page.locator("tbody td.number")
    await expect(totals).to_have_text(["1404.50 EUR", "99.00 EUR", "250 EUR", ""])
    await follow(page.get_by_role("link", name="Total due"))
    await expect(totals).to_have_text(["99.00 EUR", "250 EUR", "1404.50 EUR", ""])
    await expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Total due")
    await shoot(page, "project-values")
    await follow(page.get_by_role("link", name="Total due"))
    await expect(totals).to_have_text(["1404.50 EUR", "250 EUR", "99.00 EUR", ""])
    await expect(page.locator("th[aria-sort=descending]")).to_contain_text("Total due")
    await expect(page.locator("tbody")).to_contain_text("<b>A-1</b>")
    await follow(page.get_by_role("link", name="With what waits"))
    await expect(totals.last).to_have_text("")
    await expect(page.locator("tbody")).to_contain_text("A-9")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="CSV").click()
    path = await (await download.value).path()
    assert "A-9" in path.read_text()
    await follow(page.locator(f"tbody a[href$='/files/{late}']"))
    assert complaints == []
