"""`mediamill up` as its user meets it: in any folder, twice, beside another program, after a kill of everything."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from mediamill.cli import open as opening
from mediamill.db.embedded import EmbeddedServer, postmaster_pid
from tests.crash.processes import Mill, Process, in_thread, until_dead
from tests.ports import free_port


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Mill]:
    """A data folder with spaces in its name, not made yet; the database is the embedded one."""
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    mill = Mill(folder, settings={"MEDIAMILL_PORT": str(free_port())}, cold=True)
    yield mill
    mill.close()
    use = await in_thread(EmbeddedServer(folder / "data").start)  # to stop it in order
    await in_thread(use.close)


async def _look(mill: Mill) -> None:
    """Make the embedded database's address known to the test, without keeping the server alive."""
    use = await in_thread(EmbeddedServer(mill.folder / "data").start)
    mill.url = use.url
    await in_thread(use.close)


async def _stop(up: Process) -> None:
    up.send(signal.SIGINT)
    assert await up.until_gone() == 0
    assert "mediamill has stopped; nothing is lost" in up.said


@pytest.mark.spec("E23", "E33")
async def test_up_serves_and_works_in_a_folder_with_spaces_and_stops_with_everything(here: Mill) -> None:
    up = await here.started("up")
    port = here.settings["MEDIAMILL_PORT"]
    assert f"mediamill is up: http://127.0.0.1:{port}" in up.said
    await up.until_said("try it: ")
    export = re.search(r"in another terminal: (export .*)", up.said)
    assert export is not None
    shell = ["env", "-i", "bash", "-c", f"PATH=/usr/bin:/bin; {export[1]}; exec mediamill open --json"]
    opened = await asyncio.create_subprocess_exec(*shell, stdout=subprocess.PIPE)
    link, _ = await opened.communicate()
    assert json.loads(link)["url"].startswith(f"http://127.0.0.1:{port}/open?link=")
    await here.add("scripted.run", 3, do="report", times=2)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", auth=here.owner, trust_env=False, timeout=60
    ) as client:
        health = (await client.get("/health")).json()
        assert health["status"] == "ok"
        assert "queue" in (await client.get("/metrics")).text
    await _look(here)
    await here.until("select count(*) = 3 from finished_jobs")
    here.url = None
    code, said = await here.say("up")
    assert (code, said.strip()) == (0, f"mediamill is up already: http://127.0.0.1:{port}")
    processes = [child.pid for child in up.children()]
    await _stop(up)
    await until_dead(*processes)
    assert postmaster_pid(here.folder / "data") is None
    here.assert_no_traceback()


@pytest.mark.spec("E33")
async def test_a_port_of_another_program_is_a_clear_error_and_nothing_is_started(here: Mill) -> None:
    port = int(here.settings["MEDIAMILL_PORT"])

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        code, said = await here.say("up")
    assert code == 1
    assert f"error: port {port} is used by another program" in said
    assert "fix: set MEDIAMILL_PORT to a free port" in said
    with socket.socket() as silent:  # taken, but nobody answers
        silent.bind(("127.0.0.1", port))
        code, said = await here.say("up")
    assert code == 1
    assert f"error: port {port} is used by another program" in said
    here.assert_no_traceback()
    assert not (here.folder / "data").exists()


def _kill_everything(up: Process, data: Path) -> list[int]:
    """-9 for the server, its workers, their children, and the whole of PostgreSQL."""
    pids = [up.pid, *(child.pid for child in up.children())]
    postmaster = postmaster_pid(data)
    assert postmaster is not None
    pids += [postmaster, *(child.pid for child in psutil.Process(postmaster).children(recursive=True))]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    up.popen.wait()
    return pids


@pytest.mark.spec("E8", "E11", "E17")
async def test_after_everything_was_killed_the_next_up_finishes_every_job_once(here: Mill) -> None:
    up = await here.started("up", "--workers", "2")
    await _look(here)
    await here.enqueue("chaos.settled", range(1), seconds=600)  # it runs when everything is killed
    await here.enqueue("chaos.settled", range(1, 40), seconds=0.2)
    await here.enqueue("chaos.delivered", range(40, 80), seconds=0.2)
    await here.until("select count(*) > 4 from chaos_deliveries")
    await here.until(
        "select exists (select from jobs where state = 'running' and payload ->> 'seconds' = '600')"
    )
    await here.hurry()
    here.url = None
    killed = _kill_everything(up, here.folder / "data")
    await until_dead(*killed)
    up = await here.started("up", "--workers", "2")
    await _look(here)
    await here.until_all_once(80)
    here.assert_no_traceback()
    await _stop(up)


async def test_open_makes_a_link_that_logs_in_once_and_nobody_else_comes_in(
    here: Mill, tmp_path: Path
) -> None:
    up = await here.started("up", "--workers", "0")
    port = here.settings["MEDIAMILL_PORT"]
    assert "/open?link=" not in up.said  # what goes to a file may be read by others
    assert "open it: run `mediamill open` as the same user" in up.said
    code, said = await here.say("open", "--json")
    assert code == 0, said
    link = json.loads(said)["url"]
    assert link.startswith(f"http://127.0.0.1:{port}/open?link=pass_")
    async with httpx.AsyncClient(trust_env=False, timeout=60, follow_redirects=True) as browser:
        assert (await browser.get(f"http://127.0.0.1:{port}/api/jobs")).status_code == 401
        assert (await browser.get(link)).status_code == 200
        assert (await browser.get(f"http://127.0.0.1:{port}/api/jobs")).status_code == 200
    async with httpx.AsyncClient(trust_env=False, timeout=60) as another:
        assert (await another.get(link)).status_code == 401
    here.settings["MEDIAMILL_DATA"] = str(tmp_path)
    code, said = await here.say("open")
    assert (code, "set MEDIAMILL_DATA to the server's data folder" in said) == (1, True), said
    code, said = await here.say("message", "hello", "--no-wait")
    assert (code, "MEDIAMILL_DATA" in said) == (1, True), said
    del here.settings["MEDIAMILL_DATA"]
    await _stop(up)
    here.assert_no_traceback()


def _read(terminal: int) -> str:
    """What comes next; nothing when the program has ended, or has been silent for long."""
    readable, _, _ = select.select([terminal], [], [], 30)
    try:
        return os.read(terminal, 4096).decode() if readable else ""
    except OSError:
        return ""


@pytest.mark.parametrize(("words", "last"), [((), "browser: file://"), (("--no-open",), "try it: ")])
def test_on_a_terminal_up_prints_the_link_and_opens_it_in_a_browser(
    tmp_path: Path, new_url: str, words: tuple[str, ...], last: str
) -> None:
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "browser: $@ ."\n')
    browser.chmod(0o755)
    mill = Mill(tmp_path, new_url, {"BROWSER": str(browser), "DISPLAY": ":77"})
    environment = {key: mill.environment[key] for key in mill.environment.keys() - set(opening.NOBODY_HERE)}
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "mediamill", "up", "--workers", "0", *words]
    up = subprocess.Popen(command, env=environment, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    said = ""
    try:
        while last not in said or "try it: " not in said:
            said += (more := _read(terminal))
            assert more, said
        found = re.search(r"open it, once: (http://127\.0\.0\.1:\d+/open\?link=pass_\w+)", said)
        assert found is not None, said
        with httpx.Client(trust_env=False, timeout=60, follow_redirects=True) as client:
            assert client.get(found[1]).status_code == 200
    finally:
        up.send_signal(signal.SIGINT)
        while more := _read(terminal):
            said += more
        os.close(terminal)
    assert up.wait(60) == 0, said
    assert ("browser:" in said) is not bool(words)
    if not words:
        page = re.search(r"browser: file://(\S+) \.", said)
        assert page is not None
        assert found[1] in Path(page[1]).read_text()


async def test_a_secret_that_can_be_guessed_is_a_clear_error(here: Mill) -> None:
    here.settings |= {"MEDIAMILL_HOST": "0.0.0.0", "MEDIAMILL_ADMIN_SECRET": "a"}
    code, said = await here.say("up")
    assert code == 1
    assert "the admin secret has fewer than 16 characters" in said
    assert "openssl rand -hex 32" in said
