"""From an exception to what a person reads: what is wrong, and what to do about it. Never a traceback."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from pydantic import ValidationError

FREE_SPACE = "free some space, then run the command again; nothing that was confirmed is lost"
PREFIX = "MEDIAMILL_"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    message: str
    fix: str | None = None


class SeveralError(InvalidError):
    """Several things are wrong."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(faults))


def explain(error: BaseException) -> list[Fault]:
    """Every fault behind an exception; an error of ours that nobody expected says so."""
    for each in _chain(error):
        found = _ours(each) or _of_settings(each) or _of_system(each) or _of_database(each)
        if found:
            return found
    return [
        Fault(
            f"unexpected {type(error).__name__}: {error}",
            "this is a fault of mediamill; run the command again with --debug in front to see where",
        )
    ]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it, outermost first."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__


def _ours(error: BaseException) -> list[Fault]:
    if not isinstance(error, MediamillError):
        return []
    several: list[str] = getattr(error, "faults", None) or []
    if len(several) > 1:
        return [*(Fault(fault) for fault in several[:-1]), Fault(several[-1], error.fix)]
    return [Fault(error.message, error.fix)]


def _of_system(error: BaseException) -> list[Fault]:
    if not isinstance(error, OSError):
        return []
    what = error.strerror or str(error) or type(error).__name__
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return [Fault(f"the disk is full: {what}{where}", FREE_SPACE)]
    if error.filename:
        return [Fault(f"{error.filename}: {what}")]
    if error.errno is None or isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return [Fault(f"the database does not answer: {what}", "start it, or check MEDIAMILL_DATABASE_URL")]
    return [Fault(f"the system refused: {what}")]


def _of_database(error: BaseException) -> list[Fault]:
    import asyncpg

    if isinstance(error, asyncpg.DiskFullError):
        return [Fault(f"the disk of the database is full: {error}", FREE_SPACE)]
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return [
            Fault(
                f"the database does not allow this: {error}",
                "give the user of MEDIAMILL_DATABASE_URL the right",
            )
        ]
    lost = (
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.TooManyConnectionsError,
    )
    if isinstance(error, lost):
        return [Fault(f"the database went away: {error}", "try again when it is back; nothing was half done")]
    if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError):
        return [Fault(f"the database refused this: {error}")]
    if type(error).__name__ == "CommandError" and "revision" in str(error):
        return [
            Fault(
                "the database has the schema of another version of mediamill", "install the newer mediamill"
            )
        ]
    return []


def _of_settings(error: BaseException) -> list[Fault]:
    from pydantic import ValidationError

    return settings_faults(error) if isinstance(error, ValidationError) else []


def settings_faults(error: ValidationError) -> list[Fault]:
    """Each setting that is wrong, by the name of its variable."""
    from mediamill.settings import Settings

    faults = []
    for each in error.errors(include_url=False):
        name = str(each["loc"][0]) if each["loc"] else "?"
        field = Settings.model_fields.get(name)
        secret = field is not None and "Secret" in str(field.annotation)
        given = "" if secret else f", not {each['input']!r}"
        message = each["msg"].removeprefix("Input ").removeprefix("Value error, ")
        fix = f"{field.description} Unset it for the default ({field.default})." if field else None
        faults.append(Fault(f"{PREFIX}{name.upper()} {message}{given}", fix))
    return faults
