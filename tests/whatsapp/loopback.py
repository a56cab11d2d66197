"""Drives the loopback WhatsApp server (bridges/whatsapp/test/loopback), to which the real bridge connects in tests."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx

LOOPBACK = Path(__file__).parents[2] / "bridges" / "whatsapp" / "test" / "loopback"
PRELOAD = LOOPBACK / "preload.mjs"
WAIT_SECONDS = 120.0

State = dict[str, Any]
Found = TypeVar("Found")


class LoopbackWhatsApp:
    """A WhatsApp of our own on this machine; with a folder it can be stopped and started again as it was."""

    def __init__(self, folder: Path | None = None, node: str | None = None) -> None:
        self._folder = folder
        self._node = node or shutil.which("node") or "node"
        self._process: asyncio.subprocess.Process | None = None
        self._http = httpx.AsyncClient(timeout=WAIT_SECONDS)
        self.place: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._http.aclose()

    async def start(self) -> None:
        command = [self._node, str(LOOPBACK / "server.mjs"), *([str(self._folder)] if self._folder else [])]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.place = json.loads(await asyncio.wait_for(self._process.stdout.readline(), WAIT_SECONDS))

    async def stop(self) -> None:
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
            await asyncio.wait_for(self._process.wait(), WAIT_SECONDS)
        self._process = None

    @property
    def bridge_environment(self) -> dict[str, str]:
        """What the bridge's process needs in order to find this WhatsApp instead of the real one."""
        preload = f"{PRELOAD.as_uri()}?place={quote(json.dumps(self.place), safe='')}"
        return {"NODE_OPTIONS": f"--import={preload}"}

    async def scan(self, qr: str, phone: str | None = None, name: str | None = None) -> str:
        """Scans the QR code as a phone would; the linked device's id, by which the other methods know it.

        The client uploads few pre-keys: making all 812 takes longer than most tests, and the bridge's own tests do it.
        """
        answer = await self._post("scan", qr=qr, phone=phone, name=name, few_pre_keys=True)
        return str(answer["device"])

    async def push(self, to: str, kind: str, sender: str | None = None, **fields: Any) -> list[str]:
        """Sends a device a message, as the loopback's README tells; the ids of the messages that it became."""
        answer = await self._post("push", to=to, kind=kind, **{"from": sender}, **fields)
        return [str(one) for one in answer["ids"]]

    async def redeliver(self, to: str, id: str) -> None:
        await self._post("redeliver", to=to, id=id)

    async def know(self, pn: str, lid: str) -> None:
        """Says which LID a phone number has, before either is used."""
        await self._post("people", pn=pn, lid=lid)

    async def faults(self, **faults: int) -> None:
        await self._post("faults", **faults)

    async def media_faults(self, message_id: str, faults: Any, reupload: str = "accept") -> None:
        await self._post("media", message_id=message_id, faults=faults, reupload=reupload)

    async def drop(self, device: str | None = None) -> None:
        """Breaks the line of one device, or of all."""
        await self._post("drop", device=device)

    async def stream_error(self, device: str, reason: str) -> None:
        """Ends a device's stream: 'replaced', 'logged_out', 'restart' or a code."""
        await self._post("stream_error", device=device, reason=reason)

    async def outbox(self, device: str | None = None) -> list[dict[str, Any]]:
        """What a device has sent: id, to, text, times_received and more, in order."""
        answer = await self._http.get(self._url("outbox"), params={"device": device} if device else {})
        return list(_checked(answer))

    async def state(self, **query: int) -> State:
        return dict(_checked(await self._http.get(self._url("state"), params=query)))

    async def wait_for(self, found: Callable[[State], Found | None], seconds: float = WAIT_SECONDS) -> Found:
        """Waits until `found` gives something for the state, looking whenever it changes."""
        async with asyncio.timeout(seconds):
            state = await self.state()
            while not (value := found(state)):
                state = await self.state(after=state["version"], wait_ms=10_000)
            return value

    async def wait_online(self, device: str) -> None:
        await self.wait_for(
            lambda state: any(one["device"] == device and one["online"] for one in state["devices"])
        )

    async def wait_receipts(self, device: str, *ids: str) -> None:
        """Waits until the device's receipts for these messages have come."""
        await self.wait_for(lambda state: all(state["messages"][device][one]["done"] for one in ids))

    async def wait_sent(self, device: str, count: int) -> list[dict[str, Any]]:
        """Waits until a device has sent so many messages, each id counted once; these."""
        await self.wait_for(
            lambda state: any(one["device"] == device and one["sent"] >= count for one in state["devices"])
        )
        return await self.outbox(device)

    async def _post(self, route: str, **body: Any) -> dict[str, Any]:
        given = {name: value for name, value in body.items() if value is not None}
        return dict(_checked(await self._http.post(self._url(route), json=given)))

    def _url(self, route: str) -> str:
        return f"{self.place['control_url']}/{route}"


def _checked(answer: httpx.Response) -> Any:
    if answer.is_error:
        raise RuntimeError(f"{answer.request.url.path}: {answer.text}")
    return answer.json()
