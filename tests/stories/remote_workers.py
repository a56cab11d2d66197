"""A server, and workers on machines of their own."""

from __future__ import annotations

import json

from tests.crash.processes import Mill, Process

SECRET = "known to the server and to whoever may register"
QUICK = {
    "MEDIAMILL_ADMIN_SECRET": SECRET,
    "MEDIAMILL_OFFLINE_AFTER_SECONDS": "3",
    "MEDIAMILL_SWEEP_SECONDS": "1",
    "MEDIAMILL_STARTUP_GRACE_SECONDS": "0",
}


async def serve(mill: Mill) -> str:
    """A server without workers of its own; its address."""
    mill.settings |= QUICK
    process = await mill.started("up", "--workers", 0)
    await mill.one("update pools set concurrency = 1 where name = 'scripted'")
    return next(line for line in process.said.splitlines() if "is up: " in line).split("is up: ")[1].strip()


async def place(mill: Mill, name: str, url: str, inside: tuple[str, ...] = (), **more: str) -> Mill:
    """For a worker with a folder of its own, no database, and a key from the server's command line."""
    code, said = await mill.say("workers", "register", name, "--json")
    assert code == 0, said
    folder = mill.folder / name
    folder.mkdir()
    settings = {"MEDIAMILL_SERVER": url, "MEDIAMILL_WORKER_KEY": json.loads(said)["key"], **more}
    return Mill(folder, settings=settings, inside=inside)


async def far(
    mill: Mill, name: str, url: str, inside: tuple[str, ...] = (), **more: str
) -> tuple[Mill, Process]:
    """The worker there, ready for work."""
    away = await place(mill, name, url, inside, **more)
    mill.processes.append(process := await away.started("worker"))
    return away, process


async def let_leases_end(mill: Mill, name: str) -> None:
    """Of a dead worker, once its silence was noticed. Those of the living are long: one may be held up for a while."""
    await mill.until("select state = 'offline' from workers where name = $1", name)
    await mill.one(
        "update jobs set lease_expires_at = now() where state = 'running' and worker_name = $1", name
    )
