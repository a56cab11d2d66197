"""A bot on WhatsApp in a real server, and a bridge's part played by hand over a real WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from mediamill.conversations import bots
from mediamill.conversations.bots import BotConfig
from mediamill.db.connection import Database
from tests.api.serving import Served, serve
from tests.conftest import wait_until

SECRET = "a secret that bridge and server share"
NOBODY = "http://127.0.0.1:9"  # no bridge to be started: its part is played here
ANN, ANN_LID = "491701111111@s.whatsapp.net", "111000111@lid"
ME = "491709999999@s.whatsapp.net"
GROUP = "120363000000000001@g.us"
OPEN = {"mode": "open", "groups": "always", "messages_per_day": 0}
GUID = "0c8ad2b4-7f11-4f6e-9d7a-8f0a3d6f5b11"


def text(message: str = "hello", **more: Any) -> dict[str, Any]:
    """The payload of a text from Ann."""
    return {
        "provider_message_id": more.pop("id", f"3EB0{abs(hash(message)):X}"),
        "sender": ANN,
        "message": message,
        "direction": "incoming",
        "originating_time": 1_790_000_000,
        **more,
    }


def frame(payload: Any, spool_id: Any = "1") -> str:
    return json.dumps({"type": "message", "spool_id": spool_id, "payload": payload})


@dataclass
class Knocking:
    """A server that knows the bot `bot`, and bridges that come to its door."""

    served: Served

    @property
    def url(self) -> str:
        return self.served.url.replace("http://", "ws://")

    @asynccontextmanager
    async def bridge(
        self,
        bot_id: str = "bot",
        *,
        bridge_id: str = "bridge 1",
        secret: str | None = SECRET,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[ClientConnection]:
        given = {"X-Bridge-Id": bridge_id, **(headers or {})}
        if secret is not None:
            given["Authorization"] = f"Bearer {secret}"
        url = f"{self.url}/api/bridge/whatsapp/{bot_id}"
        async with connect(url, additional_headers=given, proxy=None, compression=None) as line:
            yield line

    async def create(self, bot_id: str = "bot", *, start: bool = True, **config: Any) -> None:
        given = BotConfig.model_validate({"providers": {"whatsapp": {}}, "access": OPEN, **config})
        async with self.served.database.transaction() as connection:
            await bots.create_bot(connection, bot_id, given)
            if start:
                await bots.start_bot(connection, bot_id)
        await self.served.keeper.keep_once()

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        async with self.served.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *args)]

    async def accepted(self) -> list[str]:
        """The contents of all accepted messages, stored or not, in the order of their conversations and ids."""
        sql = (
            "select content from (select correspondent_id, id, content from queues union all select correspondent_id,"
            " id, message->>'content' from arrivals where message is not null) as m order by correspondent_id, id"
        )
        return [row[0] for row in await self.rows(sql)]

    async def messages(self) -> list[dict[str, Any]]:
        """All that is accepted and not stored, which is done only when the bot stops."""
        sql = "select correspondent_id, message from arrivals order by correspondent_id, id"
        return [{"correspondent_id": row[0], **json.loads(row[1])} for row in await self.rows(sql)]

    async def status(self, bot_id: str = "bot") -> dict[str, Any]:
        async with self.served.database.connection() as connection:
            shown = await bots.show_bot(connection, bot_id)
        status: dict[str, Any] = shown["status"].get("whatsapp", {})
        return status

    async def until_status(self, **wanted: Any) -> dict[str, Any]:
        async def there() -> bool:
            return wanted.items() <= (await self.status()).items()

        await wait_until(there, 30)
        return await self.status()


async def ask(line: ClientConnection, said: str | bytes) -> dict[str, Any]:
    """One frame, and the answer to it."""
    await line.send(said)
    return await heard(line)


async def heard(line: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(120):
        answer: dict[str, Any] = json.loads(await line.recv())
    return answer


@asynccontextmanager
async def knocking_at(database: Database, folder: Path, **settings: Any) -> AsyncIterator[Knocking]:
    """A server on this database."""
    given = {"bridge_url": NOBODY, "bridge_secret": SECRET, "ingest_seconds": 3600, **settings}
    async with serve(database, folder, **given) as served:
        yield Knocking(served)
