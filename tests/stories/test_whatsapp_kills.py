"""Voice notes on WhatsApp while the server, the bridge and the database are killed with -9, each at every step of the
path. The steps are looked for in the database, the staging folder and the loopback WhatsApp; everything is real."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import pytest

from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process
from tests.whatsapp.loopback import LoopbackWhatsApp

SAMPLES = Path(__file__).parents[2] / "samples"
ANN = "491701111111@s.whatsapp.net"
SECONDS = 120.0
AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, httpx.HTTPError)
VICTIMS = ("server", "bridge", "database")


@dataclass
class Ward:
    """Everything that can be killed, and how to look at where a message is."""

    mill: Mill
    whatsapp: LoopbackWhatsApp
    client: httpx.AsyncClient
    url: str
    up: Process
    device: str = ""
    expected: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = await self.client.request(method, path, **more)
        return answer.raise_for_status().json()

    async def whatsapp_status(self) -> dict[str, Any]:
        shown = await self.ask("GET", "/api/bots/bot")
        found: dict[str, Any] = shown["status"].get("whatsapp", {})
        return found

    async def one(self, sql: str, *args: Any) -> Any:
        try:
            connection = await asyncpg.connect(self.url, timeout=5)
        except AWAY:
            return None
        try:
            return await connection.fetchval(sql, *args)
        except AWAY:
            return None
        finally:
            connection.terminate()

    async def push(self, caption: str, **more: Any) -> str:
        self.expected.append(caption)
        voice = {"file": str(SAMPLES / "voice.ogg"), "mime_type": "audio/ogg; codecs=opus"}
        [id_] = await self.whatsapp.push(
            self.device, "document", ANN, caption=caption, file_name="v.ogg", **voice, **more
        )
        return id_

    def kill(self, victim: str) -> None:
        """-9."""
        self.kills[victim] += 1
        match victim:
            case "server":
                self.up.kill()
            case "bridge":
                for child in self.up.children():
                    if "main.mjs" in " ".join(_command(child)):
                        os.kill(child.pid, signal.SIGKILL)
            case "database":
                pid = postmaster_pid(self.mill.folder / "data")
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)

    async def bring_back(self, victim: str) -> None:
        """The bridge and the database are started again by the server; the server by its keeper, which is us."""
        if victim == "server":
            self.up = await self.mill.started("up")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


Step = Callable[[Ward, str], Awaitable[object]]


async def sent_off(_ward: Ward, _id: str) -> object:
    return True


async def receipted(ward: Ward, id_: str) -> object:
    return (await ward.whatsapp.state())["messages"][ward.device][id_]["done"]


async def downloading(ward: Ward, id_: str) -> object:
    return any((ward.mill.folder / "data" / "pending_media").glob("*.part"))


async def accepted(ward: Ward, id_: str) -> object:
    return await ward.one("select true from arrivals where provider_message_id = $1", id_)


async def running(ward: Ward, id_: str) -> object:
    return await ward.one(
        "select true from jobs where state in ('running', 'completed') "
        "and payload->'placeholder_message'->>'provider_message_id' = $1",
        id_,
    )


async def read(ward: Ward, id_: str) -> object:
    return await ward.one(
        "select true from arrivals where provider_message_id = $1 and state <> 'placeholder'", id_
    )


async def due(ward: Ward, id_: str) -> object:
    return await ward.one(
        "select true from replies r join arrivals a on a.id = r.message_id "
        "and a.correspondent_id = r.correspondent_id where a.provider_message_id = $1",
        id_,
    )


async def stored(ward: Ward, id_: str) -> object:
    return await ward.one("select true from queues where provider_message_id = $1", id_)


async def answered(ward: Ward, id_: str) -> object:
    caption = ward.expected[-1]
    return any(caption in one["text"] for one in await ward.whatsapp.outbox(ward.device))


STEPS: tuple[Step, ...] = (
    sent_off,
    downloading,
    receipted,
    accepted,
    running,
    read,
    due,
    stored,
    answered,
)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def ward_in(folder: Path) -> AsyncIterator[Ward]:
    """`mediamill up` with its embedded database, one worker and a bot that echoes, linked to a loopback WhatsApp."""
    async with AsyncExitStack() as stack:
        whatsapp = await stack.enter_async_context(LoopbackWhatsApp(folder / "loopback"))
        mill = Mill(folder)
        port = _free_port()
        mill.settings |= {"MEDIAMILL_PORT": str(port), "MEDIAMILL_INGEST_SECONDS": "0.2"}
        mill.settings |= {"MEDIAMILL_STUB_AUDIO_SECONDS": "0.2", **whatsapp.bridge_environment}
        use = await asyncio.to_thread(EmbeddedServer(folder / "data").start)
        stack.callback(use.close)
        stack.callback(mill.close)
        up = await mill.started("up")
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30)
        )
        ward = Ward(mill, whatsapp, client, use.url, up)
        # A job that is killed with its worker has used up an attempt; here that happens more often than in a life.
        await ward.ask("PUT", "/api/pools/audio", json={"processor": "stub-audio", "max_attempts": 50})
        config = {"providers": {"whatsapp": {}}, "reply": {"by": "echo"}}
        await ward.ask("POST", "/api/bots", json={"id": "bot", "start": True, "config": config})
        await _pair(ward)
        yield ward


async def _pair(ward: Ward) -> None:
    async def state(wanted: str) -> bool:
        return (await ward.whatsapp_status()).get("state") == wanted

    await wait_until(lambda: state("pairing"), SECONDS)
    ward.device = await ward.whatsapp.scan((await ward.whatsapp_status())["qr"], name="Bot")
    await wait_until(lambda: state("connected"), SECONDS)


@pytest.mark.spec("C8", "C9", "C10", "C22", "C23", "C41", "C42", "C43", "E11")
@pytest.mark.timeout(900)
async def test_whoever_is_killed_at_whatever_step_nothing_is_lost_and_nothing_is_answered_twice(
    tmp_path: Path,
) -> None:
    async with ward_in(tmp_path) as ward:
        for step, victim in itertools.product(STEPS, VICTIMS):
            slow = {"faults": {"bytes_per_second": 20_000}} if step is downloading else {}
            id_ = await ward.push(f"{victim} killed when {step.__name__}", **slow)
            await wait_until(lambda step=step, id_=id_: step(ward, id_), SECONDS)  # type: ignore[misc]
            ward.kill(victim)
            await ward.bring_back(victim)
        await _until_all_is_well(ward)
        print(f"kills: {dict(ward.kills)}, messages: {len(ward.expected)}")


async def _until_all_is_well(ward: Ward) -> None:
    async def stored_texts() -> Counter[str]:
        path = f"/api/bots/bot/conversations/whatsapp/{ANN}/messages"
        rows = (await ward.ask("GET", path, params={"amount": 200}))["messages"]
        finished = [row for row in rows if row["media_processing_id"] is None]
        return Counter(row["content"] for row in finished if row["source"] == "user")

    def missing(texts: Counter[str]) -> list[str]:
        heard = r"\n\n\[Transcripted audio multimedia message with guid='[0-9a-f-]{36}'\]"
        return [
            caption
            for caption in ward.expected
            if sum(bool(re.fullmatch(re.escape(caption) + heard, text)) for text in texts.elements()) != 1
        ]

    async def all_said() -> bool:
        try:
            return not missing(await stored_texts())
        except AWAY:
            return False

    async def all_answered() -> bool:
        return len(await ward.whatsapp.outbox(ward.device)) >= len(ward.expected)

    try:
        await wait_until(all_said, SECONDS)
        await wait_until(all_answered, SECONDS)
    except TimeoutError:
        texts = await stored_texts()
        sent = [one["text"] for one in await ward.whatsapp.outbox(ward.device)]
        pytest.fail(f"missing: {missing(texts)}\nstored: {texts}\nsent: {sent}\n{ward.up.said[-5_000:]}")
    texts = await stored_texts()
    assert sum(texts.values()) == len(ward.expected)
    said = Counter(one["text"] for one in await ward.whatsapp.outbox(ward.device))
    assert said == Counter(f"You said: {text}" for text in texts.elements())
    ids = await ward.one("select array_agg(id order by id) from queues where source = 'user'")
    assert ids == sorted(set(ids))
