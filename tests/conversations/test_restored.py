"""After a restore from a backup nobody is answered a second time, and a person can still ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mediamill.conversations.restored import ERROR, stop_replies
from mediamill.conversations.retry import retry_message
from mediamill.conversations.store import queries
from mediamill.conversations.watch import failed_replies
from mediamill.db.connection import Connection, Database
from mediamill.engine.rules import Engine
from tests.conftest import run_sql

DATA = Path(__file__).parents[1] / "db" / "data" / "0003.sql"
KEYS = {"bot_id": "old bot", "provider_name": "chat", "correspondent_id": "anna"}
MORE = """
insert into queues
select bot_id, provider_name, correspondent_id, n, content, sender, source, accepted_time, message_size
from queues, generate_series(4, 5) n where id = 1;
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer)
values ('old bot', 'chat', 'anna', 4, 'four', 'due', null), ('old bot', 'chat', 'anna', 5, 'five', 'written', 'V')
"""


async def states(connection: Connection) -> dict[int, tuple[str, str]]:
    rows = await connection.fetch("select message_id, state, told from replies")
    return {row["message_id"]: (row["state"], row["told"]) for row in rows}


async def _note(connection: Connection, **reply: Any) -> None:
    await queries.add_reply.run(connection, **KEYS, **reply, sender_id=None)


async def test_answers_that_were_due_fail_and_those_of_media_in_the_making_too(database: Database) -> None:
    await run_sql(database.url, DATA.read_text(), MORE)
    async with database.transaction() as connection:
        await stop_replies(connection)
        assert await states(connection) == {
            1: ("sent", "stored 1"),
            2: ("failed", "stored 2"),
            3: ("failed", "a caption"),
            4: ("failed", "four"),
            5: ("failed", "five"),
        }
        failed = await failed_replies(connection, "old bot", "chat", "anna")
        assert {reply["error"] for reply in failed if reply["message_id"] != 2} == {ERROR}
        await _note(connection, message_id=3, told="a caption\n\nwhat was said")  # its media has its text
        await _note(connection, message_id=1, told="stored 1 again")
    async with database.transaction() as connection:
        assert (await states(connection))[3] == ("failed", "a caption\n\nwhat was said")
        assert (await states(connection))[1] == ("sent", "stored 1")
        for message_id in (4, 5):
            assert await retry_message(connection, Engine(), **KEYS, message_id=message_id) == "reply"
        assert {number: state for number, (state, _) in (await states(connection)).items() if number > 3} == {
            4: "due",
            5: "written",
        }


async def test_a_bot_that_does_not_answer_has_nothing_that_failed(database: Database) -> None:
    await run_sql(
        database.url,
        DATA.read_text(),
        "delete from replies",
        "update bots set config = '{\"providers\": {}}'",
    )
    async with database.transaction() as connection:
        await stop_replies(connection)
        assert await states(connection) == {}
