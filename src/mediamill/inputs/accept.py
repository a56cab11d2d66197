"""Taking in a message: its run and its images in one transaction, once by its key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from uuid import UUID

from mediamill.db.connection import Connection, after_commit
from mediamill.inputs import counters
from mediamill.inputs.copy_images import copy_images
from mediamill.inputs.look import show_run
from mediamill.inputs.model import NewRun, PayloadMismatchError, Run, Scope, SpooledImage, check_images
from mediamill.inputs.store import SCOPE_LOCKS, queries


@dataclass(frozen=True, slots=True)
class Accepted:
    """A run that is kept, now or (`repeated`) since before."""

    run: Run
    repeated: bool


async def accept_run(
    connection: Connection, new: NewRun, images: Sequence[SpooledImage] = (), *, claim_pending: bool = False
) -> Accepted:
    """In the caller's transaction. `claim_pending`: the images that wait in this scope go with it.

    PayloadMismatchError: the key was used for something else.
    """
    if claim_pending:
        await lock_scope(connection, new.scope)
    await purge_expired(connection)
    check_images(images)
    size = sum(image.byte_size for image in images)
    row = await queries.add_run.row(
        connection,
        **asdict(new.scope),
        delivery_mode=new.delivery_mode,
        text=new.text,
        agent=json.dumps(asdict(new.agent)),
        idempotency_key=new.idempotency_key,
        payload_hash=new.payload_hash,
        image_count=len(images),
        image_bytes=size,
        start_after_seconds=new.start_after_seconds,
    )
    if row is None:
        return await _find_repeated(connection, new)
    waited = await _claim(connection, new.scope, row["run_id"], images) if claim_pending else 0
    await copy_images(connection, new.scope, images, run_id=row["run_id"], first_position=waited)
    after_commit(connection, partial(counters.count_ingested, new.scope, len(images), size, row["run_id"]))
    return Accepted(await show_run(connection, row["run_id"]), False)


async def purge_expired(connection: Connection) -> None:
    """What nobody took for three days goes with the next that comes, first of all, also if that is then refused.
    Nothing else ever looks for it.

    Call it with the scope locked, or in a transaction of its own: the other way round, two texts of one scope could
    wait for each other.
    """
    rows = await queries.purge_expired.rows(connection)
    await queries.purge_thread_images.run(connection)
    after_commit(connection, partial(counters.count_purged, rows))


async def lock_scope(connection: Connection, scope: Scope) -> None:
    """Until the end of the transaction."""
    await queries.lock_scope.row(connection, **asdict(scope), lock_class=SCOPE_LOCKS)


async def _find_repeated(connection: Connection, new: NewRun) -> Accepted:
    assert new.idempotency_key is not None  # without one there is no conflict
    known = await queries.find_run_by_key.row(
        connection, source=new.scope.source, idempotency_key=new.idempotency_key
    )
    assert known is not None
    if new.payload_hash and known["payload_hash"] != new.payload_hash:
        raise PayloadMismatchError
    return Accepted(await show_run(connection, known["run_id"]), True)


async def _claim(connection: Connection, scope: Scope, run_id: UUID, images: Sequence[SpooledImage]) -> int:
    """The images that waited; the first place after them, for those of the text itself."""
    claimed = await queries.claim_pending.row(connection, **asdict(scope), run_id=run_id)
    assert claimed is not None
    check_images(images, before=(claimed["count"], claimed["bytes"]))
    after_commit(connection, partial(counters.count_claimed, scope, claimed["count"], run_id))
    return int(claimed["last"]) + 1
