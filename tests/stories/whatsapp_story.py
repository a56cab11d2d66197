"""What the stories on WhatsApp need: `mediamill up` beside a loopback WhatsApp, and what was said in the end."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import wait_until
from tests.crash.processes import Mill, Process
from tests.ports import free_port
from tests.whatsapp.loopback import LoopbackWhatsApp

SAMPLES = Path(__file__).parents[2] / "samples"
ANN, ANN_LID = "491701111111@s.whatsapp.net", "111000111@lid"
BEN = "491702222222@s.whatsapp.net"
GROUP = "120363000000000001@g.us"
OPEN = {"mode": "open", "groups": "always", "messages_per_day": 0}
SECONDS = 120.0


def stub(kind: str) -> str:
    return rf"\[Transcripted {kind} multimedia message with guid='[0-9a-f-]{{36}}'\]"


@dataclass
class Story:
    """One bot, `bot`, linked to one device of the loopback WhatsApp."""

    mill: Mill
    whatsapp: LoopbackWhatsApp
    client: httpx.AsyncClient
    device: str = ""
    expected: dict[str, list[str]] = field(
        default_factory=dict
    )  # by conversation: patterns, in the order of sending
    # When each is sent.
    seconds: Iterator[int] = field(default_factory=lambda: count(round(time.time()) - 600))

    async def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = await self.client.request(method, path, **more)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.seen("/api/bots/bot"))["status"].get("whatsapp", {})
        return found

    async def seen(self, path: str, **more: Any) -> dict[str, Any]:
        """What is there, once somebody answers."""
        found: list[dict[str, Any] | None] = []

        async def answered() -> bool:
            found[:] = [await self.look(path, **more)]
            return found[0] is not None

        await wait_until(answered, SECONDS)
        [answer] = found
        assert answer is not None
        return answer

    async def look(self, path: str, **more: Any) -> dict[str, Any] | None:
        """None: not there, or nobody answers just now."""
        try:
            answer = await self.client.get(path, timeout=20, **more)
        except httpx.HTTPError:
            return None
        return answer.json() if answer.is_success else None

    async def until_state(self, state: str) -> dict[str, Any]:
        status: dict[str, Any] = {}

        async def there() -> bool:
            nonlocal status
            status = await self.status()
            return status.get("state") == state

        await wait_until(there, SECONDS)
        return status

    async def pair(self) -> None:
        """As a person does: looks at the QR code and scans it with the phone."""
        qr = (await self.until_state("pairing"))["qr"]
        self.device = await self.whatsapp.scan(qr, name="Bot")
        status = await self.until_state("connected")
        assert status["me"]["identifier"].endswith("@s.whatsapp.net")
        await self.whatsapp.wait_online(self.device)

    async def push(self, kind: str, *texts: str, **more: Any) -> list[str]:
        """Send a message a second after the one before, and expect its texts in the conversation of `chat`."""
        sender = more.pop("sender", ANN)
        chat = more.pop("chat", sender)
        self.expected.setdefault(chat, []).extend(texts)
        more["t"] = next(self.seconds)
        if "items" in more:
            more["items"] = [{**item, "t": next(self.seconds)} for item in more["items"]]
        return await self.whatsapp.push(self.device, kind, sender, **more)

    async def said(self, chat: str) -> list[str]:
        """What is stored of a conversation, as it is listed, without the answers."""
        return [row["content"] for row in await self.stored(chat) if row["source"] != "bot"]

    async def stored(self, chat: str) -> list[dict[str, Any]]:
        path = f"/api/bots/bot/conversations/whatsapp/{chat}/messages"
        return list((await self.seen(path, params={"amount": 200}))["messages"])

    async def until_all_said(self) -> None:
        """Each expected message is there once, finished; nothing else is."""
        for chat, patterns in self.expected.items():

            async def there(chat: str = chat, patterns: list[str] = patterns) -> bool:
                said = await self.said(chat)
                return len(said) >= len(patterns) and all(_matching(patterns, said))

            try:
                await wait_until(there, SECONDS)
            except TimeoutError:
                assert await self.said(chat) == patterns, self.mill.processes[0].said[-5_000:]
            assert len(await self.said(chat)) == len(patterns), await self.said(chat)

    async def assert_listed_as_sent(self, *chats: str) -> None:
        """Whatever came first of them: a download that fails three times ends long after the next text."""
        for chat in chats:
            pairs = zip(self.expected[chat], await self.said(chat), strict=True)
            assert [text for pattern, text in pairs if not re.fullmatch(pattern, text, re.DOTALL)] == []

    async def until_answered(self, *chats: str) -> None:
        """The echo bot answers every message of a person once, whatever it was, and none of its owner."""
        rows = [row for chat in chats for row in await self.stored(chat)]
        told = [row["content"] for row in rows if row["source"] == "user"]
        await self.whatsapp.wait_sent(self.device, len(told))

        async def stored() -> bool:
            rows = [row for chat in chats for row in await self.stored(chat)]
            return sum(bool(row["source"] == "bot") for row in rows) == len(told)

        await wait_until(stored, SECONDS)
        sent = await self.whatsapp.outbox(self.device)
        assert Counter(one["text"] for one in sent) == Counter(f"You said: {text}" for text in told)
        await wait_until(self._is_readable, SECONDS)

    async def _is_readable(self) -> bool:
        """A copy that could not be read, by keys of before a crash, was asked for again and sent again."""
        sent = await self.whatsapp.outbox(self.device)
        return all(not one["unreadable"] or one["times_received"] > 1 for one in sent)


def _matching(patterns: list[str], said: list[str]) -> list[bool]:
    """Whether each pattern is met by exactly one text."""
    return [sum(bool(re.fullmatch(pattern, text, re.DOTALL)) for text in said) == 1 for pattern in patterns]


@asynccontextmanager
async def story_on(
    mill: Mill, folder: Path, *, stubs: bool, access: Mapping[str, Any] = OPEN
) -> AsyncIterator[tuple[Story, Process]]:
    """`mediamill up` with one worker, beside a loopback WhatsApp. `stubs`: media are not really looked at."""
    async with AsyncExitStack() as stack:
        stack.callback(mill.close)
        whatsapp = await stack.enter_async_context(LoopbackWhatsApp(folder / "loopback"))
        port = free_port()
        seconds = {f"MEDIAMILL_STUB_{kind}_SECONDS": "0.05" for kind in ("IMAGE", "AUDIO", "VIDEO")}
        mill.settings |= {"MEDIAMILL_PORT": str(port), "MEDIAMILL_INGEST_SECONDS": "0.1", **seconds}
        mill.settings |= whatsapp.bridge_environment
        up = await mill.started("up")
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", auth=mill.owner, trust_env=False, timeout=60
        ) as client:
            story = Story(mill, whatsapp, client)
            for pool in ("image", "audio", "video") if stubs else ():
                await story.ask("PUT", f"/api/pools/{pool}", json={"processor": f"stub-{pool}"})
            await story.ask("PUT", "/api/configuration/media_storage_quota_gb", json={"value": 1})
            bot = {
                "id": "bot",
                "start": True,
                "config": {"providers": {"whatsapp": {}}, "reply": {"by": "echo"}, "access": access},
            }
            await story.ask("POST", "/api/bots", json=bot)
            yield story, up
