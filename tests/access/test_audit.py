from __future__ import annotations

from pydantic import SecretStr

from mediamill.access.audit import Entry, list_entries, note, storable, sweep_access, tell_subject
from mediamill.access.model import HERE
from mediamill.access.restored import log_everybody_out
from mediamill.access.sessions import open_session, session_caller
from mediamill.db.connection import Database


async def test_an_entry_is_there_before_it_is_known_how_it_went(database: Database) -> None:
    async with database.connection() as connection:
        entry = Entry("pool.change", "audio")
        await entry.begin(connection, HERE, "127.0.0.1")
        (noted,) = await list_entries(connection)
        assert (noted["who"], noted["kind"], noted["action"]) == ("this machine", "here", "pool.change")
        assert (noted["subject"], noted["outcome"]) == ("audio", "")
        tell_subject("audio, video")
        await entry.end(connection, "200")
        (noted,) = await list_entries(connection)
        assert (noted["subject"], noted["outcome"]) == ("audio, video", "200")


async def test_entries_are_found_by_who_and_what_page_by_page(database: Database) -> None:
    async with database.connection() as connection:
        ids = [
            await note(connection, HERE, action) for action in ("user.add", "user.remove", "users", "login")
        ]
        assert [each["id"] for each in await list_entries(connection, amount=2)] == ids[:1:-1]
        assert [each["id"] for each in await list_entries(connection, before=ids[2])] == ids[1::-1]
        assert [each["action"] for each in await list_entries(connection, action="user")] == [
            "user.remove",
            "user.add",
        ]
        assert await list_entries(connection, who="ann") == []
        assert len(await list_entries(connection, who=HERE.name)) == 4


async def test_what_is_old_is_swept_and_what_is_not_stays(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(3):
            await note(connection, HERE, "login")
        await connection.execute(
            "update audit set at = now() - interval '31 days' where id <> (select max(id) from audit)"
        )
        await open_session(connection, None, None, seconds=-1, address=None, agent="")
    assert await sweep_access(database, 0) == 0
    assert await sweep_access(database, 30) == 2
    async with database.connection() as connection:
        assert len(await list_entries(connection)) == 1
        assert await connection.fetchval("select count(*) from login_sessions") == 0


async def test_after_a_restore_nobody_is_logged_in(database: Database) -> None:
    async with database.transaction() as connection:
        value = await open_session(connection, None, SecretStr("s"), seconds=60, address=None, agent="")
        assert await session_caller(connection, value, SecretStr("s")) is not None
        await log_everybody_out(connection)
        assert await session_caller(connection, value, SecretStr("s")) is None


def test_what_strangers_send_can_be_stored() -> None:
    assert storable("a\0b\ud800c") == "a�b?c"
    assert len(storable("x" * 10_000)) == 300
