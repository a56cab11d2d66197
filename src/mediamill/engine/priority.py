"""How soon a job is claimed, and changing that while it waits."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.model import Priority
from mediamill.errors import ConflictError, InvalidError


class UnknownPriorityError(InvalidError):
    """There is no such priority."""

    code = "unknown_priority"


class NotWaitingError(ConflictError):
    """No job waits, so there is nothing that could be claimed sooner or later."""

    code = "not_waiting"


def read_priority(name: str) -> Priority:
    """By its name."""
    try:
        return Priority[name.upper()]
    except KeyError:
        raise UnknownPriorityError(
            f"there is no priority {name[:50]!r}", fix="there are high, normal and low"
        ) from None


def priority_name(priority: int | None) -> str | None:
    """For people and scripts."""
    return None if priority is None else Priority(priority).name.lower()


async def set_priority(connection: Connection, job_ids: Sequence[int], priority: Priority) -> None:
    """Of those among these jobs that wait; NotWaitingError if none does."""
    changed = await store.jobs.set_priority.rows(connection, ids=list(job_ids), priority=int(priority))
    if not changed:
        raise NotWaitingError(
            "nothing of this waits any more", fix="what runs or has ended keeps its priority"
        )
