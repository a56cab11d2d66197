"""A ladder is done: its files are checked as a whole, put in place by one rename, and shown.

The rename happens inside the transaction that ends the job. A crash between the two leaves the folder in its new place
while the job runs on: whoever claims it next brings the folder back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from uuid import UUID

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.engine.model import Moved
from mediamill.errors import RetryLaterError
from mediamill.media.hls import AUDIO, check_output, playlist_name
from mediamill.staging.kept import forget_kept, kept_folder, list_kept
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage
from mediamill.storage.read import read_text
from mediamill.videos.model import QUALITIES, Made, output_folder, quality_of, read_made
from mediamill.videos.store import queries

PLAYLIST_BYTES = 4 << 20
MOST_FAULTS = 5


class PartLostError(RetryLaterError):
    """A retranscode failed in part, and that part plays now."""

    code = "part_lost"


class BadOutputError(RetryLaterError):
    """The files of a stream are not whole."""

    code = "bad_output"


async def publish(connection: Connection, place: Place, video: Record, job: Moved) -> Made:
    """Show what the job made. The stream that was shown before stays for those who are watching it, until the sweep."""
    made = read_made(job.result)
    video_id: UUID = video["id"]
    storage, kept, target = storage_at(place), kept_folder(job.job_id), output_folder(video_id, job.job_id)
    await storage.bring_back(kept, target)
    files = {one.name: one for one in await list_kept(connection, storage, job.job_id)}
    sizes = {name: one.bytes for name, one in files.items()}
    texts = {name: await _read(connection, storage, f"{kept}/{name}") for name in sizes if _is_text(name)}
    faults = await asyncio.to_thread(check_output, sizes, lambda name: texts.get(name, ""))
    if faults:
        raise BadOutputError("the stream is not whole: " + "; ".join(faults[:MOST_FAULTS]))
    await _check_nothing_lost(connection, video, made)
    await queries.put_files.run(connection, video_id=video_id, job_id=job.job_id)
    await forget_kept(connection, [job.job_id])
    by_quality: dict[str, int] = {}
    for one in files.values():
        quality = quality_of(one.name)
        by_quality[quality] = by_quality.get(quality, 0) + one.bytes
    await _settle_qualities(connection, video_id, job.job_id, made, by_quality)
    failed = [quality.name for quality in made.qualities if quality.state != "completed"]
    await queries.drop_files.run(connection, video_id=video_id, output=job.job_id, qualities=failed)
    await queries.publish.run(
        connection,
        id=video_id,
        duration_seconds=made.duration_seconds,
        width=made.width,
        height=made.height,
        frame_rate=made.frame_rate,
        hdr=made.hdr,
        has_audio=made.has_audio,
        warnings=json.dumps(made.warnings[:100]),
        output=job.job_id,
        output_bytes=sum(sizes.values()),
        captions_state=video["captions_state"] if made.has_audio else "silent",
    )
    await storage.move_folder(connection, kept, target, files)
    return made


async def _check_nothing_lost(connection: Connection, video: Record, made: Made) -> None:
    """What plays now and failed in the new stream would be taken away: the old one stays instead."""
    if video["output"] is None:
        return
    rows = await queries.list_files.rows(connection, video_id=video["id"], output=video["output"])
    plays = {row["name"] for row in rows}
    lost = [
        f"{one.name}: {one.error or 'it was not made'}"
        for one in made.qualities
        if one.state == "failed" and playlist_name(one.name) in plays
    ]
    if not made.has_audio and playlist_name(AUDIO) in plays:
        lost.append("the sound: it was not made")
    if lost:
        raise PartLostError(f"the new stream lacks what plays now ({'; '.join(lost)}), so the old one stays")


async def _settle_qualities(
    connection: Connection, video_id: UUID, job_id: int, made: Made, by_quality: Mapping[str, int]
) -> None:
    await queries.drop_qualities.run(connection, video_id=video_id, job_ids=[job_id])
    names = [quality.name for quality in made.qualities]
    await queries.drop_unmade_qualities.run(connection, video_id=video_id, job_id=job_id, made=names)
    for quality in made.qualities:
        if quality.name not in QUALITIES:
            continue
        size = by_quality.get(quality.name)
        done = quality.state == "completed" and size is not None
        await queries.settle_quality.run(
            connection,
            video_id=video_id,
            job_id=job_id,
            quality=quality.name,
            state="completed" if done else "skipped" if quality.state == "skipped" else "failed",
            width=quality.width,
            height=quality.height,
            segments=quality.segments,
            bytes=size if done else None,
            bitrate=round(8 * size / max(made.duration_seconds, 0.1)) if done and size else None,
            codecs=quality.codecs,
            error=quality.error,
        )


async def _read(connection: Connection, storage: Storage, name: str) -> str:
    return await read_text(connection, storage, name, PLAYLIST_BYTES) or ""


def _is_text(name: str) -> bool:
    return name.endswith((".m3u8", ".vtt"))
