"""A day at the mill: pools with work, workers, an hour of throughput, some failures. For pictures and page tests."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mediamill.db.connection import Connection, Database
from mediamill.engine import workers
from mediamill.engine.model import WorkerState
from tests.api.serving import Served

POOLS = """
insert into pools (name, matches, processor, concurrency, timeout_seconds, max_attempts, lease_seconds, stale_seconds,
    retry, backoff_seconds, backoff_limit_seconds, memory_bytes, gpu, forget_after_seconds)
values ('audio', '{audio/ogg}', null, 2, 60, 3, 300, 900, false, 2, 300, 1073741824, false, 10800),
    ('images', '{image/jpeg}', null, 4, 60, 3, 300, 900, true, 2, 300, 1073741824, false, 10800),
    ('videos', '{video/mp4}', null, 1, 7200, 3, 1800, 3600, true, 2, 300, 1073741824, true, 10800)
"""
WORKERS: tuple[tuple[str, str, str, dict[str, bool], int], ...] = (
    ("atelier:4121", "local", "busy", {}, 2),
    ("atelier:4122", "local", "busy", {}, 4),
    ("gpu-box", "remote", "busy", {"gpu": True}, 11),
    ("attic-nas", "remote", "idle", {}, 17),
    ("old-laptop", "remote", "paused", {}, 23),
    ("spare", "remote", "offline", {}, 1900),
)
# kind, pool, owner, state, how many, step, percent
Waiting = tuple[str, str, str, str, int, str | None, float | None]
WAITING: tuple[Waiting, ...] = (
    ("library.proxy", "images", "holidays", "queued", 184, None, None),
    ("library.tag", "images", "holidays", "queued", 61, None, None),
    ("video.transcode", "videos", "wedding", "queued", 7, None, None),
    ("video.transcode", "videos", "wedding", "scheduled", 2, None, None),
    ("message.transcribe", "audio", "bot-anna", "queued", 3, None, None),
    ("message.transcribe", "audio", "bot-luis", "held", 14, None, None),
    ("document.read", "default", "project-9", "scheduled", 5, None, None),
    ("video.transcode", "videos", "wedding", "running", 1, "1080p, segment 212 of 340", 62.4),
    ("library.proxy", "images", "holidays", "running", 1, "scenes", 34.0),
    ("library.tag", "images", "holidays", "running", 1, None, None),
    ("message.transcribe", "audio", "bot-anna", "running", 1, "listening", 81.0),
)
TRACEBACK = """Traceback (most recent call last):
  File "mediamill/worker/child.py", line 148, in _work
    output = processor.process(given)
  File "mediamill/processors/document/processor.py", line 31, in process_media
    return read_document(path, limits)
  File "mediamill/processors/document/document_text.py", line 77, in read_document
    raise DocumentTooLargeError(f"document too large: {size} MB, the limit is {limit} MB")
mediamill.processors.document.DocumentTooLargeError: document too large: 412 MB, the limit is 100 MB
"""
DEAD = (
    ("document.read", "default", "project-9", "permanent", "document too large: 412 MB, the limit is 100 MB"),
    ("message.transcribe", "audio", "bot-luis", "no_retry", "the voice note ends in the middle of a packet"),
    (
        "video.transcode",
        "videos",
        "archive",
        "max_attempts_exhausted",
        "the child process was killed at its time limit of 7200 s",
    ),
)


async def fill(database: Database, *, pools: bool = True) -> None:
    """All of it, the same every time; without `pools` on those that there are."""
    async with database.transaction() as connection:
        if pools:
            await connection.execute("delete from pools where matches <> '{}'")
            await connection.execute(POOLS)
        await connection.execute("select setval(pg_get_serial_sequence('jobs', 'id'), 4200)")
        await _add_dead(connection)
        await _add_waiting(connection, WAITING[:7])
        await _add_finished(connection, 4)
        await _add_waiting(connection, WAITING[7:])
        await _add_finished(connection, 3)
        await _add_waiting(connection, [("message.transcribe", "audio", "bot-anna", "queued", 2, None, None)])
        await connection.execute("update jobs set created_at = now() - (4502 - id) * interval '2.3 seconds'")
        await _add_workers(connection)
        await _add_throughput(connection)


async def _add_waiting(connection: Connection, waiting: Sequence[Waiting]) -> None:
    for kind, pool, owner, state, amount, step, percent in waiting:
        await connection.execute(
            "insert into jobs (kind, pool, owner, state, step, percent, priority, payload, attempts, max_attempts, "
            "worker_name, run_after, lease_expires_at) "
            "select $1, $2, $3, $4::text, $5, $6, 1, '{}', $7, 3, 'atelier:4121', "
            "now() + interval '4 minutes', now() + interval '30 minutes' from generate_series(1, $8::integer)",
            kind,
            pool,
            owner,
            state,
            step,
            percent,
            int(state == "running"),
            amount,
        )


async def _add_finished(connection: Connection, amount: int) -> None:
    await connection.execute(
        "insert into finished_jobs (id, kind, pool, owner, priority, attempts, created_at) "
        "select nextval(pg_get_serial_sequence('jobs', 'id')), "
        "(array['library.proxy', 'message.transcribe', 'library.tag'])[1 + n % 3], "
        "(array['images', 'audio', 'images'])[1 + n % 3], (array['holidays', 'bot-anna', 'holidays'])[1 + n % 3], "
        "1, 1, now() - (30 - n) * interval '1 second' from generate_series(1, $1::integer) n",
        amount,
    )


async def _add_dead(connection: Connection) -> None:
    for number, (kind, pool, owner, reason, error) in enumerate(DEAD):
        await connection.execute(
            "insert into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, "
            "created_at, started_at, reason, error, traceback, failed_at) values ($1, $2, $3, $4, 1, $8, 3, 3, 1, "
            "now() - interval '2 hours', now() - interval '100 minutes', $5, $6, $9, "
            "now() - $7 * interval '1 minute')",
            13 - number * 4,
            kind,
            pool,
            owner,
            reason,
            error,
            6 + 19 * number,
            json.dumps({"file": f"{owner}/{kind}.bin", "bytes": 432_013_312}),
            TRACEBACK if number == 0 else None,
        )


async def _add_workers(connection: Connection) -> None:
    running = await connection.fetch("select id from jobs where state = 'running' order by id")
    for number, (name, type_, state, capabilities, heard) in enumerate(WORKERS):
        await connection.execute(
            "insert into workers (name, type, state, capabilities, heartbeat_at, current_job_id) "
            "values ($1, $2, $3, $4, now() - $5 * interval '1 second', $6)",
            name,
            type_,
            state,
            json.dumps(capabilities),
            heard,
            running[number]["id"] if state == "busy" else None,
        )


async def _add_throughput(connection: Connection) -> None:
    dice = random.Random(4)
    rows = []
    for back in range(60):
        wave = 26 + 15 * math.sin(back / 7.5) + 6 * math.sin(back / 2.3)
        failed = dice.choice((0, 0, 0, 0, 1, 0, 2)) + (9 if back in (21, 22) else 0)
        rows.append((back, max(2, int(wave + dice.uniform(-5, 5))), failed))
    await connection.executemany(
        "insert into throughput (minute, pool, worker_id, completed, failed) "
        "values (date_trunc('minute', now()) - $1 * interval '1 minute', 'images', 1, $2, $3)",
        rows,
    )


def lay_out(served: Served) -> None:
    """Some files in some folders."""
    data: Path = served.app.state.deps.settings.data_folder
    for name, bytes_ in (
        ("videos/a/source", 4_200_000),
        ("libraries/000/1/x.jpg", 81_000),
        ("pending_media/g", 9000),
    ):
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * bytes_)
    (data / "pending_media" / "link").symlink_to("/usr")  # what is elsewhere does not count


async def add_worker(
    served: Served, name: str, state: WorkerState, type_: str = "remote", **capabilities: Any
) -> int:
    """A worker that was heard of just now."""
    stats = {"running": 0, "completed": 1204, "failed": 3, "claims_lost": 0, "memory_bytes": 84_000_000}
    async with served.database.transaction() as connection:
        worker_id = await workers.register_worker(
            connection, name=name, type_=type_, capabilities=capabilities, pools=["transcode"]
        )
        await workers.heartbeat(connection, worker_id, state=state, stats=stats, hostname=f"{name}.home.arpa")
    return worker_id
