"""Uploads by clients of tus that others wrote."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import aiotus
import pytest
from tusclient.client import TusClient

from tests.api.serving import SECRET, Served

pytestmark = pytest.mark.spec("V1")

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 4000
HEADERS = {"Authorization": f"Bearer {SECRET}"}


async def video_bytes(served: Served, address: str) -> int:
    """Of the video that the upload at this address became."""
    video_id = address.rpartition("/")[2]
    answer = await served.client.get(f"/api/videos/{video_id}", headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["source_bytes"])


async def test_tuspy_uploads_in_chunks_with_checksums(served: Served, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    film.write_bytes(FILM)

    def upload() -> str:
        client = TusClient(f"{served.url}/api/uploads", headers=dict(HEADERS))
        sending = client.uploader(
            str(film), chunk_size=300_000, metadata={"filename": "film.mp4"}, upload_checksum=True
        )
        sending.upload()
        return str(sending.url)

    assert await video_bytes(served, await asyncio.to_thread(upload)) == len(FILM)


async def test_aiotus_follows_the_location(served: Served) -> None:
    place = await aiotus.upload(
        f"{served.url}/api/uploads",
        io.BytesIO(FILM),
        metadata={"filename": b"film.mp4"},
        headers=HEADERS,
        chunksize=300_000,
        config=aiotus.RetryConfiguration(retry_attempts=0),
    )
    assert place is not None
    assert await video_bytes(served, str(place)) == len(FILM)
