from __future__ import annotations

import pytest

from mediamill.access import users
from mediamill.access.model import HERE, Caller, Scope
from mediamill.access.passwords import NOBODY, BadPasswordError, is_password
from mediamill.access.sessions import close_others, list_sessions, open_session, session_caller
from mediamill.access.tokens import (
    TokenExpiredError,
    TokenInvalidError,
    TokenRevokedError,
    UnknownTokenError,
    create_token,
    list_tokens,
    revoke_token,
    token_caller,
)
from mediamill.db.connection import Connection, Database

PASSWORD = "correct horse battery"


async def make_session(connection: Connection, name: str) -> str:
    user = await users.find_user(connection, name)
    return await open_session(connection, user, None, seconds=60, address="203.0.113.9", agent="a browser")


async def test_a_password_is_kept_as_argon2id_and_nothing_else(database: Database) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])
        kept = (await users.find_user(connection, "ANN"))["password_hash"]
        assert kept.startswith("$argon2id$")
        assert PASSWORD not in str(await connection.fetch("select * from users"))
        found = await users.check_login(connection, "Ann", PASSWORD)
        assert found is not None
        assert found["name"] == "ann"
        for name, wrong in (("ann", PASSWORD + "x"), ("ann", ""), ("eve", PASSWORD), ("ann", "x" * 2000)):
            assert await users.check_login(connection, name, wrong) is None


async def test_somebody_unknown_costs_as_much_as_somebody_known() -> None:
    assert NOBODY.split("$")[1:4] == ["argon2id", "v=19", "m=65536,t=3,p=4"]
    assert not await is_password("anything", None)


@pytest.mark.parametrize(
    ("name", "password", "scopes", "error"),
    [
        ("ann", "short", ["read"], BadPasswordError),
        ("annabel-lee", "Annabel-Lee", ["read"], BadPasswordError),
        ("ann", "aaaaaaaaaaaaaa", ["read"], BadPasswordError),
        ("ann", "x" * 1001, ["read"], BadPasswordError),
        ("", PASSWORD, ["read"], users.BadNameError),
        ("a b", PASSWORD, ["read"], users.BadNameError),
        ("a/b", PASSWORD, ["read"], users.BadNameError),
        ("ann", PASSWORD, ["everything"], users.BadScopesError),
        ("ann", PASSWORD, [], users.BadScopesError),
    ],
)
async def test_what_cannot_be_a_user_is_refused(
    database: Database, name: str, password: str, scopes: list[str], error: type[Exception]
) -> None:
    async with database.transaction() as connection:
        with pytest.raises(error):
            await users.add_user(connection, name, password, scopes)
        assert await users.list_users(connection) == []


async def test_names_differ_in_more_than_case(database: Database) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])
        with pytest.raises(users.UserExistsError):
            await users.add_user(connection, "Ann", PASSWORD, ["read"])


async def test_another_password_ends_every_session(database: Database) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])
        values = [await make_session(connection, "ann") for _ in range(2)]
        for value in values:
            assert await session_caller(connection, value, None) is not None
        await users.set_password(connection, "ann", "another one entirely")
        for value in values:
            assert await session_caller(connection, value, None) is None


async def test_a_session_of_an_old_password_is_worth_nothing_even_if_it_was_opened_meanwhile(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])
        old = await users.find_user(connection, "ann")
        await users.set_password(connection, "ann", "another one entirely")
        late = await open_session(connection, old, None, seconds=60, address=None, agent="")
        assert await session_caller(connection, late, None) is None


async def test_who_is_disabled_is_out_and_comes_back_when_enabled(database: Database) -> None:
    async with database.transaction() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["admin"])
        ann = Caller("user", "ann", frozenset({Scope.ADMIN}), user_id)
        value = await make_session(connection, "ann")
        made = await create_token(connection, "hers", ["read"], days=None, made_by=ann)
        await users.disable_user(connection, "ann")
        assert await users.check_login(connection, "ann", PASSWORD) is None
        assert await session_caller(connection, value, None) is None
        with pytest.raises(TokenRevokedError):
            await token_caller(connection, made.token)
        await users.enable_user(connection, "ann")
        assert await users.check_login(connection, "ann", PASSWORD) is not None
        assert (await token_caller(connection, made.token)).name == "hers"
        await users.remove_user(connection, "ann")
        with pytest.raises(TokenInvalidError):
            await token_caller(connection, made.token)


async def test_a_token_is_worth_no_more_than_who_made_it(database: Database) -> None:
    async with database.transaction() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["admin"])
        ann = Caller("user", "ann", frozenset({Scope.ADMIN}), user_id)
        hers = await create_token(connection, "hers", ["admin"], days=None, made_by=ann)
        both = await create_token(connection, "both", ["read", "ingest"], days=None, made_by=ann)
        assert (await token_caller(connection, hers.token)).may(Scope.WORKER)
        await users.set_scopes(connection, "ann", ["read"])
        assert (await token_caller(connection, hers.token)).scopes == {Scope.READ}
        assert (await token_caller(connection, both.token)).scopes == {Scope.READ}


async def test_a_token_is_shown_once_and_known_by_its_hash(database: Database) -> None:
    async with database.transaction() as connection:
        made = await create_token(connection, "camera", ["ingest", "ingest"], days=1, made_by=HERE)
        assert made.token.startswith("mill_")
        assert len(made.token) == 48
        kept = await connection.fetchrow("select * from api_tokens")
        assert kept is not None
        assert len(kept["prefix"]) == 8
        assert made.token.removeprefix("mill_").startswith(kept["prefix"])
        assert made.token.removeprefix("mill_")[8:] not in str(kept)
        caller = await token_caller(connection, made.token)
        assert (caller.kind, caller.name) == ("token", "camera")
        assert caller.scopes == {Scope.INGEST}
        (listed,) = await list_tokens(connection)
        assert listed["used_at"] is not None
        for wrong in (
            made.token[:-1],
            made.token[:-1] + "é",
            "mill_",
            made.token.replace("mill_", "mill_mill_"),
        ):
            with pytest.raises(TokenInvalidError):
                await token_caller(connection, wrong)
        await connection.execute("update api_tokens set expires_at = now()")
        with pytest.raises(TokenExpiredError):
            await token_caller(connection, made.token)
        await revoke_token(connection, made.id)
        with pytest.raises(TokenRevokedError):
            await token_caller(connection, made.token)
        assert await list_tokens(connection) == []
        (over,) = await list_tokens(connection, all_=True)
        assert over["state"] == "revoked"
        with pytest.raises(UnknownTokenError):
            await revoke_token(connection, made.id + 1)


async def test_logging_out_elsewhere_leaves_the_one_that_asks(database: Database) -> None:
    async with database.transaction() as connection:
        for name in ("ann", "bob"):
            await users.add_user(connection, name, PASSWORD, ["read"])
        bobs = await make_session(connection, "bob")
        here, there = await make_session(connection, "ann"), await make_session(connection, "ann")
        caller = await session_caller(connection, here, None)
        assert caller is not None
        assert len(await list_sessions(connection, caller.id)) == 2
        assert await close_others(connection, caller) == 1
        assert await session_caller(connection, there, None) is None
        assert await session_caller(connection, here, None) is not None
        assert await session_caller(connection, bobs, None) is not None


async def test_a_token_that_was_made_with_a_users_token_goes_with_that_user_too(database: Database) -> None:
    async with database.transaction() as connection:
        eve = await users.add_user(connection, "eve", PASSWORD, [Scope.ADMIN])
        maker = Caller("user", "eve", frozenset({Scope.ADMIN}), eve)
        first = await create_token(connection, "first", [Scope.ADMIN], days=None, made_by=maker)
        second = await create_token(
            connection,
            "second",
            [Scope.ADMIN],
            days=None,
            made_by=await token_caller(connection, first.token),
        )
        third = await create_token(
            connection,
            "third",
            [Scope.ADMIN],
            days=None,
            made_by=await token_caller(connection, second.token),
        )
        await users.set_scopes(connection, "eve", [Scope.READ])
        assert (await token_caller(connection, third.token)).scopes == {Scope.READ}
        await users.disable_user(connection, "eve")
        for token in (first, second, third):
            with pytest.raises(TokenRevokedError):
                await token_caller(connection, token.token)
        await users.remove_user(connection, "eve")
        with pytest.raises(TokenInvalidError):
            await token_caller(connection, third.token)
