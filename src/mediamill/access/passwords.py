"""Passwords: kept as argon2id hashes, which cost whoever guesses. A few at a time, because each takes 64 MiB."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 1000
AT_ONCE = 2
# Of a password that nobody has: somebody unknown is answered no sooner than somebody known.
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$qoE2qEiZfvxqL8379Re8Rw$1PymGPEI+EL9HVLF6+PKJBNE0O5p0wjTOcUXe51Wys4"


class BadPasswordError(InvalidError):
    """This cannot be a password."""

    code = "bad_password"


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # only whoever has users needs it

    return PasswordHasher()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, "passwords")


def check_password(password: str, name: str = "") -> None:
    """Long enough, and not the name."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise BadPasswordError(
            f"a password has {SHORTEST} to {LONGEST} characters",
            fix="take some words, or let a manager make one",
        )
    if password.strip().lower() == name.lower() or len(set(password)) < 3:
        raise BadPasswordError("that is too easy to guess", fix="take some words, or let a manager make one")


async def hash_password(password: str) -> str:
    """As it is kept."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), lambda: _hasher().hash(password))


async def is_password(password: str, kept: str | None) -> bool:
    """Whether it is the one that was kept; without any, no, after the same time."""
    right = await asyncio.get_running_loop().run_in_executor(_threads(), _verify, password, kept or NOBODY)
    return right and kept is not None


def _verify(password: str, kept: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return len(password) <= LONGEST and _hasher().verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False


def proof_of(kept: str) -> bytes:
    """What a session remembers of the password that opened it."""
    return hashlib.sha256(kept.encode()).digest()
