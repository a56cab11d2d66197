"""The four looks in which pages are checked and photographed: light and dark, in a wide window and on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from playwright.async_api import Page, TimeoutError

from tests.ui.axe import faults_of
from tests.ui.browser import shoot


@dataclass(frozen=True, slots=True)
class Look:
    """A colour scheme and a size of the window."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int

    @property
    def is_phone(self) -> bool:
        """Whether it is the narrow one."""
        return self.name.startswith("phone")


DESKTOP = (Look("light", "light", 1280, 900), Look("dark", "dark", 1280, 900))
SETTLE_MS = 5_000
PHONE = (Look("phone", "light", 390, 844), Look("phone-dark", "dark", 390, 844))


async def turn_to(page: Page, look: Look) -> None:
    """Without loading the page again."""
    await page.set_viewport_size({"width": look.width, "height": look.height})
    await page.emulate_media(color_scheme=look.scheme)


async def fits(page: Page, width: int) -> bool:
    """A long page takes a moment to be laid out again."""
    narrow = "width => document.documentElement.scrollWidth <= width"
    try:
        if not await page.evaluate(narrow, width):  # waiting asks at every frame, and draws them
            await page.wait_for_function(narrow, arg=width, timeout=SETTLE_MS)
    except TimeoutError:
        return False
    return True


async def find_faults(
    page: Page,
    shot: str,
    looks: Sequence[Look] = DESKTOP + PHONE,
    *,
    full_page: Literal["never", "always", "phone"] = "always",
) -> list[str]:
    """Shows the page in these looks; what is wider than the window or bars people. `shoot` may take each of them.

    Dark pages are only asked for the contrast of their colours: all else was asked while they were light.
    """
    faults = []
    for look in looks:
        await turn_to(page, look)
        if not await fits(page, look.width):
            found = await page.evaluate("document.documentElement.scrollWidth")
            faults.append(f"{shot}-{look.name}: {found} pixels wide, in a window of {look.width}")
        bars = await faults_of(page, only_contrast=look.scheme == "dark")
        faults += [f"{shot}-{look.name}: {fault}" for fault in bars]
        whole = full_page == "always" or (full_page == "phone" and look.is_phone)
        await shoot(page, f"{shot}-{look.name}", full_page=whole)
    return faults
