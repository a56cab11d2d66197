"""Templates made into answers, and errors into a page that says sorry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

import asyncpg
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from mediamill.access.model import Scope, current_caller
from mediamill.db.connection import LOST
from mediamill.errors import ConflictError, InvalidError, MediamillError, NotFoundError, TooManyError
from mediamill.ui.attention import needs_attention
from mediamill.ui.figures import MOST_WORKERS, depth
from mediamill.ui.navigation import MENU
from mediamill.ui.static_files import static_address
from mediamill.ui.words import FILTERS, PRIORITIES, share

log = logging.getLogger(__name__)

# A text that cannot be in the database cannot be found there either.
UNSTORABLE = (asyncpg.DataError, UnicodeEncodeError)
STATUSES: tuple[tuple[type[MediamillError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (InvalidError, 422),
    (TooManyError, 429),
)


class Renderer:
    """One for all pages."""

    def __init__(self) -> None:
        self._templates = make_templates()

    def page(self, name: str, status_code: int = 200, **given: Any) -> HTMLResponse:
        """A template as an answer."""
        return HTMLResponse(self._templates.get_template(name).render(**given), status_code)

    def sorry(self, status_code: int, message: str) -> HTMLResponse:
        """What went wrong, in the reader's words."""
        heading = "Not found" if status_code == 404 else "Sorry"
        return self.page("sorry.html", status_code, heading=heading, message=message)

    def route_class(self) -> type[APIRoute]:
        """Routes whose errors are told by a page; a script that asks for JSON gets the API's problems instead."""
        sorry = self.sorry

        class PageRoute(APIRoute):
            def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
                handle = super().get_route_handler()

                async def handle_kindly(request: Request) -> Response:
                    try:
                        return await handle(request)
                    except (MediamillError, RequestValidationError, *UNSTORABLE, *LOST) as error:
                        if "text/html" not in request.headers.get("accept", "text/html"):
                            raise
                        return sorry(*_told(error))

                return handle_kindly

        return PageRoute


def status_of(error: MediamillError) -> int:
    """The HTTP status of a page that tells this error."""
    return next((status for family, status in STATUSES if isinstance(error, family)), 503)


def _told(error: BaseException) -> tuple[int, str]:
    if isinstance(error, MediamillError):
        return status_of(error), error.message
    if isinstance(error, RequestValidationError | asyncpg.DataError | UnicodeEncodeError):
        return 422, "this address is not a good one"
    log.debug("a page cannot reach the database: %s", error)
    return 503, "the database is away; nothing is lost, try again in a moment"


def may(scope: str) -> bool:
    """Whether whoever looks at the page may do this."""
    caller = current_caller()
    return caller is None or caller.may(Scope(scope))


@cache
def make_templates() -> Environment:
    """One for the process. What is put into a page is escaped, and a name that is missing is an error."""
    templates = Environment(
        loader=PackageLoader("mediamill.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(FILTERS)
    templates.globals.update(current_caller=current_caller, may=may)
    templates.globals.update(share=share, depth=depth, priorities=PRIORITIES, most_workers=MOST_WORKERS)
    templates.globals.update(menu=MENU, needs_attention=needs_attention, static=static_address)
    return templates
