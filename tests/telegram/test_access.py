"""Who may talk to a bot on Telegram: before anything is fetched, and in groups only what is meant for it."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.conversations.access import WELCOME
from mediamill.conversations.senders import decide_sender, list_senders, pair_sender
from mediamill.providers.telegram.update import read_message
from mediamill.testing.telegram_server import ACCOUNT, ANN
from tests.telegram.grounds import Ground, png

ECHO = {"by": "echo"}
GROUP = -100_500
MENTION = [{"type": "mention", "offset": 0, "length": 9}]


@pytest.fixture
def paired(ground: Ground) -> Ground:
    ground.access = {"mode": "paired"}
    return ground


async def allow(ground: Ground, sender: int) -> None:
    async with ground.app.database.transaction() as connection:
        await decide_sender(connection, "bot", None, str(sender), "allowed")


@pytest.mark.spec("C50")
@pytest.mark.parametrize("reply", [ECHO, None])
async def test_a_strangers_files_are_not_fetched_and_the_code_lets_them_in(
    paired: Ground, reply: dict[str, Any] | None
) -> None:
    telegram = paired.telegram
    await paired.run(reply)
    telegram.say("/start")
    telegram.send_album([png(1), png(2)], caption="secret")
    telegram.send_file("voice", b"secret", duration=9)
    await paired.until_taken()
    async with paired.app.database.connection() as connection:
        [waiting] = await list_senders(connection, "bot")
    await paired.until(lambda: len(telegram.texts()) == 1)
    assert waiting["code"] in telegram.texts()[0]
    assert telegram.count("getFile") == 0
    assert await paired.runs() == []
    assert await paired.pending() == []
    assert await paired.one("select count(*) from telegram_updates where update is not null") == 0
    async with paired.app.database.transaction() as connection:
        await pair_sender(connection, "bot", waiting["code"])
    await paired.until(lambda: telegram.texts()[1:] == [WELCOME])
    telegram.say("/start")
    await paired.until(lambda: len(telegram.texts()) == 3)
    telegram.say("hello")
    await paired.until(lambda: paired.one("select count(*) = 1 from replies where message_id > 0"))


@pytest.mark.spec("C51")
async def test_the_limits_hold_for_texts_images_and_declared_seconds(ground: Ground) -> None:
    ground.access |= {"messages_per_day": 3, "media_seconds_per_day": 10}
    await ground.run()
    ground.telegram.send_file("voice", b"too long", duration=11)
    await ground.until_taken()
    assert ground.telegram.count("getFile") == 0
    ground.telegram.send_photo(png(1))
    ground.telegram.say("one")
    ground.telegram.send_file("voice", b"short", duration=4)
    await ground.until_taken()
    assert await ground.rows("select messages, media_seconds from sender_days") == [(3, 4.0)]
    fetched = ground.telegram.count("getFile")
    ground.telegram.send_photo(png(2))
    ground.telegram.say("two")
    await ground.until_taken()
    assert ground.telegram.count("getFile") == fetched
    assert await ground.messages() == ["one", ""]
    told = [text for text in ground.telegram.texts() if text.startswith("You have reached today's limit")]
    assert len(told) == 1


@pytest.mark.spec("C52")
async def test_in_a_group_mentions_commands_and_replies_are_heard_and_nothing_else(paired: Ground) -> None:
    telegram = paired.telegram
    await allow_after_run(paired)
    write = telegram.write
    write({"text": "nothing for you"}, group=GROUP)
    write({"text": "@mill_bot one", "entities": MENTION}, group=GROUP)
    write({"text": "@else_bot no", "entities": MENTION}, group=GROUP)
    write({"text": "@mill_bot no entity"}, group=GROUP)
    command = [{"type": "bot_command", "offset": 0, "length": 13}]
    write({"text": "/say@Mill_bot two", "entities": command}, group=GROUP)
    write({"text": "three", "reply_to_message": {"from": {"id": ACCOUNT}}}, group=GROUP)
    write({"text": "no", "reply_to_message": {"from": {"id": ANN}}}, group=GROUP)
    file = telegram.put_file(b"the sound")
    caption = {
        "caption": "😀 @mill_bot four",
        "caption_entities": [{"type": "mention", "offset": 3, "length": 9}],
    }
    write({"voice": {"file_id": file}, **caption}, group=GROUP)
    write({"voice": {"file_id": telegram.put_file(b"no")}, "caption": "no"}, group=GROUP)
    write({"text": "@mill_bot stranger", "entities": MENTION}, group=GROUP, user=8)
    await paired.until_taken()
    assert await paired.messages() == ["@mill_bot one", "/say@Mill_bot two", "three", "😀 @mill_bot four"]
    assert telegram.count("getFile") == 1
    assert all("code" not in text for text in telegram.texts(GROUP))
    await allow(paired, GROUP)
    write({"text": "@mill_bot five", "entities": MENTION}, group=GROUP, user=8)
    await paired.until_taken()
    assert (await paired.messages())[-1] == "@mill_bot five"


async def allow_after_run(ground: Ground) -> None:
    await ground.run(ECHO)
    await allow(ground, ANN)


@pytest.mark.spec("C52")
async def test_the_caption_of_one_speaks_for_the_album(ground: Ground) -> None:
    await ground.run(ECHO)
    album = ground.telegram.new_album()
    parts: list[dict[str, Any]] = [{"caption": "@mill_bot look", "caption_entities": MENTION}, {}]
    for part in parts:
        photo = [{"file_id": ground.telegram.put_file(png(1)), "width": 9}]
        ground.telegram.write({"photo": photo, "media_group_id": album, **part}, group=GROUP)
    await ground.until_taken()
    assert await ground.messages() == ["@mill_bot look", ""]


@pytest.mark.parametrize(
    "message",
    [
        {"entities": "no list"},
        {"entities": [None, {"type": "mention"}, {"type": "mention", "offset": -5, "length": 2**70}]},
        {"entities": [{"type": "mention", "offset": 10**9, "length": 5}]},
        {"entities": [{"type": "text_mention", "user": "nobody"}], "reply_to_message": {"from": []}},
    ],
)
def test_marks_that_make_no_sense_mention_nobody(message: dict[str, Any]) -> None:
    chat = {"id": GROUP, "type": "supergroup"}
    found = read_message({"update_id": 1, "message": {"message_id": 1, "chat": chat, "text": "x", **message}})
    assert found is not None
    assert (found.mentioned_ids, found.mentioned_names) == (frozenset(), frozenset())


def test_an_account_without_a_user_name_is_mentioned_by_its_id() -> None:
    entity = {"type": "text_mention", "offset": 0, "length": 1, "user": {"id": ACCOUNT}}
    message = {
        "message_id": 1,
        "chat": {"id": GROUP, "type": "supergroup"},
        "text": "x",
        "entities": [entity],
    }
    found = read_message({"update_id": 1, "message": message})
    assert found is not None
    assert found.mentioned_ids == {ACCOUNT}
