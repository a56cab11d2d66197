from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest

from mediamill.access import passkeys, users
from mediamill.access.passkeys import (
    MOST_PASSKEYS,
    Asked,
    PasskeyExistsError,
    PasskeyFaultyError,
    UnknownPasskeyError,
    begin_login,
    begin_registration,
    finish_login,
    finish_registration,
    list_passkeys,
    remove_passkey,
)
from mediamill.access.places import RelyingParty
from mediamill.db.connection import Connection, Database
from mediamill.errors import InvalidError
from tests.access.authenticator import CREDENTIAL, Device

PARTY = RelyingParty("localhost", "http://localhost")


async def add_user(connection: Connection, name: str = "ann") -> int:
    """Without the time that a real password takes."""
    sql = "insert into users (name, password_hash, scopes) values ($1, 'x', '{read}') returning id"
    return int(await connection.fetchval(sql, name))


def options_of(asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(asked.options)
    return found


async def register(connection: Connection, user_id: int, device: Device, name: str = "phone") -> int:
    asked = await begin_registration(connection, user_id, "ann", PARTY)
    answer = json.dumps(device.registration(options_of(asked)["challenge"])).encode()
    return await finish_registration(connection, user_id, asked.step, answer, name, PARTY)


async def log_in(connection: Connection, device: Device, **bent: Any) -> dict[str, Any] | None:
    asked = await begin_login(connection, PARTY)
    answer = device.answer(options_of(asked)["challenge"], **bent)
    return await finish_login(connection, asked.step, json.dumps(answer).encode(), PARTY)


async def test_a_device_is_asked_for_a_passkey_that_checks_its_user_and_is_not_there_yet(
    database: Database,
) -> None:
    async with database.connection() as connection:
        user_id = await add_user(connection)
        await register(connection, user_id, Device())
        asked = options_of(await begin_registration(connection, user_id, "ann", PARTY))
        login = options_of(await begin_login(connection, PARTY))
    assert asked["rp"] == {"id": "localhost", "name": "mediamill"}
    assert (asked["user"]["name"], asked["timeout"]) == ("ann", 120_000)
    chosen = asked["authenticatorSelection"]
    assert (chosen["residentKey"], chosen["userVerification"]) == ("required", "required")
    assert [each["id"] for each in asked["excludeCredentials"]] == ["YQ"]
    assert (login["rpId"], login["timeout"], login["userVerification"]) == ("localhost", 120_000, "required")


async def test_a_passkey_that_was_registered_logs_its_user_in_until_it_is_removed(database: Database) -> None:
    device = Device()
    async with database.connection() as connection:
        await add_user(connection, "bob")
        user_id = await add_user(connection)
        id_ = await register(connection, user_id, device, " phone ")
        (listed,) = await list_passkeys(connection, user_id)
        assert (listed["id"], listed["name"], listed["used_at"]) == (id_, "phone", None)
        device.count += 1
        found = await log_in(connection, device)
        assert found is not None
        assert (found["id"], found["name"]) == (user_id, "ann")
        assert (await list_passkeys(connection, user_id))[0]["used_at"] is not None
        assert await log_in(connection, device) is None  # it does not count on: a copy
        device.count += 1
        assert await log_in(connection, device) is not None
        with pytest.raises(UnknownPasskeyError):
            await remove_passkey(connection, user_id + 1, id_)
        assert await remove_passkey(connection, user_id, id_) == "phone"
        device.count += 1
        assert await log_in(connection, device) is None


@pytest.mark.parametrize("bent", [{"verified": False}, {"origin": "http://evil"}, {"party": "evil"}], ids=str)
async def test_an_answer_of_a_passkey_for_another_place_or_without_its_user_is_refused(
    database: Database, bent: dict[str, Any]
) -> None:
    device = Device()
    async with database.connection() as connection:
        await register(connection, await add_user(connection), device)
        device.count += 1
        assert await log_in(connection, device, **bent) is None
        assert await log_in(connection, device) is not None


async def test_a_challenge_is_taken_once_and_somebody_disabled_is_not_let_in(database: Database) -> None:
    device = Device()
    async with database.connection() as connection:
        await register(connection, await add_user(connection), device)
        asked = await begin_login(connection, PARTY)
        device.count += 1
        answer = json.dumps(device.answer(options_of(asked)["challenge"])).encode()
        assert await finish_login(connection, asked.step, answer, PARTY) is not None
        device.count += 1
        assert await finish_login(connection, asked.step, answer, PARTY) is None
        await users.disable_user(connection, "ann")
        assert await log_in(connection, device) is None


@pytest.mark.parametrize("sent", [b"", b"[]", b'{"id": "*"}', json.dumps(CREDENTIAL).encode(), b"\xff"])
async def test_bytes_that_are_no_answer_of_a_passkey_log_nobody_in(database: Database, sent: bytes) -> None:
    async with database.connection() as connection:
        await register(connection, await add_user(connection), Device())
        asked = await begin_login(connection, PARTY)
        assert await finish_login(connection, asked.step, sent, PARTY) is None


async def test_an_answer_has_a_bounded_length(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    async with database.connection() as connection:
        user_id = await add_user(connection)
        await register(connection, user_id, device)
        device.count += 1
        asked = await begin_login(connection, PARTY)
        answer = json.dumps(device.answer(options_of(asked)["challenge"])).encode()
        monkeypatch.setattr(passkeys, "CREDENTIAL_BYTES", len(answer) - 1)
        assert await finish_login(connection, asked.step, answer, PARTY) is None
        asked = await begin_login(connection, PARTY)
        answer = json.dumps(device.answer(options_of(asked)["challenge"])).encode()
        monkeypatch.setattr(passkeys, "CREDENTIAL_BYTES", len(answer))
        assert await finish_login(connection, asked.step, answer, PARTY) is not None
        await connection.execute("delete from passkeys")
        for allowed in (False, True):
            asked = await begin_registration(connection, user_id, "ann", PARTY)
            made = json.dumps(device.registration(options_of(asked)["challenge"])).encode()
            monkeypatch.setattr(passkeys, "CREDENTIAL_BYTES", len(made) - (not allowed))
            with contextlib.nullcontext() if allowed else pytest.raises(PasskeyFaultyError):
                await finish_registration(connection, user_id, asked.step, made, "phone", PARTY)


async def test_a_passkey_has_a_name_and_is_registered_once_for_whoever_asked(database: Database) -> None:
    device = Device()
    async with database.connection() as connection:
        user_id = await add_user(connection)
        for name in (" ", "x" * 61):
            with pytest.raises(InvalidError, match="name of up to 60"):
                await register(connection, user_id, device, name)
        await register(connection, user_id, device, "x" * 60)
        with pytest.raises(PasskeyExistsError):
            await register(connection, user_id, device)
        asked = await begin_registration(connection, user_id, "ann", PARTY)
        answer = json.dumps(device.registration(options_of(asked)["challenge"])).encode()
        with pytest.raises(PasskeyFaultyError, match="too long"):
            await finish_registration(connection, user_id + 1, asked.step, answer, "phone", PARTY)
        with pytest.raises(PasskeyFaultyError, match="too long"):  # the step is gone with that
            await finish_registration(connection, user_id, asked.step, answer, "phone", PARTY)


@pytest.mark.parametrize("verified", [False, True])
async def test_a_new_passkey_of_an_unverified_user_or_for_another_challenge_is_refused(
    database: Database, verified: bool
) -> None:
    async with database.connection() as connection:
        user_id = await add_user(connection)
        asked = await begin_registration(connection, user_id, "ann", PARTY)
        challenge = "YQ" if verified else options_of(asked)["challenge"]
        answer = json.dumps(Device().registration(challenge, verified=verified)).encode()
        with pytest.raises(PasskeyFaultyError):
            await finish_registration(connection, user_id, asked.step, answer, "phone", PARTY)
        assert await list_passkeys(connection, user_id) == []


async def test_nobody_has_more_than_a_handful_of_passkeys(database: Database) -> None:
    async with database.connection() as connection:
        user_id = await add_user(connection)
        sql = "insert into passkeys (user_id, credential_id, public_key, sign_count, name) values ($1, $2, 'b', 0, 'c')"
        for number in range(MOST_PASSKEYS - 1):
            await connection.execute(sql, user_id, bytes([number]))
        await begin_registration(connection, user_id, "ann", PARTY)
        await connection.execute(sql, user_id, b"last")
        with pytest.raises(PasskeyExistsError, match="20 passkeys already"):
            await begin_registration(connection, user_id, "ann", PARTY)
