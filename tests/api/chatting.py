"""Bots on a served API: made by its own routes, run by its keeper's loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mediamill.staging import staging_folder
from tests.api.serving import Served

CHAT = "/api/bots/demo/chat/ann"
MESSAGES = "/api/bots/demo/conversations/chat/ann/messages"


@asynccontextmanager
async def keeping(served: Served) -> AsyncIterator[None]:
    """While the server's keeper runs bots."""
    running = asyncio.create_task(served.keeper.run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def create_bot(served: Served, bot_id: str = "demo", *, start: bool = True, **config: Any) -> None:
    """A bot on the chat."""
    answer = await served.client.post("/api/bots", json={"id": bot_id, "config": config, "start": start})
    assert answer.status_code == 201, answer.text


async def say(served: Served, text: str = "hello", **more: Any) -> Any:
    """What the route answers."""
    answer = await served.client.post(f"{CHAT}/messages", json={"text": text, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def messages(served: Served) -> list[dict[str, Any]]:
    """Of the conversation with Ann."""
    answer = await served.client.get(MESSAGES)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def staged(folder: Path) -> list[str]:
    """Names in the staging folder."""
    there = staging_folder(folder)
    return sorted(path.name for path in there.iterdir()) if there.exists() else []
