"""A bot on WhatsApp while its parts are killed with -9, again and again, in the middle of everything."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import psutil
import pytest

from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, in_thread, until_dead
from tests.stories.whatsapp_story import ANN, BEN, SAMPLES, SECONDS, Story, needs_bridge, story_on, stub

VICTIMS = ("bridge", "server", "database", "bridge", "server", "database")
MESSAGES = 6  # for each victim
SEED = 7


def bridges_of(up: Process) -> list[int]:
    return [child.pid for child in up.children() if "main.mjs" in " ".join(child.cmdline())]


async def bridge_of(up: Process) -> int:
    async def there() -> bool:
        try:
            return len(bridges_of(up)) == 1
        except psutil.Error:  # a child that ended while it was looked at
            return False

    await wait_until(there, SECONDS)
    return bridges_of(up)[0]


async def send_some(story: Story, first: int, chance: random.Random) -> None:
    """Texts and captioned images of two people."""
    for number in range(first, first + MESSAGES):
        sender = (ANN, BEN)[number % 2]
        if number % 3:
            await story.push("text", f"text {number}", sender=sender, text=f"text {number}")
        else:
            photo = str(SAMPLES / "photo.jpg")
            text = rf"photo {number}\n\n" + stub("image")
            await story.push("image", text, sender=sender, file=photo, caption=f"photo {number}")
        await asyncio.sleep(chance.choice([0, 0, 0.1, 0.3]))


async def kill(what: str, story: Story, up: Process, chance: random.Random) -> Process:
    """One part, -9, at any moment; the server that runs then."""
    bridge = await bridge_of(up)
    await asyncio.sleep(chance.uniform(0, 1))
    if what == "bridge":
        os.kill(bridge, signal.SIGKILL)
        await until_dead(bridge)
    elif what == "database":
        pid = postmaster_pid(story.mill.folder / "data")
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            await until_dead(pid)
    else:
        up.kill()
        await until_dead(bridge)
        up = await story.mill.started("up")
    await story.until_state("connected")
    return up


@needs_bridge
@pytest.mark.timeout(400)
@pytest.mark.spec("C10", "C22", "C23", "C40", "C42", "C43")
async def test_nothing_is_lost_and_nothing_answered_twice_whoever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    mill = Mill(tmp_path)
    try:
        async with story_on(mill, tmp_path) as (story, up):
            await story.pair()
            for number, what in enumerate(VICTIMS):
                sending = asyncio.create_task(send_some(story, number * MESSAGES, chance))
                up = await kill(what, story, up, chance)
                await sending
            await story.until_all_said()
            await story.until_answered(ANN, BEN)
            assert (await story.status())["refused"] == 0
            bridge = await bridge_of(up)
            up.send(signal.SIGINT)
            assert await up.until_gone() == 0
            await until_dead(bridge)
    finally:
        use = await in_thread(EmbeddedServer(tmp_path / "data").start)  # to stop it in order
        await in_thread(use.close)
