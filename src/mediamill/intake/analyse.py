"""Which analysis a file has: that of its twin, or a new one with a job. In the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob, Priority
from mediamill.intake.fields import read_fields
from mediamill.intake.model import (
    ANALYSE,
    Field,
    blob_name,
    catalog_of,
    fields_for,
    home_of_analysis,
    owner_of,
)
from mediamill.intake.store import queries
from mediamill.processors.intake.extractor import extractor_name
from mediamill.settings import Settings


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, once they are in their place."""

    sha256: bytes
    bytes: int
    mime_type: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a file: these fields, by this extractor. `name` is for wording only."""

    project_id: int
    name: str
    fields: tuple[Field, ...]
    extractor: str

    @property
    def catalog(self) -> bytes:
        """The digest of the fields."""
        return catalog_of(self.fields)


async def wish_of(
    connection: Connection, settings: Settings, project_id: int, name: str, category: str
) -> Wish:
    """As project and settings say now."""
    fields = fields_for(await read_fields(connection, project_id), category)
    return Wish(project_id, name, fields, extractor_name(settings))


async def lock_content(connection: Connection, sha256: bytes) -> None:
    """Until the transaction ends nobody else adds this content, analyses it anew, or sweeps it away."""
    await queries.lock_content.run(connection, sha256=sha256)


async def find_analysis(
    connection: Connection,
    enqueuer: Enqueuer,
    content: Content,
    wish: Wish,
    *,
    after: int | None = None,
    priority: Priority = Priority.NORMAL,
) -> Record:
    """The analysis that a file of this content has, locked; a new one, with its job, if there is none, or it failed.

    `after`: what is finished does not count, unless it is of a later generation that is still being made.
    """
    found = await queries.pick_analysis.row(
        connection, sha256=content.sha256, catalog=wish.catalog, extractor=wish.extractor
    )
    if found is not None and found["state"] != "failed" and not _is_stale(found, after):
        return found
    return await add_analysis(connection, enqueuer, content, wish, priority=priority)


def _is_stale(found: Record, after: int | None) -> bool:
    """Asked to be made anew: only what is being made anew already will do."""
    return after is not None and (found["generation"] <= after or found["state"] == "completed")


async def add_analysis(
    connection: Connection,
    enqueuer: Enqueuer,
    content: Content,
    wish: Wish,
    *,
    rounds: int = 1,
    priority: Priority = Priority.NORMAL,
) -> Record:
    """A new one, with its job. `rounds`: how often as many pages as the settings say are to be read."""
    added = await queries.add_analysis.row(
        connection,
        sha256=content.sha256,
        catalog=wish.catalog,
        extractor=wish.extractor,
        mime_type=content.mime_type,
        bytes=content.bytes,
    )
    assert added is not None
    payload = {
        "file": {"stored": blob_name(content.sha256)},
        "home": home_of_analysis(added["id"]),
        "name": wish.name,
        "fields": [asdict(field) for field in wish.fields],
        "rounds": rounds,
    }
    job = NewJob(
        ANALYSE, payload, owner=owner_of(wish.project_id), subject_id=str(added["id"]), priority=priority
    )
    job_id = await enqueuer.enqueue_job(connection, job)
    noted = await queries.note_job.row(connection, id=added["id"], job=job_id)
    assert noted is not None
    return noted
