"""What is said in the chat for trying out: taken once, refused with a reason, and no file left without a message."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mediamill.conversations import say as saying
from mediamill.conversations.bots import UnknownBotError
from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.conversations.say import (
    BadCorrespondentError,
    BadMessageIdError,
    EmptyMessageError,
    NoChatError,
    Said,
    say_media,
    say_text,
)
from mediamill.staging import staging_folder
from mediamill.staging.put import UploadTooLargeError
from tests.conversations.conftest import Ground

MOST_BYTES = 4


@pytest.fixture
async def keeper(ground: Ground) -> BotKeeper:
    """With a bot `bot` on the chat that runs."""
    settings = ground.settings.model_copy(update={"upload_limit_bytes": MOST_BYTES})
    made = BotKeeper(ground.database, ground.engine, ground.enqueuer, settings, {"chat": ground.line}, ground)
    ground.keepers.append(made)
    await ground.create(providers={"chat": {}})
    await made.keep_once()
    return made


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def staged(ground: Ground) -> list[str]:
    folder = staging_folder(ground.settings.data_folder)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def test_a_text_is_kept_once_with_its_sender_and_its_time(ground: Ground, keeper: BotKeeper) -> None:
    before = int(time.time())
    first = await say_text(keeper, "bot", "ann", "hello", message_id="m-1")
    assert first == Said(1, "m-1", False, None)
    assert await say_text(keeper, "bot", "ann", "hello again", message_id="m-1") == Said(1, "m-1", True, None)
    second = await say_text(keeper, "bot", "ann", "more", display_name="Ann")
    assert (second.id > first.id, second.repeated) == (True, False)
    assert re.fullmatch("[0-9a-f]{32}", second.provider_message_id)
    await ground.until_stored("hello", "more")
    sql = "select sender ->> 'display_name', source, originating_time from queues order by id"
    rows = await ground.rows(sql)
    assert [row[:2] for row in rows] == [("ann", "user"), ("Ann", "user")]
    assert all(before <= row[2] <= time.time() for row in rows)


async def test_a_file_becomes_a_placeholder_and_a_job_and_the_same_one_leaves_no_second(
    ground: Ground, keeper: BotKeeper
) -> None:
    said = await say_media(
        keeper,
        "bot",
        "ann",
        chunks(b"meow"),
        mime_type="IMAGE/png; q=1",
        caption="look",
        filename="C:\\cats\\tom.png",
        message_id="m-1",
    )
    assert (said.id, said.provider_message_id, said.repeated) == (1, "m-1", False)
    assert staged(ground) == [said.guid]
    again = await say_media(keeper, "bot", "ann", chunks(b"meow"), message_id="m-1")
    assert again == Said(1, "m-1", True, said.guid)
    assert staged(ground) == [said.guid]
    bare = await say_media(keeper, "bot", "ann", chunks(b"x"))
    sql = "select mime_type, payload ->> 'caption', payload ->> 'original_filename', subject_id from jobs order by id"
    assert await ground.rows(sql) == [
        ("image/png", "look", "tom.png", said.guid),
        ("application/octet-stream", "", None, bare.guid),
    ]


async def test_whoever_sends_a_file_again_is_heard_out_but_not_without_end(
    ground: Ground, keeper: BotKeeper
) -> None:
    for _ in range(2):
        said = await say_media(keeper, "bot", "ann", chunks(b"me", b"ow"), message_id="m-1")
    assert said.repeated
    for message_id in ("m-1", "m-2"):
        with pytest.raises(UploadTooLargeError):
            await say_media(keeper, "bot", "ann", chunks(b"meo", b"ow"), message_id=message_id)
    with pytest.raises(UploadTooLargeError):
        await say_media(keeper, "bot", "ann", chunks(b"x"), announced_bytes=MOST_BYTES + 1)
    assert staged(ground) == [said.guid]


async def test_a_file_whose_message_is_refused_is_deleted(
    ground: Ground, keeper: BotKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = keeper.get("bot").queues["chat"]

    async def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(queues, "add_message", refuse)
    with pytest.raises(RuntimeError):
        await say_media(keeper, "bot", "ann", chunks(b"meow"))
    assert staged(ground) == []


async def test_two_that_send_the_same_file_at_once_leave_one(ground: Ground, keeper: BotKeeper) -> None:
    said = await asyncio.gather(
        *(say_media(keeper, "bot", "ann", chunks(b"meow"), message_id="m-1") for _ in range(3))
    )
    assert sorted(each.repeated for each in said) == [False, True, True]
    assert {(each.id, each.provider_message_id) for each in said} == {(1, "m-1")}
    assert {each.guid for each in said} == set(staged(ground))


async def test_names_and_ids_are_short_and_plain_and_a_message_says_something(keeper: BotKeeper) -> None:
    for person in ("a", "A" * 128, "0._@+-"):
        await say_text(keeper, "bot", person, "hello", message_id="._:@+=-" + "x" * 193)
    for person in ("", "-a", ".", "a b", "a/b", "a" * 129):
        with pytest.raises(BadCorrespondentError) as refused:
            await say_text(keeper, "bot", person, "hello")
        assert refused.value.code == "bad_correspondent"
    for message_id in ("", "a b", "x" * 201, "a/b"):
        with pytest.raises(BadMessageIdError) as wrong:
            await say_media(keeper, "bot", "ann", chunks(b"x"), message_id=message_id)
        assert wrong.value.code == "bad_message_id"
    for text in ("", " \n", "\0"):
        with pytest.raises(EmptyMessageError) as empty:
            await say_text(keeper, "bot", "ann", text)
        assert empty.value.code == "empty_message"


async def test_of_a_file_only_its_name_and_a_type_that_is_one_are_believed(
    ground: Ground, keeper: BotKeeper
) -> None:
    unknown = "application/octet-stream"
    given = [
        ("", "a/b\\c.txt", unknown, "c.txt"),
        ("multipart/form-data; boundary=x", "..", unknown, None),
        ("application/x-www-form-urlencoded", "", unknown, None),
        ("media_corrupt_image", "a\0b", unknown, "ab"),  # not for strangers to say
        (" Text/Plain;charset=utf-8", "/tmp/", "text/plain", "tmp"),
    ]
    for claimed, name, _, _ in given:
        await say_media(keeper, "bot", "ann", chunks(b"x"), mime_type=claimed, filename=name)
    sql = "select mime_type, payload ->> 'original_filename' from jobs order by id"
    assert await ground.rows(sql) == [(kept_type, kept_name) for _, _, kept_type, kept_name in given]


async def test_a_bot_that_does_not_run_or_is_not_on_the_chat_says_so(
    ground: Ground, keeper: BotKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownBotError):
        await say_text(keeper, "ghost", "ann", "hello")
    await ground.create("off", start=False, providers={"chat": {}})
    with pytest.raises(BotNotRunningError, match="the bot off does not run") as stopped:
        await say_text(keeper, "off", "ann", "hello")
    assert stopped.value.code == "bot_not_running"
    await ground.create("elsewhere", providers={"line": {}})
    await ground.create("late", providers={"chat": {}})
    monkeypatch.setattr(saying, "START_SECONDS", 0.0)
    with pytest.raises(BotNotRunningError):  # it should run, but nobody starts it
        await say_text(keeper, "late", "ann", "hello")
    await keeper.keep_once()
    with pytest.raises(NoChatError, match="elsewhere is not on the chat") as nowhere:
        await say_media(keeper, "elsewhere", "ann", chunks(b"x"))
    assert nowhere.value.code == "no_chat"
    assert staged(ground) == []


async def test_what_is_said_while_a_bot_starts_or_restarts_reaches_it(
    ground: Ground, keeper: BotKeeper
) -> None:
    await ground.create("late", providers={"chat": {}})
    talking = asyncio.create_task(say_text(keeper, "late", "ann", "early"))
    await keeper.keep_once()
    assert (await talking).id == 1
    old = keeper.get("late")
    await old.queues["chat"].close()
    talking = asyncio.create_task(say_text(keeper, "late", "ann", "meanwhile"))
    await ground.stop("late")
    await ground.start("late")
    await keeper.keep_once()
    assert keeper.get("late") is not old
    assert (await talking).id == 2
