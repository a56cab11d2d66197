"""Lists that come in pages: as much as was asked for, and where to go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer

from mediamill.cli.terminal import print_json, print_table, warn

PAGE = 500

Amount = Annotated[int, typer.Option(min=1, max=100_000, help="Show at most so many.")]
After = Annotated[
    str | None, typer.Option(metavar="PLACE", help="Go on from there, as the page before says.")
]
Page = dict[str, Any]


async def read_pages(
    noun: str, read: Callable[[str | None, int], Awaitable[Page]], after: str | None, amount: int
) -> Page:
    """Page by page: `read` is given a place and how many; what it gives has them under `noun`, and the `next` place."""
    found: list[Any] = []
    while True:
        page = await read(after, min(PAGE, amount - len(found)))
        found += page[noun]
        after = page["next"]
        if after is None or len(found) >= amount:
            return {noun: found, "next": after}


def print_pages(
    told: Page, columns: Sequence[str], row: Callable[[Any], Sequence[Any]], none: str, *, json: bool
) -> None:
    """What `read_pages` gave, as a table or as JSON."""
    if json:
        print_json(told)
        return
    [rows] = (rows for noun, rows in told.items() if noun != "next")
    print_table(columns, [row(each) for each in rows], none)
    if told["next"]:
        warn(f"there is more: add --after {told['next']}", style="dim")
