"""The relay when its database goes: it waits for it, and the process around it lives on."""

from __future__ import annotations

import asyncio
from functools import partial

import asyncpg
import pytest

from mediamill.db.connection import Database
from mediamill.dispatch.choose import Dispatch
from mediamill.dispatch.relay import JOBS, Relay
from tests.conftest import admin_url, wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import until_flowing

__all__ = ["redis_server"]

SESSIONS = "from pg_stat_activity where application_name = 'mediamill relay' and datname = current_database()"


@pytest.mark.spec("E30")
async def test_what_was_heard_last_does_not_keep_the_process_busy_while_the_database_is_away(
    database: Database, redis_server: RedisServer, server_url: str
) -> None:
    dispatch = Dispatch("hybrid", redis_server.url)
    relay = Relay(dispatch.link, database)
    tasks = [asyncio.create_task(work) for work in (dispatch.link.keep(database), relay.run())]
    elsewhere = await asyncpg.connect(admin_url(server_url))

    async def relaying() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval(f"select count(*) = 1 {SESSIONS}"))

    async def passed_on() -> bool:
        return await relaying() and not relay._pools and not relay._stirred.is_set()

    try:
        await until_flowing(dispatch)
        async with database.connection() as connection:
            name = await connection.fetchval("select current_database()")
            await elsewhere.execute(f'alter database "{name}" allow_connections false')
            await connection.fetch(f"select pg_terminate_backend(pid) {SESSIONS}")
            # By this connection: if the relay had the only other one, no new one could be opened now.
            await wait_until(partial(connection.fetchval, f"select count(*) = 0 {SESSIONS}"))
        for _ in range(50):  # at one of them the relay knows that its session is gone
            relay._hear(JOBS, "default")
            await asyncio.sleep(0.02)
        await elsewhere.execute(f'alter database "{name}" allow_connections true')
        await wait_until(passed_on)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await dispatch.close()
        await elsewhere.close()
