"""Jobs from a server over HTTP, and their outcomes back to it: what LocalSource is beside the database."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from mediamill import traces
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import ClaimedJob, Failure, failure_of
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Elsewhere, Fate, Finish, Settled
from mediamill.errors import ClaimLostError
from mediamill.staging.kept import NewKept
from mediamill.worker.away import AwayError, RefusedError
from mediamill.worker.download import Downloads
from mediamill.worker.server_link import ServerFailedError, ServerLink, WordRefusedError

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_CLAIMED = 100  # at once, as the server allows
MOST_SHOWN = 1_000
AT_ONCE = 8
SEND_BYTES = 1 << 18
SEND_SECONDS = 120.0  # without a byte sent or an answer
SEND_TRIES = 3  # of a file that arrives as another
ERROR_CHARACTERS, TRACEBACK_CHARACTERS, NOTICE_CHARACTERS, STEP_CHARACTERS = 20_000, 200_000, 10_000, 500
LONGEST_PAUSE_SECONDS = 5.0


class RemoteSource:
    """See Source. Nothing here waits for a server that is away, but for the files of a job that is being worked on."""

    def __init__(self, link: ServerLink, engine: Engine, worker_id: int, data_folder: Path) -> None:
        self._link, self._engine, self.worker_id = link, engine, worker_id
        self.downloads = Downloads(data_folder, link)
        self.waiting: dict[str, int] = {}  # jobs of each pool, as the server said last

    async def claim(self, pool: Pool, amount: int) -> tuple[list[ClaimedJob], datetime | None]:
        """See Source."""
        wish = {"pools": [pool.name], "amount": min(amount, MOST_CLAIMED)}
        answer = await self._say("claim", wish)
        due_in = answer.get("due_in_seconds")
        due_at = None if due_in is None else datetime.now(UTC) + timedelta(seconds=due_in)
        return [self._claimed(job) for job in answer["jobs"]], due_at

    def _claimed(self, job: Mapping[str, Any]) -> ClaimedJob:
        """What runs a job is its pool's processor; of its kind only the server knows more than this."""
        if job["kind"] not in self._engine.kinds.names():
            self._engine.kinds.add(JobKind(job["kind"], keeps_files=job["keeps_files"]))
        same = ("id", "token", "kind", "pool", "owner", "subject_id", "mime_type", "attempts", "max_attempts")
        checkpoint = job["checkpoint"]
        return ClaimedJob(
            **{name: job[name] for name in same},
            worker_id=self.worker_id,
            payload_json=json.dumps(job["payload"]),
            checkpoint_json=None if checkpoint is None else json.dumps(checkpoint),
            trace=job.get("trace"),
        )

    # -- outcomes

    async def finish(self, finishes: Sequence[Finish]) -> Settled:
        """See Source. Each by itself, until the server has heard it: one that was heard is not said again."""
        settled, room = Settled(), asyncio.Semaphore(AT_ONCE)

        async def settle(finish: Finish) -> None:
            async with room:
                try:
                    await self._insist(lambda: self._finish(finish, settled))
                except ClaimLostError:
                    settled.lost.add(finish.job.id)
                except (WordRefusedError, ServerFailedError) as error:
                    settled.failed[finish.job.id] = failure_of(error)

        async with asyncio.TaskGroup() as group:
            for finish in finishes:
                group.create_task(settle(finish))
        for job_id in (*settled.done, *settled.lost):
            self.downloads.drop(job_id)
        return settled

    async def _finish(self, finish: Finish, settled: Settled) -> None:
        job, result = finish.job, finish.result_json or "null"
        word = f'{{"job_id": {job.id}, "token": {job.token}, "result": {result}}}'
        with traces.span("settle", kind="client", parent=job.trace, outcome="completed"):
            answer = await self._say("complete", word, patient=False)
        if answer["outcome"] == "completed":
            settled.done.add(job.id)
        else:  # the server has failed it already
            log.warning("job %d (%s): the server cannot use the result", job.id, job.kind)
            settled.lost.add(job.id)

    async def fail(self, job: ClaimedJob, failure: Failure, pool: Pool) -> Fate:  # noqa: ARG002
        """See Source."""
        word = {
            "error": failure.error[:ERROR_CHARACTERS] or "failed",
            "permanent": failure.permanent,
            "traceback": failure.traceback and failure.traceback[-TRACEBACK_CHARACTERS:],
            "notice": failure.notice and failure.notice[:NOTICE_CHARACTERS],
            **({} if failure.counts else {"counts": False}),
        }
        try:
            with traces.span("settle", kind="client", parent=job.trace, outcome="failed"):
                answer = await self._say("fail", {**_shown(job), **word})
        except ClaimLostError:
            return Fate.LOST
        finally:
            self.downloads.drop(job.id)
        return Fate.DEAD if answer["dead"] else Fate.AGAIN

    async def reroute(self, elsewhere: Elsewhere) -> bool:
        """See Source."""
        try:
            await self._say("reroute", {**_shown(elsewhere.job), "mime_type": elsewhere.mime_type})
        except ClaimLostError:
            return False
        self.downloads.drop(elsewhere.job.id)
        return True

    async def hand_back(self, jobs: Sequence[ClaimedJob]) -> None:
        """See Source. Their files stay for a while: they may come back."""
        for first in range(0, len(jobs), MOST_SHOWN):
            batch = jobs[first : first + MOST_SHOWN]
            await self._say("release", {"claims": [_shown(job) for job in batch]})
        for job in jobs:
            self.downloads.drop(job.id, delete=False)

    # -- while it runs

    async def report(self, job: ClaimedJob, pool: Pool, **progress: Any) -> None:  # noqa: ARG002
        """See Source."""
        told = {name: value for name, value in progress.items() if value is not None}
        if "step" in told:
            told["step"] = str(told["step"])[:STEP_CHARACTERS] or "…"
        if "percent" in told:
            told["percent"] = min(100.0, max(0.0, float(told["percent"])))
        await self._say("progress", {**_shown(job), **told})

    async def extend(self, jobs: Sequence[ClaimedJob], pool: Pool) -> set[int]:  # noqa: ARG002
        """See Source."""
        lost: set[int] = set()
        for first in range(0, len(jobs), MOST_SHOWN):
            claims = [_shown(job) for job in jobs[first : first + MOST_SHOWN]]
            lost |= set((await self._say("extend", {"claims": claims}))["lost"])
        return {job.id for job in jobs} - lost

    async def depth(self, pool: Pool) -> int:
        """See Source."""
        return self.waiting.get(pool.name, 0)

    # -- files

    async def input(self, job: ClaimedJob) -> Path | None:
        """See Source: downloaded."""
        match json.loads(job.payload_json).get("file"):
            case None:
                return None
            case {"files": list(names)}:
                return await self.downloads.fetch_files(job, names)
        return await self.downloads.fetch(job)

    async def kept(self, job: ClaimedJob) -> dict[str, dict[str, Any]]:
        """See Source."""
        path, params = f"/api/worker/jobs/{job.id}/kept", {"token": job.token}
        answer = await self._insist(lambda: self._link.ask("GET", path, params=params))
        return {one["name"]: {**one["facts"], "bytes": one["bytes"]} for one in answer["files"]}

    async def keep(self, job: ClaimedJob, pool: Pool, new: NewKept) -> None:  # noqa: ARG002
        """See Source: sent, then deleted here."""
        headers = {"X-Facts": json.dumps(dict(new.facts))}
        await self._send(job, f"kept/{new.name}", new.path, (new.bytes, new.sha256), headers)
        await asyncio.to_thread(new.path.unlink, missing_ok=True)

    async def keep_derivatives(
        self, job: ClaimedJob, folder: Path, files: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """See Source: sent, before the result that names them."""
        made = {}
        for name, path in files.items():
            facts = await asyncio.to_thread(_measure, folder / path)
            made[name] = await self._send(job, f"files/{quote(path)}", folder / path, facts, {})
        return made

    async def end_input(self, job: ClaimedJob, *, keep: bool = False) -> None:
        """See Source: the server does that; what was downloaded is gone by now."""

    async def drop_input(self, job: ClaimedJob, *, give_up: bool) -> None:
        """See Source: likewise."""

    async def close(self) -> None:
        """See Source."""
        self.downloads.close()

    async def _send(
        self, job: ClaimedJob, where: str, path: Path, facts: tuple[int, str], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        size, sha256 = facts
        told = {**headers, "X-Content-SHA256": sha256, "Content-Length": str(size)}
        for _ in range(SEND_TRIES):
            try:
                return await self._insist(
                    lambda: self._link.ask(
                        "PUT",
                        f"/api/worker/jobs/{job.id}/{where}",
                        patient=False,
                        params={"token": job.token},
                        headers=told,
                        content=_chunks(path, size),
                        timeout=SEND_SECONDS,
                    )
                )
            except WordRefusedError as error:
                if error.code != "hash_mismatch":
                    raise
                log.warning("%s of job %d did not arrive as it was sent", where, job.id)
        raise ServerFailedError(f"{where} arrived as another file {SEND_TRIES} times")

    # -- saying

    async def _say(self, verb: str, word: Mapping[str, Any] | str, *, patient: bool = True) -> dict[str, Any]:
        text = word if isinstance(word, str) else json.dumps(word)
        return await self._link.ask(
            "POST",
            f"/api/worker/{verb}",
            patient=patient,
            content=text.encode(),
            headers={"Content-Type": "application/json"},
        )

    async def _insist(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Again while the server is away; a file or a result that is made is not dropped for that."""
        pause = 0.1
        while True:
            try:
                return await verb()
            except RefusedError:
                raise
            except AwayError as error:
                log.debug("the server is away: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _shown(job: ClaimedJob) -> dict[str, int]:
    return {"job_id": job.id, "token": job.token}


def _measure(path: Path) -> tuple[int, str]:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


async def _chunks(path: Path, size: int) -> AsyncIterator[bytes]:
    """As many bytes as were announced, whatever becomes of the file meanwhile."""
    descriptor = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        while size and (chunk := await asyncio.to_thread(os.read, descriptor, min(size, SEND_BYTES))):
            size -= len(chunk)
            yield chunk
    finally:
        os.close(descriptor)
