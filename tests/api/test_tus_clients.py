"""Uploads by clients of tus that others wrote."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from pathlib import Path
from typing import Any

import aiotus
import pytest
from tusclient.client import TusClient
from tusclient.storage.filestorage import FileStorage
from tusclient.uploader.uploader import Uploader

from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, serve
from tests.gate import gate_to

pytestmark = pytest.mark.spec("V1")

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 4000
CHUNK_BYTES = 300_000
PACKAGES = Path(__file__).parents[1] / "tus_clients"
HEADERS = {"Authorization": f"Bearer {SECRET}"}


async def video_bytes(served: Served, address: str) -> int:
    """Of the video that the upload at this address became."""
    video_id = address.rpartition("/")[2]
    answer = await served.client.get(f"/api/videos/{video_id}", headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["source_bytes"])


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(FILM)
    return path


async def test_tuspy_resumes_in_chunks_with_checksums(served: Served, film: Path, tmp_path: Path) -> None:
    storage: Any = FileStorage  # untyped, as it comes
    storage = storage(str(tmp_path / "urls.json"))

    def uploader() -> Uploader:
        client = TusClient(f"{served.url}/api/uploads", headers=dict(HEADERS))
        return client.uploader(
            str(film),
            chunk_size=CHUNK_BYTES,
            metadata={"filename": "film.mp4"},
            upload_checksum=True,
            store_url=True,
            url_storage=storage,
        )

    await asyncio.to_thread(uploader().upload, stop_at=CHUNK_BYTES)
    resumed = await asyncio.to_thread(uploader)
    assert resumed.offset == CHUNK_BYTES
    await asyncio.to_thread(resumed.upload)
    assert await video_bytes(served, str(resumed.url)) == len(FILM)


async def test_aiotus_follows_the_location_and_resumes_when_the_line_is_cut(served: Served) -> None:
    async with gate_to(served.url) as gate:
        gate.break_sent_after = CHUNK_BYTES + 100_000
        place = await aiotus.upload(
            f"{gate.url}/api/uploads",
            io.BytesIO(FILM),
            metadata={"filename": b"film.mp4"},
            headers=HEADERS,
            chunksize=CHUNK_BYTES,
            config=aiotus.RetryConfiguration(retry_attempts=5, max_retry_period_seconds=0.1),
        )
        assert gate.broken == 1
    assert place is not None
    assert await video_bytes(served, str(place)) == len(FILM)
    assert await served.one("select count(*) from uploads") == 1


@pytest.mark.parametrize("client", ["tus-js-client", "uppy"])
async def test_clients_of_browsers_resume_after_the_first_chunk(
    served: Served, film: Path, tmp_path: Path, client: str
) -> None:
    node = shutil.which("node", path=f"{PACKAGES.parents[1] / '.tools' / 'bin'}") or shutil.which("node")
    assert node, "no Node.js; make .tools/.stamp-bridge sets it up"
    process = await asyncio.create_subprocess_exec(
        *(node, PACKAGES / "upload.mjs", client, f"{served.url}/api/uploads", SECRET, film, tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    assert CHUNK_BYTES <= told["resumedFrom"] < len(FILM)
    assert await video_bytes(served, told["url"]) == len(FILM)
    assert await served.one("select count(*) from uploads") == 1


async def test_the_location_names_the_server_as_the_caller_does_behind_a_trusted_proxy(
    database: Database, tmp_path: Path
) -> None:
    forwarded = {
        **HEADERS,
        "Host": "mill.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-For": "192.0.2.7",
    }
    length = {"Tus-Resumable": "1.0.0", "Upload-Length": "5"}
    for proxies, scheme in (("127.0.0.1", "https"), ("", "http")):
        async with serve(database, tmp_path, hosts="mill.example", trusted_proxies=proxies) as served:
            answer = await served.client.post("/api/uploads", headers={**forwarded, **length})
        assert answer.status_code == 201, answer.text
        assert answer.headers["location"].startswith(f"{scheme}://mill.example/api/uploads/")
