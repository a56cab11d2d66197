"""Who was recognised and asked for more than they may: in the audit log, each route once in a while.

Bounded in memory, as wrong tries are: a token that hammers costs no write for each request, and cannot fill the log.
"""

from __future__ import annotations

from contextlib import suppress

from mediamill.access.audit import note
from mediamill.access.limits import Buckets
from mediamill.access.model import Caller, Scope
from mediamill.db.connection import LOST, Database

ACTION = "scope.missing"
SECONDS = 3600.0
MOST_ROUTES = 20  # of one caller at once, and as many again in that time


class Refusals:
    """One for each server process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_route = Buckets(1, SECONDS)
        self._by_caller = Buckets(MOST_ROUTES, SECONDS)

    async def note(self, caller: Caller, route: str, wanted: Scope, address: str | None) -> None:
        """`route` as it was declared: what stands in an address may be a secret, and there is no end of addresses.

        The refusal stands, whether it can be noted or not.
        """
        who = (caller.kind, caller.id, caller.name)
        if self._by_route.wait_seconds((who, route)) or self._by_caller.wait_seconds(who):
            return
        self._by_route.take((who, route))
        self._by_caller.take(who)
        with suppress(*LOST):
            async with self._database.connection() as connection:
                await note(
                    connection, caller, ACTION, f"{route} needs {wanted}", address=address, outcome="403"
                )
