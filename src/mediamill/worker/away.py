"""The other side of a worker is away: what that looks like, whether it is the database or a server."""

from __future__ import annotations

from asyncpg import TransactionRollbackError

from mediamill.db.connection import LOST
from mediamill.errors import UnavailableError


class AwayError(UnavailableError):
    """The server does not answer now."""

    code = "server_away"


class RefusedError(AwayError):
    """The server does not take this worker.

    To a lane that is as if the server were away: it waits. The worker is told of it by whoever found out, and ends.
    """

    code = "worker_refused"


# Away, or two of us met on the same rows: to be tried again.
AWAY = (*LOST, TransactionRollbackError, AwayError)
