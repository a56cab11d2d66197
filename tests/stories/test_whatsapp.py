"""A bot on WhatsApp from the QR code to the answers: the real bridge with the real Baileys against a loopback WhatsApp,
the real server, database and worker. Media that need a model are read by stubs; documents and corrupt files are not."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, until_dead
from tests.whatsapp.loopback import LOOPBACK, LoopbackWhatsApp

SAMPLES = Path(__file__).parents[2] / "samples"
ANN, ANN_LID = "491701111111@s.whatsapp.net", "111000111@lid"
BEN = "491702222222@s.whatsapp.net"
GROUP = "120363000000000001@g.us"
SECONDS = 120.0

needs_bridge = pytest.mark.skipif(
    not (LOOPBACK.parents[1] / "node_modules").is_dir() or not shutil.which("node"),
    reason="npm ci in bridges/whatsapp first",
)


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

    async def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = await self.client.request(method, path, **more)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def status(self) -> dict[str, Any]:
        shown = await self.ask("GET", "/api/bots/bot")
        found: dict[str, Any] = shown["status"].get("whatsapp", {})
        return found

    async def until_state(self, state: str) -> dict[str, Any]:
        async def there() -> bool:
            return (await self.status()).get("state") == state

        await wait_until(there, SECONDS)
        return await self.status()

    async def pair(self) -> None:
        """As a person does: looks at the QR code and scans it with the phone."""
        qr = (await self.until_state("pairing"))["qr"]
        self.device = await self.whatsapp.scan(qr, name="Bot")
        status = await self.until_state("connected")
        assert status["me"]["identifier"].endswith("@s.whatsapp.net")
        await self.whatsapp.wait_online(self.device)

    async def push(self, kind: str, *texts: str, **more: Any) -> list[str]:
        """Send a message, and expect its texts in the conversation of `chat`."""
        sender = more.pop("sender", ANN)
        chat = more.pop("chat", sender)
        self.expected.setdefault(chat, []).extend(texts)
        return await self.whatsapp.push(self.device, kind, sender, **more)

    async def said(self, chat: str) -> list[str]:
        """What is stored of a conversation, in the order of ids, without the bot's own words."""
        return [row["content"] for row in await self.stored(chat) if row["source"] != "bot"]

    async def stored(self, chat: str) -> list[dict[str, Any]]:
        path = f"/api/bots/bot/conversations/whatsapp/{chat}/messages"
        answer = await self.client.get(path, params={"amount": 200})
        return list(answer.json()["messages"]) if answer.is_success else []

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


def _matching(patterns: list[str], said: list[str]) -> list[bool]:
    """Whether each pattern is met by exactly one text."""
    return [sum(bool(re.fullmatch(pattern, text, re.DOTALL)) for text in said) == 1 for pattern in patterns]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def story_on(mill: Mill, folder: Path) -> AsyncIterator[tuple[Story, Process]]:
    """`mediamill up` with one worker, beside a loopback WhatsApp."""
    async with AsyncExitStack() as stack:
        stack.callback(mill.close)
        whatsapp = await stack.enter_async_context(LoopbackWhatsApp(folder / "loopback"))
        port = _free_port()
        seconds = {f"MEDIAMILL_STUB_{kind}_SECONDS": "0.05" for kind in ("IMAGE", "AUDIO", "VIDEO")}
        mill.settings |= {"MEDIAMILL_PORT": str(port), "MEDIAMILL_INGEST_SECONDS": "0.1", **seconds}
        mill.settings |= whatsapp.bridge_environment
        up = await mill.started("up")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            story = Story(mill, whatsapp, client)
            for pool, processor in (
                ("image", "image"),
                ("stickers", "image"),
                ("audio", "audio"),
                ("video", "video"),
            ):
                await story.ask("PUT", f"/api/pools/{pool}", json={"processor": f"stub-{processor}"})
            await story.ask("PUT", "/api/configuration/media_storage_quota_gb", json={"value": 1})
            bot = {
                "id": "bot",
                "start": True,
                "config": {"providers": {"whatsapp": {}}, "reply": {"by": "echo"}},
            }
            await story.ask("POST", "/api/bots", json=bot)
            yield story, up


@needs_bridge
@pytest.mark.spec("C10", "C20", "C21", "C27", "C30", "C40", "C41", "C42", "C43")
async def test_everything_that_people_send_arrives_once_with_its_text_and_is_answered_once(
    new_url: str, tmp_path: Path
) -> None:
    mill = Mill(tmp_path, new_url)
    started_at = time.monotonic()
    async with story_on(mill, tmp_path) as (story, up):
        await story.pair()
        await story.whatsapp.know(ANN, ANN_LID)
        files = {name: {"file": str(SAMPLES / name)} for name in ("photo.jpg", "voice.ogg", "video.mp4")}
        image, caption = files["photo.jpg"], r"look at this\n\n"

        # A download that fails for good takes three tries; what comes after it does not wait.
        bad = {**image, "faults": {"status": 500}}
        await story.push(
            "image", r"\[Corrupted image media could not be downloaded\] lost", caption="lost", **bad
        )
        third = {**image, "faults": {"status": 500, "fail_times": 2}}
        await story.push("image", r"third time\n\n" + stub("image"), caption="third time", **third)
        await story.push("text", "good morning", text="good morning")
        await story.push("image", caption + stub("image"), caption="look at this", **image)
        await story.push("audio", stub("audio"), **files["voice.ogg"], mime_type="audio/ogg; codecs=opus")
        await story.push("video", stub("video"), **files["video.mp4"])
        notes = {"file": str(SAMPLES / "notes.docx"), "file_name": "../../notes.docx"}
        docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        await story.push("document", r"read\n\n.+", caption="read", mime_type=docx, **notes)
        await story.push("sticker", stub("image"), file=str(SAMPLES / "sticker.webp"), mime_type="image/webp")
        items = [{"kind": "image", **image, "caption": "one"}, {"kind": "image", **image, "caption": "two"}]
        await story.push("album", r"one\n\n" + stub("image"), r"two\n\n" + stub("image"), items=items)
        full = {
            "file": str(SAMPLES / "scan.pdf"),
            "claimed_length": 1_900_000_000,
            "mime_type": "application/pdf",
        }
        await story.push("document", r"\[Corrupted document media could not be downloaded\]", **full)
        await story.push("text", "by my LID", sender=ANN_LID, chat=ANN, text="by my LID")
        group = {"id": GROUP, "subject": "Friends", "participants": [ANN, BEN]}
        await story.push("text", "hello all", sender=BEN, chat=GROUP, group=group, text="hello all")
        await story.push("text", "from Ben", sender=BEN, text="from Ben")
        [twice] = await story.push("text", "once only", sender=BEN, text="once only")
        await story.whatsapp.wait_receipts(story.device, twice)
        await story.whatsapp.redeliver(story.device, twice)
        await story.push(
            "text", "my own words", chat=BEN, sender=None, from_me=True, recipient=BEN, text="my own words"
        )

        await story.until_all_said()
        texts = [text for text in await story.said(ANN) if text in ("good morning", "by my LID")]
        assert texts == ["good morning", "by my LID"]
        await _answers_are_right(story)
        await _the_group_is_told_apart(story)
        assert (await story.status())["refused"] == 0
        assert not any((tmp_path / "data" / "pending_media").iterdir())
        bridge = [child.pid for child in up.children() if "main.mjs" in " ".join(child.cmdline())]
        assert len(bridge) == 1
        print(f"the story took {time.monotonic() - started_at:.1f} s")

        up.kill()  # -9: the bridge goes with its server
        await until_dead(*bridge)
    mill.assert_no_traceback()


async def _answers_are_right(story: Story) -> None:
    """The echo bot answers every message of a person once, whatever it was, and none of a group or of its owner."""
    told = [text for chat in (ANN, BEN) for text in await story.said(chat) if text != "my own words"]
    sent = await story.whatsapp.wait_sent(story.device, len(told))

    async def stored() -> bool:
        rows = [row for chat in (ANN, BEN) for row in await story.stored(chat)]
        return [row["source"] for row in rows].count("bot") == len(told)

    await wait_until(stored, SECONDS)
    assert Counter(one["text"] for one in sent) == Counter(f"You said: {text}" for text in told)
    assert all(one["times_received"] == 1 and not one["unreadable"] for one in sent)
    assert len(await story.whatsapp.outbox(story.device)) == len(told)


async def _the_group_is_told_apart(story: Story) -> None:
    [message] = await story.stored(GROUP)
    assert message["group"] == {"identifier": GROUP, "display_name": "Friends"}
    assert message["sender"]["identifier"] == BEN
