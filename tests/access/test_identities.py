from __future__ import annotations

from typing import Any

import pytest

from mediamill.access.identities import identify
from mediamill.access.model import Scope
from mediamill.access.sessions import SessionLimits, open_session, session_caller
from mediamill.access.single_sign_on import LoginRefusedError, SignOnConfig
from mediamill.access.users import disable_user, find_user
from mediamill.db.connection import Database
from tests.access.sign_on import config_of

CONFIG: SignOnConfig = config_of("https://id.example", oidc_admins="owners", oidc_users="family")
ANN: dict[str, Any] = {"sub": "7", CONFIG.name_claim: "ann", "groups": ["family"]}


async def test_who_the_lists_name_is_made_a_user_once_with_the_scopes_of_today(database: Database) -> None:
    async with database.connection() as connection:
        first = await identify(connection, CONFIG, ANN)
        later = await identify(connection, CONFIG, ANN | {CONFIG.name_claim: "anna", "groups": ["owners"]})
        assert first is not None
        assert later is not None
        assert (later["id"], later["name"]) == (first["id"], "ann")
        assert (first["scopes"], later["scopes"]) == ([Scope.READ, Scope.INGEST], [Scope.ADMIN])
        assert (await find_user(connection, "ann"))["scopes"] == ["admin"]
        assert await connection.fetchval("select count(*) from users") == 1


async def test_who_no_list_names_is_not_made_a_user(database: Database) -> None:
    async with database.connection() as connection:
        assert await identify(connection, CONFIG, ANN | {"groups": ["others"]}) is None
        assert await connection.fetchval("select count(*) from users") == 0


async def test_who_left_the_lists_is_out_at_once(database: Database) -> None:
    async with database.connection() as connection:
        user = await identify(connection, CONFIG, ANN)
        limits = SessionLimits(60, 60)
        value = await open_session(connection, user, None, limits=limits, address=None, agent="")
        assert await session_caller(connection, value, None) is not None
        assert await identify(connection, CONFIG, ANN | {"groups": []}) is None
        assert await session_caller(connection, value, None) is None
        assert (await find_user(connection, "ann"))["scopes"] == []


async def test_who_is_disabled_here_is_refused_whatever_the_provider_says(database: Database) -> None:
    async with database.connection() as connection:
        await identify(connection, CONFIG, ANN)
        await disable_user(connection, "ann")
        with pytest.raises(LoginRefusedError, match="ann is disabled"):
            await identify(connection, CONFIG, ANN)


@pytest.mark.parametrize("name", [None, 7, "", "a b"])
async def test_a_claim_that_is_no_name_makes_no_user(database: Database, name: object) -> None:
    async with database.connection() as connection:
        with pytest.raises(LoginRefusedError, match="not a user's name"):
            await identify(connection, CONFIG, ANN | {CONFIG.name_claim: name})


async def test_another_person_never_gets_the_name_of_one_who_is_there(database: Database) -> None:
    async with database.connection() as connection:
        await identify(connection, CONFIG, ANN)
        with pytest.raises(LoginRefusedError, match="another user ann"):
            await identify(connection, CONFIG, ANN | {"sub": "8"})
        assert await connection.fetchval("select count(*) from users") == 1
