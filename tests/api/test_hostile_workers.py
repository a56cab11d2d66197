"""Workers that mean harm, or are broken: refused, and nothing is written outside of where it belongs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mediamill.api import inbox
from mediamill.db.connection import Database
from tests.api.remote_worker import Remote, register, shown, told
from tests.api.serving import Served, serve
from tests.conftest import wait_until

KEPT = "scripted.keep"


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server whose data folder has neighbours."""
    (tmp_path / "neighbour").write_text("leave me alone")
    async with serve(database, tmp_path / "data", worker_file_limit_bytes=5_000_000) as served:
        yield served


async def claimed(served: Served) -> tuple[Remote, dict[str, Any]]:
    worker = await register(served)
    await served.enqueue(KEPT, pool="scripted")
    [job] = await worker.claim()
    return worker, job


def files_of(folder: Path) -> dict[str, str]:
    """Every file, link and folder, with what is in it; the folders that a job's files come to are no harm."""
    found = {}
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # gone since it was seen
            if path.is_symlink() or not path.is_dir():
                content = str(path.readlink()) if path.is_symlink() else path.read_bytes().hex()
                found[str(path.relative_to(folder))] = content
    return found


async def send_raw(served: Served, text: bytes, *, hang_up: bool = False) -> bytes:
    """Bytes to the server as they are, without a client that tidies them up; all that it answers."""
    where = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(text)
    await writer.drain()
    if hang_up:
        writer.close()
        return b""
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def raw_put(
    worker: Remote, path: str, body: bytes, *, length: int | None = None, sha: str | None = None
) -> bytes:
    told_length = len(body) if length is None else length
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {worker.key}\r\nConnection: close\r\n"
        f"X-Content-SHA256: {sha or hashlib.sha256(body).hexdigest()}\r\nContent-Length: {told_length}\r\n\r\n"
    )
    return head.encode() + body


PATHS = [
    "..",
    "../evil",
    "../../../../evil",
    "..%2fevil",
    "..%2f..%2f..%2f..%2fneighbour",
    "%2e%2e%2fevil",
    "%2e%2e/%2e%2e/%2e%2e/%2e%2e/neighbour",
    "/etc/evil",
    "%2fetc%2fevil",
    "//evil",
    ".hidden",
    ".part-0000000000000000",
    "a%00b",
    "a\\b",
    "a%5cb",
    "up%0aper",
    "a/../../evil",
    "a/%2e%2e/%2e%2e/evil",
    "~root",
    "%f0%9f%92%a5",
    "%ff%fe",
    "a" * 101,
    "c%3a%5cevil",
    "",
]


@pytest.mark.spec("V8")
@pytest.mark.parametrize("where", ["kept", "files"])
async def test_no_name_leads_out_of_the_folder_however_it_is_written(
    served: Served, tmp_path: Path, where: str
) -> None:
    worker, job = await claimed(served)
    before = files_of(tmp_path)
    for path in PATHS:
        line = f"/api/worker/jobs/{job['id']}/{where}/{path}?token={job['token']}"
        answer = await send_raw(served, raw_put(worker, line, b"evil"))
        assert answer[:12] in (
            b"HTTP/1.1 307",  # no name at all: that of the list
            b"HTTP/1.1 401",  # no route of workers: their key opens nothing else
            b"HTTP/1.1 404",
            b"HTTP/1.1 405",
            b"HTTP/1.1 422",
            b"HTTP/1.1 400",
        ), (path, answer)
    assert files_of(tmp_path) == before
    assert (await worker.get(job, "kept")).json() == {"files": []}


@pytest.mark.spec("V8")
async def test_links_that_somebody_put_there_are_not_followed(served: Served, tmp_path: Path) -> None:
    worker, job = await claimed(served)
    data, outside = tmp_path / "data", tmp_path / "neighbour"
    kept = data / "kept" / f"{job['id'] % 1000:03}" / str(job["id"])
    kept.mkdir(parents=True)
    (kept / "a.txt").symlink_to(outside)
    assert (await worker.put(job, "kept/a.txt", b"mine")).status_code == 204
    assert outside.read_text() == "leave me alone"
    assert not (kept / "a.txt").is_symlink()
    home = data / "derivatives" / f"{job['id'] % 1000:03}" / f"{job['id']}-{job['token']}"
    home.mkdir(parents=True)
    (home / "b.txt").symlink_to(outside)
    assert (await worker.put(job, "files/b.txt", b"mine")).status_code == 200
    assert outside.read_text() == "leave me alone"


@pytest.mark.spec("V8")
async def test_a_wrong_hash_is_refused_and_nothing_is_kept(served: Served, tmp_path: Path) -> None:
    worker, job = await claimed(served)
    before = files_of(tmp_path)
    for where in ("kept/a.txt", "files/a.txt"):
        wrong = await worker.put(job, where, b"mine", **{"X-Content-SHA256": "0" * 64})
        assert told(wrong) == (422, "hash_mismatch")
        for sha in ("", "xyz", "0" * 63, "0" * 65):
            answer = await worker.put(job, where, b"mine", **{"X-Content-SHA256": sha})
            assert told(answer) == (422, "invalid")
    assert files_of(tmp_path) == before


@pytest.mark.spec("V8")
async def test_a_length_that_lies_leaves_nothing(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "SKIP_SECONDS", 0.2)
    worker, job = await claimed(served)
    before = files_of(tmp_path)
    line = f"/api/worker/jobs/{job['id']}/kept/a.txt?token={job['token']}"
    await send_raw(served, raw_put(worker, line, b"short", length=1_000_000), hang_up=True)
    huge = await send_raw(served, raw_put(worker, line, b"short", length=1 << 50))
    assert b"413" in huge[:20]
    longer = await send_raw(
        served, raw_put(worker, line, b"0123456789", length=5, sha=hashlib.sha256(b"0123456789").hexdigest())
    )
    assert b"422" in longer[:20]

    async def same() -> bool:
        return files_of(tmp_path) == before

    await wait_until(same)


@pytest.mark.spec("V8")
async def test_an_endless_stream_is_cut_off_at_the_limit(served: Served, tmp_path: Path) -> None:
    worker, job = await claimed(served)
    before = files_of(tmp_path)
    where = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = (
        f"PUT /api/worker/jobs/{job['id']}/kept/a.txt?token={job['token']} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {worker.key}\r\nX-Content-SHA256: {'0' * 64}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"

    async def send_forever() -> None:
        while True:
            writer.write(chunk)
            await writer.drain()

    sending = asyncio.create_task(send_forever())
    try:
        async with asyncio.timeout(60):
            assert b"413" in (await reader.readline())
            await asyncio.wait([sending])  # and in the end the connection is closed on it
        assert isinstance(sending.exception(), OSError)
    finally:
        sending.cancel()
        writer.close()
    assert files_of(tmp_path) == before


@pytest.mark.spec("E5", "E20")
async def test_another_workers_job_a_wrong_token_and_a_bad_key_get_nothing(
    served: Served, tmp_path: Path
) -> None:
    worker, job = await claimed(served)
    stranger, revoked, disabled = [await register(served, name) for name in ("s", "r", "d")]
    await served.client.post(f"/api/workers/{revoked.id}/revoke")
    await served.client.post(f"/api/workers/{disabled.id}/disable")
    before = files_of(tmp_path)
    wrong_token = {**job, "token": job["token"] + 1}
    for who, shows, expected in (
        (stranger, job, (409, "claim_lost")),
        (worker, wrong_token, (409, "claim_lost")),
        (revoked, job, (401, "worker_key_revoked")),
        (disabled, job, (409, "claim_lost")),
        (Remote(served, 1, "no key at all"), job, (401, "worker_key_invalid")),
    ):
        for where in ("kept/a.txt", "files/a.txt"):
            assert told(await who.put(shows, where, b"mine")) == expected
        for what in ("input", "kept"):
            assert told(await who.get(shows, what)) == expected
    assert files_of(tmp_path) == before
    for token in ("", "x", "-1", "0", "9" * 30):
        assert told(await worker.put({**job, "token": token}, "kept/a.txt", b"mine"))[0] == 422


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "facts",
    [
        json.dumps({"x": "y" * 5000}),
        "[" * 2000,
        "[]",
        "null",
        "not json",
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
    ],
    ids=lambda text: text[:12],
)
async def test_facts_that_are_too_large_or_cannot_be_stored_are_refused(
    served: Served, tmp_path: Path, facts: str
) -> None:
    worker, job = await claimed(served)
    before = files_of(tmp_path)
    answer = await worker.put(job, "kept/a.txt", b"mine", **{"X-Facts": facts})
    assert answer.status_code == 422, answer.text
    assert files_of(tmp_path) == before
    assert (await worker.get(job, "kept")).json() == {"files": []}


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../neighbour",
        "derivatives/../../neighbour",
        "derivatives/{home}/../../../../neighbour",
        "derivatives/{home}/never-sent",
        "derivatives/{home}/real",
        "derivatives/001/1-999/real",
        ["derivatives"],
        7,
    ],
)
async def test_a_result_cannot_name_files_that_were_not_sent_with_it(served: Served, path: Any) -> None:
    worker, job = await claimed(served)
    assert (await worker.put(job, "files/real", b"mine")).status_code == 200
    home = f"{job['id'] % 1000:03}/{job['id']}-{job['token']}"
    named = path.format(home=home) if isinstance(path, str) else path
    result = {"files": {"it": {"path": named, "bytes": 3}}}
    assert told(await worker.post("complete", **shown(job), result=result)) == (422, "bad_result_files")
    assert await served.one("select state from jobs") == "running"


async def test_a_greeting_with_too_much_in_it_is_refused(served: Served) -> None:
    worker = await register(served)
    for word in (
        {"instance": "short"},
        {"instance": "../../../../evil"},
        {"instance": "ab" * 16, "metadata": {"x": "y" * 20_000}},
        {"instance": "ab" * 16, "capabilities": {"x": ["y" * 20_000]}},
    ):
        assert (await worker.post("hello", **word)).status_code == 422
