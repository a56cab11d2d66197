from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.app import PROVIDER_NAMES
from tests.api.chatting import CHAT, create_bot, keeping
from tests.api.serving import Served
from tests.conftest import wait_until


async def test_a_bot_is_created_shown_changed_started_stopped_and_deleted(served: Served) -> None:
    client = served.client
    answer = await client.post("/api/bots", json={"id": "demo", "config": {"reply": {"by": "echo"}}})
    assert answer.status_code == 201
    bot = answer.json()
    assert (bot["id"], bot["running"], bot["config"]["reply"]["by"]) == ("demo", False, "echo")
    assert bot["config"]["providers"] == {"chat": {}}
    assert [each["id"] for each in (await client.get("/api/bots")).json()["bots"]] == ["demo"]
    changed = await client.put("/api/bots/demo", json={"config": {"reply": {"by": "none"}}})
    assert changed.json()["config"]["reply"]["by"] == "none"
    assert (await client.post("/api/bots/demo/start")).json()["running"] is True
    refused = await client.delete("/api/bots/demo")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert refused.json()["fix"] == "mediamill bots stop demo"
    assert (await client.post("/api/bots/demo/stop")).json() | {"running": False, "held": 0} == (
        await client.post("/api/bots/demo/stop")
    ).json()
    assert (await client.delete("/api/bots/demo")).json() == {"id": "demo"}
    assert (await client.get("/api/bots")).json() == {"bots": []}


async def test_a_bot_that_is_started_runs_and_its_provider_says_so(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)

        async def connected() -> bool:
            bot = (await served.client.get("/api/bots/demo")).json()
            return bool(bot["status"].get("chat", {}).get("state") == "connected")

        await wait_until(connected)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        ({"id": "Demo"}, "bad_bot", "cannot be the name"),
        ({"id": "../up"}, "bad_bot", "cannot be the name"),
        ({"id": ""}, "bad_bot", "cannot be the name"),
        ({"id": "a\0b"}, "bad_bot", "cannot be the name"),
        ({"id": "\ud800"}, "invalid", "unicode"),
        ({"id": "x" * 64}, "bad_bot", "cannot be the name"),
        ({"id": "demo", "config": {"providers": {"smoke": {}}}}, "bad_bot", "unknown provider smoke"),
        ({"id": "demo", "config": {"providers": {}}}, "bad_bot", "needs a provider"),
        (
            {"id": "demo", "config": {"reply": {"by": "magic"}, "limits": {"max_messages": 0}}},
            "bad_bot",
            "reply.by",
        ),
        ({"id": "demo", "colour": "red"}, "invalid", "colour"),
        ({"config": {}}, "invalid", "id"),
    ],
)
async def test_a_bad_bot_is_refused_with_every_fault(
    served: Served, body: dict[str, Any], code: str, word: str
) -> None:
    # Written by hand: half a character cannot be sent otherwise.
    answer = await served.client.post(
        "/api/bots", content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert word in answer.json()["detail"]
    if "limits" in str(body):
        assert len(answer.json()["faults"]) == 2
    assert (await served.client.get("/api/bots")).json() == {"bots": []}


async def test_a_name_is_taken_once(served: Served) -> None:
    await create_bot(served, start=False)
    answer = await served.client.post("/api/bots", json={"id": "demo"})
    assert (answer.status_code, answer.json()["code"]) == (409, "bot_exists")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/bots/nobody"),
        ("PUT", "/api/bots/nobody"),
        ("DELETE", "/api/bots/nobody"),
        ("POST", "/api/bots/nobody/start"),
        ("POST", "/api/bots/nobody/stop"),
        ("GET", "/api/bots/nobody/conversations"),
        ("GET", "/api/bots/nobody/conversations/chat/ann/messages"),
        ("POST", "/api/bots/nobody/conversations/chat/ann/messages/1/retry"),
        ("POST", "/api/bots/nobody/chat/ann/messages"),
        ("POST", "/api/bots/nobody/chat/ann/media"),
    ],
)
async def test_a_bot_that_is_not_there_is_not_found(served: Served, method: str, path: str) -> None:
    body: Any = (
        {"config": {}} if method == "PUT" else {"text": "hello"} if path.endswith("ann/messages") else None
    )
    answer = await served.client.request(method, path, json=None if method == "GET" else body)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_bot"), answer.text


async def test_a_stopped_bot_takes_nothing(served: Served) -> None:
    await create_bot(served, start=False)
    for path in ("messages", "media"):
        answer = await served.client.post(f"{CHAT}/{path}", json={"text": "hello"})
        assert (answer.status_code, answer.json()["code"]) == (409, "bot_not_running")
        assert answer.json()["fix"] == "mediamill bots start demo"


async def test_the_names_of_networks_that_commands_know_are_those_that_a_server_has(served: Served) -> None:
    assert served.keeper.provider_names == sorted(PROVIDER_NAMES)
