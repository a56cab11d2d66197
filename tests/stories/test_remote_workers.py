"""Workers on machines of their own: a server, two of them, one killed in the middle of a job that the other ends."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.crash.processes import Mill, Process, mill
from tests.namespaces import Namespace, namespaces, skip_unless_possible
from tests.ports import free_port
from tests.stories.remote_workers import SECRET, far, let_leases_end, serve

__all__ = ["mill"]


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    skip_unless_possible()
    with namespaces(2) as made:
        yield made


async def keep_files(mill: Mill, times: int) -> int:
    """A job that keeps so many files, one after the other."""
    id_ = await mill.one(
        "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) "
        "values ('scripted.keep', 'scripted', 'o', 1, 5, 'queued', $1::jsonb) returning id",
        json.dumps({"do": "keep", "times": times, "seconds": 0.4}),
    )
    await mill.one("select pg_notify('mediamill_jobs', 'scripted')")
    return int(id_)


async def finish_after_a_death(mill: Mill, workers: dict[str, Process], times: int = 10) -> dict[str, Any]:
    """Kill -9 whoever works on it, once some files are kept; what the other made of it."""
    id_ = await keep_files(mill, times)
    await mill.until("select count(*) >= 3 from kept_files where job_id = $1", id_)
    name = await mill.one("select worker_name from jobs where id = $1", id_)
    workers.pop(name).kill()
    await let_leases_end(mill, name)
    await mill.until("select true from finished_jobs where id = $1", id_)
    row = await mill.one("select row_to_json(f)::text from finished_jobs f where id = $1", id_)
    done = json.loads(row)
    assert done["worker_name"] in workers
    assert done["attempts"] == 2
    return dict(done["result"])


def check(mill: Mill, result: dict[str, Any], times: int = 10) -> None:
    """Nothing that was kept was made again, and all of it is there."""
    names = [f"part-{index:03}.txt" for index in range(times)]
    assert len(result["found"]) >= 3
    assert sorted(result["found"] + result["made"]) == names
    [home] = (mill.folder / "data" / "kept").glob("*/*")
    assert {path.name: path.read_text() for path in home.iterdir()} == {name: name for name in names}


@pytest.mark.spec("E23", "V6", "V8", "E9")
async def test_a_worker_killed_in_the_middle_is_replaced_by_another_that_uses_what_it_kept(
    mill: Mill,
) -> None:
    url = await serve(mill)
    workers = {name: (await far(mill, name, url))[1] for name in ("one", "two")}
    check(mill, await finish_after_a_death(mill, workers))
    for name in ("one", "two"):
        assert {path.name for path in (mill.folder / name / "data").iterdir()} <= {"scratch", "logs"}
    mill.assert_no_traceback()


@pytest.mark.spec("E23", "V6", "V8")
async def test_two_workers_in_network_namespaces_of_their_own(mill: Mill, spaces: list[Namespace]) -> None:
    mill.settings["MEDIAMILL_HOST"] = "0.0.0.0"
    port = urlsplit(await serve(mill)).port
    workers = {}
    for space, name in zip(spaces, ("one", "two"), strict=True):
        workers[name] = (await far(mill, name, f"http://{space.here}:{port}", space.inside))[1]
    check(mill, await finish_after_a_death(mill, workers))
    mill.assert_no_traceback()


@pytest.mark.spec("E9", "E23")
async def test_a_worker_outlives_its_server_and_goes_on_where_it_was(mill: Mill) -> None:
    mill.settings["MEDIAMILL_PORT"] = str(free_port())  # where it is found again
    url = await serve(mill)
    _, worker = await far(mill, "one", url)
    id_ = await keep_files(mill, 8)
    await mill.until("select count(*) >= 2 from kept_files where job_id = $1", id_)
    mill.processes[0].kill()
    mill.settings["MEDIAMILL_STARTUP_GRACE_SECONDS"] = "120"
    await mill.started("up", "--workers", 0)
    await mill.until("select true from finished_jobs where id = $1", id_)
    assert worker.popen.poll() is None
    row = await mill.one("select row_to_json(f)::text from finished_jobs f where id = $1", id_)
    done = json.loads(row)
    assert (done["attempts"], done["worker_name"], len(done["result"]["made"])) == (1, "one", 8)
    await mill.until("select state in ('idle', 'busy') from workers where name = 'one'")


@pytest.mark.spec("E20")
async def test_a_worker_registers_itself_once_and_then_needs_neither_address_nor_key(mill: Mill) -> None:
    url = await serve(mill)
    code, said = await mill.say("tokens", "create", "workers", "--scope", "worker", "--json")
    assert code == 0, said
    secrets, token = mill.folder / "secrets", json.loads(said)["token"]
    secrets.mkdir()
    (secrets / "MEDIAMILL_TOKEN").write_text(token)
    away = Mill(mill.folder / "away", settings={"MEDIAMILL_SECRETS": str(secrets)}, cold=True)
    away.folder.mkdir()
    register = ("worker", "--server", url, "--register", "--name", "self-made")
    try:
        first = await away.started(*register)
        assert token not in str(psutil.Process(first.pid).environ())
        stored = away.folder / "data" / "remote_worker.json"
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        assert json.loads(stored.read_text())["key"] not in first.said
        first.popen.terminate()
        assert await first.until_gone() == 0
        away.settings.clear()
        again = await away.started("worker")
        assert "worker self-made" in again.said
        await mill.say("workers", "revoke", "self-made")
        assert await again.until_gone() == 1
        assert "error: The worker key was revoked." in again.said
        assert "fix: register the worker again" in again.said
        away.settings["MEDIAMILL_ADMIN_SECRET"] = SECRET  # does as well, for those who have it
        await away.started(*register)
    finally:
        away.close()


@pytest.mark.spec("E20")
async def test_what_is_wrong_with_address_or_key_is_said_in_a_line(mill: Mill, tmp_path: Path) -> None:
    url = await serve(mill)
    away = Mill(tmp_path / "wrong")
    away.folder.mkdir()
    try:
        for words, expected in (
            (("--server", url, "--key", "nothing like it"), "The worker key is not valid."),
            (("--server", "ftp://somewhere"), "is no address of a server"),
            (("--server", url), "there is no key for"),
            (("--key", "k"), "no server"),
            (("--server", url.replace("http", "https"), "--key", "k"), "does not speak TLS"),
            (("--server", f"{url}/elsewhere", "--key", "k"), "Nobody can tell who asks."),
            (("--server", url, "--register"), "needs the admin secret"),
        ):
            code, said = await away.say("worker", *words)
            assert (code, expected in said) == (1, True), said
            assert "Traceback" not in said
    finally:
        away.close()


@pytest.mark.spec("E22", "E24")
async def test_flight_logs_of_a_near_and_a_far_worker_are_asked_for_and_read_by_command(mill: Mill) -> None:
    url = await serve(mill)
    mill.settings["MEDIAMILL_LOG_LEVEL"] = "ERROR"
    near = mill.start("worker", "--name", "near")
    away, _ = await far(mill, "far", url)
    await mill.until("select count(*) = 2 from workers where state = 'idle'")
    code, said = await mill.say("workers", "dump", "near", "far")
    assert code == 0, said
    await mill.until("select count(*) = 2 from flight_dumps")
    code, said = await mill.say("workers", "dumps", "--json")
    listed = {each["worker_name"]: each for each in json.loads(said)}
    for name, home in (("near", mill.folder), ("far", away.folder)):
        code, text = await mill.say("workers", "dumps", listed[name]["id"])
        (file,) = (home / "data" / "logs" / "forensics").glob(listed[name]["name"])
        assert text == file.read_text(), "the copy is the file"
        assert f"worker {name} " in text, "what is not shown is there"
    assert "is ready" not in near.said, "nor was it written anywhere else"
