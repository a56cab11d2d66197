"""The second factor: codes of an authenticator app (TOTP, RFC 6238), and recovery codes for the day it is lost.

A code holds for its time step and the one before and after; the database remembers the newest step that was used, so
that no code works twice. Of recovery codes only hashes are kept; each works once.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from mediamill.access.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import ConflictError

ISSUER = "mediamill"
STEP_SECONDS = 30
WINDOW = (0, -1, 1)  # clocks differ
RECOVERY_CODES = 10
RECOVERY_BYTES = 10
_CODE = re.compile(r"[0-9]{6}")


class WrongCodeError(ConflictError):
    """That code is wrong, or was used before."""

    code = "wrong_code"


class FactorExistsError(ConflictError):
    """The second factor is on already."""

    code = "second_factor_exists"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What the authenticator app needs: as an address for the QR code, and as text."""

    secret: str
    uri: str


@dataclass(frozen=True, slots=True)
class FactorState:
    """What the account page shows."""

    on: bool
    recovery_codes: int


async def begin_enrolment(connection: Connection, user_id: int, name: str) -> Enrolment:
    """A new secret. It protects nothing until a code of it was shown."""
    import pyotp

    secret = pyotp.random_base32()
    if await queries.begin_factor.row(connection, user_id=user_id, secret=secret) is None:
        raise FactorExistsError(fix="turn it off first")
    return _enrolment(secret, name)


async def pending_enrolment(connection: Connection, user_id: int, name: str) -> Enrolment | None:
    """The one that waits for its first code."""
    row = await queries.find_factor.row(connection, user_id=user_id)
    return _enrolment(row["secret"], name) if row and row["confirmed_at"] is None else None


async def confirm_enrolment(connection: Connection, user_id: int, code: str) -> list[str]:
    """From now on the code is asked for. The recovery codes, shown once."""
    row = await queries.find_factor.row(connection, user_id=user_id)
    if row is None or row["confirmed_at"] is not None:
        raise FactorExistsError("there is nothing to confirm", fix="begin again")
    step = _step_of(row["secret"], code)
    if step is None:
        raise WrongCodeError(fix="check the clock of your phone, and take the newest code")
    confirmed = await queries.confirm_factor.row(connection, user_id=user_id, secret=row["secret"], step=step)
    if confirmed is None:
        raise FactorExistsError("somebody else set it up in the same moment", fix="look at your account")
    codes = [_recovery_code() for _ in range(RECOVERY_CODES)]
    await queries.remove_recovery_codes.run(connection, user_id=user_id)
    await queries.insert_recovery_codes.run(
        connection, user_id=user_id, hashes=[_hash(code) for code in codes]
    )
    return codes


async def use_code(connection: Connection, user_id: int, code: str) -> bool:
    """Whether it is right: a code of the app that was not used before, or a recovery code. It is used up."""
    row = await queries.find_factor.row(connection, user_id=user_id)
    if row is None or row["confirmed_at"] is None:
        return False
    step = _step_of(row["secret"], code)
    if step is not None:
        return await queries.use_step.row(connection, user_id=user_id, step=step) is not None
    used = await queries.use_recovery_code.row(connection, user_id=user_id, hash=_hash(code))
    return used is not None


async def factor_state(connection: Connection, user_id: int) -> FactorState:
    """On or off, and how many recovery codes are left."""
    row = await queries.find_factor.row(connection, user_id=user_id)
    left = await queries.count_recovery_codes.value(connection, user_id=user_id)
    return FactorState(row is not None and row["confirmed_at"] is not None, int(left))


async def remove_factor(connection: Connection, user_id: int) -> None:
    """No code is asked for any more."""
    await queries.remove_factor.run(connection, user_id=user_id)
    await queries.remove_recovery_codes.run(connection, user_id=user_id)


def _enrolment(secret: str, name: str) -> Enrolment:
    import pyotp

    return Enrolment(secret, pyotp.TOTP(secret).provisioning_uri(name, ISSUER))


def _step_of(secret: str, code: str) -> int | None:
    """The time step that the code is for, if it is right."""
    import pyotp

    given = re.sub(r"\s", "", code)
    if not _CODE.fullmatch(given):
        return None
    now = int(time.time()) // STEP_SECONDS
    codes = pyotp.TOTP(secret)
    return next((now + shift for shift in WINDOW if _same(codes.generate_otp(now + shift), given)), None)


def _same(right: str, given: str) -> bool:
    return secrets.compare_digest(right, given)


def _recovery_code() -> str:
    text = base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def _hash(code: str) -> bytes:
    plain = re.sub(r"[\s-]", "", code).lower()[:100]
    return hashlib.sha256(plain.encode("utf-8", "replace")).digest()
