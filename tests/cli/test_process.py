"""The command as a user meets it: a process with an exit code, a pipe, a Ctrl-C, a database that is away."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.abc
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import asyncpg
import pytest

from mediamill.__main__ import main
from mediamill.cli.command import run
from mediamill.cli.faults import FREE_SPACE, explain
from mediamill.db.connection import Database
from mediamill.db.embedded import postmaster_pid
from mediamill.engine.workers import tell_worker
from tests.cli.conftest import Mediamill, Said, finish_process, run_process, start_process
from tests.conftest import wait_until

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
async def url(new_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh database for the processes of this test."""
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", new_url)
    return new_url


@contextlib.contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone at the end, whatever the test did."""
    process = start_process(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def _process(*words: object, **settings: str) -> Said:
    return await asyncio.to_thread(run_process, *words, **settings)


async def test_jobs_are_added_listed_and_thrown_away_by_the_command(url: str) -> None:
    added = (await _process("jobs", "add", "scripted.inline", '{"do": "succeed"}', "--json")).json
    assert added == {"ids": [1]}
    listed = await _process("jobs", "list")
    assert listed.code == 0
    assert "scripted.inline" in listed.out
    assert "\x1b" not in listed.out
    assert (await _process("jobs", "purge", 1, "--yes", "--json")).json == {"purged": [1], "left": {}}


@pytest.mark.spec("E22")
async def test_a_worker_runs_jobs_obeys_pause_and_shutdown_and_jobs_are_waited_for(
    url: str, mediamill: Mediamill
) -> None:
    with running("worker", "--name", "w1") as worker:
        done = await mediamill("jobs", "add", "scripted.inline", "--wait", "--json")
        assert done.json == {"ids": [1], "states": {"1": "finished"}}
        failed = await mediamill("jobs", "add", "scripted.inline", '{"do": "raise_permanent"}', "--wait")
        assert failed.code == 1
        assert "1 job dead" in failed.out
        assert (await mediamill("jobs", "watch", 1)).code == 0
        followed = await mediamill("jobs", "watch", 2, "--json")
        assert followed.code == 1
        assert json.loads(followed.out.splitlines()[-1])["data"]["state"] == "dead"

        async def state() -> str:
            return str((await mediamill("workers", "list", "--json")).json[0]["state"])

        async def paused() -> bool:
            return await state() == "paused"

        await mediamill("workers", "pause", "w1")
        await wait_until(paused)
        await mediamill("workers", "shutdown", "w1")
        assert (await asyncio.to_thread(finish_process, worker)).code == 0
        assert await state() == "offline"


async def listens(database: Database) -> bool:
    """Whether a process hears what happens in this database."""
    sql = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    async with database.connection() as connection:
        return bool(await connection.fetchval(sql))


async def test_watching_one_job_tells_its_progress_and_its_end(
    url: str, database: Database, mediamill: Mediamill
) -> None:
    payload = '{"do": "report", "times": 5, "seconds": 0.2}'
    await mediamill("jobs", "add", "scripted.inline", payload)
    with running("jobs", "watch", 1, "--json") as watching:
        await wait_until(lambda: listens(database))
        with running("worker"):
            said = await asyncio.to_thread(finish_process, watching)
    events = [json.loads(line) for line in said.out.splitlines()]
    assert said.code == 0
    assert events[-1] == {
        "id": None,
        "topic": "job.ended",
        "subject": "1",
        "data": {"id": 1, "state": "finished", "error": None},
    }
    told = [event["data"]["percent"] for event in events[:-1]]
    assert told  # the first may have been told before this process began to read
    assert told == [20, 40, 60, 80, 100][-len(told) :]


@pytest.mark.parametrize("words", [("events", "--json"), ("jobs", "watch"), ("jobs", "watch", "--json")])
async def test_ctrl_c_ends_a_watch_cleanly(url: str, database: Database, words: tuple[str, ...]) -> None:
    with running(*words) as process:
        await wait_until(lambda: listens(database))
        process.send_signal(signal.SIGINT)
        said = await asyncio.to_thread(finish_process, process)
    assert said.code == 130
    assert said.err == ""


async def test_events_are_followed_as_lines_and_filtered(url: str, database: Database) -> None:
    async with database.connection() as connection:
        await tell_worker(connection, 7, "seven", "idle")
        await tell_worker(connection, 8, "eight", "idle")
    with running("events", "--after", 0, "--topic", "worker", "--subject", 8, "--json") as process:
        assert process.stdout is not None
        line = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert (line["topic"], line["subject"], line["data"]["name"]) == ("worker.status", "8", "eight")
        async with database.connection() as connection:
            await tell_worker(connection, 8, "eight", "busy")
        line = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert line["data"]["state"] == "busy"


async def test_following_goes_on_when_the_database_comes_back(url: str, database: Database) -> None:
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1"
    with running("events", "--after", 0, "--json") as process:
        assert process.stdout is not None
        for name in ("before", "after"):
            async with database.connection() as connection:
                await tell_worker(connection, 1, name, "idle")
            line = await asyncio.to_thread(process.stdout.readline)
            assert line, process.communicate()[1]
            assert json.loads(line)["data"]["name"] == name
            if name == "before":
                async with database.connection() as connection:
                    for session in ("mediamill command", "mediamill watch"):
                        assert await connection.fetch(cut, session)


async def test_without_a_server_the_embedded_one_is_started_for_the_moment(tmp_path: Path) -> None:
    assert (await _process("jobs", "add", "scripted.inline", "--json")).json == {"ids": [1]}
    assert postmaster_pid(tmp_path / "data") is None
    listed = await _process("jobs", "list", "--json")
    assert [job["id"] for job in listed.json] == [1]
    assert listed.err == ""


@pytest.mark.parametrize("words", [("--json",), ()], ids=["json", "table"])
async def test_a_reader_that_leaves_early_ends_the_command_quietly(
    url: str, mediamill: Mediamill, words: tuple[str, ...]
) -> None:
    """There is more to say than fits into a pipe."""
    await mediamill("jobs", "add", "scripted.inline", "--count", 2000)
    with running("jobs", "list", "--limit", 2000, *words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert await asyncio.to_thread(process.stderr.read) == ""
        assert process.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("words", [("--help",), ("version",)], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_output_that_nobody_reads_at_all_ends_the_command_quietly(
    words: tuple[str, ...], unbuffered: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        assert _run_into(nobody, *words, PYTHONUNBUFFERED=unbuffered) == (128 + signal.SIGPIPE, "")


def test_a_closed_stdout_is_no_error() -> None:
    command = shlex.join([sys.executable, "-m", "mediamill", "version"])
    done = subprocess.run(f"{command} >&-", shell=True, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("pools", "show", "--json"), ("jobs", "add", "scripted.run")]
)
async def test_a_database_that_is_down_is_one_clear_message(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", NOWHERE)
    monkeypatch.setattr("mediamill.cli.session.WAIT_SECONDS", 0.1)
    assert await asyncio.to_thread(run, list(words)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: the database does not answer" in err
    assert "MEDIAMILL_DATABASE_URL" in err
    assert "Traceback" not in err


async def test_check_and_doctor_go_on_when_the_database_is_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", NOWHERE)
    monkeypatch.setattr("mediamill.cli.session.WAIT_SECONDS", 0.1)
    assert await asyncio.to_thread(run, ["check", "--json"]) == 1
    assert "the database does not answer" in capsys.readouterr().out
    assert await asyncio.to_thread(run, ["doctor", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert "the database does not answer" in facts["database"]["error"]
    assert facts["versions"]["python"]


async def test_bad_settings_are_listed_by_the_name_of_their_variable() -> None:
    said = await _process("jobs", "list", MEDIAMILL_PORT="99999", MEDIAMILL_LOG_LEVEL="LOUD")
    assert said.code == 1
    assert "MEDIAMILL_PORT should be less than or equal to 65535, not '99999'" in said.err
    assert "MEDIAMILL_LOG_LEVEL should be" in said.err
    assert "Traceback" not in said.err


async def test_debug_shows_where_an_error_comes_from() -> None:
    said = await _process("--debug", "jobs", "list", MEDIAMILL_PORT="99999")
    assert said.code == 1
    assert "Traceback" in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
@pytest.mark.parametrize("words", [("version",), ("--help",), ("jobs", "list", "--json")], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_full_disk_is_a_clear_message(url: str, words: tuple[str, ...], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        code, err = _run_into(full, *words, PYTHONUNBUFFERED=unbuffered)
    assert code == 1
    assert err.splitlines() == [
        "error: the disk is full: No space left on device",
        f"  fix: {FREE_SPACE}",
    ]


def _run_into(stdout: TextIO, *words: str, **settings: str) -> tuple[int, str]:
    """The exit code of a command that writes there, and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "mediamill", *words],
        env={**os.environ, **settings},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


def test_errors_of_system_and_database_become_sentences() -> None:
    full = explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.bin"))[0]
    assert full.message == "the disk is full: No space left on device (x.bin)"
    assert (
        "disk of the database is full" in explain(asyncpg.DiskFullError("could not extend file"))[0].message
    )
    assert "went away" in explain(asyncpg.AdminShutdownError("terminating connection"))[0].message
    assert "does not answer" in explain(TimeoutError())[0].message
    assert (
        explain(OSError(errno.EMFILE, "Too many open files"))[0].message
        == "the system refused: Too many open files"
    )
    assert "does not answer" in explain(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))[0].message
    wrapped = RuntimeError("outside")
    wrapped.__cause__ = asyncpg.DiskFullError("inside")
    assert "disk of the database is full" in explain(wrapped)[0].message
    assert "unexpected KeyError" in explain(KeyError("x"))[0].message


def test_ctrl_c_while_the_commands_are_loaded_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupt(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "mediamill.cli.command":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "mediamill.cli.command")
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


async def test_wrong_usage_is_exit_code_2() -> None:
    said = await _process("jobs", "lst")
    assert said.code == 2
    assert "Did you mean 'list'?" in said.err
    assert said.out == ""


async def test_the_version_is_told_both_ways() -> None:
    assert (await _process("--version")).out == "mediamill 0.1.0\n"
    assert (await _process("version", "--json")).json == {"version": "0.1.0"}


def test_help_comes_quickly() -> None:
    """What takes long to import is not imported; a stopwatch would judge the machine."""
    command = [sys.executable, "-X", "importtime", "-m", "mediamill", "--help"]
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    imported = {line.rsplit("|")[-1].strip().partition(".")[0] for line in told.stderr.splitlines()}
    assert {"mediamill", "typer"} <= imported
    slow = {"alembic", "asyncpg", "av", "cv2", "fastapi", "httpx", "numpy", "onnxruntime", "PIL", "pydantic"}
    assert imported & {*slow, "sqlalchemy", "uvicorn"} == set()


def test_a_command_that_needs_no_media_loads_no_decoders() -> None:
    """Every command on the database, and every server and worker, begins with this."""
    code = "import sys, mediamill.app; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(told.stdout.split())
    assert "mediamill.app" in imported
    assert imported & {"av", "cv2", "faster_whisper", "onnxruntime", "PIL", "pypdfium2", "pyvips"} == set()
