"""A stranger writes to a bot on WhatsApp and on Telegram: one code, whatever is killed; then limits and groups."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mediamill.conversations.access import WELCOME
from mediamill.testing.model_server import Handler, ModelServer
from mediamill.testing.telegram_server import TOKEN, TelegramServer
from tests.conftest import wait_until
from tests.crash.processes import Mill
from tests.ports import free_port
from tests.stories.whatsapp_story import ANN, BEN, GROUP, SAMPLES, SECONDS, Story, story_on, stub

LIMIT = "You have reached today's limit"
CODE = "select code from senders where state = 'pending'"


async def texts(story: Story) -> list[str]:
    return [one["text"] for one in await story.whatsapp.outbox(story.device)]


async def until_texts(story: Story, count: int) -> list[str]:
    await story.whatsapp.wait_sent(story.device, count)
    await story.mill.until("select not exists (select from replies where state <> 'sent')")
    return await texts(story)


async def media_requests(story: Story) -> int:
    return sum(one["requests"] for one in (await story.whatsapp.state())["media"])


async def settled(story: Story, *ids: str) -> None:
    """WhatsApp has the receipts, and the bridge has nothing left to hand over."""
    await story.whatsapp.wait_receipts(story.device, *ids)

    async def empty() -> bool:
        return bool(((await story.status()).get("spool") or {}).get("waiting") == 0)

    await wait_until(empty, SECONDS)


@pytest.mark.spec("C50", "C51", "C52")
async def test_on_whatsapp_a_stranger_gets_a_code_and_a_friend_answers_within_limits(
    new_url: str, tmp_path: Path
) -> None:
    mill = Mill(tmp_path, new_url)
    async with story_on(mill, tmp_path, stubs=True, access={"messages_per_day": 4}) as (story, up):
        await story.pair()
        photo = {"file": str(SAMPLES / "photo.jpg")}

        # The code leaves the bridge and is lost on the way; then everything is killed.
        await story.whatsapp.faults(lose_outgoing=1)
        ids = await story.whatsapp.push(story.device, "image", ANN, caption="secret", **photo)
        await mill.until("select exists (select from replies where message_id < 0 and state = 'written')")
        await story.whatsapp.wait_for(lambda state: not state["faults"].get("lose_outgoing"))
        up.kill()
        await mill.started("up")
        await story.until_state("connected")
        [told] = await until_texts(story, 1)
        code = await mill.one(CODE)
        assert code in told
        ids += await story.whatsapp.push(story.device, "text", ANN, text="secret, again")
        ids += await story.whatsapp.push(
            story.device, "audio", ANN, seconds=5, file=str(SAMPLES / "voice.ogg")
        )
        await settled(story, *ids)
        assert await texts(story) == [told]
        assert await media_requests(story) == 0
        for table in ("arrivals", "queues", "conversations", "jobs"):
            assert await mill.one(f"select count(*) from {table}") == 0, table

        said, out = await mill.say("bots", "pair", "bot", code)
        assert said == 0, out
        assert (await until_texts(story, 2))[-1] == WELCOME
        await story.push("text", "and now", text="and now")
        assert (await until_texts(story, 3))[-1] == "You said: and now"
        await story.push("image", stub("image"), **photo)
        await until_texts(story, 4)
        assert await media_requests(story) > 0

        # In a group: what mentions the account, by its LID, from somebody who may talk.
        [device] = [one for one in (await story.whatsapp.state())["devices"] if one["device"] == story.device]
        group = {"id": GROUP, "subject": "Friends", "participants": [ANN, BEN]}
        mention = {"mentionedJid": [device["lid"].split(":")[0].removesuffix("@lid") + "@lid"]}
        words = "you there, what time is it"
        await story.whatsapp.push(story.device, "text", ANN, group=group, text="not for the bot")
        await story.whatsapp.push(story.device, "text", BEN, group=group, text="who am I?", context=mention)
        await story.push("text", words, chat=GROUP, group=group, text=words, context=mention)
        await until_texts(story, 5)
        assert (await story.whatsapp.outbox(story.device))[-1]["to"] == GROUP
        await story.until_all_said()

        # The fourth message of the day is the last.
        await story.push("text", "the last", text="the last")
        await until_texts(story, 6)
        before = await media_requests(story)
        ids = await story.whatsapp.push(story.device, "image", ANN, **photo)
        ids += await story.whatsapp.push(story.device, "text", ANN, text="one more")
        assert (await until_texts(story, 7))[-1].startswith(LIMIT)
        await settled(story, *ids)
        assert len(await texts(story)) == 7
        assert await media_requests(story) == before
        assert await mill.one("select messages from sender_days") == 4
    mill.assert_no_traceback()


@pytest.mark.spec("C50")
async def test_on_telegram_a_code_is_sent_once_also_by_the_server_after_the_one_that_died(
    new_url: str, tmp_path: Path
) -> None:
    with TelegramServer() as telegram:
        settings = {
            "MEDIAMILL_PORT": str(free_port()),
            "MEDIAMILL_TELEGRAM_URL": telegram.url,
            "MEDIAMILL_INGEST_SECONDS": "0.1",
        }
        mill = Mill(tmp_path, new_url, settings)
        try:
            await _code_story(mill, telegram, tmp_path)
        finally:
            mill.close()
    mill.assert_no_traceback()


async def _code_story(mill: Mill, telegram: TelegramServer, tmp_path: Path) -> None:
    token = tmp_path / "token.txt"
    token.write_text(TOKEN)
    up = await mill.started("up")
    words = ("bots", "create", "shop", "--telegram", "--token-file", token, "--reply", "echo")
    code, said = await mill.say(*words)
    assert (code, "strangers get a code" in said) == (0, True), said
    began = threading.Event()
    telegram.fault("sendMessage", _held(began))
    telegram.send_file("voice", b"secret", duration=3)
    await wait_until(lambda: _is_set(began), SECONDS)
    up.kill()
    assert telegram.texts() == []
    await mill.started("up")
    await wait_until(lambda: _has(telegram, 1), SECONDS)
    telegram.say("secret, again")
    await mill.until("select count(*) = 2 from telegram_updates where state = 'refused' and update is null")
    pairing = await mill.one(CODE)
    [told] = telegram.texts()
    assert pairing in told
    assert telegram.count("getFile") == 0
    assert (await mill.say("bots", "pair", "shop", pairing))[0] == 0
    telegram.say("hello")
    await wait_until(lambda: _has(telegram, 3), SECONDS)
    assert telegram.texts()[1:] == [WELCOME, "You said: hello"]


async def _is_set(event: threading.Event) -> bool:
    return event.is_set()


async def _has(telegram: TelegramServer, count: int) -> bool:
    return len(telegram.texts()) >= count


def _held(began: threading.Event) -> Any:
    """A send that is never answered."""

    def act(handler: Handler) -> None:
        server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
        began.set()
        server.closed.wait(SECONDS)

    return act
