"""From assets that wait to jobs: so many at a time that workers never wait, and so few that the queue stays small.

Millions of assets are not millions of jobs. An asset names the job that it has; one that has none and waits is taken
next, the newest first, as they are shown. Pausing, emptying or changing a library touches the few that are at hand.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from mediamill.db.connection import LOST, Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob, Priority
from mediamill.libraries.model import IMAGE, TAG, VIDEO, home_of_asset, output_folder, owner_of
from mediamill.libraries.reach import Reach
from mediamill.libraries.store import queries
from mediamill.libraries.taggers import Taggers, looks_left, read_taggers
from mediamill.libraries.twins import take_after_twins
from mediamill.settings import Settings

log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
MOST_LOST = 5_000
AT_HAND = {"image": 1000, "video": 20, "tag": 200}  # jobs of each library
AtHand = dict[tuple[int, str], int]  # by library and work
STATUS_FED = {"image": "pending", "video": "extracting", "tag": "analyzing"}


async def feed_forever(database: Database, enqueuer: Enqueuer, settings: Settings) -> None:
    """For the server; several servers may do it at once."""
    reach = Reach()
    while True:
        try:
            await feed_libraries(database, enqueuer, settings, reach)
        except LOST as error:
            log.debug("feeding libraries: the database is away: %s", error)
        except Exception:
            log.exception("feeding libraries failed")
        await asyncio.sleep(EVERY_SECONDS)


async def feed_libraries(
    database: Database, enqueuer: Enqueuer, settings: Settings, reach: Reach | None = None
) -> int:
    """Fill up to what should be at hand; how many jobs."""
    reach = reach or Reach()
    async with database.connection() as connection:
        libraries = await queries.feedable.rows(connection)
        at_hand = await _count(connection, None)
    low = [library for library in libraries if _room(at_hand, library["number"])]
    there = await asyncio.gather(*(reach.is_there(library["absolute_path"]) for library in low))
    total = 0
    for library, reachable in zip(low, there, strict=True):
        for work in _room(at_hand, library["number"]):
            if work == "tag" or reachable:  # tagging needs nothing of the library itself
                async with database.transaction() as connection:
                    total += await _feed_one(connection, enqueuer, settings, library["number"], work)
    return total


async def forget_lost_jobs(database: Database) -> int:
    """Assets whose job was purged wait again; how many."""
    async with database.transaction() as connection:
        lost = await queries.find_lost_jobs.rows(connection, amount=MOST_LOST)
        if not lost:
            return 0
        ids, jobs = [row["id"] for row in lost], [row["job_id"] for row in lost]
        return len(await queries.forget_jobs.rows(connection, ids=ids, jobs=jobs))


async def _count(connection: Connection, library: int | None) -> AtHand:
    rows = await queries.at_hand.rows(connection, library=library)
    return {(row["library"], row["work"]): row["jobs"] for row in rows}


def _room(at_hand: AtHand, library: int) -> dict[str, int]:
    """How many jobs are missing, of what half or more is missing of."""
    room = {work: most - at_hand.get((library, work), 0) for work, most in AT_HAND.items()}
    return {work: count for work, count in room.items() if count >= AT_HAND[work] / 2}


async def _feed_one(
    connection: Connection, enqueuer: Enqueuer, settings: Settings, number: int, work: str
) -> int:
    """Nothing if somebody else feeds it just now, or has done so since it was counted."""
    library = await queries.hold_feeding.row(connection, number=number)
    if library is None:
        return 0
    room = _room(await _count(connection, number), number).get(work, 0)
    return await _feed(connection, enqueuer, settings, library, work, room) if room else 0


async def _feed(
    connection: Connection, enqueuer: Enqueuer, settings: Settings, library: Record, work: str, room: int
) -> int:
    number = library["number"]
    if work != "tag":
        waiting = await queries.take_waiting.rows(
            connection, library=number, type=work, status="pending", amount=room
        )
        make = _image_job if work == "image" else _video_job
        jobs = [make(library, row) for row in waiting]
        if work == "video":
            ids = [row["id"] for row in waiting]
            for statement in (queries.drop_scenes, queries.drop_frames):
                await statement.run(connection, ids=ids)
    else:
        waiting, jobs = await _tag_jobs(connection, settings, library, room)
    if not jobs:
        return 0
    made = await enqueuer.enqueue_jobs(connection, jobs)
    ids = [row["id"] for row in waiting]
    await queries.note_fed.run(connection, ids=ids, jobs=made, status=STATUS_FED[work])
    return len(jobs)


def _image_job(library: Record, asset: Record) -> NewJob:
    payload = {
        "file": {"root": library["absolute_path"], "inside": asset["rel_path"]},
        "home": home_of_asset(asset["id"]),
        "ignore_previews": library["ignore_previews"],
    }
    return _job(IMAGE, library, asset, payload)


def _video_job(library: Record, asset: Record) -> NewJob:
    payload = {
        "file": {"root": library["absolute_path"], "inside": asset["rel_path"]},
        "mode": json.loads(library["sampling_policy"]).get("mode", "scenes"),
        "sampling_limit": library["sampling_limit"],
    }
    return _job(VIDEO, library, asset, payload)


async def _tag_jobs(
    connection: Connection, settings: Settings, library: Record, room: int
) -> tuple[list[Record], list[NewJob]]:
    taggers = await read_taggers(connection, settings, library["target_tagger_id"])
    waiting: list[Record] = []
    for kind in ("image", "video"):
        left = room - len(waiting)
        waiting += await queries.take_waiting.rows(
            connection, library=library["number"], type=kind, status="proxied", amount=left
        )
    taken = await take_after_twins(connection, [asset["id"] for asset in waiting if asset["type"] == "image"])
    waiting = [asset for asset in waiting if asset["id"] not in taken]
    looks = await looks_left(connection, waiting, taggers)
    return waiting, [_tag_job(library, asset, taggers, looks[asset["id"]]) for asset in waiting]


def _tag_job(library: Record, asset: Record, taggers: Taggers, looks: Sequence[dict[str, Any]]) -> NewJob:
    payload = {
        "file": {
            "data": str(output_folder(asset["id"], asset["output"])),
            "files": sorted({look["file"] for look in looks if "look" in look.get("wants", ("look",))}),
        },
        **taggers.as_payload(),
        "looks": list(looks),
    }
    return _job(TAG, library, asset, payload)


def _job(kind: str, library: Record, asset: Record, payload: dict[str, Any]) -> NewJob:
    return NewJob(
        kind, payload, owner=owner_of(library["number"]), subject_id=str(asset["id"]), priority=Priority.LOW
    )
