from __future__ import annotations

import asyncio
import base64
import json
import os
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mediamill.api import bounds, server
from mediamill.api.scopes import OWN, ROUTES
from mediamill.conversations import bots
from mediamill.db.connection import Database
from mediamill.providers.whatsapp.door import PATH
from mediamill.providers.whatsapp.secret import FILE
from tests.conftest import wait_until
from tests.whatsapp.knocking import (
    ANN,
    ANN_LID,
    GROUP,
    GUID,
    ME,
    SECRET,
    Knocking,
    ask,
    frame,
    heard,
    knocking_at,
    text,
)


async def refusal(knocking: Knocking, **how: Any) -> int:
    """The HTTP status that a bridge gets instead of a line."""
    with pytest.raises(InvalidStatus) as caught:
        async with knocking.bridge(**how):
            pass
    return caught.value.response.status_code


@pytest.mark.spec("C40")
async def test_a_message_is_acknowledged_and_is_in_the_database(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        assert await ask(line, frame(text("hello"), "7")) == {"type": "ack", "spool_id": "7"}
        [message] = await knocking.messages()
    assert message["correspondent_id"] == ANN
    assert message["content"] == "hello"
    assert message["source"] == "user"
    assert message["sender"] == {"identifier": ANN, "display_name": None, "alternate_identifiers": []}
    assert message["originating_time"] == 1_790_000_000


@pytest.mark.spec("C40")
async def test_the_same_message_again_is_acknowledged_and_kept_once(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        for spool_id in ("1", "2"):
            assert await ask(line, frame(text("hello", id="A"), spool_id)) == {
                "type": "ack",
                "spool_id": spool_id,
            }
    async with knocking.bridge(bridge_id="bridge 2") as line:
        assert (await ask(line, frame(text("hello", id="A"))))["type"] == "ack"
    assert await knocking.accepted() == ["hello"]


@pytest.mark.spec("C40", "C2")
async def test_media_take_the_media_path_with_what_the_sender_says_of_them(knocking: Knocking) -> None:
    payload = text(
        "look",
        display_name="Ann",
        media_processing_id=GUID,
        mime_type="image/jpeg",
        original_filename="../../etc/passwd",
        _quota_exceeded=True,
    )
    async with knocking.bridge() as line:
        assert (await ask(line, frame(payload)))["type"] == "ack"
    sql = "select mime_type, subject_id, owner, payload->>'original_filename', payload->'media_metadata' from jobs"
    assert await knocking.rows(sql) == [
        ("image/jpeg", GUID, "bot:bot", "../../etc/passwd", '{"_quota_exceeded": true}')
    ]
    [message] = await knocking.messages()
    assert (message["content"], message["media_processing_id"]) == ("look", GUID)


@pytest.mark.spec("C40")
async def test_a_group_is_one_conversation_and_each_message_names_its_writer(knocking: Knocking) -> None:
    writer = {"identifier": ANN, "display_name": "Ann", "alternate_identifiers": [ANN_LID]}
    group = {"identifier": GROUP, "display_name": "Friends"}
    async with knocking.bridge() as line:
        await ask(line, frame(text("hi all", sender=GROUP, group=group, actual_sender=writer)))
    [message] = await knocking.messages()
    assert (message["correspondent_id"], message["group"]) == (GROUP, group)
    assert message["sender"] == writer


@pytest.mark.spec("C40")
async def test_somebody_with_two_identifiers_has_one_conversation(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        await ask(line, frame(text("by number", alternate_identifiers=[ANN_LID])))
        await ask(line, frame(text("by LID", sender=ANN_LID)))
        await ask(line, frame(text("from me", sender=ME, direction="outgoing", recipient_id=ANN_LID)))
    found = [(m["correspondent_id"], m["content"], m["source"]) for m in await knocking.messages()]
    assert found == [(ANN, "by number", "user"), (ANN, "by LID", "user"), (ANN, "from me", "outgoing")]


@pytest.mark.spec("C40")
async def test_what_the_owner_writes_does_not_make_one_person_of_him_and_his_recipients(
    knocking: Knocking,
) -> None:
    async with knocking.bridge() as line:
        for number in ("1", "2"):
            mine: dict[str, Any] = {
                "sender": ME,
                "direction": "outgoing",
                "alternate_identifiers": ["me@lid"],
            }
            await ask(line, frame(text(f"to {number}", recipient_id=f"{number}@s.whatsapp.net", **mine)))
    people = [message["correspondent_id"] for message in await knocking.messages()]
    assert people == ["1@s.whatsapp.net", "2@s.whatsapp.net"]


BAD: dict[str, str | bytes] = {
    "no JSON": "{",
    "not an object": "[]",
    "a number that is none": '{"type": NaN}',
    "a number without end": '{"type": ' + "9" * 5_000 + "}",
    "nested without end": "[" * 100_000,
    "a name twice": '{"type": "message", "type": "status"}',
    "empty": "",
    "binary": b"\x00\x01",
    "unknown type": '{"type": "ack", "spool_id": "1"}',
    "type of a wrong type": '{"type": ["message"]}',
    "no payload": '{"type": "message", "spool_id": "1"}',
    "no spool id": '{"type": "message", "payload": {}}',
    "payload null": frame(None),
    "bad status": '{"type": "status", "status": {"state": "dancing"}}',
}
BAD_FIELDS: dict[str, Any] = {
    "provider_message_id": [None, "", 5, "x" * 257, "a\0b"],
    "sender": [None, "", {}, "x" * 257, "a\0b", "\ud800"],
    "message": [None, 5, ["a"], "x" * 200_001, "\udfff"],
    "direction": [None, "sideways", "INCOMING"],
    "originating_time": [None, "5", 1.5, -1, True, 10**12, 10**30],
    "display_name": [5, "x" * 1_001],
    "group": ["g", {}, {"identifier": ""}, {"identifier": "g", "display_name": 5}],
    "alternate_identifiers": [None, "a", [5], ["a"] * 21, ["x" * 257], [""]],
    "recipient_id": ["", 5, "x" * 257],
    "actual_sender": ["a", {}, {"identifier": "a", "alternate_identifiers": ["a"] * 21}],
    "media_processing_id": [
        "",
        5,
        "..",
        "../../x",
        "x" * 36,
        GUID + "/x",
        "/" + GUID,
        GUID + "\n",
        f"{{{GUID}}}",
    ],
    "mime_type": ["", 5, "image", "media_corrupt_soul", "a/b\0", "../../x", "a/" + "b" * 255],
    "original_filename": [5, "x" * 1_001],
    "_quota_exceeded": ["yes", 1],
}


@pytest.mark.spec("C40")
async def test_a_bad_frame_is_refused_with_its_faults_and_counted_and_the_line_goes_on(
    knocking: Knocking,
) -> None:
    async with knocking.bridge() as line:
        for name, said in BAD.items():
            answer = await ask(line, said)
            assert answer["type"] == "refused", name
            assert answer["code"], name
            assert answer["detail"], name
            assert answer["faults"], name
        assert (await ask(line, frame(text("still here"))))["type"] == "ack"
        status = await knocking.until_status(refused=len(BAD))
    assert status["refused"] == len(BAD)
    assert await knocking.accepted() == ["still here"]


@pytest.mark.spec("C40")
async def test_every_field_is_checked_and_the_fault_names_it(knocking: Knocking) -> None:
    media = {"media_processing_id": GUID, "mime_type": "image/jpeg"}
    async with knocking.bridge() as line:
        for field, values in BAD_FIELDS.items():
            for value in values:
                also = media if field in media else {}
                answer = await ask(line, frame({**text(), **also, field: value}, "9"))
                assert (answer["type"], answer["spool_id"]) == ("refused", "9"), (field, value)
                assert any(field in fault for fault in answer["faults"]), (field, answer)
        for field in ("provider_message_id", "sender", "message", "direction", "originating_time"):
            payload = text()
            del payload[field]
            answer = await ask(line, frame(payload))
            assert answer["faults"] == [f"payload.{field}: Field required"]
        for half in media:
            answer = await ask(line, frame({**text(), half: media[half]}))
            assert "come together" in answer["faults"][0]
        assert "recipient_id" in (await ask(line, frame(text(direction="outgoing"))))["faults"][0]
    assert await knocking.accepted() == []


@pytest.mark.spec("C40")
async def test_fields_that_nobody_knows_and_halves_of_texts_do_no_harm(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        assert (await ask(line, frame(text("nul \0 here", new_field={"a": [1]}, display_name="A\0"))))[
            "type"
        ] == "ack"
        assert (await ask(line, frame(text("x" * 200_000))))["type"] == "ack"
    assert [len(content) for content in await knocking.accepted()] == [9, 200_000]


@pytest.mark.spec("C40")
async def test_a_media_id_of_another_message_is_refused(knocking: Knocking) -> None:
    media = {"media_processing_id": GUID, "mime_type": "audio/ogg"}
    async with knocking.bridge() as line:
        assert (await ask(line, frame(text("one", **media))))["type"] == "ack"
        answer = await ask(line, frame(text("two", sender="2@lid", **media)))
    assert (answer["type"], answer["code"]) == ("refused", "bad_guid")


@pytest.mark.spec("C40")
async def test_a_frame_beyond_the_limit_ends_the_line_and_nothing_else(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        with pytest.raises(ConnectionClosed):
            await ask(line, frame(text("x" * server.FRAME_BYTES)))
    async with knocking.bridge(bridge_id="bridge 2") as line:
        assert (await ask(line, frame(text("hello"))))["type"] == "ack"


@pytest.mark.spec("C42")
async def test_only_the_right_secret_opens_the_door(knocking: Knocking) -> None:
    assert await refusal(knocking, secret=None) == 401
    assert await refusal(knocking, secret=None, headers={"Authorization": f"Basic {SECRET}"}) == 401
    for wrong in ("x", SECRET + "x", SECRET[:-1], SECRET.upper()):
        assert await refusal(knocking, secret=wrong) == 403
    assert await refusal(knocking, secret="a secret that only the tests know") == 403  # the admin's


@pytest.mark.spec("C42")
async def test_a_wrong_secret_learns_nothing_of_the_bots(knocking: Knocking) -> None:
    assert await refusal(knocking, bot_id="nobody", secret="x") == 403


@pytest.mark.spec("C40")
async def test_a_bot_that_is_unknown_or_stopped_or_elsewhere_has_no_door(knocking: Knocking) -> None:
    assert await refusal(knocking, bot_id="nobody") == 404
    assert await refusal(knocking, bot_id="..%2Fbot") in (403, 404)
    await knocking.create("stopped", start=False)
    assert await refusal(knocking, bot_id="stopped") == 404
    await knocking.create("chatty", providers={"chat": {}})
    assert await refusal(knocking, bot_id="chatty") == 404


@pytest.mark.spec("C40")
async def test_a_browser_or_a_foreign_name_does_not_come_in(knocking: Knocking) -> None:
    assert await refusal(knocking, headers={"Origin": knocking.served.url}) == 403
    assert await refusal(knocking, headers={"Origin": "http://evil.example"}) == 403
    assert ROUTES[f"WEBSOCKET {PATH}"] == OWN
    answer = await raw_handshake(knocking, "/api/bridge/whatsapp/bot", "evil.example")
    assert answer.startswith(b"HTTP/1.1 403")
    for path in ("/api/events", "/api/bridge/telegram/bot", "/", "/api/bridge/whatsapp"):
        assert (await raw_handshake(knocking, path, "localhost")).startswith(b"HTTP/1.1 403"), path


async def raw_handshake(knocking: Knocking, path: str, host: str) -> bytes:
    reader, writer = await knock(knocking, path, host)
    answer = await reader.read(1000)
    writer.close()
    return answer


async def knock(
    knocking: Knocking, path: str, host: str, bridge_id: str = "dead"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(knocking.url.rpartition(":")[2]))
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {SECRET}",
        f"X-Bridge-Id: {bridge_id}",
    )
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    return reader, writer


@pytest.mark.spec("C40")
async def test_a_second_bridge_is_refused_while_the_first_one_lives(knocking: Knocking) -> None:
    async with knocking.bridge() as first:
        assert await refusal(knocking, bridge_id="bridge 2") == 409
        assert (await ask(first, frame(text("mine"))))["type"] == "ack"
    async with knocking.bridge(bridge_id="bridge 2") as second:
        assert (await ask(second, frame(text("now mine"))))["type"] == "ack"
    assert await knocking.accepted() == ["mine", "now mine"]


@pytest.mark.spec("C40")
async def test_the_same_bridge_that_calls_again_takes_its_line_over(knocking: Knocking) -> None:
    async with knocking.bridge() as first, knocking.bridge() as second:
        with pytest.raises(ConnectionClosed):
            await heard(first)
        assert (await ask(second, frame(text("hello"))))["type"] == "ack"


@pytest.mark.spec("C40")
async def test_a_bridge_that_answers_no_pings_is_replaced(
    database: Database, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PING_SECONDS", 0.2)
    async with knocking_at(database, tmp_path) as knocking:
        await knocking.create()
        reader, writer = await knock(knocking, "/api/bridge/whatsapp/bot", "localhost")
        assert (await reader.readline()).startswith(b"HTTP/1.1 101")

        async def replaced() -> bool:
            try:
                async with knocking.bridge(bridge_id="alive") as line:
                    return bool((await ask(line, frame(text("hello"))))["type"] == "ack")
            except InvalidStatus as error:
                if error.response.status_code != 409:
                    raise
                return False
            except ConnectionClosed:  # on a slow machine this one may have been too late with its answer, too
                return False

        await wait_until(replaced, 30)
        writer.close()


@pytest.mark.spec("C40")
async def test_a_status_is_kept_for_pages_and_commands(knocking: Knocking) -> None:
    status = {
        "state": "pairing",
        "qr": "2@abc",
        "me": None,
        "detail": None,
        "spool": {"waiting": 1, "downloading": 0},
        "quota": {"used_bytes": 5, "limit_bytes": 10},
        "backend": "connected",
    }
    async with knocking.bridge() as line:
        await line.send(json.dumps({"type": "status", "status": status}))
        kept = await knocking.until_status(state="pairing")
        assert (kept["qr"], kept["spool"], kept["quota"]["used_bytes"]) == (
            "2@abc",
            {"waiting": 1, "downloading": 0},
            5,
        )


@pytest.mark.spec("C40", "C23")
async def test_a_bot_that_stops_hangs_up_and_nothing_more_comes_in(knocking: Knocking) -> None:
    async with knocking.bridge() as line:
        await ask(line, frame(text("hello")))
        async with knocking.served.database.transaction() as connection:
            await bots.stop_bot(connection, "bot")
        await knocking.served.keeper.keep_once()
        with pytest.raises(ConnectionClosed):
            await ask(line, frame(text("too late")))
    assert await knocking.accepted() == ["hello"]
    assert (await knocking.status())["state"] == "stopped"


@pytest.mark.spec("C42")
async def test_a_secret_is_made_once_for_this_user_alone(database: Database, tmp_path: Any) -> None:
    async with knocking_at(database, tmp_path, bridge_secret=None) as knocking:
        await knocking.create()
        assert await refusal(knocking) == 403
        made = (tmp_path / FILE).read_text().strip()
        assert len(made) >= 40
        assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
        async with knocking.bridge(secret=made) as line:
            assert (await ask(line, frame(text("hello"))))["type"] == "ack"


async def test_a_bridge_that_says_nothing_is_not_taken_for_a_slow_request(
    knocking: Knocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "HEAD_SECONDS", 0.3)
    async with knocking.bridge() as line:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await line.recv()
        assert (await ask(line, frame(text("hello"))))["type"] == "ack"
