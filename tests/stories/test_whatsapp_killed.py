"""A bot on WhatsApp while its server, its bridge and its database are killed with -9, each at every step of a message.

The steps are looked for in the database, the staging folder and the loopback WhatsApp."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, command_of, in_thread
from tests.stories.whatsapp_story import ANN, BEN, SAMPLES, SECONDS, Story, story_on, stub

VICTIMS = ("server", "bridge", "database")
AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


@dataclass
class Ward:
    """Everything that can be killed, and a look at where a message is."""

    story: Story
    up: Process
    url: str
    kills: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> Path:
        return self.story.mill.folder / "data"

    async def one(self, sql: str, id_: str) -> Any:
        """None while the database is away."""
        try:
            connection = await asyncpg.connect(self.url, timeout=5)
        except AWAY:
            return None
        try:
            return await connection.fetchval(sql, id_)
        except AWAY:
            return None
        finally:
            connection.terminate()

    async def kill(self, victim: str) -> None:
        """Bridge and database are started again by the server; the server by whoever keeps it, which is us."""
        self.kills[victim] += 1
        if victim == "server":
            self.up.kill()
            self.up = await self.story.mill.started("up")
            return
        for pid in self.bridges() if victim == "bridge" else [postmaster_pid(self.data)]:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def bridges(self) -> list[int]:
        return [child.pid for child in self.up.children() if "main.mjs" in " ".join(command_of(child))]


Step = Callable[[Ward, str], Awaitable[object]]


async def sent_off(_ward: Ward, _id: str) -> object:
    return True


async def downloading(ward: Ward, id_: str) -> object:
    return any((ward.data / "pending_media").glob("*.part")) or await accepted(ward, id_)  # past it already


async def receipted(ward: Ward, id_: str) -> object:
    state = await ward.story.whatsapp.state()
    return state["messages"][ward.story.device][id_]["done"]


async def accepted(ward: Ward, id_: str) -> object:
    return await ward.one("select true from arrivals where provider_message_id = $1", id_)


async def at_work(ward: Ward, id_: str) -> object:
    return await ward.one(
        "select true from arrivals a left join jobs j on j.subject_id = a.guid where a.provider_message_id = $1 "
        "and (j.state is null or j.state in ('running', 'completed'))",
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


async def answered(ward: Ward, _id: str) -> object:
    caption = ward.story.expected[ANN][-1].partition(r"\n")[0]
    return any(caption in one["text"] for one in await ward.story.whatsapp.outbox(ward.story.device))


STEPS: tuple[Step, ...] = (sent_off, downloading, receipted, accepted, at_work, read, due, stored, answered)


async def push_voice(ward: Ward, name: str, step: Step) -> str:
    """A text of one person, and a file with a caption of another, which is the one that is followed."""
    await ward.story.push("text", name, sender=BEN, text=name)
    slow = {"faults": {"bytes_per_second": 20_000}} if step is downloading else {}
    voice = {"file": str(SAMPLES / "voice.ogg"), "file_name": "v.ogg", "mime_type": "audio/ogg"}
    pattern = rf"{name}\n\n" + stub("audio")
    [id_] = await ward.story.push("document", pattern, caption=name, **voice, **slow)
    return id_


@pytest.mark.timeout(900)
@pytest.mark.spec("C8", "C9", "C10", "C22", "C23", "C40", "C41", "C42", "C43", "E11")
async def test_whoever_is_killed_at_whatever_step_nothing_is_lost_and_nothing_is_answered_twice(
    tmp_path: Path,
) -> None:
    # Nobody searches, and each worker would load the model for it.
    mill = Mill(tmp_path, settings={"MEDIAMILL_WORKER_POOLS": "audio"})
    use = await in_thread(EmbeddedServer(tmp_path / "data").start)
    try:
        async with story_on(mill, tmp_path, stubs=True) as (story, up):
            await story.pair()
            ward = Ward(story, up, use.url)
            for step, victim in itertools.product(STEPS, VICTIMS):
                id_ = await push_voice(ward, f"{victim} killed when {step.__name__}", step)
                await wait_until(lambda step=step, id_=id_: step(ward, id_), SECONDS)  # type: ignore[misc]
                await ward.kill(victim)
            await story.until_all_said()
            await story.until_answered(ANN, BEN)
            assert (await story.status())["refused"] == 0
            assert ward.kills == dict.fromkeys(VICTIMS, len(STEPS))
            ids = [row["id"] for row in await story.stored(ANN)]
            assert len(ids) == len(set(ids))
    finally:
        await in_thread(use.close)
