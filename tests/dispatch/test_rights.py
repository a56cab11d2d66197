"""The rights that the how-to names are enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mediamill.dispatch.choose import Dispatch
from mediamill.dispatch.examine import examine_redis
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import until_flowing, until_idle, woken_by
from tests.worker.working import Ground, ground

__all__ = ["ground", "redis_server"]

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "redis.md"


def documented_rights() -> list[str]:
    command = HOW_TO.read_text().partition("ACL SETUSER mediamill ")[2].partition("```")[0]
    return command.replace("a-long-random-text", "sesame").split()


@pytest.mark.spec("E30-redis")
async def test_a_user_with_the_documented_rights_can_do_everything(
    ground: Ground, redis_server: RedisServer
) -> None:
    admin: Any = redis_server.client
    admin.execute_command("ACL", "SETUSER", "mediamill", *documented_rights())
    url = f"{redis_server.url}?username=mediamill&password=sesame"
    dispatch = Dispatch("hybrid", url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        for _ in range(3):
            await ground.until(await ground.add(), "finished")
        assert (await examine_redis(url, ground.database))["relayed"]
    assert admin.execute_command("ACL", "LOG") == [], "every command that was refused is there"
