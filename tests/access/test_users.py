from __future__ import annotations

import pytest
from pydantic import SecretStr

from mediamill.access import model, passkeys, passwords, second_factor, single_sign_on, tokens, users
from mediamill.access.model import (
    HERE,
    Caller,
    Scope,
    ScopeMissingError,
    current_caller,
    need,
    set_caller,
)
from mediamill.access.passwords import NOBODY, BadPasswordError, _hasher, check_password, is_password
from mediamill.access.sessions import (
    SessionLimits,
    close_others,
    close_session,
    list_sessions,
    open_session,
    session_caller,
)
from mediamill.access.tokens import (
    TokenExpiredError,
    TokenInvalidError,
    TokenRevokedError,
    UnknownTokenError,
    create_token,
    is_token,
    list_tokens,
    revoke_token,
    token_caller,
)
from mediamill.db.connection import Connection, Database
from mediamill.errors import InvalidError
from mediamill.settings import Settings
from tests.access.people import PASSWORD

LIMITS = SessionLimits(60, 60)


async def make_session(connection: Connection, name: str) -> str:
    user = await users.find_user(connection, name)
    return await open_session(connection, user, None, limits=LIMITS, address="203.0.113.9", agent="a browser")


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
    real = _hasher().hash(PASSWORD)  # not the cheap one of most tests, which takes its place after the import
    assert real.split("$")[1:4] == NOBODY.split("$")[1:4]
    assert not await is_password("anything", None)


@pytest.mark.parametrize(
    ("name", "password", "scopes", "error"),
    [
        ("ann", "short", ["read"], BadPasswordError),
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


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("1234567890", "at least 12 characters"),
        ("correct hor", "at least 12 characters"),
        ("123456789012", "easy to guess"),
        ("abcdefghijkl", "easy to guess"),
        ("aaaaaaaaaaaaaa", "easy to guess"),
        ("qwertyuiop[]", "easy to guess"),
        ("passwordpassword", "easy to guess"),
        ("P@ssw0rd1234", "easy to guess"),
        ("a" * 900, "easy to guess"),
        ("only Annabel knows this", "contains 'annabel'"),
        ("we run MediaMill here", "contains 'mediamill'"),
        ("x" * 1001, "at most 1000 characters"),
    ],
)
async def test_a_password_that_is_short_or_easy_to_guess_is_refused_with_advice(
    password: str, said: str
) -> None:
    with pytest.raises(BadPasswordError, match=said) as refused:
        await check_password(password, "annabel")
    assert refused.value.fix


@pytest.mark.parametrize(
    "password",
    [
        PASSWORD,
        "kxqzjvwpmtrb",
        "einundzwanzig bunte Papageien",
        "日本語のパスワードは長い方が良い",
        "q8!" * 3 + "Zr" * 400,
    ],
)
async def test_a_good_password_needs_no_certain_characters_and_may_be_long(password: str) -> None:
    await check_password(password, "al")


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
        late = await open_session(connection, old, None, limits=LIMITS, address=None, agent="")
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


async def test_whoever_reads_the_database_finds_no_password_token_or_session(database: Database) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["admin"])
        user = await users.find_user(connection, "ann")
        session = await open_session(connection, user, None, limits=LIMITS, address=None, agent="")
        made = await create_token(connection, "camera", ["admin"], days=1, made_by=HERE)
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        rows = [await connection.fetch(f'select t::text from "{each[0]}" t') for each in tables]
    kept = "".join(row[0] for table in rows for row in table)
    assert "camera" in kept
    assert not [secret for secret in (PASSWORD, session, made.token[5:]) if secret in kept]


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


@pytest.mark.parametrize(
    ("name", "days", "said"),
    [
        (" ", None, "name of up to 100"),
        ("x" * 101, None, "name of up to 100"),
        ("camera", 0, "up to 3650 days"),
        ("camera", 3651, "up to 3650 days"),
    ],
)
async def test_a_token_has_a_name_and_ends_within_ten_years(
    database: Database, name: str, days: float | None, said: str
) -> None:
    async with database.transaction() as connection:
        with pytest.raises(InvalidError, match=said):
            await create_token(connection, name, ["read"], days=days, made_by=HERE)
        made = await create_token(connection, "x" * 100, ["read"], days=3650, made_by=HERE)
        assert made.expires_at is not None
        assert (await create_token(connection, " a ", ["read"], days=None, made_by=HERE)).name == "a"


async def test_a_token_of_somebody_disabled_is_refused_and_its_use_is_noted_once_a_minute(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["read"])
        ann = Caller("user", "ann", frozenset({Scope.READ}), user_id)
        made = await create_token(connection, "hers", ["read"], days=None, made_by=ann)
        assert (await token_caller(connection, made.token)).id == made.id
        assert await revoke_token(connection, made.id) == "hers"
        other = await create_token(connection, "other", ["read"], days=None, made_by=ann)
        await users.disable_user(connection, "ann")
        with pytest.raises(TokenRevokedError):
            await token_caller(connection, other.token)


@pytest.mark.parametrize(
    ("text", "looks"),
    [("mill_x", True), ("x", False), ("mill_é", False), ("mill_\0", False), ("xmill_", False)],
)
def test_a_token_is_known_by_its_look(text: str, looks: bool) -> None:
    assert is_token(text) is looks


def test_a_caller_may_do_what_the_scopes_say_and_an_admin_everything() -> None:
    reader = Caller("user", "ann", frozenset({Scope.READ}))
    reader.need(Scope.READ)
    with pytest.raises(ScopeMissingError, match=r"needs the scope ingest; ann has read$"):
        reader.need(Scope.INGEST)
    with pytest.raises(ScopeMissingError, match=r"bob has none$"):
        Caller("user", "bob", frozenset()).need(Scope.READ)
    HERE.need(Scope.WORKER)


def test_what_a_request_may_do_is_asked_of_its_caller() -> None:
    need(Scope.ADMIN)  # nobody's request: the code itself asks
    set_caller(Caller("user", "ann", frozenset({Scope.READ})))
    need(Scope.READ)
    with pytest.raises(ScopeMissingError):
        need(Scope.ADMIN)
    set_caller(None)
    assert current_caller() is None


async def test_a_user_is_shown_unless_disabled_or_gone(database: Database) -> None:
    async with database.transaction() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["ingest", "read", "read"])
        found = await users.show_user(connection, user_id)
        assert found is not None
        assert (found["name"], found["scopes"]) == ("ann", ["read", "ingest"])
        assert await users.set_scopes(connection, "ann", ["worker"]) == [Scope.WORKER]
        assert await users.show_user(connection, user_id + 1) is None
        await users.disable_user(connection, "ann")
        assert await users.show_user(connection, user_id) is None
        with pytest.raises(users.UnknownUserError):
            await users.find_user(connection, "eve")


async def test_a_session_remembers_where_it_was_opened_and_ends_alone(database: Database) -> None:
    async with database.transaction() as connection:
        user_id = await users.add_user(connection, "ann", PASSWORD, ["read"])
        ann = await users.find_user(connection, "ann")
        long = "x" * 201
        value = await open_session(connection, ann, None, limits=LIMITS, address="203.0.113.9", agent=long)
        assert len(value) == 43  # 256 random bits
        other = await make_session(connection, "ann")
        caller = await session_caller(connection, value, None)
        assert caller is not None
        assert (caller.kind, caller.name, caller.id) == ("user", "ann", user_id)
        assert caller.session is not None
        kept = next(row for row in await list_sessions(connection, user_id) if row["id"] == caller.session)
        assert (str(kept["address"]), kept["agent"]) == ("203.0.113.9", "x" * 200)
        await close_session(connection, caller.session)
        assert await session_caller(connection, value, None) is None
        assert await session_caller(connection, other, None) is not None


async def test_a_session_of_the_admin_secret_ends_with_it(database: Database) -> None:
    async with database.transaction() as connection:
        secret = SecretStr("a secret")
        value = await open_session(connection, None, secret, limits=LIMITS, address=None, agent="")
        caller = await session_caller(connection, value, secret)
        assert caller is not None
        assert (caller.kind, caller.name, caller.id) == ("secret", "admin secret", None)
        assert caller.session is not None
        for other in (SecretStr("another"), None):
            assert await session_caller(connection, value, other) is None


def test_a_session_lasts_as_long_as_the_settings_say() -> None:
    settings = Settings.model_validate({"session_hours": 2, "session_idle_hours": 0.5})
    assert SessionLimits.of(settings) == SessionLimits(7200, 1800)


async def test_sessions_of_who_was_disabled_stay_closed_when_they_come_back(database: Database) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])
        value = await make_session(connection, "ann")
        await users.disable_user(connection, "ann")
        await users.enable_user(connection, "ann")
        assert await session_caller(connection, value, None) is None


def test_programs_know_a_refusal_by_its_code() -> None:
    modules = (model, passkeys, passwords, second_factor, single_sign_on, tokens, users)
    errors = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    found = {
        one.code for one in errors if one.__module__.startswith("mediamill.access") and hasattr(one, "code")
    }
    assert found == {
        *("scope_missing", "bad_password", "wrong_code", "second_factor_exists"),
        *("passkey_refused", "passkey_exists", "unknown_passkey", "passkey_faulty"),
        *("single_sign_on_refused", "single_sign_on_unavailable"),
        *("unknown_token", "token_invalid", "token_revoked", "token_expired"),
        *("unknown_user", "user_exists", "bad_user_name", "bad_scopes"),
    }
