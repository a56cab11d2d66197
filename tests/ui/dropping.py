"""Things that are dropped on a page: real folders by the browser's own protocol, or made by a script."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page, expect

FOLDER_WITH_FAULTS = """() => {
    const refuse = (give, reject) => reject(new DOMException("no", "NotReadableError"));
    const file = (name) => ({
        name, fullPath: `/papers/${name}`, isFile: true, file: (give) => give(new File([name], name)) });
    const folder = (name, fullPath, readEntries) => ({
        name, fullPath, isDirectory: true, createReader: () => ({ readEntries }) });
    const locked = { ...file("locked.txt"), file: refuse };
    const listings = [[file("a.txt"), locked, folder("closed", "/papers/closed", refuse)], [file("z.txt")], []];
    const papers = folder("papers", "/papers", (give) => give(listings.shift()));
    const item = { kind: "file", webkitGetAsEntry: () => papers, getAsFile: () => null };
    const event = new Event("drop", { bubbles: true, cancelable: true });
    event.dataTransfer = { types: ["Files"], items: [item], files: [] };
    document.body.dispatchEvent(event);
}"""


async def drop_paths(page: Page, *paths: Path) -> None:
    """As a person drags them from a file manager into the middle of the window."""
    size = page.viewport_size
    assert size is not None
    carried = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    where = {"x": size["width"] // 2, "y": size["height"] // 2, "data": carried}
    session = await page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver"):
        await session.send("Input.dispatchDragEvent", {"type": kind, **where})
    await expect(page.locator(".dropzone")).to_be_visible()
    await session.send("Input.dispatchDragEvent", {"type": "drop", **where})
    await expect(page.locator(".dropzone")).to_be_hidden()
    await session.detach()


async def drop_a_folder_with_faults(page: Page) -> None:
    """As a failing disk gives it, `papers` with `a.txt`, `z.txt`, `locked.txt` and `closed` that cannot be read."""
    await page.evaluate(FOLDER_WITH_FAULTS)
