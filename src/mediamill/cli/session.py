"""Opens the app for the length of one command, and runs a coroutine with it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mediamill.cli.auditing import noted
from mediamill.cli.terminal import console, warn

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Database
    from mediamill.settings import Settings

T = TypeVar("T")

# Long enough for a server that restarts, short enough for somebody who waits at a prompt.
WAIT_SECONDS = 5.0


def run(story: Callable[[App], Awaitable[T]]) -> T:
    """Run a coroutine function with the app; the embedded database is started for it if need be."""
    import asyncio

    return asyncio.run(_run(story))


async def _run(story: Callable[[App], Awaitable[T]]) -> T:
    from mediamill.settings import Settings

    settings = Settings()
    async with opened(settings) as app, noted(app.database):
        return await story(app)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[App]:
    """The app, with a sign on the terminal while the database is being started."""
    with _warnings(), contextlib.ExitStack() as waiting:
        waiting.enter_context(_spinner(settings))
        from mediamill.app import open_app

        async with open_app(settings, name="mediamill command", wait_seconds=WAIT_SECONDS) as app:
            waiting.close()
            yield app


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """Only the database, as it is: nothing is migrated. For looking at what may be broken."""
    with _warnings(), contextlib.ExitStack() as waiting:
        waiting.enter_context(_spinner(settings))
        from mediamill.app import database_url, pooler_url
        from mediamill.db.connection import Database

        async with database_url(settings) as url:
            database = await Database.open(
                url,
                pooler_url=pooler_url(settings),
                connections=2,
                name="mediamill check",
                wait_seconds=WAIT_SECONDS,
            )
            waiting.close()
            try:
                yield database
            finally:
                await database.close()


def _spinner(settings: Settings) -> AbstractContextManager[Any]:
    from mediamill.db.embedded import postmaster_pid

    screen = console(stderr=True)
    if settings.database_url is not None or not screen.is_terminal or postmaster_pid(settings.data_folder):
        return contextlib.nullcontext()
    return screen.status("starting the embedded database …")


@contextlib.contextmanager
def _warnings() -> Any:
    """Warnings of the code below go to stderr as one line each, without tracebacks."""
    handler = _Lines(logging.WARNING)
    logger = logging.getLogger("mediamill")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage(), style="yellow")
