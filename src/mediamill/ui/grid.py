"""The page of one library: its newest assets, and stretches of months for a script that scrolls through all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from mediamill.db.connection import Connection, Database
from mediamill.libraries.browse import list_stretch
from mediamill.libraries.model import STATUSES, TYPES
from mediamill.libraries.timeline import timeline
from mediamill.ui.library_desk import GROUPS, LibraryDesk
from mediamill.ui.rendering import Renderer

STRETCH = 100
MONTH = "%B %Y"
Skip = Annotated[int, Query(ge=0, le=100_000_000)]
Text = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True, slots=True)
class Filter:
    """What the reader wants to see. Empty: all."""

    type: str = ""
    status: str = ""

    @classmethod
    def of(cls, type_: str, status: str) -> Filter:
        """What makes sense of it."""
        return cls(type_ if type_ in TYPES else "", status if status in GROUPS else "")

    def query(self, **more: Any) -> str:
        """As the end of an address."""
        given = {"type": self.type, "status": self.status, **more}
        return urlencode({name: value for name, value in given.items() if value})

    @property
    def narrows(self) -> bool:
        """Whether anything may be left out."""
        return bool(self.type or self.status)

    def wish(self) -> dict[str, Any]:
        """As the verbs want it."""
        return {
            "types": (self.type,) if self.type else TYPES,
            "statuses": GROUPS[self.status] if self.status else STATUSES,
        }


def add_grid_page(router: APIRouter, renderer: Renderer, database: Database, desk: LibraryDesk) -> None:
    """Its routes."""
    page = _GridPage(renderer, database, desk)
    router.get("/libraries/{slug}")(page.show)
    router.get("/libraries/{slug}/cells")(page.cells)


class _GridPage:
    def __init__(self, renderer: Renderer, database: Database, desk: LibraryDesk) -> None:
        self._renderer, self._database, self._desk = renderer, database, desk

    async def show(
        self, slug: str, type: Text = "", status: Text = "", after: Text = "", part: str | None = None
    ) -> HTMLResponse:
        """The newest, or those after a place, by month; `part`: only what changes while it is worked on."""
        wanted = Filter.of(type, status)
        library = await self._desk.find(slug)
        if part:
            return self._renderer.page("libraries/progress.html", library=library)
        async with self._database.transaction() as connection:
            found = await list_stretch(connection, slug, after=after or None, amount=STRETCH, **wanted.wish())
            months = await _months(connection, slug, wanted)
        return self._renderer.page(
            "libraries/one.html",
            library=library,
            months=_by_month(found["assets"]),
            older=found["last"] if found["more"] else None,
            after=after,
            timeline=months,
            wanted=wanted,
            groups=list(GROUPS),
            stretch=STRETCH,
        )

    async def cells(
        self, slug: str, month: Text, after: Text = "", skip: Skip = 0, type: Text = "", status: Text = ""
    ) -> HTMLResponse:
        """A stretch of a month, as cells of the grid."""
        wish = Filter.of(type, status).wish()
        async with self._database.connection() as connection:
            found = await list_stretch(
                connection, slug, month=month, after=after or None, skip=skip, amount=STRETCH, **wish
            )
        return self._renderer.page("libraries/cells.html", **found)


async def _months(connection: Connection, slug: str, wanted: Filter) -> list[list[Any]]:
    """Each month with its count, newest first."""
    counted = await timeline(connection, slug, **wanted.wish())
    return [[each["month"], each["count"]] for each in counted]


def _by_month(assets: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    by_month = groupby(assets, lambda asset: asset["shown_at"].strftime(MONTH))
    return [(month, list(group)) for month, group in by_month]
