"""What axe-core finds wrong with a page, for people who cannot see it or use no mouse."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Page

SOURCE = Path(__file__).parents[2] / ".tools" / "js" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
# axe passes over whatever is folded away; but it measures each element there to find out that nobody sees it, which is
# most of its work on a long page. So it is not there while axe looks.
LOOK = """async (options) => {
    const folded = [];
    for (const closed of document.querySelectorAll('details:not([open])')) {
        for (const part of [...closed.children]) {
            if (part.matches('summary')) continue;
            const place = document.createComment('');
            part.replaceWith(place);
            folded.push([place, part]);
        }
    }
    try {
        return (await axe.run(document, options)).violations;
    } finally {
        for (const [place, part] of folded.reverse()) place.replaceWith(part);
    }
}"""
# A page has few colours, and axe asks a slow library for the parts of each of them thousands of times.
COLOURS = """{
    const {prototype} = axe.commons.color.Color, parse = prototype.parseString, known = new Map();
    prototype.parseString = function (text) {
        if (!known.has(text)) {
            const {r, g, b, alpha} = parse.call(this, text);
            known.set(text, {r, g, b, alpha});
        }
        return Object.assign(this, known.get(text));
    };
}"""


@cache
def _source() -> str:
    assert SOURCE.exists(), "no axe-core; make .tools/.stamp-js fetches it"
    return f"{SOURCE.read_text()}\n{COLOURS}\nundefined"


async def faults_of(page: Page, *, only_contrast: bool = False) -> list[str]:
    """One line for each element and each rule that it breaks."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_source())
    options = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if only_contrast else {})
    found: list[dict[str, Any]] = await page.evaluate(LOOK, options)
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]
