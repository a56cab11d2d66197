"""What tests ask of a model, and whether it has been asked."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from mediamill.agents.pi import PiAgent
from mediamill.testing.openai_server import OpenAiServer
from tests.conftest import wait_until

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def requests(server: OpenAiServer, count: int, *asking: asyncio.Future[Any]) -> None:
    """Wait until the model was asked so often. Whoever asks and fails meanwhile fails the test at once."""

    async def there() -> bool:
        for each in asking:
            if each.done():
                each.result()
        return len(server.seen) >= count

    await wait_until(there)


def only_pid(agent: PiAgent) -> int:
    (process,) = agent.pool.processes
    return process.pid
