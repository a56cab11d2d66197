"""Bots start, stop, change and move between processes; their media wait for them and come back once."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.conversations import bots
from mediamill.conversations import keeper as keeping
from mediamill.conversations.bot_queues import QueuesClosedError
from mediamill.conversations.bots import BotConfig
from mediamill.conversations.configuration import QUOTA, set_value
from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.conversations.provider import ProviderFactory
from mediamill.db.connection import Database
from mediamill.errors import ConflictError
from tests.conftest import wait_until
from tests.conversations.conftest import OPEN, Ground, Line, say, send_media
from tests.conversations.queues import manager, placeholders, queues_of
from tests.conversations.wire import Wire, open_wire

STATES = "select subject_id, state from jobs order by subject_id"

# The locks of a server are those of all its databases.
OUR_LOCKS = (
    "locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"
)


@pytest.mark.spec("C22", "C23", "E11", "E12")
async def test_a_result_that_comes_while_the_bot_is_stopped_waits_on_its_job(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1", caption="c")
    jobs = await ground.claim()
    assert await ground.stop() == 0  # what runs is not held
    await keeper.keep_once()
    with pytest.raises(BotNotRunningError):
        keeper.get("bot")
    await ground.finish(*jobs, text="text")
    for _ in range(2):
        await keeper.deliver_once()
    assert await ground.rows("select state, result ->> 'content' from jobs") == [("completed", "text")]
    assert await ground.rows("select state from arrivals") == [("placeholder",)]
    await ground.start()
    await keeper.keep_once()
    assert placeholders(queues_of(keeper)) == ["guid-1"]
    for _ in range(2):
        await keeper.deliver_once()
    await ground.until_stored("c\n\ntext")
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C22", "E11")
async def test_the_result_is_kept_before_it_is_delivered(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    await ground.finish(*await ground.claim(), text="text")
    assert await ground.rows("select state, result ->> 'content' from jobs") == [("completed", "text")]
    assert placeholders(queues) == ["guid-1"]
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        row = (await ground.rows("select state, message ->> 'content' from arrivals"))[0]
        seen.append((str(row[0]), str(row[1])))

    looking: list[asyncio.Task[None]] = []
    queues.register_callback(lambda *_: looking.append(asyncio.create_task(look())))
    await keeper.deliver_once()
    await asyncio.gather(*looking)
    assert seen in ([("ready", "text")], [("stored", "None")])
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C22")
async def test_a_result_without_a_placeholder_is_logged_and_its_job_is_gone(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    await ground.finish(*await ground.claim(), text="text")
    await ground.one("delete from arrivals")
    await keeper.deliver_once()
    assert "no placeholder for GUID guid-1" in caplog.text
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C23", "C9", "E12")
async def test_a_bot_that_starts_takes_back_placeholders_of_jobs_in_every_state(ground: Ground) -> None:
    keeper, queues = await ground.run()
    heard: list[str] = []
    await send_media(queues, "g-completed")
    [completed] = await ground.claim()
    await send_media(queues, "g-running")
    await ground.claim()
    await send_media(queues, "g-queued")
    await send_media(queues, "g-scheduled")
    await ground.one(
        "update jobs set state = 'scheduled', run_after = now() + '1 hour' where subject_id = 'g-scheduled'"
    )
    assert await ground.stop() == 2
    await keeper.keep_once()
    await ground.finish(completed, text="text")
    await send_late(ground, "g-late")
    assert await ground.rows(STATES) == [
        ("g-completed", "completed"),
        ("g-late", "held"),
        ("g-queued", "held"),
        ("g-running", "running"),
        ("g-scheduled", "held"),
    ]
    assert await ground.claim() == []
    await ground.start()
    other = ground.keeper()
    await other.keep_once()
    queues = queues_of(other)
    queues.register_callback(lambda _, message: heard.append(message.content))
    assert sorted(map(str, placeholders(queues))) == [
        "g-completed",
        "g-late",
        "g-queued",
        "g-running",
        "g-scheduled",
    ]
    message = await say(queues, "new")
    assert message is not None
    assert message.id == 6
    await asyncio.gather(*(other.deliver_once() for _ in range(5)))
    assert sorted(heard) == ["new", "text"]
    assert await ground.rows(STATES) == [
        ("g-late", "queued"),
        ("g-queued", "queued"),
        ("g-running", "running"),
        ("g-scheduled", "scheduled"),
    ]


async def send_late(ground: Ground, guid: str) -> None:
    """A message of the provider's last moments: recorded while the bot is already held."""
    await send_media(manager(ground), guid)


@pytest.mark.spec("C23", "E12")
async def test_stop_and_start_before_anybody_looked_is_a_restart(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    assert await ground.stop() == 1
    await ground.start()
    assert await ground.rows(STATES) == [("guid-1", "held")]
    await keeper.keep_once()
    assert queues_of(keeper) is not queues
    assert await ground.rows(STATES) == [("guid-1", "queued")]
    assert placeholders(queues_of(keeper)) == ["guid-1"]
    with pytest.raises(QueuesClosedError):
        await say(queues, "too late")


@pytest.mark.spec("C23", "E12")
async def test_of_a_start_and_a_stop_at_the_same_time_the_stop_has_the_last_word(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    await ground.stop()
    await keeper.keep_once()
    await ground.start()
    async with ground.database.transaction() as blocker:
        await blocker.execute("lock table arrivals in access exclusive mode")
        starting = asyncio.create_task(keeper.keep_once())
        await ground.until_row(
            "select exists (select from pg_locks where relation = 'arrivals'::regclass and not granted)"
        )
        stopping = asyncio.create_task(ground.stop())
        await ground.until_row(
            "select not running from bots union all select exists (select from pg_locks where not granted "
            "and locktype = 'transactionid') order by 1 desc limit 1"
        )
    await asyncio.gather(starting, stopping)
    await keeper.keep_once()
    assert await ground.rows(STATES) == [("guid-1", "held")]
    assert await ground.one("select count(*) from held_owners") == 1


@pytest.mark.spec("C23")
async def test_a_changed_configuration_restarts_the_bot_with_it(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    await keeper.keep_once()
    assert queues_of(keeper) is queues  # nothing has changed
    async with ground.database.transaction() as connection:
        await bots.change_bot(
            connection,
            "bot",
            BotConfig.model_validate(
                {"providers": {"line": {"a": 1}}, "reply": {"by": "echo"}, "access": OPEN}
            ),
        )
    await keeper.keep_once()
    assert ground.line.contexts[-1].config == {"a": 1}
    assert placeholders(queues_of(keeper)) == ["guid-1"]
    await say(queues_of(keeper), "hello")
    await ground.until_stored("hello", "You said: hello")


@pytest.mark.spec("C21", "C23")
async def test_a_changed_quota_reaches_the_providers_and_restarts_no_bot(ground: Ground) -> None:
    keeper, _ = await ground.run()
    bot = keeper.get("bot")
    assert ground.line.contexts[-1].quota_gb == 25
    async with ground.database.transaction() as connection:
        await set_value(connection, QUOTA, 7)
    for _ in range(2):
        await keeper.keep_once()
    assert ground.line.quotas == [7]
    assert keeper.get("bot") is bot
    await ground.stop()
    await keeper.keep_once()
    await ground.start()
    await keeper.keep_once()
    assert [context.quota_gb for context in ground.line.contexts] == [25, 7]


async def test_a_provider_that_was_taken_out_loses_no_messages(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    config: dict[str, Any] = {"providers": {"other": {}}}
    await ground.one("update bots set config = $1 where true returning 1", json.dumps(config))
    await keeper.keep_once()  # there is no such provider: the bot cannot start, and says so
    await ground.one(
        "update bots set config = $1 where true returning 1", json.dumps({"providers": {"line": {}}})
    )
    await keeper.keep_once()
    await ground.finish(*await ground.claim(), text="text")
    await keeper.deliver_once()
    await ground.until_stored("text")


@pytest.mark.spec("C23")
async def test_a_bot_that_runs_cannot_be_deleted_and_a_deleted_one_leaves_nothing(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    await say(queues, "hello")
    await ground.until_stored("hello")
    with pytest.raises(ConflictError):
        async with ground.database.transaction() as connection:
            await bots.delete_bot(connection, "bot")
    await ground.stop()
    await keeper.keep_once()
    async with ground.database.transaction() as connection:
        await bots.delete_bot(connection, "bot")
    for table in ("arrivals", "queues", "conversations", "replies", "jobs", "held_owners"):
        assert await ground.one(f"select count(*) from {table}") == 0


@pytest.mark.spec("C23")
async def test_a_start_that_fails_leaves_nothing_running_and_is_tried_again(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    await ground.create(reply={"by": "echo"})
    keeper = ground.keeper()
    await ground.one("alter table replies rename to replies_away")
    await keeper.keep_once()
    assert "cannot be started" in caplog.text
    with pytest.raises(BotNotRunningError):
        keeper.get("bot")
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("ingestion of")]
    assert await ground.one(f"select count(*) from pg_locks where {OUR_LOCKS}") == 0
    assert await ground.one("select status -> 'line' ->> 'state' from bots") == "stopped"
    await ground.one("alter table replies_away rename to replies")
    await keeper.keep_once()
    await say(queues_of(keeper), "hello")
    await ground.until_stored("hello", "You said: hello")


@pytest.mark.spec("C23")
async def test_a_network_that_cannot_be_started_is_told_and_keeps_nobody_from_the_bot(ground: Ground) -> None:
    class Broken(Line):
        async def start(self) -> None:
            raise RuntimeError("no network")

    ground.line = Broken()
    await ground.run()
    assert await ground.one("select status -> 'line' ->> 'detail' from bots") == "no network"


@pytest.fixture
async def wire(ground: Ground) -> AsyncIterator[Wire]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_wire(ground.database.url, Path(folder)) as opened:
            yield opened


@pytest.mark.spec("C8", "C10", "C23")
async def test_a_bot_stops_while_the_database_is_away_and_loses_nothing(ground: Ground, wire: Wire) -> None:
    far = await Database.open(wire.url, connections=5)
    near, ground.database = ground.database, far
    keeper, queues = await ground.run(reply={"by": "echo"})
    ground.database = near
    async with near.transaction() as blocker:
        await blocker.execute("lock table replies in access exclusive mode")
        await say(queues, "hello")
        wire.cut()
        async with asyncio.timeout(60):
            await keeper.stop_all()
        await far.close()
    assert await ground.stored() == []
    # The server notices a moment later that whoever had the bot is gone.
    await ground.until_row(f"select not exists (select from pg_locks where {OUR_LOCKS})")
    again = ground.keeper()
    await again.keep_once()
    await ground.until_stored("hello", "You said: hello")


@pytest.mark.spec("C22", "C23")
async def test_the_keeper_runs_by_itself_woken_by_the_database(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "POLL_SECONDS", 3_600.0)
    keeper = ground.keeper()
    running = asyncio.create_task(keeper.run())
    await ground.create(reply={"by": "echo"})

    async def up() -> bool:
        try:
            return bool(keeper.get("bot"))
        except BotNotRunningError:
            return False

    await wait_until(up)
    await send_media(queues_of(keeper), "guid-1")
    await ground.finish(*await ground.claim(), text="text")
    await ground.until_stored("text", "You said: text")
    await ground.stop()

    async def down() -> bool:
        return not await up()

    await wait_until(down, 60)
    await ground.start()
    await wait_until(up, 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not await up()
    assert ground.is_closed
    assert await ground.one("select status -> 'line' ->> 'state' from bots") == "stopped"
    assert await ground.one(f"select count(*) from pg_locks where {OUR_LOCKS}") == 0


async def test_a_network_that_cannot_be_made_says_so_and_the_other_works(ground: Ground) -> None:
    def explode(context: object) -> Line:
        raise RuntimeError("no such exchange")

    await ground.create(providers={"line": {}, "gone": {}, "torn": {}}, reply={"by": "echo"})
    factories: dict[str, ProviderFactory] = {"line": ground.line, "torn": explode}
    keeper = BotKeeper(ground.database, ground.engine, ground.enqueuer, ground.settings, factories, ground)
    ground.keepers.append(keeper)
    await keeper.keep_once()
    status = json.loads(await ground.one("select status from bots"))
    assert status["gone"] == {"state": "failed", "detail": "no chat network gone is installed here"}
    assert status["torn"] == {"state": "failed", "detail": "no such exchange"}
    assert status["line"] == {"state": "connected"}
    await say(queues_of(keeper), "hello")

    async def answered() -> bool:
        return bool(ground.line.sent)

    await wait_until(answered)
