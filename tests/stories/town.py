"""Several machines with a data folder each, one database and one bucket; and a load balancer before the servers."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.crash.processes import Mill, Process
from tests.storage.s3_server import KEY_ID, SECRET, S3Server

ADMIN = "known to whoever may come in"


@dataclass
class Town:
    """Machines by name."""

    folder: Path
    url: str
    settings: dict[str, str]
    machines: dict[str, Mill] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, url: str, server: S3Server, bucket: str, **more: str) -> Town:
        settings = {
            "MEDIAMILL_BUCKET": bucket,
            "MEDIAMILL_BUCKET_URL": server.url,
            "MEDIAMILL_BUCKET_KEY_ID": KEY_ID,
            "MEDIAMILL_BUCKET_SECRET": SECRET,
            "MEDIAMILL_ADMIN_SECRET": ADMIN,
            "MEDIAMILL_VIDEO_PRESET": "ultrafast",
            "MEDIAMILL_SWEEP_SECONDS": "1",
            **more,
        }
        return cls(folder, url, settings)

    def machine(self, name: str) -> Mill:
        if name not in self.machines:
            (self.folder / name).mkdir()
            self.machines[name] = Mill(self.folder / name, self.url, dict(self.settings))
        return self.machines[name]

    async def serve(self, name: str) -> Process:
        """A server without workers."""
        process = await self.machine(name).started("up", "--workers", 0)
        line = next(line for line in process.said.splitlines() if "is up: " in line)
        self.urls[name] = line.split("is up: ")[1].strip()
        return process

    async def work(self, name: str) -> Process:
        """A worker beside the database."""
        return await self.machine(name).started("worker")

    def client(self, name: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.urls[name], auth=self.machine(name).owner, timeout=120, trust_env=False
        )

    def files_of(self, name: str) -> set[str]:
        """The folders of a machine's data folder in which something lies."""
        data = self.folder / name / "data"
        walked = os.walk(data)  # some of it may go meanwhile
        return {(Path(at) / name).relative_to(data).parts[0] for at, _, names in walked for name in names}

    def assert_no_traceback(self) -> None:
        for machine in self.machines.values():
            machine.assert_no_traceback()

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()


@asynccontextmanager
async def balance(*urls: str) -> AsyncIterator[str]:
    """A load balancer: each connection goes to the next server that takes it. Its address."""
    ports = itertools.cycle([int(url.rpartition(":")[2]) for url in urls])

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in urls:
            try:
                there, to_server = await asyncio.open_connection("127.0.0.1", next(ports))
            except OSError:
                continue
            await asyncio.gather(_hand_on(reader, to_server), _hand_on(there, writer), return_exceptions=True)
            return
        writer.transport.abort()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
