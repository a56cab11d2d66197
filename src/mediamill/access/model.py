"""Scopes, and whoever asks with them."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mediamill.errors import DeniedError


class ScopeMissingError(DeniedError):
    """The caller has not the scope that this needs."""

    code = "scope_missing"


class Scope(StrEnum):
    """What somebody may do. `admin` holds all the others; beside it none holds another."""

    READ = "read"
    INGEST = "ingest"
    WORKER = "worker"
    ADMIN = "admin"


MEANINGS = {
    Scope.READ: "see everything: jobs, media, texts, pages, events, metrics",
    Scope.INGEST: "bring media and messages in, and work on what is there, as far as it can be undone",
    Scope.WORKER: "register workers",
    Scope.ADMIN: "everything: delete for good, pools, workers, bots, configuration, users and tokens",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was recognised. `here`: the server's own user, by the key in the data folder."""

    kind: Literal["here", "command", "secret", "user", "token"]
    name: str
    scopes: frozenset[Scope]
    id: int | None = None  # of the user or token
    session: int | None = None  # if it is a browser's

    def may(self, scope: Scope) -> bool:
        """Whether this is within the caller's scopes."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def need(self, scope: Scope) -> None:
        """Refused if it is not."""
        if not self.may(scope):
            has = ", ".join(in_order(self.scopes)) or "none"
            raise ScopeMissingError(
                f"this needs the scope {scope}; {self.name} has {has}", fix="ask an administrator for it"
            )


EVERYTHING = frozenset(Scope)
HERE = Caller("here", "this machine", EVERYTHING)
ADMIN = Caller("secret", "admin secret", EVERYTHING)

_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def current_caller() -> Caller | None:
    """Whose request is being answered."""
    return _caller.get()


def set_caller(caller: Caller | None) -> None:
    """For the request that begins here."""
    _caller.set(caller)


def need(scope: Scope) -> None:
    """For what only some of a route's callers may do: refused if this one may not."""
    caller = current_caller()
    if caller is not None:
        caller.need(scope)


def in_order(scopes: Iterable[str]) -> list[Scope]:
    """Each once, from the least to the most."""
    return [scope for scope in Scope if scope in set(scopes)]
