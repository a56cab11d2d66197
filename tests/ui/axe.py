"""What axe-core finds wrong with a page, for people who cannot see it or use no mouse."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Page

SOURCE = Path(__file__).parents[2] / ".tools" / "js" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")


@cache
def _source() -> str:
    assert SOURCE.exists(), "no axe-core; make .tools/.stamp-js fetches it"
    return SOURCE.read_text()


async def faults_of(page: Page, *, only_contrast: bool = False) -> list[str]:
    """One line for each element and each rule that it breaks."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_source())
    options = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if only_contrast else {})
    found: dict[str, Any] = await page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for rule in found["violations"]
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]
