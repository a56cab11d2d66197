"""People who talk to bots, and a worker's part played by hand, for the tests of the pages."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, FilePayload, Page, expect

from mediamill.conversations import bots
from mediamill.conversations.access import DayLimits, Gate
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import AccessConfig, BotConfig
from mediamill.conversations.model import BOT, OUTGOING, USER, Group, Sender
from mediamill.conversations.records import DatabaseRecords
from mediamill.engine.model import ClaimedJob
from tests.api.serving import Served
from tests.conftest import wait_until
from tests.conversations.conftest import Ground

LIMIT = 60_000
FAMILY = Group("family@g.us", "Family")
VOICE: FilePayload = {"name": "note.ogg", "mimeType": "audio/ogg", "buffer": b"OggS and so on"}


@dataclass
class Talking:
    """Everything is real but the people and the worker."""

    served: Served
    _lines: dict[tuple[str, str], BotQueuesManager] = field(default_factory=dict)
    _ground: Ground | None = None

    @property
    def ground(self) -> Ground:
        """A worker's part."""
        if self._ground is None:
            deps = self.served.app.state.deps
            self._ground = Ground(deps.database, deps.engine, deps.enqueuer, deps.settings)
        return self._ground

    async def create(
        self, bot_id: str = "anna", *, by: str = "none", runs: bool = True, **config: Any
    ) -> None:
        """A bot; its keeper starts it."""
        given = BotConfig.model_validate({"reply": {"by": by}, **config})
        async with self.served.database.transaction() as connection:
            await bots.create_bot(connection, bot_id, given)
            if runs:
                await bots.start_bot(connection, bot_id)

    async def write(
        self,
        content: str,
        *,
        bot_id: str = "anna",
        provider: str = "whatsapp",
        correspondent: str = "ann@example",
        name: str = "Ann",
        source: str = USER,
        ago_seconds: float = 0,
        group: Group | None = None,
        mime_type: str | None = None,
        filename: str | None = None,
    ) -> str | None:
        """A message that came over a chat network; the guid of its media."""
        guid = str(uuid.uuid4()) if mime_type else None
        await self._line(bot_id, provider).add_message(
            correspondent,
            content,
            Sender(bot_id if source == BOT else name.lower(), bot_id if source == BOT else name),
            source,
            int(time.time() - ago_seconds),
            group,
            media_processing_id=guid,
            mime_type=mime_type,
            original_filename=filename,
        )
        return guid

    def _line(self, bot_id: str, provider: str) -> BotQueuesManager:
        if (bot_id, provider) not in self._lines:
            deps = self.served.app.state.deps
            records = DatabaseRecords(deps.database, deps.enqueuer, bot_id, provider)
            self._lines[bot_id, provider] = BotQueuesManager(bot_id, provider, records)
        return self._lines[bot_id, provider]

    async def claim(self, amount: int = 1) -> list[ClaimedJob]:
        """Jobs in the hands of a worker, once there are so many."""
        claimed: list[ClaimedJob] = []

        async def enough() -> bool:
            claimed.extend(await self.ground.claim())
            return len(claimed) >= amount

        await wait_until(enough)
        return claimed

    async def report(self, job: ClaimedJob, percent: float) -> None:
        """How far a job is."""
        await self.served.run("update jobs set percent = $2 where id = $1", job.id, percent)
        await self.served.run(
            "insert into events (topic, subject, data) values ('job.progress', $1, '{}')", job.subject_id
        )

    async def settle(self, guid: str | None, content: str, failed_reason: str | None = None) -> None:
        """The end of a medium of a bot that does not run here, as the engine would write it."""
        await self.served.run(
            "update arrivals set state = 'ready', ready_at = now(), media = media || jsonb_build_object("
            "'failed_reason', $3::text), message = message || jsonb_build_object('content', $2::text, "
            "'media_processing_id', null) where guid = $1",
            guid,
            content,
            failed_reason,
        )
        await self.served.run("delete from jobs where subject_id = $1", guid)

    async def tell_status(self, provider: str, status: dict[str, Any], bot_id: str = "anna") -> None:
        """What a provider says of itself."""
        await self.served.run(
            "update bots set status = status || jsonb_build_object($2::text, $3::jsonb) where id = $1",
            bot_id,
            provider,
            json.dumps(status),
        )
        await self.served.run(
            "insert into events (topic, subject, data) values ('bot.changed', $1, '{}')", bot_id
        )


async def fill_family(talking: Talking) -> None:
    """Two days in a group: names, a photo, a voice note, work that goes on, and something that failed."""
    day = 24 * 3600
    say: dict[str, Any] = {"correspondent": FAMILY.identifier, "group": FAMILY}
    await talking.write("Who is coming on Sunday?", name="Ann", ago_seconds=day + 900, **say)
    await talking.write("We are! What shall we bring?", name="Luis", ago_seconds=day + 840, **say)
    voice = await talking.write(
        "", name="Ann", ago_seconds=day + 300, mime_type="audio/ogg", filename="PTT-0412.ogg", **say
    )
    await talking.settle(
        voice, "A salad would be lovely, and if you still have the folding chairs, bring those too."
    )
    await talking.write(
        "Noted: Luis brings a salad and the folding chairs.", source=BOT, ago_seconds=day + 280, **say
    )
    photo = await talking.write(
        "The garden this morning",
        name="Luis",
        ago_seconds=500,
        mime_type="image/jpeg",
        filename="garden.jpg",
        **say,
    )
    await talking.settle(photo, "The garden this morning\n\nProbably: lawn, table, flowers; two people.")
    film = await talking.write(
        "", name="Ann", ago_seconds=300, mime_type="video/mp4", filename="birthday.mp4", **say
    )
    await talking.settle(
        film, "[The media could not be processed]", "the video ends in the middle of a packet"
    )
    await talking.write("Written on my phone", name="Me", source=OUTGOING, ago_seconds=120, **say)
    await talking.write(
        "The invitation",
        name="Luis",
        ago_seconds=60,
        mime_type="application/pdf",
        filename="invitation.pdf",
        **say,
    )


async def open_chat(talking: Talking, browser: Browser, *, by: str = "none", **looks: Any) -> Page:
    """A bot that runs, and a page on which one can talk to it."""
    await talking.create("anna", by=by)
    page = await browser.new_page(**looks)
    await page.goto(f"{talking.served.url}/bots/anna/chat/guest-1")
    await expect(page.locator("#talk-state")).to_contain_text("running", timeout=LIMIT)
    await page.evaluate("window.stayed = true")
    return page


async def send_file(page: Page, file: FilePayload | Path, caption: str = "") -> None:
    await page.locator("#files").set_input_files(file)
    await expect(page.locator("#chosen li")).to_have_count(1)
    await page.locator("#text").fill(caption)
    await page.keyboard.press("Enter")
    await expect(page.locator("#chosen li")).to_have_count(0)


ANN = Sender("491701111111@s.whatsapp.net", "Ann Example")
BEN = Sender("491702222222@s.whatsapp.net", "Ben <b>bold</b> with quite a long name for a small telephone")


def gate(talking: Talking) -> Gate:
    return Gate(talking.served.database, "shop", "whatsapp", AccessConfig(), DayLimits())


async def knock(talking: Talking, sender: Sender, number: str = "1") -> bool:
    return await gate(talking).admit(sender.identifier, sender, None, provider_message_id=number)
