"""Who is on the machine: its own user is let in by the key in the data folder, and nobody else for being there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from mediamill import local_key as keys
from mediamill.api import welcome
from mediamill.client import AsyncClient, ProblemError
from mediamill.client.wire import LocalPass
from mediamill.db.connection import Database
from mediamill.local_key import find_local_key, link_purpose, local_key, sign_pass
from tests.api.serving import Served, serve

NOBODY = 65534
# Becomes another user if it can, reads a file, and sends a request for each group of headers; says what came of it.
ASK = """
import os, sys, json, http.client, encodings.idna
url, file, headers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    said = [open(file).read()]
except OSError:
    said = ["no"]
for group in headers:
    line = http.client.HTTPConnection(*url.split(":"), timeout=60)
    line.request("GET", "/api/jobs", headers=group)
    said.append(line.getresponse().status)
print(json.dumps(said))
"""


@pytest.fixture
async def closed(database: Database, folder: Path) -> AsyncIterator[Served]:
    """A server on loopback as `mediamill up` starts it: no admin secret, no users."""
    async with serve(database, folder, pages=True, login="always", admin_secret=None) as served:
        yield served


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder into which everybody may look: the mode of the key alone must be enough."""
    with tempfile.TemporaryDirectory(prefix="mediamill-tests-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


def bearer(shown: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {shown}"}


async def ask_as_somebody_else(served: Served, file: Path, *headers: dict[str, str]) -> list[object]:
    """Whether another user of this machine can read the file, and the status of each request of theirs.

    Root becomes nobody. Anybody else needs a second user id of their own (/etc/subuid), or the test cannot be made.
    """
    words = [
        sys.executable,
        "-I",
        "-c",
        ASK,
        served.url.removeprefix("http://"),
        str(file),
        json.dumps(headers),
    ]
    if os.geteuid() != 0:
        words = ["unshare", "--user", "--map-auto", "--setuid=1", "--setgid=1", *words]
    process = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )
    said, fault = await process.communicate()
    if process.returncode and os.geteuid() != 0:
        pytest.skip(
            f"neither root nor a second user id, so there is nobody else here: {fault.decode().strip()}"
        )
    assert process.returncode == 0, fault.decode()
    found: list[object] = json.loads(said)
    return found


async def test_another_user_of_the_machine_is_refused_and_cannot_read_the_key(
    closed: Served, folder: Path
) -> None:
    known = {"Authorization": f"Bearer {sign_pass(local_key(folder))}"}
    said = await ask_as_somebody_else(
        closed, folder / keys.FILE, {}, {"X-Real-IP": "127.0.0.1"}, {"Host": "localhost"}, known
    )
    assert said == ["no", 401, 401, 401, 200]  # the last: so it was no other fault
    assert (folder / keys.FILE).stat().st_mode & 0o777 == 0o600


async def test_the_python_client_of_the_servers_user_needs_no_token(
    closed: Served, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATA", str(folder))
    async with AsyncClient(closed.url) as client:
        assert (await client.send_message("thread", "hello")).run_id
    monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path / "elsewhere"))
    async with AsyncClient(closed.url) as client:
        with pytest.raises(ProblemError, match=r".") as caught:
            await client.send_message("thread", "hello")
    assert caught.value.code == "unauthenticated"
    assert "MEDIAMILL_DATA" in str(caught.value.fix)


async def test_a_pass_is_for_a_moment_for_one_key_and_for_requests(
    closed: Served, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, port = local_key(folder), int(urlsplit(closed.url).port or 0)
    right = sign_pass(key)
    assert (await closed.client.get("/api/whoami", headers=bearer(right))).json()["kind"] == "here"
    now = time.time_ns
    for wrong in (
        sign_pass(key[:-1]),
        sign_pass(key, link_purpose(port)),
        right[:-1] + ("0" if right[-1] != "0" else "1"),
        key,
        "pass_",
        "pass_" + "9" * 30,
    ):
        for _ in range(8):  # wrong ones hold up nobody
            assert (await closed.client.get("/api/whoami", headers=bearer(wrong))).status_code in (401, 429)
    monkeypatch.setattr(time, "time_ns", lambda: now() + int(61e9))
    assert (await closed.client.get("/api/whoami", headers=bearer(right))).status_code == 401
    assert (await closed.client.get("/api/whoami", headers=bearer(sign_pass(key)))).status_code == 200


async def test_a_pass_of_before_the_server_ran_is_refused(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = sign_pass(local_key(folder))  # shown, perhaps, to somebody else who listened on the port
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + int(5e9))
    async with serve(database, folder, login="always") as served:
        assert (await served.client.get("/api/whoami", headers=bearer(early))).status_code == 401
        late = sign_pass(local_key(folder))
        assert (await served.client.get("/api/whoami", headers=bearer(late))).status_code == 200


async def test_a_link_logs_a_browser_in_once(closed: Served, folder: Path) -> None:
    port = int(urlsplit(closed.url).port or 0)
    link = f"/open?link={sign_pass(local_key(folder), link_purpose(port))}"
    async with httpx.AsyncClient(base_url=closed.url) as browser:
        answer = await browser.get(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert (await browser.get("/api/whoami")).json()["kind"] == "here"
        assert (await browser.get("/")).status_code == 200
        assert (await browser.post("/logout", headers={"Origin": closed.url})).status_code == 303
        assert (await browser.get("/api/whoami")).status_code == 401
    again = await closed.client.get(link)
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)
    assert "mediamill open" in again.text


async def test_a_link_is_for_one_port_one_start_and_one_day(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = local_key(folder)
    async with serve(database, folder, login="always") as served:
        port = int(urlsplit(served.url).port or 0)
        early = sign_pass(key, link_purpose(port))
        for wrong in ("", sign_pass(key), sign_pass(key, link_purpose(port + 1))):
            assert (await served.client.get("/open", params={"link": wrong})).status_code == 401
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() + int(25 * 3600e9))
        assert (await served.client.get("/open", params={"link": early})).status_code == 401
        monkeypatch.setattr(time, "time_ns", now)
    monkeypatch.setattr(time, "time_ns", lambda: now() + int(5e9))
    async with serve(database, folder, login="always", port=port) as served:
        assert (await served.client.get("/open", params={"link": early})).status_code == 401
        fresh = sign_pass(key, link_purpose(port))
        assert (await served.client.get("/open", params={"link": fresh})).status_code == 303


async def test_a_session_by_a_link_ends_with_the_key_or_the_admin_secret(
    database: Database, folder: Path
) -> None:
    async def log_in(served: Served, port: int) -> httpx.Cookies:
        link = sign_pass(local_key(folder), link_purpose(port))
        answer = await served.client.get("/open", params={"link": link})
        assert answer.status_code == 303
        return answer.cookies

    async def who(served: Served, cookies: httpx.Cookies) -> int:
        async with httpx.AsyncClient(base_url=served.url, cookies=cookies) as browser:
            return (await browser.get("/api/whoami")).status_code

    async with serve(database, folder, login="always", admin_secret=None, port=1) as served:
        cookies = await log_in(served, 1)
    async with serve(database, folder, login="always", admin_secret=None) as served:
        assert await who(served, cookies) == 200  # a restart logs nobody out
    async with serve(database, folder, login="always") as served:
        assert await who(served, cookies) == 401  # there is an admin secret now
    (folder / keys.FILE).unlink()
    async with serve(database, folder, login="always", admin_secret=None) as served:
        assert await who(served, cookies) == 401


async def test_a_stream_of_the_servers_user_outlives_its_pass(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(welcome, "ASK_SECONDS", 0.0)
    quick: dict[str, Any] = {"login": "always", "admin_secret": None, "stream_keep_alive_seconds": 0.05}
    async with (
        serve(database, folder, **quick) as closed,
        closed.client.stream("GET", "/api/events", auth=LocalPass(folder)) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines)
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() + int(120e9))
        seen = 0
        async for text in lines:
            seen += text == ": keep-alive"
            if seen == 3:
                break
    assert seen == 3


def test_the_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    assert find_local_key(folder) is None
    key = local_key(folder)
    assert len(key) == 43
    assert (local_key(folder), find_local_key(folder)) == (key, key)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / keys.FILE).stat().st_mode & 0o777 == 0o600
    assert [each.name for each in folder.iterdir()] == [keys.FILE]
