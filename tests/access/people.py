"""People of the tests of logging in: a password, a second factor, and a clock that stands still for its codes."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pyotp
import pytest

from mediamill.access import second_factor, users
from mediamill.access.audit import list_entries
from mediamill.access.second_factor import begin_enrolment, confirm_enrolment
from mediamill.db.connection import Connection, Database

PASSWORD = "correct horse battery"
OWN = {"Origin": "http://mill.example"}
NOW = time.time()


@pytest.fixture(autouse=True)
def clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every module that imports it, no code gets too old while a busy machine takes its time."""
    monkeypatch.setattr(second_factor, "time", SimpleNamespace(time=lambda: NOW))


def code_at(secret: str, shift: int = 0) -> str:
    """Of this time step, or of one before or after."""
    return pyotp.TOTP(secret).generate_otp(int(NOW) // 30 + shift)


async def enrol(connection: Connection, name: str = "ann") -> tuple[int, str, list[str]]:
    """A user whose second factor is on: id, secret, recovery codes. The code before the present one is used up."""
    user_id = await users.add_user(connection, name, PASSWORD, ["read"])
    secret = (await begin_enrolment(connection, user_id, name)).secret
    return user_id, secret, await confirm_enrolment(connection, user_id, code_at(secret, -1))


async def actions(database: Database, amount: int = 50) -> list[tuple[str, str, str]]:
    """What the audit log holds, oldest first: who, what, to whom."""
    async with database.connection() as connection:
        found = await list_entries(connection, amount=amount)
    return [(entry["who"], entry["action"], entry["subject"]) for entry in found][::-1]
