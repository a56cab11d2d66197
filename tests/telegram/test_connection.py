"""How a bot is connected: polling with confirmation, conflicts, refused tokens, the webhook, and what is sent."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.conversations.bots import HIDDEN, BadBotError, BotConfig, change_bot, show_bot
from mediamill.conversations.provider import NotConnectedError
from mediamill.errors import GiveUpError
from mediamill.providers.telegram import poll
from mediamill.testing.model_server import NONSENSE, RESET, Act, Reply, reply
from mediamill.testing.telegram_server import ACCOUNT, ANN, TOKEN, TelegramServer, told_error
from tests.telegram.grounds import Ground, png

OTHER_TOKEN = "77:other-BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"


async def test_updates_are_confirmed_once_they_are_kept_and_the_number_is_not_repeated(
    ground: Ground,
) -> None:
    await ground.run()
    ground.telegram.say("hello")
    await ground.until(lambda: not ground.telegram.waiting)
    polls = [asked for method, asked in ground.telegram.calls if method == "getUpdates"]
    assert all(asked["allowed_updates"] == ["message", "edited_message"] for asked in polls)
    (kept,) = await ground.rows("select update_id, account from telegram_updates")
    assert kept[1] == ACCOUNT
    assert [asked.get("offset") for asked in polls][-1] == kept[0] + 1
    ground.telegram.say("more")
    await ground.until_taken()
    offsets = [asked.get("offset") for method, asked in ground.telegram.calls if method == "getUpdates"]
    assert [offset for offset in offsets if offset] == [kept[0] + 1, kept[0] + 2]


async def test_after_a_week_telegram_may_count_from_a_lower_number(ground: Ground) -> None:
    await ground.run()
    ground.telegram.say("hello")
    await ground.until_taken()
    ground.telegram._updates = 1_000
    ground.telegram.say("long after")
    await ground.until_taken()
    ground.telegram.say("and on")
    await ground.until_taken()
    assert await ground.messages() == ["hello", "long after", "and on"]


@pytest.mark.parametrize("updates", [[], [{"update_id": 7}]], ids=["nothing", "the same again"])
async def test_a_bot_api_that_does_not_wait_is_not_asked_all_the_time(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, updates: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(poll, "EMPTY_SECONDS", 0.25)
    answer = Reply(json.dumps({"ok": True, "result": updates}).encode())
    ground.telegram.fault("getUpdates", *[reply(answer)] * 1000)
    await ground.run()
    left = ground.telegram._faults["getUpdates"]
    began, before = time.monotonic(), len(left)
    await ground.until(lambda: before - len(left) >= 5)
    assert time.monotonic() - began > 4 * 0.2
    left.clear()
    ground.telegram.say("hello")
    await ground.until_taken()


@pytest.mark.parametrize("fault", [told_error(500), RESET, NONSENSE, told_error(429, "wait", retry_after=1)])
async def test_a_poll_that_fails_loses_nothing(ground: Ground, fault: Act) -> None:
    await ground.create()
    ground.telegram.say("hello")
    ground.telegram.fault("getUpdates", fault, fault)
    ground.begin()
    await ground.until_taken()
    assert await ground.messages() == ["hello"]
    assert (await ground.until_state("connected"))["me"]["identifier"] == "@mill_bot"


async def test_a_refused_token_is_told_with_what_to_do_and_without_itself(ground: Ground) -> None:
    ground.telegram.token = OTHER_TOKEN
    await ground.create()
    ground.begin()
    told = await ground.until_state("token_refused")
    assert "@BotFather" in told["detail"]
    assert TOKEN not in json.dumps(told)
    ground.telegram.token = TOKEN
    await ground.until_state("connected")


async def test_another_program_that_takes_the_updates_is_told(ground: Ground) -> None:
    await ground.create()
    faults = [told_error(409, "Conflict: terminated by other getUpdates request")] * 1000
    ground.telegram.fault("getUpdates", *faults)
    ground.begin()
    told = await ground.until_state("conflict")
    assert "terminated by other" in told["detail"]
    ground.telegram._faults["getUpdates"].clear()  # the other program has ended
    await ground.until_state("connected")


async def test_a_configuration_that_cannot_be_is_told_and_the_chat_goes_on(ground: Ground) -> None:
    await ground.create(mode="webhook")
    ground.begin()
    assert "webhook_url" in (await ground.until_state("failed"))["detail"]


async def test_the_token_is_shown_to_nobody_and_stays_when_the_bot_is_changed(ground: Ground) -> None:
    await ground.create()
    async with ground.app.database.transaction() as connection:
        shown = (await show_bot(connection, "bot"))["config"]
        assert shown["providers"]["telegram"]["token"] == HIDDEN
        await change_bot(connection, "bot", BotConfig.model_validate({**shown, "reply": {"by": "echo"}}))
    assert await ground.one("select config #>> '{providers,telegram,token}' from bots") == TOKEN
    assert await ground.one("select config #>> '{reply,by}' from bots") == "echo"
    async with ground.app.database.transaction() as connection:
        unknown = {"providers": {"chat": {"token": HIDDEN}}}
        with pytest.raises(BadBotError):
            await change_bot(connection, "bot", BotConfig.model_validate(unknown))


async def test_another_token_brings_updates_of_the_same_numbers(ground: Ground) -> None:
    await ground.run()
    ground.telegram.say("to the first")
    await ground.until_taken()
    ground.telegram.token, ground.telegram._updates = OTHER_TOKEN, 500_000_000
    async with ground.app.database.transaction() as connection:
        config = {"providers": {"telegram": {"token": OTHER_TOKEN}}, "access": ground.access}
        await change_bot(connection, "bot", BotConfig.model_validate(config))
    ground.telegram.say("to the second")
    await ground.until_row("select count(*) = 2 from telegram_updates where state = 'done'")
    assert await ground.messages() == ["to the first", "to the second"]
    assert len({row[0] for row in await ground.rows("select update_id from telegram_updates")}) == 1


async def test_a_long_answer_comes_in_parts_and_none_is_sent_again(ground: Ground) -> None:
    await ground.run()
    text = "\n".join(f"line {number}" for number in range(1_000))
    ground.telegram.fault("sendMessage", told_error(429, "slow down", retry_after=0))
    first = await ground.provider.send(str(ANN), text, "send-1")
    parts = ground.telegram.texts()
    assert "\n".join(parts) == text
    assert len(parts) == 3
    assert await ground.provider.send(str(ANN), text, "send-1") == first
    assert ground.telegram.texts() == parts


async def test_what_was_not_confirmed_is_sent_the_next_time_from_there_on(ground: Ground) -> None:
    await ground.run()
    text = "a" * 4096 + "b" * 4096
    await ground.provider.send(str(ANN), text, "send-1")
    await ground.one("delete from telegram_sends where part = 1")
    await ground.provider.send(str(ANN), text, "send-1")
    assert [part[0] for part in ground.telegram.texts()] == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("fault", "family"),
    [
        (told_error(403, "Forbidden: bot was blocked by the user"), GiveUpError),
        (told_error(400, "Bad Request: chat not found"), GiveUpError),
        (told_error(502), NotConnectedError),
        (RESET, NotConnectedError),
    ],
)
async def test_a_send_that_fails_says_whether_it_will_ever_go(
    ground: Ground, fault: Act, family: type[Exception]
) -> None:
    await ground.run()
    ground.telegram.fault("sendMessage", fault)
    with pytest.raises(family):
        await ground.provider.send(str(ANN), "hello", "send-1")


async def test_what_is_done_is_forgotten_after_some_days(ground: Ground) -> None:
    await ground.run()
    ground.telegram.say("hello")
    await ground.until_taken()
    assert await ground.rows("select state, update is null from telegram_updates") == [("done", True)]
    await ground.one("update telegram_updates set ended_at = now() - interval '4 days'")
    ground.telegram.say("new")
    await ground.until_taken()
    assert ground.provider._parts is not None
    await ground.provider._parts.inbox.forget()
    assert await ground.one("select count(*) from telegram_updates") == 1


async def test_a_local_bot_api_server_may_leave_files_in_a_shared_folder(
    ground: Ground, tmp_path: Path, telegram: TelegramServer
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"the sound")
    (tmp_path / "secret").write_bytes(b"not for bots")
    shared = {"telegram_files": folder}
    ground.app = type(ground.app).of(
        ground.app.settings.model_copy(update=shared), ground.app.database, ground.app.engine
    )
    await ground.run()
    for path in (folder / "a.bin", folder / ".." / "secret", tmp_path / "secret"):
        answer = json.dumps({"ok": True, "result": {"file_path": str(path)}}).encode()
        telegram.fault("getFile", reply(Reply(answer)))
        telegram.send_file("voice", b"")
        await ground.until_taken()
    rows = await ground.rows("select mime_type from jobs order by id")
    assert [row[0] for row in rows] == ["audio/ogg", "media_corrupt_audio", "media_corrupt_audio"]


@pytest.mark.spec("I8")
async def test_a_database_that_goes_away_again_and_again_loses_no_update(
    ground: Ground, new_url: str
) -> None:
    await ground.run()
    admin = await asyncpg.connect(new_url)
    for number in range(20):
        ground.telegram.send_photo(png(number)) if number % 4 == 0 else ground.telegram.say(f"text {number}")
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
    taken = "select count(*) = 20 from telegram_updates where state = 'done'"

    async def all_taken() -> bool:
        return bool(await admin.fetchval(taken))

    await ground.until(all_taken)
    found = await admin.fetch("select text, image_count from runs order by sequence")
    await admin.close()
    expected = [number for number in range(20) if number % 4]
    assert [row["text"] for row in found] == [f"text {number}" for number in expected]
    assert [row["image_count"] for row in found] == [int(number % 4 == 1) for number in expected]
