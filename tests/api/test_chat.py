from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.chatting import CHAT, MESSAGES, create_bot, keeping, messages, say
from tests.api.serving import Served
from tests.conftest import wait_until


async def test_a_text_is_said_and_answered(served: Served) -> None:
    async with keeping(served):
        await create_bot(served, reply={"by": "echo"})
        said = await say(served, "hello", message_id="m-1", display_name="Ann")
        assert said == {"id": 1, "provider_message_id": "m-1", "repeated": False}

        async def answered() -> bool:
            return len(await messages(served)) == 2

        await wait_until(answered)
    first, second = await messages(served)
    assert (first["content"], first["source"], first["sender"]["display_name"]) == ("hello", "user", "Ann")
    assert (second["content"], second["source"]) == ("You said: hello", "bot")
    [conversation] = (await served.client.get("/api/bots/demo/conversations")).json()["conversations"]
    assert (conversation["provider_name"], conversation["correspondent_id"]) == ("chat", "ann")
    assert conversation["display_name"] == "Ann"


async def test_fifty_identical_posts_at_once_are_one_message(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        answers = await asyncio.gather(*(say(served, "hello", message_id="once") for _ in range(50)))
    assert {answer["id"] for answer in answers} == {1}
    assert [answer["repeated"] for answer in answers].count(False) == 1
    assert len(await messages(served)) == 1
    assert (await served.one("select count(*) from arrivals")) == 1


async def test_a_repeat_is_known_long_after_the_message_was_stored(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        await say(served, message_id="m-1")
        await wait_until(lambda: served.one("select count(*) from queues"))
        again = await say(served, message_id="m-1")
    assert again == {"id": 1, "provider_message_id": "m-1", "repeated": True}
    assert await served.one("select count(*) from queues") == 1


async def test_the_idempotency_header_counts_as_message_id(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        for repeated in (False, True):
            answer = await served.client.post(
                f"{CHAT}/messages", json={"text": "hello"}, headers={"Idempotency-Key": "key-1"}
            )
            assert (answer.json()["repeated"], answer.json()["provider_message_id"]) == (repeated, "key-1")


async def test_nothing_is_lost_or_doubled_while_the_bot_is_restarted_again_and_again(served: Served) -> None:
    async with keeping(served):
        await create_bot(served, reply={"by": "echo"})

        async def change() -> None:
            for number in range(1, 8):
                config = {"config": {"reply": {"by": "echo"}, "limits": {"max_messages": 1000 + number}}}
                await served.client.put("/api/bots/demo", json=config)

        texts = [f"text {number}" for number in range(60)]
        await asyncio.gather(
            change(), *(say(served, text, message_id=text.replace(" ", "-")) for text in texts)
        )

        async def all_answered() -> bool:
            return int(await served.one("select count(*) from queues where source = 'bot'")) >= len(texts)

        await wait_until(all_answered)
    stored = "select array_agg(content order by content) from queues where source = $1"
    assert await served.one(stored, "user") == sorted(texts)
    assert await served.one(stored, "bot") == sorted(f"You said: {text}" for text in texts)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"text": ""}, "empty_message"),
        ({"text": " \n\t"}, "empty_message"),
        ({"text": "\0\0"}, "empty_message"),
        ({"text": 5}, "invalid"),
        ({}, "invalid"),
        ({"text": "x" * 200_001}, "invalid"),
        ({"text": "hello", "colour": "red"}, "invalid"),
        ({"text": "hello", "message_id": "a b"}, "bad_message_id"),
        ({"text": "hello", "message_id": "a\0"}, "bad_message_id"),
        ({"text": "hello", "message_id": "\ud800"}, "invalid"),
        ({"text": "\ud800"}, "invalid"),
        ({"text": "hello", "message_id": "x" * 201}, "invalid"),
        ({"text": "hello", "display_name": "x" * 201}, "invalid"),
    ],
)
async def test_a_bad_text_is_refused(served: Served, body: dict[str, Any], code: str) -> None:
    async with keeping(served):
        await create_bot(served)
        answer = await served.client.post(
            f"{CHAT}/messages",
            content=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert await served.one("select count(*) from arrivals") == 0


@pytest.mark.parametrize(
    "name", ["a b", "-x", "%00", "a%2Fb", "..%2F..%2Fetc", "x" * 129, "%ed%a0%80", "ünder"]
)
async def test_a_bad_correspondent_is_refused(served: Served, name: str) -> None:
    await create_bot(served)
    for path in ("messages", "media"):
        answer = await served.client.post(f"/api/bots/demo/chat/{name}/{path}", json={"text": "hello"})
        assert answer.status_code in (404, 405, 422), answer.text
    assert await served.one("select count(*) from arrivals") == 0


async def test_nul_is_left_out_of_a_text(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        await say(served, "a\0b", display_name="N\0")
    [message] = await messages(served)
    assert (message["content"], message["sender"]["display_name"]) == ("ab", "N")


async def test_a_bot_without_the_chat_says_so(served: Served) -> None:
    await create_bot(served)
    await served.run("""update bots set config = jsonb_set(config, '{providers}', '{}')""")
    await served.keeper.keep_once()
    answer = await served.client.post(f"{CHAT}/messages", json={"text": "hello"})
    assert (answer.status_code, answer.json()["code"]) == (409, "no_chat")


async def test_messages_are_paged_by_ids(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        for number in range(1, 8):
            await say(served, f"text {number}")

    async def page(**query: int) -> tuple[list[int], int | None]:
        answer = (await served.client.get(MESSAGES, params=query)).json()
        return [message["id"] for message in answer["messages"]], answer["next"]

    assert await page(amount=3) == ([5, 6, 7], 5)
    assert await page(amount=3, before=5) == ([2, 3, 4], 2)
    assert await page(amount=3, before=2) == ([1], None)
    assert await page(after=5) == ([6, 7], None)
    await served.run("update arrivals set message = message || '{\"originating_time\": 1}' where id = 7")
    await served.run("update queues set originating_time = 1 where id = 7")
    assert await page(amount=3) == ([7, 5, 6], 5)  # listed where it was sent, paged by ids all the same
    for bad in ({"amount": 0}, {"amount": 501}, {"before": 0}, {"before": 2**63}, {"after": -1}):
        assert (await served.client.get(MESSAGES, params=bad)).status_code == 422


async def test_conversations_are_paged_by_time(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        for name in ("ann", "bob", "cid"):
            await served.client.post(f"/api/bots/demo/chat/{name}/messages", json={"text": "hello"})
    path = "/api/bots/demo/conversations"
    first = (await served.client.get(path, params={"amount": 2})).json()
    assert [each["correspondent_id"] for each in first["conversations"]] == ["cid", "bob"]
    second = (await served.client.get(path, params={"amount": 2, "before": first["next"]})).json()
    assert [each["correspondent_id"] for each in second["conversations"]] == ["ann"]
    assert second["next"] is None
    for bad in ("yesterday", "2026-01-01T00:00:00"):
        assert (await served.client.get(path, params={"before": bad})).status_code == 422


async def test_an_unknown_conversation_is_not_found(served: Served) -> None:
    await create_bot(served)
    for answer in (await served.client.get(MESSAGES), await served.client.post(f"{MESSAGES}/1/retry")):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_conversation")


async def test_what_did_not_fail_cannot_be_tried_again(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        await say(served)
    answer = await served.client.post(f"{MESSAGES}/1/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "nothing_to_retry")
    assert (await served.client.post(f"{MESSAGES}/2/retry")).status_code == 404
    assert (await served.client.post(f"{MESSAGES}/0/retry")).status_code == 422
