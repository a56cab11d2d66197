from __future__ import annotations

import asyncio
import re

import pytest

from mediamill.access import users
from mediamill.access.second_factor import (
    RECOVERY_CODES,
    FactorExistsError,
    WrongCodeError,
    begin_enrolment,
    confirm_enrolment,
    factor_state,
    pending_enrolment,
    remove_factor,
    use_code,
)
from mediamill.access.sessions import SessionLimits, open_session, session_caller
from mediamill.access.steps import begin_step, find_step, take_step
from mediamill.db.connection import Database
from tests.access.people import PASSWORD, clock_stands_still, code_at, enrol

__all__ = ["clock_stands_still"]


async def test_a_second_factor_counts_once_a_code_of_it_was_shown(database: Database) -> None:
    async with database.connection() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["read"])
        first = await begin_enrolment(connection, user_id, "ann")
        second = await begin_enrolment(connection, user_id, "ann")
        assert await pending_enrolment(connection, user_id, "ann") == second
        assert second.uri.startswith("otpauth://totp/mediamill:ann?secret=")
        assert not (await users.find_user(connection, "ann"))["second_factor"]
        assert not await use_code(connection, user_id, code_at(second.secret))
        with pytest.raises(WrongCodeError):
            await confirm_enrolment(connection, user_id, code_at(first.secret))
        codes = await confirm_enrolment(connection, user_id, code_at(second.secret))
        assert len(set(codes)) == RECOVERY_CODES
        assert all(re.fullmatch(r"[a-z2-7]{4}(-[a-z2-7]{4}){3}", code) for code in codes)
        assert (await users.find_user(connection, "ann"))["second_factor"]
        assert await pending_enrolment(connection, user_id, "ann") is None
        with pytest.raises(FactorExistsError):
            await begin_enrolment(connection, user_id, "ann")
        assert await use_code(connection, user_id, code_at(second.secret, 1))


async def test_a_code_works_once_within_its_window_and_none_before_it(database: Database) -> None:
    async with database.connection() as connection:
        user_id, secret, _ = await enrol(connection)
        code = code_at(secret)
        for wrong in (
            code_at(secret, 3),
            code_at(secret, -3),
            "",
            "000",
            "x" * 500,
            "１２３４５６",
            code + "0",
        ):
            assert not await use_code(connection, user_id, wrong), wrong
        assert await use_code(connection, user_id, f" {code[:3]} {code[3:]} ")
        assert not await use_code(connection, user_id, code)
        assert not await use_code(connection, user_id, code_at(secret, -1))


async def test_of_many_requests_with_one_code_one_is_let_in(database: Database) -> None:
    async with database.connection() as connection:
        user_id, secret, recovery = await enrol(connection)

    async def use(code: str) -> bool:
        async with database.transaction() as connection:
            return await use_code(connection, user_id, code)

    for code in (code_at(secret), recovery[0]):
        assert sum(await asyncio.gather(*(use(code) for _ in range(8)))) == 1


async def test_a_recovery_code_works_once_and_is_kept_as_a_hash(database: Database) -> None:
    async with database.connection() as connection:
        user_id, _, codes = await enrol(connection)
        assert codes[0] not in str(await connection.fetch("select * from recovery_codes"))
        assert await use_code(connection, user_id, codes[0].upper().replace("-", " "))
        assert not await use_code(connection, user_id, codes[0])
        assert (await factor_state(connection, user_id)).recovery_codes == RECOVERY_CODES - 1
        other, _, _ = await enrol(connection, "bob")
        assert not await use_code(connection, other, codes[1])
        await remove_factor(connection, user_id)
        assert not await use_code(connection, user_id, codes[1])
        assert not (await factor_state(connection, user_id)).on


async def test_a_reset_removes_every_second_factor_and_ends_the_sessions(database: Database) -> None:
    async with database.connection() as connection:
        user_id, secret, _ = await enrol(connection)
        user = await users.find_user(connection, "ann")
        limits = SessionLimits(60, 60)
        value = await open_session(connection, user, None, limits=limits, address=None, agent="")
        await connection.execute(
            "insert into passkeys (user_id, credential_id, public_key, sign_count, name) values ($1, 'a', 'b', 0, 'c')",
            user_id,
        )
        await users.reset_second_factor(connection, "Ann")
        assert await session_caller(connection, value, None) is None
        assert not await use_code(connection, user_id, code_at(secret, 1))
        (listed,) = await users.list_users(connection)
        assert (listed["second_factor"], listed["passkeys"]) == (False, 0)


async def test_a_step_of_a_login_is_taken_once_for_its_own_purpose_and_not_for_ever(
    database: Database,
) -> None:
    async with database.connection() as connection:
        value = await begin_step(connection, "passkey", {"challenge": "x"})
        assert len(value) == 43  # 256 random bits
        assert await take_step(connection, "code", value) is None
        assert await find_step(connection, "passkey", None) is None
        found = await find_step(connection, "passkey", value)
        assert found is not None
        assert await take_step(connection, "passkey", value) == found
        assert await take_step(connection, "passkey", value) is None
        late = await begin_step(connection, "code", {})
        await connection.execute("update login_steps set expires_at = now()")
        assert await take_step(connection, "code", late) is None
