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


async def faults_of(page: Page, impacts: tuple[str, ...] = GRAVE) -> list[str]:
    """One line for each element and each rule that it breaks."""
    await page.evaluate(_source())
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for rule in found["violations"]
        if rule["impact"] in impacts
        for node in rule["nodes"]
    ]
