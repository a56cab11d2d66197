"""A browser, a server, and bots that run on it.

A browser takes longer to start than most tests take, and lives on the event loop that started it: all tests of this
folder share both. Each has pages of its own and leaves nothing running. Whatever changes something has a server and a
database of its own, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from mediamill.db.connection import Database
from tests.api.serving import Served
from tests.conftest import fresh_url, open_database
from tests.files_of_a_run import common_folder
from tests.ui.browser import open_browser
from tests.ui.filming import films
from tests.ui.talking import Talking
from tests.ui.touring import serve_all

HERE = Path(__file__).parent
on_the_shared_loop = pytest_asyncio.fixture(loop_scope="session")
shared_by_a_module = pytest_asyncio.fixture(scope="module", loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The hook is told of all tests of the run."""
    for item in items:
        is_async = isinstance(item, pytest.Function) and iscoroutinefunction(item.function)
        if is_async and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def nothing_goes_on() -> AsyncIterator[None]:
    """What a test began and did not end ends with it, as it would with a loop of its own."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture(scope="session", autouse=True)
def films_are_shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Encoding one takes seconds, in each process that would do it."""
    films[:] = [common_folder(tmp_path_factory)]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running_browser() -> AsyncIterator[Browser]:
    """The system's browser."""
    async with open_browser() as browser:
        yield browser


@on_the_shared_loop
async def browser(running_browser: Browser) -> AsyncIterator[Browser]:
    """It knows nothing of the test before."""
    yield running_browser
    for context in running_browser.contexts:
        await context.close()


@on_the_shared_loop
async def new_url(server_url: str, template_url: str) -> AsyncIterator[str]:
    """The address of a fresh, migrated database."""
    async with fresh_url(server_url) as url:
        yield url


@on_the_shared_loop
async def database(new_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated database."""
    async with open_database(new_url) as opened:
        yield opened


@on_the_shared_loop
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server on a fresh database."""
    async with serve_all(database, tmp_path / "data") as served:
        yield served


@shared_by_a_module
async def shared(
    server_url: str, template_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """A server for tests that change nothing; a fixture of their module puts there what they look at."""
    data = tmp_path_factory.mktemp("shared") / "data"
    async with (
        fresh_url(server_url) as url,
        open_database(url) as database,
        serve_all(database, data) as served,
    ):
        yield served


@on_the_shared_loop
async def talking(served: Served) -> AsyncIterator[Talking]:
    """A server that runs bots, and somebody who plays people and workers."""
    keeping = asyncio.create_task(served.keeper.run())
    yield Talking(served)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
