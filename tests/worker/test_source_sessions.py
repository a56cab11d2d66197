"""A connection of one's own: kept while it is good, made anew after a failure."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from mediamill.worker.source import _Session


class Played:
    """In the place of a connection."""

    def __init__(self, number: int) -> None:
        self.number, self.closed = number, False

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True


class Made(list[Any]):
    async def connect(self) -> Any:
        self.append(Played(len(self) + 1))
        return self[-1]


async def test_a_session_uses_one_connection_until_it_fails() -> None:
    made = Made()
    session = _Session(made.connect)

    async def number(connection: Any) -> int:
        assert not connection.closed
        return int(connection.number)

    assert made == []
    assert [await session.use(number) for _ in range(3)] == [1, 1, 1]
    made[0].closed = True  # by the server
    assert await session.use(number) == 2
    for error in (OSError("lost"), asyncpg.ConnectionDoesNotExistError("lost"), asyncio.CancelledError()):

        async def fail(_connection: Any, error: BaseException = error) -> int:
            raise error

        before = len(made)
        with pytest.raises(type(error)):
            await session.use(fail)
        assert made[-1].closed
        assert await session.use(number) == before + 1

    async def refuse(_connection: Any) -> int:
        raise ValueError("no fault of the connection")

    with pytest.raises(ValueError, match="no fault"):
        await session.use(refuse)
    assert await session.use(number) == len(made)
    await session.close()
    assert all(one.closed for one in made)
    await session.close()


async def test_one_call_waits_for_the_other() -> None:
    made = Made()
    session, began, let_go = _Session(made.connect), asyncio.Event(), asyncio.Event()

    async def hold(_connection: Any) -> None:
        began.set()
        await let_go.wait()

    async def note(_connection: Any) -> bool:
        return let_go.is_set()

    holding = asyncio.create_task(session.use(hold))
    await began.wait()
    noting = asyncio.create_task(session.use(note))
    await asyncio.sleep(0)
    let_go.set()
    assert await noting
    await holding
    await session.close()
