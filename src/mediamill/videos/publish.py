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
from mediamill.media.hls import check_output
from mediamill.staging.kept import forget_kept, kept_folder, list_kept
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage
from mediamill.storage.read import read_text
from mediamill.videos.model import QUALITIES, Made, output_folder, read_made, video_folder
from mediamill.videos.store import queries

PLAYLIST_BYTES = 4 << 20
MOST_FAULTS = 5


class BadOutputError(RetryLaterError):
    """The files of a stream are not whole."""

    code = "bad_output"


async def publish(connection: Connection, place: Place, video: Record, job: Moved) -> Made:
    """Show what the job made; what was shown before goes when the transaction has ended."""
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
    await queries.drop_files.run(connection, video_id=video_id, qualities=None)
    await queries.put_files.run(connection, video_id=video_id, job_id=job.job_id)
    await forget_kept(connection, [job.job_id])
    by_quality: dict[str, int] = {}
    for one in files.values():
        quality = one.name.partition(".")[0].partition("-")[0]
        by_quality[quality] = by_quality.get(quality, 0) + one.bytes
    await _settle_qualities(connection, video_id, made, by_quality)
    failed = [quality.name for quality in made.qualities if quality.state != "completed"]
    await queries.drop_files.run(connection, video_id=video_id, qualities=failed)
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
    outputs = await storage.folders(connection, video_folder(video_id))
    await storage.drop(connection, *(one for one in outputs if _is_output(one) and one != target))
    return made


async def _settle_qualities(
    connection: Connection, video_id: UUID, made: Made, by_quality: Mapping[str, int]
) -> None:
    await queries.drop_qualities.run(
        connection, video_id=video_id, qualities=[name for name in QUALITIES if name not in _names(made)]
    )
    for quality in made.qualities:
        if quality.name not in QUALITIES:
            continue
        size = by_quality.get(quality.name)
        done = quality.state == "completed" and size is not None
        await queries.settle_quality.run(
            connection,
            video_id=video_id,
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


def _names(made: Made) -> set[str]:
    return {quality.name for quality in made.qualities}


async def _read(connection: Connection, storage: Storage, name: str) -> str:
    return await read_text(connection, storage, name, PLAYLIST_BYTES) or ""


def _is_text(name: str) -> bool:
    return name.endswith((".m3u8", ".vtt"))


def _is_output(folder: str) -> bool:
    """What was shown before, also if a retranscode has taken it away already."""
    return folder.rpartition("/")[2].isdecimal()
