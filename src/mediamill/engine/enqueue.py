"""Enqueue, in the transaction that made the job necessary. Both or neither."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from mediamill import traces
from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob, has_nul
from mediamill.errors import InvalidError, NotFoundError, QuotaExceededError

_encode = msgspec.json.Encoder(enc_hook=str).encode


class PayloadInvalidError(InvalidError):
    """A payload must be a JSON object."""

    code = "payload_invalid"


class PayloadTooLargeError(QuotaExceededError):
    """The payload is too large; put the bytes into a file and the file's name into the payload."""

    code = "payload_too_large"


class UnknownPoolError(NotFoundError):
    """There is no such pool."""

    code = "unknown_pool"


class Enqueuer:
    """Puts jobs into the queue, in the caller's transaction."""

    def __init__(self, kinds: Kinds, payload_limit_bytes: int = 1_000_000) -> None:
        self._kinds = kinds
        self._limit = payload_limit_bytes

    async def enqueue_job(self, connection: Connection, job: NewJob) -> int:
        """One job; its id. With an idempotency key that is taken: the id of the job that took it."""
        return (await self.enqueue_jobs(connection, [job]))[0]

    async def enqueue_jobs(self, connection: Connection, jobs: Sequence[NewJob]) -> list[int]:
        """Many jobs, their ids in the same order. Equal ones but for subject and payload go in one statement."""
        if not jobs:
            return []
        with traces.span("enqueue", kind="producer", jobs=len(jobs), job_kind=jobs[0].kind):
            return await self._enqueue(connection, jobs)

    async def _enqueue(self, connection: Connection, jobs: Sequence[NewJob]) -> list[int]:
        ids: list[int] = [0] * len(jobs)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for position, job in enumerate(jobs):
            if job.idempotency_key is not None:
                ids[position] = await self._enqueue_keyed(connection, job)
            else:
                groups.setdefault(_shape(job), []).append(position)
        for positions in groups.values():
            rows = await self._enqueue_alike(connection, [jobs[position] for position in positions])
            for position, id_ in zip(positions, rows, strict=True):
                ids[position] = id_
        return ids

    async def _enqueue_alike(self, connection: Connection, jobs: list[NewJob]) -> list[int]:
        rows = await store.jobs.insert_jobs.rows(
            connection,
            **self._columns(jobs[0]),
            subject_ids=[job.subject_id for job in jobs],
            payloads=[self._payload(job) for job in jobs],
        )
        if not rows:
            raise _unknown_pool(jobs[0])
        return [row[0] for row in rows]

    async def _enqueue_keyed(self, connection: Connection, job: NewJob) -> int:
        assert job.idempotency_key is not None
        added = await store.jobs.insert_keyed_job.value(
            connection,
            **self._columns(job),
            key=job.idempotency_key,
            subject_id=job.subject_id,
            payload=self._payload(job),
        )
        if added is None:
            added = await store.jobs.find_key.value(connection, kind=job.kind, key=job.idempotency_key)
        if added is None:
            raise _unknown_pool(job)
        return int(added)

    def _columns(self, job: NewJob) -> dict[str, Any]:
        self._kinds.get(job.kind)
        if job.max_attempts is not None and job.max_attempts < 1:
            raise InvalidError("max_attempts must be at least 1")
        if job.run_after is not None and job.run_after.tzinfo is None:
            raise InvalidError("run_after needs a time zone")
        return {
            "kind": job.kind,
            "pool": job.pool,
            "owner": job.owner,
            "mime_type": job.mime_type,
            "priority": int(job.priority),
            "max_attempts": job.max_attempts,
            "run_after": job.run_after,
            "trace": traces.traceparent(),
        }

    def _payload(self, job: NewJob) -> str:
        if type(job.payload) is not dict and not hasattr(job.payload, "keys"):
            raise PayloadInvalidError(f"a payload must be a JSON object, not {type(job.payload).__name__}")
        try:
            text = _encode(job.payload)
        except (TypeError, ValueError) as error:
            raise PayloadInvalidError(f"the payload is no JSON object: {error}") from error
        if has_nul(text):
            raise PayloadInvalidError("a payload must not contain NUL characters, the database keeps none")
        if len(text) > self._limit:
            raise PayloadTooLargeError(
                f"the payload has {len(text)} bytes, the limit is {self._limit}",
                fix="stage the bytes as a file and put its name into the payload",
            )
        return text.decode()


def _shape(job: NewJob) -> tuple[str, str, str | None, int, str | None, int | None, datetime | None]:
    return (job.kind, job.owner, job.mime_type, int(job.priority), job.pool, job.max_attempts, job.run_after)


def _unknown_pool(job: NewJob) -> UnknownPoolError:
    if job.pool is None:
        return UnknownPoolError("no pool takes this job", fix="define a pool whose matches are []")
    return UnknownPoolError(f"there is no pool named {job.pool}", fix="mediamill pools show lists them")
