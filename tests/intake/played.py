"""Project files without models: rows and jobs are real, and the test plays the worker, with results of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.app import all_kinds
from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, Finish, Settled, encode_result, fail_job, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.intake.add import take_in
from mediamill.intake.again import reprocess
from mediamill.intake.look import show_file
from mediamill.intake.model import Field
from mediamill.intake.projects import add_project
from mediamill.intake.proposals import list_proposals
from mediamill.settings import Settings
from mediamill.staging.derivatives import home_of
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker

FIELDS = (
    Field("invoice_number", "text", "Invoice number"),
    Field("total", "amount", "Total", unit="EUR"),
    Field("due", "date", "Due date"),
    Field("weight", "number", "Weight", unit="kg"),
    Field("paid", "boolean", "Paid"),
)
INVOICE = b"Invoice number: 4711\nTotal: 12.50 EUR\n"


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

    async def project(self, name: str = "Invoices", fields: Sequence[Field] = FIELDS, **more: Any) -> str:
        async with self.database.transaction() as connection:
            return await add_project(connection, name, fields=fields, **more)

    async def add(
        self, slug: str = "invoices", content: bytes = INVOICE, name: str = "invoice.txt", **more: Any
    ) -> dict[str, Any]:
        """A file that has just arrived, in two pieces."""
        half = len(content) // 2
        chunks = in_pieces(content[:half], content[half:])
        return await take_in(self.database, self.enqueuer, self.settings, slug, name, chunks, **more)

    async def show(self, file_id: int) -> dict[str, Any]:
        async with self.database.connection() as connection:
            return await show_file(connection, self.settings, file_id)

    async def state(self, file_id: int) -> tuple[str, str | None]:
        shown = await self.show(file_id)
        return shown["state"], shown["error"]

    async def again(self, file_id: int, *, force: bool = False) -> dict[str, Any]:
        async with self.database.transaction() as connection:
            return await reprocess(connection, self.enqueuer, self.settings, file_id, force=force)

    async def proposals(self, file_id: int, state: str | None = None) -> list[tuple[str, str, str]]:
        """Field, value as it counts, and state of each."""
        shown = await self.show(file_id)
        async with self.database.connection() as connection:
            listed = await list_proposals(connection, shown["project"], state=state, file_id=file_id)
        return [
            (one["field"], one["edited_value"] or one["value"], one["state"]) for one in listed["proposals"]
        ]

    async def proposal(self, file_id: int, name: str) -> int:
        """The id of the first one of a field."""
        return next(int(one["id"]) for one in (await self.show(file_id))["proposals"] if one["field"] == name)

    async def pool(self, name: str = "intake") -> Pool:
        async with self.database.connection() as connection:
            return next(pool for pool in await list_pools(connection) if pool.name == name)

    async def claim(self, worker: str = "a", amount: int = 1) -> list[ClaimedJob]:
        """As that worker; it is registered when it claims first."""
        async with self.database.connection() as connection:
            if worker not in self.claimers:
                worker_id = await register_worker(connection, name=worker)
                self.claimers[worker] = Claimer(worker_id, worker, self.engine.kinds)
        async with self.database.transaction() as connection:
            return await self.claimers[worker].claim_jobs(connection, await self.pool(), amount)

    async def finish(self, job: ClaimedJob, result: Any = None, pages: Sequence[str] = ()) -> Settled:
        told = result_of() if result is None else result
        if pages:
            told = {**told, **self.draw(job, pages)}
        finish = Finish(job, encode_result(self.engine, told))
        return await finish_jobs(self.database, self.engine, job.worker_id, [finish])

    def draw(self, job: ClaimedJob, texts: Sequence[str]) -> dict[str, Any]:
        """Derivatives as a worker keeps them: pictures of pages and their texts."""
        home = home_of(job)
        folder = self.data / home
        folder.mkdir(parents=True)
        pages = [{"number": at, "label": f"Page {at}", "text": text} for at, text in enumerate(texts, 1)]
        contents = {"pages.json": json.dumps(pages).encode(), "thumbnail.jpg": b"small"}
        contents |= {f"page-{page['number']:05}.webp": b"picture" for page in pages}
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        drawn = [
            {
                "number": page["number"],
                "width": 1240,
                "height": 1754,
                "image": f"page-{page['number']:05}.webp",
            }
            for page in pages
        ]
        files = {name: {"path": f"{home}/{name}", "bytes": len(one)} for name, one in contents.items()}
        return {"pages": drawn, "files": files}

    async def fail(self, job: ClaimedJob, error: str = "no", *, permanent: bool = False) -> Fate:
        pool = await self.pool(job.pool)
        async with self.database.transaction() as connection:
            return await fail_job(connection, self.engine, job, Failure(error, permanent), pool)

    async def done(self, slug: str = "invoices", content: bytes = INVOICE, **result: Any) -> int:
        """A file that was analysed."""
        file = await self.add(slug, content)
        (job,) = await self.claim()
        settled = await self.finish(job, result_of(**result), pages=("Invoice 4711", "Thank you"))
        assert settled.done == {job.id}, settled
        return int(file["id"])

    async def run(self, sql: str, *args: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(sql, *args)

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    @asynccontextmanager
    async def working(self, name: str = "real") -> AsyncIterator[Worker]:
        """A real worker on the pool of intake for the length of the block; at its end it is stopped at once."""
        plan = WorkerPlan(name=name, pools=("intake",), data_folder=self.data)
        worker = Worker(LocalHome(self.database, self.engine, plan), self.engine, plan)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            worker.stop()
            await asyncio.gather(task, return_exceptions=True)


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def found(name: str, value: str, **more: Any) -> dict[str, Any]:
    """A field as the processor tells it."""
    given = {
        "raw": value,
        "unit": "",
        "confidence": 0.9,
        "page": 1,
        "box": [0.1, 0.2, 0.3, 0.4],
        "quote": value,
    }
    return {"name": name, "value": value, **given, **more}


def result_of(fields: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """What the processor would say at the end."""
    usual = [found("invoice_number", "4711"), found("total", "12.50", unit="EUR")]
    return {
        "content": "Invoice number: 4711, total 12.50 EUR",
        "summary": "An invoice over 12.50 EUR",
        "mime_type": "text/plain",
        "kind": "document",
        "unsupported": None,
        "pages": [],
        "fields": usual if fields is None else list(fields),
        "tags": [],
        "models": ["rules@1"],
        "facts": {"pages": 1},
        **more,
    }
