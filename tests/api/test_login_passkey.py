"""Answers of passkeys that nobody should be let in by; real ones are in tests/ui/test_account_page.py."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from mediamill.access import users
from mediamill.api.login import STARTS_BY_ADDRESS
from mediamill.api.sessions import COOKIE
from mediamill.db.connection import Database
from tests.access.authenticator import CREDENTIAL, Device
from tests.access.people import PASSWORD, actions
from tests.api.serving import Served

HERE = {"Host": "localhost"}


async def begin(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/login/passkey/begin", headers=HERE)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b'{"step": 7, "credential": {}}', 422),
        ({"credential": 7}, 401),
        ({"credential": {"id": 7}}, 401),
        ({"credential": {"id": "*"}}, 401),
        ({"credential": CREDENTIAL}, 401),
        ({"credential": CREDENTIAL | {"id": "Yg"}}, 401),
        ({"credential": CREDENTIAL | {"response": {}}}, 401),
        ({"credential": CREDENTIAL | {"more": "x" * 30_000}}, 401),
    ],
    ids=str,
)
async def test_what_is_no_answer_of_a_passkey_lets_nobody_in(
    database: Database, served: Served, body: bytes | dict[str, Any], status: int
) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "insert into users (name, password_hash, scopes) values ('ann', 'x', '{admin}')"
        )
        await connection.execute(
            "insert into passkeys (user_id, credential_id, public_key, sign_count, name) "
            "select id, 'a', '\\xa0', 0, 'broken' from users"
        )
    step = (await begin(served.client)).json()["step"]
    sent = body if isinstance(body, bytes) else json.dumps({"step": step, **body}).encode()
    answer = await served.client.post("/login/passkey", content=sent, headers=HERE)
    assert (answer.status_code, COOKIE in answer.headers.get("set-cookie", "")) == (status, False)
    if status == 401:
        assert ("somebody unknown", "login.failed", "passkey") in await actions(database)


@pytest.fixture
async def device(database: Database) -> Device:
    """Whose public key is registered for ann."""
    made = Device()
    async with database.transaction() as connection:
        ann = await users.add_user(connection, "ann", PASSWORD, ["read"])
        await connection.execute(
            "insert into passkeys (user_id, credential_id, public_key, sign_count, name) values ($1, 'a', $2, 0, 'x')",
            ann,
            made.public_key,
        )
    return made


async def show(served: Served, asked: dict[str, Any], credential: dict[str, Any]) -> int:
    sent = {"step": asked["step"], "credential": credential, "next": "//evil.example"}
    answer = await served.client.post("/login/passkey", json=sent, headers=HERE)
    if answer.status_code == 200:
        assert answer.json() == {"next": "/"}
    return answer.status_code


async def test_a_right_answer_logs_in_once_and_a_copied_key_is_noticed(
    served: Served, device: Device
) -> None:
    asked = (await begin(served.client)).json()
    credential = device.answer(asked["options"]["challenge"])
    assert await show(served, asked, credential) == 200
    assert (await served.client.get("/api/whoami", headers={"X-Forwarded-For": "10.0.0.1"})).json()[
        "name"
    ] == "ann"
    assert await show(served, asked, credential) == 401  # the challenge was used
    asked = (await begin(served.client)).json()
    assert (
        await show(served, asked, device.answer(asked["options"]["challenge"])) == 401
    )  # its count did not grow


@pytest.mark.parametrize(
    "bent",
    [{"verified": False}, {"origin": "http://evil.example"}, {"party": "evil.example"}, {"challenge": "YQ"}],
    ids=str,
)
async def test_a_bent_answer_lets_nobody_in(served: Served, device: Device, bent: dict[str, Any]) -> None:
    asked = (await begin(served.client)).json()
    given = {"challenge": asked["options"]["challenge"]} | bent
    assert await show(served, asked, device.answer(**given)) == 401


async def test_the_passkey_of_somebody_disabled_lets_nobody_in(
    database: Database, served: Served, device: Device
) -> None:
    async with database.transaction() as connection:
        await users.disable_user(connection, "ann")
    asked = (await begin(served.client)).json()
    assert await show(served, asked, device.answer(asked["options"]["challenge"])) == 401


async def test_strangers_cannot_fill_the_audit_log(database: Database, served: Served) -> None:
    for _ in range(STARTS_BY_ADDRESS + 5):
        assert await show(served, {"step": "x"}, CREDENTIAL) == 401
    assert len(await actions(database, STARTS_BY_ADDRESS + 5)) == STARTS_BY_ADDRESS


async def test_a_challenge_is_new_each_time_asks_for_its_user_and_there_are_not_too_many(
    served: Served,
) -> None:
    first, second = (await begin(served.client)).json(), (await begin(served.client)).json()
    assert first["options"]["challenge"] != second["options"]["challenge"]
    assert (first["options"]["userVerification"], first["options"]["rpId"]) == ("required", "localhost")
    assert first["options"].get("allowCredentials", []) == []
    statuses = [(await begin(served.client)).status_code for _ in range(STARTS_BY_ADDRESS)]
    assert (statuses.count(200), statuses[-1]) == (STARTS_BY_ADDRESS - 2, 429)


async def test_at_an_ip_address_there_are_no_passkeys(served: Served) -> None:
    refused = await served.client.post("/login/passkey/begin")
    assert (refused.status_code, "MEDIAMILL_PUBLIC_URL" in refused.json()["fix"]) == (422, True)
