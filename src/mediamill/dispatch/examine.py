"""A look at Redis for those who ask whether it will do: one try, and an error that says what to mend."""

from __future__ import annotations

from typing import Any

from mediamill.db.connection import Database
from mediamill.dispatch.link import FAILURES, Client, RedisAwayError, make_client, name_of
from mediamill.dispatch.streams import GROUP
from mediamill.dispatch.wording import say_fix, say_why
from mediamill.errors import InvalidError

OLDEST = (6, 2)


class RedisTooOldError(InvalidError):
    """This Redis is too old."""

    code = "redis_too_old"


async def examine_redis(url: str, database: Database | None) -> dict[str, Any]:
    """Its version and, if there is a database, whether somebody relays to it and what waits there."""
    client = make_client(url, 4)
    try:
        version = _check_version(await client.info("server"))
        return {"version": version, **(await _look(client, database) if database is not None else {})}
    except FAILURES as error:
        raise RedisAwayError(f"Redis: {say_why(error)}", fix=say_fix(error)) from error
    finally:
        await client.aclose()
        await client.connection_pool.disconnect()


def _check_version(server: dict[str, Any]) -> str:
    """Of Valkey its own; the other is that of the Redis that it is like."""
    version = str(server["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise RedisTooOldError(f"Redis is {version}, wanted is {wanted} or newer", fix="install a newer one")
    return f"Valkey {server['valkey_version']}" if "valkey_version" in server else f"Redis {version}"


async def _look(client: Client, database: Database) -> dict[str, Any]:
    name = await name_of(database)
    hints = taken = 0
    async for key in client.scan_iter(f"{name}:jobs:*", count=1000):
        hints += await client.xlen(key)
        for group in await client.xinfo_groups(key):
            taken += group["pending"] if group["name"] == GROUP else 0
    return {"relayed": await client.get(f"{name}:relay") is not None, "hints": hints, "taken": taken}
