"""Links that log a browser in: `mediamill up` and `mediamill open` sign one with the key in the data folder.

A link works once.
"""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mediamill.access.audit import note
from mediamill.access.model import HERE
from mediamill.access.sessions import SessionLimits, open_session
from mediamill.api.callers import address_of
from mediamill.api.plain_page import plain_page
from mediamill.api.sessions import give_cookie, session_secret
from mediamill.local_key import LINK_SECONDS, PassCheck, link_purpose
from mediamill.settings import Settings

router = APIRouter(include_in_schema=False)

SPENT = """<p class="notice bad" role="alert">This link has been used, or it has expired.</p>
<p>Run <code>mediamill open</code> on the server's machine for a new one, or <a href="/login">log in</a>.</p>"""


class Links:
    """Which links were used. Those of before this process are refused: they may have been used as well."""

    def __init__(self, settings: Settings) -> None:
        self._passes, self._purpose = PassCheck(settings.data_folder), link_purpose(settings.port)
        self._used: dict[str, float] = {}
        self.limits, self.session_secret = SessionLimits.of(settings), session_secret(settings)

    def use(self, link: str) -> bool:
        """Whether it is right, and nobody used it before."""
        if not self._passes.accepts(link, self._purpose, LINK_SECONDS) or link in self._used:
            return False
        now = time.monotonic()
        self._used = {used: at for used, at in self._used.items() if now - at <= LINK_SECONDS} | {link: now}
        return True


@router.get("/open")
async def open_pages(request: Request, link: str = "") -> Response:
    """A session for whoever has a link."""
    links: Links = request.app.state.links
    if not links.use(link):
        return plain_page("Link expired", SPENT, 401)
    address = address_of(request.scope)
    async with request.app.state.deps.database.transaction() as connection:
        await note(connection, HERE, "login", address=address)
        value = await open_session(
            connection,
            None,
            links.session_secret,
            limits=links.limits,
            address=address,
            agent=request.headers.get("user-agent", ""),
        )
    answer = RedirectResponse("/", 303)
    give_cookie(request, answer, value, links.limits.seconds)
    return answer
