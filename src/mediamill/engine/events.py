"""Live events: rows with ids, announced by NOTIFY, resumable from any id that is still kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store

# Ids are given before a transaction commits, so a later id can be seen before an earlier one. A gap is asked for
# again for this long; an id that was rolled back never comes.
GAP_SECONDS = 60
MOST_GAPS = 1_000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a subject."""

    id: int
    topic: str
    subject: str
    data: dict[str, Any]


async def last_event_id(connection: Connection) -> int:
    """Where a new listener begins."""
    return int(await store.watch.last_event.value(connection))


@dataclass(slots=True)
class EventReader:
    """Reads on from an id, each event once, also those that become visible out of order."""

    after: int
    gaps: dict[int, float] = field(default_factory=dict)

    async def read(self, connection: Connection, amount: int = 500) -> list[Event]:
        """What is new."""
        self._forget_old_gaps()
        rows = await store.watch.events_after.rows(
            connection, after=self.after, missing=list(self.gaps), amount=amount
        )
        events = [Event(row["id"], row["topic"], row["subject"], store.plain(row)["data"]) for row in rows]
        self.note([event.id for event in events])
        return events

    def note(self, ids: Sequence[int]) -> None:
        """These were seen; what they skipped is asked for again."""
        now = time.monotonic()
        for id_ in ids:
            self.gaps.pop(id_, None)
            if id_ > self.after:
                for missing in range(max(self.after + 1, id_ - MOST_GAPS), id_):
                    self.gaps[missing] = now
                self.after = id_

    def _forget_old_gaps(self) -> None:
        oldest = time.monotonic() - GAP_SECONDS
        for id_ in [id_ for id_, since in self.gaps.items() if since < oldest]:
            del self.gaps[id_]
