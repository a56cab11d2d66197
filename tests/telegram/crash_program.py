"""A bot on Telegram in a process that kills itself with -9 at a named point: a statement, a commit, a call of Telegram.

`python -m tests.telegram.crash_program` reads lines of [url, folder, address of Telegram, point], as chat_program does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mediamill.app import App, all_kinds, make_keeper
from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.pools import list_pools
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import run_chore
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Finish, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.providers.telegram import consume, failures, poll
from mediamill.providers.telegram.api import BotApi
from mediamill.settings import Settings
from mediamill.testing.telegram_server import TelegramServer
from tests.crash.chat_program import die_at, hit
from tests.telegram.grounds import png

TAKEN = "create table taken (text text, images bytea[])"  # what the agent was given
# The agent: takes a run with its images and answers it, in one transaction.
PLAY = """
    with due as (
        select run_id, text from runs where state = 'queued' and start_after <= now() order by sequence limit 1
    ), noted as (
        insert into taken select text, array(select i.image_bytes from input_images i where i.run_id = due.run_id
            order by i.position, i.input_image_id) from due
    ), gone as (
        delete from input_images where run_id in (select run_id from due)
    )
    update runs set state = 'completed', tries = 1, answer = 'answer to ' || text, ended_at = now()
    where run_id in (select run_id from due) returning pg_notify('mediamill_runs', run_id::text)
"""
DONE = """
    select (select count(*) = 8 from telegram_updates where state = 'done')
        and (select count(*) = 4 from replies where state = 'sent')
        and not exists (select from arrivals where state <> 'stored')
        and not exists (select from telegram_acks where state <> 'told')
"""


def write_all(telegram: TelegramServer) -> None:
    """Eight updates of every sort."""
    telegram.say("/start")
    telegram.say("one")
    telegram.send_album([png(1), png(2)])
    telegram.say("two")
    telegram.send_file("voice", b"the sound")
    telegram.send_photo(png(3), caption="three")
    telegram.send_photo(png(4))


async def live(url: str, folder: Path, telegram_url: str, *, until_done: bool = True) -> None:
    """Until every update is taken and every message answered; or until it is killed, however soon that is done."""
    consume.LOOK_SECONDS, poll.FIRST_PAUSE_SECONDS, failures.FIRST_PAUSE_SECONDS = 0.05, 0.05, 0.05
    setattr(poll, "POLL_SECONDS", 0.2)  # noqa: B010 - a whole number elsewhere
    database = await Database.open(url, connections=12)
    settings = Settings(data=folder, ingest_seconds=0.02, telegram_url=telegram_url)
    app = App.of(settings, database, Engine.from_settings(settings, all_kinds(settings)))
    keeper = make_keeper(app)
    await app.run_watch.start()
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(60):
            await _work(app, until_done)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await app.run_watch.close()
        await database.close()


async def _work(app: App, until_done: bool) -> None:
    """The worker's part and the agent's; what a dead worker held is free again."""
    async with app.database.connection() as connection:
        await connection.execute(
            "update jobs set lease_expires_at = now() - interval '1 hour' where state = 'running'"
        )
        claimer = Claimer(await register_worker(connection, name="w"), "w", app.engine.kinds)
        pools = await list_pools(connection)
    await run_chore(app.database, app.engine, release_expired)
    while True:
        async with app.database.connection() as connection:
            jobs = [job for pool in pools for job in await claimer.claim_jobs(connection, pool, 10)]
            await connection.fetch(PLAY)
        for job in jobs:
            await finish_jobs(app.database, app.engine, job.worker_id, [Finish(job, '{"content": "words"}')])
        async with app.database.connection() as connection:
            if until_done and await connection.fetchval(DONE):
                return
        await asyncio.sleep(0.01)


def watch_calls() -> None:
    """Every call of Telegram is a point too."""
    original = BotApi.call

    async def watched(api: BotApi, method: str, **given: Any) -> Any:
        hit(f"{method}/before")
        result = await original(api, method, **given)
        hit(f"{method}/after")
        return result

    setattr(BotApi, "call", watched)  # noqa: B010 - mypy does not like a method replaced


def run_child(url: str, folder: str, telegram_url: str, point: str) -> int:
    """A life until its end; the exit code."""
    pid = os.fork()
    if pid == 0:
        die_at(point)
        watch_calls()
        asyncio.run(live(url, Path(folder), telegram_url, until_done=False))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_child(*json.loads(line)), flush=True)
