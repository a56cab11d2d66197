"""`mediamill users`, `tokens` and `audit`."""

from __future__ import annotations

import io

import pyotp
import pytest

from mediamill.access.second_factor import begin_enrolment, confirm_enrolment
from mediamill.access.tokens import TokenRevokedError, token_caller
from mediamill.access.users import check_login, find_user
from mediamill.cli.auditing import ACTIONS, action_of
from mediamill.db.connection import Database
from scripts.reference import all_commands
from tests.cli.conftest import Mediamill

PASSWORD = "correct horse battery"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password on stdin."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 3))


@pytest.mark.usefixtures("typed")
async def test_a_user_is_made_changed_and_removed(mediamill: Mediamill, database: Database) -> None:
    made = await mediamill("users", "add", "ann", "--stdin")
    assert made.out == "user ann can log in; scopes: read, ingest\n"
    async with database.connection() as connection:
        assert await check_login(connection, "ann", PASSWORD) is not None
    assert (await mediamill("users", "scopes", "ann", "--scope", "admin", "--scope", "read")).code == 0
    (listed,) = (await mediamill("users", "list", "--json")).json
    assert (listed["name"], listed["scopes"]) == ("ann", ["read", "admin"])
    assert (await mediamill("users", "disable", "ann")).out == "user ann is disabled\n"
    assert "disabled" in (await mediamill("users", "list")).out
    assert (await mediamill("users", "enable", "ann", "--json")).json == {"name": "ann"}
    assert (await mediamill("users", "password", "ANN", "--stdin")).code == 0
    async with database.connection() as connection:
        user = await find_user(connection, "ann")
        secret = (await begin_enrolment(connection, user["id"], "ann")).secret
        await confirm_enrolment(connection, user["id"], pyotp.TOTP(secret).now())
    assert (await mediamill("users", "list", "--json")).json[0]["second_factor"] is True
    assert (await mediamill("users", "reset-second-factor", "ann")).code == 0
    assert (await mediamill("users", "list", "--json")).json[0]["second_factor"] is False
    reset = (await mediamill("audit", "--action", "user.change", "--json")).json[0]
    assert reset["subject"] == "ann (reset-second-factor)"
    assert (await mediamill("users", "remove", "ann", "--yes")).code == 0
    gone = await mediamill("users", "remove", "ann", "--yes")
    assert (gone.code, "there is no user ann" in gone.err) == (1, True)


async def test_a_password_that_is_easy_to_guess_is_refused_with_advice(
    mediamill: Mediamill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("123456789012\n"))
    said = await mediamill("users", "add", "ann", "--stdin")
    assert (said.code, "easy to guess" in said.err, "unrelated words" in said.err) == (1, True, True)


async def test_a_password_is_never_an_argument(mediamill: Mediamill) -> None:
    said = await mediamill("users", "add", "ann")
    assert said.code == 1
    assert "--stdin" in said.err


async def test_a_token_is_made_shown_once_listed_and_revoked(
    mediamill: Mediamill, database: Database
) -> None:
    made = (await mediamill("tokens", "create", "camera", "--scope", "ingest", "--days", 30, "--json")).json
    said = await mediamill("tokens", "create", "prometheus", "--scope", "read")
    assert "Shown only this once:\nmill_" in said.out
    listed = await mediamill("tokens", "list")
    assert "camera" in listed.out
    assert made["token"] not in listed.out
    assert made["token"] not in (await mediamill("tokens", "list", "--all", "--json")).out
    assert (await mediamill("tokens", "revoke", made["id"])).code == 0
    async with database.connection() as connection:
        with pytest.raises(TokenRevokedError):
            await token_caller(connection, made["token"])
    assert "camera" not in (await mediamill("tokens", "list")).out
    assert "revoked" in (await mediamill("tokens", "list", "--all")).out


async def test_what_commands_change_is_in_the_audit_log(mediamill: Mediamill) -> None:
    await mediamill("pools", "set", "audio", "concurrency=2")
    await mediamill("config", "set", "media_storage_quota_gb", "50")
    await mediamill("workers", "revoke", "nobody")
    await mediamill("tokens", "create", "camera", "--scope", "ingest")
    await mediamill("jobs", "list")
    entries = (await mediamill("audit", "--json")).json[::-1]
    assert [(each["action"], each["subject"], each["outcome"]) for each in entries] == [
        ("pool.change", "audio", "done"),
        ("configuration.change", "media_storage_quota_gb", "done"),
        ("worker.revoke", "nobody", "failed"),
        ("token.create", "camera", "done"),
    ]
    assert {each["kind"] for each in entries} == {"command"}
    assert len((await mediamill("audit", "--action", "pool", "--json")).json) == 1
    assert "pool.change" in (await mediamill("audit", "--limit", 10)).out


def test_every_command_that_is_noted_is_there_and_no_option_is_kept() -> None:
    commands = {name.removeprefix("mediamill ") for name, _ in all_commands()}
    assert set(ACTIONS) <= commands
    assert action_of(["--debug", "bots", "set", "demo", "--token", "123:abc"]) == ("bot.change", "demo")
    assert action_of(["bots", "set", "--token", "123:abc", "demo"]) == ("bot.change", "")
    assert action_of(["workers", "pause", "attic"]) == ("worker.command", "attic (pause)")
    assert action_of(["jobs", "list"]) is None
