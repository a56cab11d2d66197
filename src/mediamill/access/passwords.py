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

SHORTEST, LONGEST = 12, 1000
JUDGED = 32  # characters that are judged: of more, an estimate can take seconds
STRONG_ENOUGH = 3  # of 4, by zxcvbn: about 10^8 guesses
SHORTEST_NAME = 3  # a shorter one is found in many a good password
PRODUCT = "mediamill"
ADVICE = "take four or more unrelated words, or let a password manager make one"
AT_ONCE = 2
# Of a password that nobody has: somebody unknown is answered no sooner than somebody known.
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$qoE2qEiZfvxqL8379Re8Rw$1PymGPEI+EL9HVLF6+PKJBNE0O5p0wjTOcUXe51Wys4"


class BadPasswordError(InvalidError):
    """This password is not accepted."""

    code = "bad_password"


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # only whoever has users needs it

    return PasswordHasher()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, "passwords")


async def check_password(password: str, name: str = "") -> None:
    """By NIST SP 800-63B: long enough, and not easy to guess; of what characters does not matter."""
    if len(password) < SHORTEST:
        raise BadPasswordError(f"a password needs at least {SHORTEST} characters", fix=ADVICE)
    if len(password) > LONGEST:
        raise BadPasswordError(f"a password has at most {LONGEST} characters", fix="shorten it")
    for word in (name, PRODUCT):
        if len(word) >= SHORTEST_NAME and word.casefold() in password.casefold():
            raise BadPasswordError(f"the password contains {word!r}", fix=ADVICE)
    if await asyncio.get_running_loop().run_in_executor(_threads(), is_guessable, password, name):
        raise BadPasswordError(
            "this password is easy to guess: a common one, a sequence or a repetition", fix=ADVICE
        )


def is_guessable(password: str, name: str = "") -> bool:
    """Whether common passwords, names, sequences, repetitions or rows of keys lead to it."""
    from zxcvbn import zxcvbn  # its lists of words are large

    return bool(zxcvbn(password[:JUDGED], user_inputs=[name, PRODUCT])["score"] < STRONG_ENOUGH)


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


def proof_of(kept: str | None) -> bytes:
    """What a session remembers of its user's password; of those who have none, nothing."""
    return hashlib.sha256((kept or "").encode()).digest()
