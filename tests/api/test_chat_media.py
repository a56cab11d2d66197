from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.model import Failure
from mediamill.engine.pools import list_pools
from mediamill.engine.settle import fail_job
from mediamill.engine.workers import register_worker
from mediamill.staging import failed_folder, staging_folder
from tests.api.chatting import CHAT, MESSAGES, create_bot, keeping, messages, staged
from tests.api.serving import Served, serve
from tests.conftest import wait_until

MEGABYTE = 1 << 20


async def send(served: Served, body: Any = b"media", mime_type: str = "audio/ogg", **query: str) -> Any:
    return await served.client.post(
        f"{CHAT}/media", content=body, params=query, headers={"Content-Type": mime_type}
    )


async def stream(count: int, chunk: bytes = b"x" * 65_536) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield chunk


@pytest.mark.spec("C2", "C20")
async def test_a_file_is_staged_whole_and_becomes_a_placeholder_with_a_job(
    served: Served, tmp_path: Path
) -> None:
    async with keeping(served):
        await create_bot(served)
        answer = await send(
            served, caption="listen", filename="note.ogg", message_id="m-1", display_name="Ann"
        )
        assert answer.status_code == 201, answer.text
        said = answer.json()
        assert (said["id"], said["repeated"], said["provider_message_id"]) == (1, False, "m-1")
        assert staged(tmp_path) == [said["guid"]]
        assert (staging_folder(tmp_path) / said["guid"]).read_bytes() == b"media"
        assert (staging_folder(tmp_path) / said["guid"]).stat().st_mode & 0o777 == 0o600
        [message] = await messages(served)
    assert (message["content"], message["media_processing_id"]) == ("listen", said["guid"])
    assert (message["media"]["state"], message["media"]["original_filename"]) == ("waiting", "note.ogg")
    sql = "select subject_id || ' ' || mime_type || ' ' || pool from jobs"
    assert await served.one(sql) == f"{said['guid']} audio/ogg audio"


async def test_a_repeat_leaves_no_second_file(served: Served, tmp_path: Path) -> None:
    async with keeping(served):
        await create_bot(served)
        first = (await send(served, message_id="m-1")).json()
        again = await send(served, stream(100), message_id="m-1")
    assert again.json() == first | {"repeated": True}
    assert staged(tmp_path) == [first["guid"]]


async def test_identical_uploads_at_once_are_one_message_with_one_file(
    served: Served, tmp_path: Path
) -> None:
    async with keeping(served):
        await create_bot(served)
        answers = await asyncio.gather(*(send(served, stream(4), message_id="once") for _ in range(20)))
    said = [answer.json() for answer in answers]
    assert [each["repeated"] for each in said].count(False) == 1
    assert {(each["id"], each["guid"]) for each in said} == {(1, staged(tmp_path)[0])}
    assert len(staged(tmp_path)) == 1
    assert await served.one("select count(*) from jobs") == 1


async def test_a_large_upload_costs_little_memory(served: Served, tmp_path: Path) -> None:
    async with keeping(served):
        await create_bot(served)
        await send(served, stream(16))
        before = _peak_bytes()
        answer = await send(served, stream(300, b"y" * MEGABYTE))
        assert answer.status_code == 201
        assert _peak_bytes() - before < 60 * MEGABYTE
    assert (staging_folder(tmp_path) / answer.json()["guid"]).stat().st_size == 300 * MEGABYTE


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def test_an_upload_that_breaks_off_leaves_nothing(served: Served, tmp_path: Path) -> None:
    async with keeping(served):
        await create_bot(served)
        await send(served)
        host, port = served.url.removeprefix("http://").split(":")
        head = f"POST {CHAT}/media HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9000000\r\n\r\n"
        with socket.create_connection((host, int(port))) as line:
            await asyncio.to_thread(line.sendall, head.encode() + b"x" * 3_000_000)

            async def begun() -> bool:
                return any(name.endswith(".part") for name in staged(tmp_path))

            await wait_until(begun)

        async def gone() -> bool:
            return not any(name.endswith(".part") for name in staged(tmp_path))

        await wait_until(gone)
    assert len(staged(tmp_path)) == 1
    assert len(await messages(served)) == 1


async def test_an_upload_beyond_the_limit_is_refused_announced_or_not(
    database: Database, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, upload_limit_bytes=2 * MEGABYTE) as served, keeping(served):
        await create_bot(served)
        assert (await send(served, b"x" * (2 * MEGABYTE))).status_code == 201
        for body in (b"x" * (2 * MEGABYTE + 1), stream(40)):
            answer = await send(served, body)
            assert (answer.status_code, answer.json()["code"]) == (413, "upload_too_large")
    assert len(staged(tmp_path)) == 1


async def test_only_the_upload_may_be_large(served: Served) -> None:
    await create_bot(served, start=False)
    for path in (f"{CHAT}/messages", f"{CHAT}/media/more", "/api/bots/demo/chat/a/b/media", "/api/bots"):
        answer = await served.client.post(path, content=b" " * 1_500_001)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large"), path
    answer = await served.client.put(f"{CHAT}/media", content=b" " * 1_500_001)
    assert answer.status_code == 413


@pytest.mark.spec("C21")
async def test_a_full_staging_folder_takes_no_more(served: Served, tmp_path: Path) -> None:
    async with keeping(served):
        await create_bot(served)
        await served.client.put("/api/configuration/media_storage_quota_gb", json={"value": 3})
        for folder in (staging_folder(tmp_path), failed_folder(tmp_path)):
            folder.mkdir(exist_ok=True)
            with (folder / "old").open("wb") as file:
                os.truncate(file.fileno(), 512 * MEGABYTE)
        answer = await send(served)
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
        assert "media_storage_quota_gb" in answer.json()["fix"]
        assert staged(tmp_path) == ["old"]
        # Room as soon as the configuration says so, without a restart of the server.
        await served.client.put("/api/configuration/media_storage_quota_gb", json={"value": 4})
        assert (await send(served)).status_code == 201
    assert len(await messages(served)) == 1


@pytest.mark.spec("C21")
async def test_a_folder_whose_size_cannot_be_found_out_takes_no_more(served: Served, tmp_path: Path) -> None:
    failed_folder(tmp_path).write_text("no folder")
    async with keeping(served):
        await create_bot(served)
        answer = await send(served)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_unknown")
    assert staged(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ann\\cat.jpg", "cat.jpg"),
        ("a\0b.ogg", "ab.ogg"),
        ("/", None),
        ("..", None),
        ("x" * 999, "x" * 255),
    ],
)
async def test_a_file_name_is_only_a_name(
    served: Served, tmp_path: Path, name: str, kept: str | None
) -> None:
    async with keeping(served):
        await create_bot(served)
        said = (await send(served, filename=name)).json()
        [message] = await messages(served)
    assert message["media"]["original_filename"] == kept
    assert staged(tmp_path) == [said["guid"]]


async def test_half_a_character_in_a_file_name_is_replaced(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        answer = await served.client.post(
            f"{CHAT}/media?filename=%ED%A0%80.ogg&caption=%FF", content=b"media"
        )
        assert answer.status_code == 201
        [message] = await messages(served)
    assert message["media"]["original_filename"].endswith(".ogg")


@pytest.mark.parametrize(
    ("claim", "kept"),
    [
        ("Audio/OGG; codecs=opus", "audio/ogg"),
        ("media_corrupt_image", "application/octet-stream"),
        ("application/x-www-form-urlencoded", "application/octet-stream"),
        ("no type at all", "application/octet-stream"),
        ("a/b/c", "application/octet-stream"),
    ],
)
async def test_a_claimed_type_is_cleaned(served: Served, claim: str, kept: str) -> None:
    async with keeping(served):
        await create_bot(served)
        await send(served, mime_type=claim)
    assert await served.one("select mime_type from jobs") == kept


async def test_an_empty_upload_is_refused(served: Served, tmp_path: Path) -> None:
    async with keeping(served):
        await create_bot(served)
        answer = await send(served, b"")
    assert (answer.status_code, answer.json()["code"]) == (422, "empty_upload")
    assert staged(tmp_path) == []


async def test_a_failed_media_message_is_tried_again(served: Served) -> None:
    async with keeping(served):
        await create_bot(served)
        await send(served, caption="look")
        await fail_media(served, "the file is damaged")
        await served.keeper.deliver_once()
        [message] = await messages(served)
        assert (message["media"]["state"], message["media"]["failed_reason"]) == (
            "failed",
            "the file is damaged",
        )
        answer = await served.client.post(f"{MESSAGES}/1/retry")
        assert answer.json() == {"id": 1, "retried": "media"}
        [message] = await messages(served)
    assert message["media"]["state"] == "waiting"


async def fail_media(served: Served, error: str) -> None:
    """A worker's part, played by hand."""
    async with served.database.transaction() as connection:
        worker_id = await register_worker(connection, name="worker")
        pools = {pool.name: pool for pool in await list_pools(connection)}
        [job] = await Claimer(worker_id, "worker", served.engine.kinds).claim_jobs(
            connection, pools["audio"], 1
        )
        await fail_job(connection, served.engine, job, Failure(error, permanent=True), pools["audio"])
