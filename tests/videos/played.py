"""A video without encoding: its row and its job are real, and the test plays the worker, with small made-up files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from mediamill.app import all_kinds
from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.lease import report_on_job
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, Finish, Settled, fail_job, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.media.hls import (
    AUDIO,
    MASTER,
    SEEK_TRACK,
    AudioTrack,
    Playlist,
    Segment,
    Variant,
    build_master,
    init_name,
    playlist_name,
    segment_name,
    write_master,
    write_playlist,
)
from mediamill.media.seek_track import Preview, write_seek_track
from mediamill.settings import Settings
from mediamill.staging.kept import NewKept, keep_file, list_kept, part_path
from mediamill.videos.add import add_video
from mediamill.videos.model import NewVideo, source_name

SEGMENT_SECONDS = 4
SHAPES = {
    "2160p": (3840, 2160),
    "1440p": (2560, 1440),
    "1080p": (1920, 1080),
    "720p": (1280, 720),
    "480p": (854, 480),
    "360p": (640, 360),
}
Files = dict[str, tuple[bytes, dict[str, Any]]]  # name -> content, facts


@dataclass
class Ground:
    """A database with the engine and the verbs of a worker, in the form that tests want."""

    database: Database
    settings: Settings
    engine: Engine
    enqueuer: Enqueuer
    claimers: dict[str, Claimer] = field(default_factory=dict)

    @classmethod
    def on(cls, database: Database, data_folder: Path, **settings: Any) -> Ground:
        """With all kinds, as in a real process."""
        chosen = Settings.model_validate({"data": data_folder, "startup_grace_seconds": 0, **settings})
        engine = Engine.from_settings(chosen, all_kinds(chosen))
        return cls(database, chosen, engine, Enqueuer(engine.kinds, engine.payload_limit_bytes))

    @property
    def data(self) -> Path:
        """Where the files lie."""
        return self.settings.data_folder

    async def add(self, title: str = "A day at the sea", source: bytes = b"as if", **more: Any) -> UUID:
        """A video that has just arrived."""
        given = {"id": uuid4(), "source_name": "sea.mp4", "mime_type": "video/mp4", **more}
        path = self.data / source_name(given["id"])
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(source)
        new = NewVideo(title=title, source_bytes=len(source), **given)
        async with self.database.transaction() as connection:
            return await add_video(connection, self.enqueuer, self.settings, new)

    async def pool(self, name: str = "transcode") -> Pool:
        async with self.database.connection() as connection:
            return next(pool for pool in await list_pools(connection) if pool.name == name)

    async def claim(self, worker: str = "a", pool: str = "transcode", amount: int = 1) -> list[ClaimedJob]:
        """As that worker; it is registered when it claims first."""
        async with self.database.connection() as connection:
            if worker not in self.claimers:
                worker_id = await register_worker(connection, name=worker)
                self.claimers[worker] = Claimer(worker_id, worker, self.engine.kinds)
        # Hooks of a claim act when its transaction has ended, as with a real worker's.
        async with self.database.transaction() as connection:
            return await self.claimers[worker].claim_jobs(connection, await self.pool(pool), amount)

    async def report(self, job: ClaimedJob, step: str = "transcode", **more: Any) -> None:
        async with self.database.connection() as connection:
            await report_on_job(connection, self.engine.kinds, job, lease_seconds=300, step=step, **more)

    async def keep(
        self, job: ClaimedJob, name: str, content: bytes, facts: Mapping[str, Any] | None = None
    ) -> None:
        path = part_path(self.data, job.id)
        path.write_bytes(content)
        new = NewKept(name, path, len(content), hashlib.sha256(content).hexdigest(), facts or {})
        await keep_file(self.database, self.data, job, new, 300)

    async def kept(self, job: ClaimedJob) -> set[str]:
        """The names of what was kept so far."""
        async with self.database.connection() as connection:
            return {one.name for one in await list_kept(connection, self.data, job.id)}

    async def finish(self, job: ClaimedJob, result: Mapping[str, Any]) -> Settled:
        finish = Finish(job, json.dumps(result))
        return await finish_jobs(self.database, self.engine, job.worker_id, [finish])

    async def fail(self, job: ClaimedJob, error: str = "no", *, permanent: bool = False) -> Fate:
        pool = await self.pool(job.pool)
        async with self.database.transaction() as connection:
            return await fail_job(connection, self.engine, job, Failure(error, permanent), pool)

    async def ready(self, title: str = "A day at the sea", **more: Any) -> UUID:
        """A video that can be played."""
        video_id = await self.add(title)
        await play_worker(self, video_id, **more)
        return video_id

    async def run(self, sql: str, *args: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(sql, *args)

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)


async def play_worker(
    ground: Ground,
    video_id: UUID,
    qualities: Sequence[str] = ("360p",),
    *,
    seconds: float = 10,
    audio: bool = True,
    failed: Mapping[str, str] | None = None,
    salt: str = "",
    worker: str = "a",
) -> ClaimedJob:
    """Claim the job of the video, keep every file of its stream that is not kept yet, and finish it. The job.

    `failed`: qualities that did not go, and why. `salt`: makes the files of two rounds differ.
    """
    (job,) = await ground.claim(worker)
    assert job.subject_id == str(video_id), "another video's job was claimed"
    skip = json.loads(job.payload_json).get("skip", [])
    asked = [*qualities, *(quality for quality in skip if quality not in qualities)]
    await keep_stream(ground, job, stream_of(asked, seconds=seconds, audio=audio, salt=salt), skip)
    settled = await ground.finish(job, result_of(asked, seconds=seconds, audio=audio, failed=failed))
    assert settled.done == {job.id}, settled
    return job


async def keep_stream(ground: Ground, job: ClaimedJob, files: Files, skip: Sequence[str] = ()) -> None:
    """What is there already stays; the master comes last."""
    there = {name for name in await ground.kept(job) if name.split(".")[0].split("-")[0] in skip}
    for name in sorted(files.keys() - there, key=lambda name: (name == MASTER, name)):
        await ground.keep(job, name, *files[name])


async def play_captions(ground: Ground, texts: Sequence[str], *, worker: str = "a") -> ClaimedJob:
    """Claim the next transcription and say these sentences, two seconds each."""
    (job,) = await ground.claim(worker, "captions")
    told = [{"start": 2.0 * at, "end": 2.0 * at + 2, "text": text} for at, text in enumerate(texts)]
    settled = await ground.finish(
        job, {"content": " ".join(texts), "facts": {"language": "en", "segments": told}}
    )
    assert settled.done == {job.id}, settled
    return job


def result_of(
    qualities: Sequence[str] = ("360p",),
    *,
    seconds: float = 10,
    audio: bool = True,
    failed: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the processor would say at the end."""
    count = len(_lengths(seconds))
    made = [
        {
            "name": quality,
            "state": "completed",
            "width": SHAPES[quality][0],
            "height": SHAPES[quality][1],
            "codecs": "avc1.64001f",
            "segments": count,
        }
        for quality in qualities
    ]
    lost = [{"name": name, "state": "failed", "error": why} for name, why in (failed or {}).items()]
    width, height = SHAPES[qualities[0]]
    return {
        "duration_seconds": seconds,
        "width": width,
        "height": height,
        "frame_rate": 25.0,
        "hdr": False,
        "has_audio": audio,
        "qualities": [*made, *lost],
        "warnings": [],
    }


def stream_of(
    qualities: Sequence[str] = ("360p",), *, seconds: float = 10, audio: bool = True, salt: str = ""
) -> Files:
    """Every file of a stream that check_output takes: real playlists, made-up media."""
    files: Files = {}
    variants = [_track(files, quality, seconds, salt) for quality in qualities]
    sound = _track(files, AUDIO, seconds, salt) if audio else None
    for name in ("poster.jpg", "thumbnail.jpg", "sprite-000.jpg"):
        files[name] = (b"\xff\xd8\xff\xe0" + f"{name} {salt}".encode() * 20 + b"\xff\xd9", {})
    preview = Preview(0, round(seconds * 1000), "sprite-000.jpg", 0, 0, 160, 90)
    files[SEEK_TRACK] = (write_seek_track([preview]).encode(), {})
    master = build_master(variants, sound, AudioTrack() if audio else None)
    files[MASTER] = (write_master(master).encode(), {})
    return files


def _track(files: Files, quality: str, seconds: float, salt: str) -> Variant:
    """The files of one quality, or of the sound; and what a player is told of it."""
    codecs = "mp4a.40.2" if quality == AUDIO else "avc1.64001f"
    width, height = SHAPES.get(quality, (None, None))
    facts = {"quality": quality, "codecs": codecs, "width": width, "height": height, "frame_rate": 25.0}
    files[init_name(quality)] = (f"init {quality} {salt}".encode() * 10, facts)
    segments = []
    for index, length in enumerate(_lengths(seconds)):
        name = segment_name(quality, index)
        content = f"{name} {salt};".encode() * (100 + (height or 0))
        files[name] = (content, {"quality": quality, "index": index, "seconds": length})
        segments.append(Segment(name, length, len(content)))
    playlist = Playlist(init_name(quality), tuple(segments), SEGMENT_SECONDS)
    files[playlist_name(quality)] = (write_playlist(playlist).encode(), {"quality": quality})
    rate = 8 * (100 + (height or 0))
    return Variant(playlist_name(quality), rate, rate, codecs, width, height, 25.0 if height else None)


def _lengths(seconds: float) -> list[float]:
    whole = int(seconds // SEGMENT_SECONDS)
    rest = round(seconds - whole * SEGMENT_SECONDS, 3)
    return [float(SEGMENT_SECONDS)] * whole + ([rest] if rest else [])
