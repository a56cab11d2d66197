"""Other programs listen by Pub/Sub: any client of Redis, by the documented channels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redis.client import PubSub

from mediamill.db.connection import Database
from mediamill.engine.model import WorkerState
from mediamill.engine.workers import heartbeat
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import running, until_flowing
from tests.videos.played import Ground, keep_stream, result_of, stream_of

__all__ = ["redis_server"]


async def next_message(subscription: PubSub, channel: str) -> dict[str, Any]:
    """Of one channel, from the client of Redis as anybody would use it."""
    found: list[dict[str, Any]] = []

    async def has_come() -> bool:
        message = subscription.get_message(ignore_subscribe_messages=True)
        if message is not None and message["channel"] == channel:
            found.append(json.loads(message["data"]))
        return bool(found)

    await wait_until(has_come)
    return found[0]


@pytest.mark.spec("E30-channels")
async def test_a_program_hears_of_workers_and_of_the_progress_and_end_of_a_transcode(
    database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    ground = Ground.on(database, tmp_path)
    video_id, broken = await ground.add("Sea"), await ground.add("Broken")
    async with running(database, "hybrid", redis_server.url) as dispatch:
        await until_flowing(dispatch)
        plain_client: Any = redis_server.client
        with plain_client.pubsub() as subscription:
            subscription.subscribe(
                "worker_status",
                f"transcode_progress:{video_id}",
                f"transcode_complete:{video_id}",
                f"transcode_complete:{broken}",
            )
            confirmed = [subscription.get_message(timeout=60) for _ in range(4)]
            assert {message["type"] for message in confirmed if message} == {"subscribe"}
            (job,) = await ground.claim("attic")
            await ground.report(job, percent=40, parts={"360p": {"state": "in_progress"}})
            told = await next_message(subscription, f"transcode_progress:{video_id}")
            assert (told["video_id"], told["job_id"], told["percent"]) == (str(video_id), job.id, 40)
            assert told["parts"]["360p"]["state"] == "in_progress"
            await keep_stream(ground, job, stream_of())
            await ground.finish(job, result_of())
            expected = {"video_id": str(video_id), "job_id": job.id, "state": "completed", "error": None}
            assert await next_message(subscription, f"transcode_complete:{video_id}") == expected
            (job,) = await ground.claim("attic")
            await ground.fail(job, "it is torn", permanent=True)
            expected = {"video_id": str(broken), "job_id": job.id, "state": "failed", "error": "it is torn"}
            assert await next_message(subscription, f"transcode_complete:{broken}") == expected
            async with database.connection() as connection:
                await heartbeat(connection, job.worker_id, state=WorkerState.PAUSED)
            told = await next_message(subscription, "worker_status")
            assert (told["name"], told["state"]) == ("attic", "paused")


@pytest.mark.spec("E30-channels")
async def test_a_user_of_redis_who_may_not_publish_there_is_still_woken(
    database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    ground = Ground.on(database, tmp_path)
    admin: Any = redis_server.client
    rights = "on >sesame resetchannels ~mediamill:* &mediamill:* +@all"
    admin.execute_command("ACL", "SETUSER", "mediamill", *rights.split())
    url = f"{redis_server.url}?username=mediamill&password=sesame"
    async with running(database, "hybrid", url) as dispatch:
        await until_flowing(dispatch)
        await ground.add("Sea")
        (job,) = await ground.claim()
        await ground.report(job, percent=40, parts={})

        async def refused() -> bool:
            return any("transcode_progress" in entry["object"] for entry in admin.acl_log())

        await wait_until(refused)
        published = dispatch.link.counts["hints_published"]
        await ground.add("Sand")

        async def told() -> bool:
            return dispatch.link.counts["hints_published"] > published

        await wait_until(told)
        assert (dispatch.link.flowing, dispatch.link.error) == (True, "")
