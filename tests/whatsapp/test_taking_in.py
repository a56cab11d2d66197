"""Acknowledgements and order: what the bridge may forget, and what it must send again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from mediamill.conversations import insist
from mediamill.db.connection import Database
from tests.conftest import admin_url, wait_until
from tests.whatsapp.knocking import ANN, GUID, Knocking, ask, frame, heard, knocking_at, text


@pytest.mark.spec("C40")
async def test_several_messages_at_once_keep_the_order_of_each_conversation(knocking: Knocking) -> None:
    people = [f"4917000000{number:02}@s.whatsapp.net" for number in range(8)]
    sent = [
        frame(text(f"{number}", id=f"{person} {number}", sender=person), f"{person} {number}")
        for number in range(25)
        for person in people
    ]
    async with knocking.bridge() as line:
        for said in sent:
            await line.send(said)
        answers = Counter([(await heard(line))["type"] for _ in sent])
    assert answers == {"ack": 200}
    for person in people:
        rows = await knocking.rows(
            "select message->>'content' from arrivals where correspondent_id = $1 order by id", person
        )
        assert [row[0] for row in rows] == [str(number) for number in range(25)]


@pytest.mark.spec("C40")
async def test_aliases_that_come_at_once_keep_the_order_too(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        await ask(line, frame(text("0", alternate_identifiers=["ann@lid"])))
        for number in range(1, 40):
            sender = "ann@lid" if number % 2 else ANN
            await line.send(frame(text(str(number), id=str(number), sender=sender), str(number)))
        for _ in range(1, 40):
            assert (await heard(line))["type"] == "ack"
    assert await knocking.accepted() == [str(number) for number in range(40)]


async def block(url: str) -> asyncpg.Connection[asyncpg.Record]:
    """Somebody holds the table of accepted messages: a commit does not come through."""
    other = await asyncpg.connect(url)
    await other.execute("begin; lock table arrivals in access exclusive mode")
    return other


@pytest.mark.spec("C40", "C42")
async def test_there_is_no_acknowledgement_before_the_commit(knocking: Knocking, new_url: str) -> None:
    async with knocking.bridge() as line:
        await ask(line, frame(text("first"), "1"))
        other = await block(new_url)
        await line.send(frame(text("second"), "2"))
        await line.send(frame("bad", "3"))
        assert (await heard(line))["spool_id"] == "3"  # what came later is answered; the message waits
        await other.execute("rollback")
        await other.close()
        assert await heard(line) == {"type": "ack", "spool_id": "2"}
    assert await knocking.accepted() == ["first", "second"]


@pytest.mark.spec("C40", "C42")
async def test_a_database_that_breaks_off_before_the_commit_gives_later_and_then_once(
    server_url: str,
    new_url: str,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(insist, "INSIST_SECONDS", 0)
    admin = await asyncpg.connect(admin_url(server_url))
    name = new_url.partition("?")[0].rpartition("/")[2]
    async with knocking_at(database, tmp_path) as knocking:
        await knocking.create()
        async with knocking.bridge() as line:
            await ask(line, frame(text("first"), "1"))
            other = await block(new_url)
            await line.send(frame(text("second"), "2"))

            async def waits() -> bool:
                sql = (
                    "select count(*) from pg_stat_activity where datname = $1 and wait_event_type = 'Lock' "
                    "and query like '%insert into arrivals%'"
                )
                return bool(await admin.fetchval(sql, name))

            await wait_until(waits, 30)
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = $1 and pid <> $2 and backend_type = 'client backend'",
                name,
                other.get_server_pid(),  # not yet: whoever waits for it would come through
            )
            answer = await heard(line)
            assert (answer["type"], answer["spool_id"]) == ("later", "2")
            other.terminate()
            for _ in range(20):  # connections that were cut are found out one by one
                answer = await ask(line, frame(text("second"), "2"))
                if answer["type"] == "ack":
                    break
            assert answer == {"type": "ack", "spool_id": "2"}
            assert (await ask(line, frame(text("second"), "2")))["type"] == "ack"
        assert await knocking.accepted() == ["first", "second"]
    await admin.close()


@pytest.mark.spec("C42")
async def test_a_line_that_breaks_before_the_answer_leaves_the_message_once(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        await line.send(frame(text("hello")))
        line.transport.abort()

    async def free() -> bool:
        async with knocking.bridge() as again:
            return bool((await ask(again, frame(text("hello"))))["type"] == "ack")

    await wait_until(free, 30)
    assert await knocking.accepted() == ["hello"]


@pytest.mark.spec("C40")
async def test_refusals_of_one_bot_are_not_counted_for_another(knocking: Knocking) -> None:
    await knocking.create("second")
    async with knocking.bridge() as line, knocking.bridge("second") as other:
        assert (await ask(line, "{"))["type"] == "refused"
        assert (await ask(other, frame(text("hello"))))["type"] == "ack"
        await other.send(json.dumps({"type": "status", "status": {"state": "connected"}}))
        await knocking.until_status(refused=1)

        async def told() -> bool:
            return (await knocking.status("second")).get("state") == "connected"

        await wait_until(told, 30)
    assert (await knocking.status("second"))["refused"] == 0


@pytest.mark.spec("C42", "E34")
async def test_a_file_is_awaited_from_the_question_until_its_message_comes_and_is_not_fetched_again_after_it(
    knocking: Knocking,
) -> None:
    media = {"id": "m", "media_processing_id": GUID, "mime_type": "image/jpeg"}
    question = frame(text("look", **media)).replace('"message"', '"ask"', 1)
    async with knocking.bridge() as line:
        assert (await ask(line, question))["type"] == "admit"
        assert (await ask(line, question))["type"] == "admit"
        assert await knocking.rows("select guid from awaited_files") == [(GUID,)]
        assert (await ask(line, frame(text("look", **media))))["type"] == "ack"
        assert await knocking.rows("select guid from awaited_files") == []
        assert (await ask(line, question))["type"] == "ack"
        assert await knocking.rows("select guid from awaited_files") == []
