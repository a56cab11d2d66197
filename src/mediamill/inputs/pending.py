"""Images that come before their text: stored at once, in order, and taken by the next text of the same person."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection, after_commit
from mediamill.inputs import counters
from mediamill.inputs.accept import lock_scope, purge_expired
from mediamill.inputs.copy_images import copy_images
from mediamill.inputs.model import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    ImageBufferError,
    Scope,
    SpooledImage,
    check_images,
)
from mediamill.inputs.store import queries


@dataclass(frozen=True, slots=True)
class Saved:
    """How many images wait in the scope now; or the run that the image went to."""

    count: int
    bytes: int
    run_id: UUID | None = None


async def save_pending(
    connection: Connection, scope: Scope, image: SpooledImage, *, media_group_id: str | None = None
) -> Saved:
    """In the caller's transaction. ImageBufferError: too many wait already; what has expired is purged all the same.

    An image of an album whose first ones went with a run that has not begun goes with that run.
    """
    await lock_scope(connection, scope)
    await purge_expired(connection)
    check_images([image])
    if media_group_id is not None and (run := await _run_of_album(connection, scope, media_group_id, image)):
        return await _give_to_run(connection, scope, image, media_group_id, run["run_id"])
    waiting = await queries.count_pending.row(connection, **asdict(scope))
    assert waiting is not None
    count, size = waiting["count"] + 1, waiting["bytes"] + image.byte_size
    if count > MAX_IMAGES or size > MAX_IMAGE_BYTES:
        raise ImageBufferError
    await copy_images(
        connection,
        scope,
        [image],
        run_id=None,
        first_position=waiting["last"] + 1,
        media_group_id=media_group_id,
    )
    after_commit(connection, partial(counters.count_ingested, scope, 1, image.byte_size))
    return Saved(count, size)


async def drop_pending(connection: Connection, scope: Scope) -> int:
    """Whoever sent them wants them forgotten; how many."""
    await lock_scope(connection, scope)
    return len(await queries.drop_pending.rows(connection, **asdict(scope)))


async def _run_of_album(
    connection: Connection, scope: Scope, media_group_id: str, image: SpooledImage
) -> Record | None:
    run = await queries.run_of_group.row(connection, **asdict(scope), media_group_id=media_group_id)
    fits = (
        run is not None
        and run["image_count"] < MAX_IMAGES
        and run["image_bytes"] + image.byte_size <= MAX_IMAGE_BYTES
    )
    return run if fits else None


async def _give_to_run(
    connection: Connection, scope: Scope, image: SpooledImage, media_group_id: str, run_id: UUID
) -> Saved:
    place = await queries.next_place.value(connection, run_id=run_id)
    await copy_images(
        connection, scope, [image], run_id=run_id, first_position=place, media_group_id=media_group_id
    )
    await queries.note_more_images.run(connection, run_id=run_id, byte_size=image.byte_size)
    after_commit(connection, partial(counters.count_ingested, scope, 1, image.byte_size, run_id))
    after_commit(connection, partial(counters.count_claimed, scope, 1, run_id))
    return Saved(0, 0, run_id)
