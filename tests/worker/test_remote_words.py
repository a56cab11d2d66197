"""What a remote worker says to its server, word for word, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mediamill import __version__
from mediamill.engine.flight_dumps import pack
from mediamill.engine.flight_log import FlightLog
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import ClaimedJob, Command, Failure, WorkerState
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Elsewhere, Fate, Finish
from mediamill.errors import ClaimLostError, Wait
from mediamill.staging.kept import NewKept
from mediamill.worker.away import AwayError, RefusedError
from mediamill.worker.home import ANYTHING, Beat, WorkerPlan
from mediamill.worker.remote_home import RemoteHome, ServerTooOldError
from mediamill.worker.remote_key import NoWorkerKeyError, RemoteKey, find_key, register_worker, store_key
from mediamill.worker.remote_source import RemoteSource
from mediamill.worker.server_link import ServerFailedError, ServerLink, WordRefusedError
from tests.worker.canned import Canned, canned

pytestmark = pytest.mark.spec("E23")

POOL = Pool("audio", processor="scripted")
JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", "s-1", "audio/ogg", 2, 4, '{"a": 1}', None)
CLAIM = {"job_id": 7, "token": 3}
GIVEN = {
    **{"id": 7, "token": 3, "kind": "test.k", "pool": "audio", "owner": "o", "subject_id": "s-1"},
    **{"mime_type": "audio/ogg", "attempts": 2, "max_attempts": 4},
    **{"payload": {"a": 1}, "checkpoint": None, "keeps_files": True},
}
LOST = (409, {"code": "claim_lost", "detail": "no"})
AWAY = (503, b"")
OLDER: dict[str, Any] = {"heartbeat_seconds": 9, "command": None, "lost": []}


def problem(status: int, code: str, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {"code": code, "detail": "no", **more}


@asynccontextmanager
async def source(folder: Path, *answers: tuple[int, Any]) -> AsyncIterator[tuple[RemoteSource, Canned]]:
    async with canned(*answers) as server:
        link = ServerLink(server.url, "key")
        found = RemoteSource(link, Engine(Kinds([])), 5, folder)
        yield found, server
        await found.close()
        await link.close()


async def test_jobs_are_claimed_a_hundred_at_most_with_all_that_a_worker_needs(tmp_path: Path) -> None:
    later = {**GIVEN, "checkpoint": {"at": 9}, "trace": "t", "kind": "test.k"}
    answers = [(200, {"jobs": [GIVEN, later], "due_in_seconds": 60}), (200, {"jobs": []})]
    async with source(tmp_path, *answers) as (remote, server):
        before = datetime.now(UTC)
        jobs, due_at = await remote.claim(POOL, 250)
        assert jobs == [JOB, replace(JOB, checkpoint_json='{"at": 9}', trace="t")]
        assert due_at is not None
        assert timedelta(0) <= due_at - before - timedelta(seconds=60) < timedelta(seconds=30)
        assert await remote.claim(POOL, 3) == ([], None)
        assert remote._engine.kinds.find("test.k").keeps_files
    assert [one.word for one in server.asked] == [
        {"pools": ["audio"], "amount": 100},
        {"pools": ["audio"], "amount": 3},
    ]
    assert {(one.method, one.path) for one in server.asked} == {("POST", "/api/worker/claim")}
    assert {one.headers["content-type"] for one in server.asked} == {"application/json"}


@pytest.mark.parametrize(
    ("answers", "done", "lost", "failed"),
    [
        ([(200, {"outcome": "completed"})], {7}, set(), None),
        ([AWAY, AWAY, (200, {"outcome": "completed"})], {7}, set(), None),
        ([(200, {"outcome": "failed"})], set(), {7}, None),
        ([LOST], set(), {7}, None),
        ([problem(422, "payload_too_large")], set(), set(), True),
        ([problem(500, "internal")], set(), set(), False),
    ],
)
async def test_a_result_is_said_until_it_was_heard(
    tmp_path: Path, answers: list[tuple[int, Any]], done: set[int], lost: set[int], failed: bool | None
) -> None:
    async with source(tmp_path, *answers) as (remote, server):
        settled = await remote.finish([Finish(JOB, '{"text": "done"}')])
        assert (settled.done, settled.lost) == (done, lost)
        assert [one.permanent for one in settled.failed.values()] == ([] if failed is None else [failed])
    assert len(server.asked) == len(answers)
    assert {one.path for one in server.asked} == {"/api/worker/complete"}
    assert [one.word for one in server.asked] == [{**CLAIM, "result": {"text": "done"}}] * len(answers)


async def test_a_failure_is_said_within_the_bounds_that_the_server_sets(tmp_path: Path) -> None:
    answers = [(200, {"dead": True}), (200, {"dead": False}), LOST]
    async with source(tmp_path, *answers) as (remote, server):
        long = Failure("e" * 20_001, True, "t" * 200_000 + "end", "n" * 10_001)
        assert await remote.fail(JOB, long, POOL) is Fate.DEAD
        assert await remote.fail(JOB, Failure("", False, wait=Wait(7, "model:1")), POOL) is Fate.AGAIN
        assert await remote.fail(JOB, Failure("no", False), POOL) is Fate.LOST
    first, second, third = (one.word for one in server.asked)
    assert first == {
        **CLAIM,
        **{
            "error": "e" * 20_000,
            "permanent": True,
            "traceback": "t" * 199_997 + "end",
            "notice": "n" * 10_000,
        },
    }
    assert second == {
        **CLAIM,
        **{"error": "failed", "permanent": False, "traceback": None, "notice": None, "counts": False},
        "wait": {"seconds": 7, "server": "model:1", "suspect": False},
    }
    assert third["error"] == "no"


async def test_a_job_is_rerouted_extended_reported_and_handed_back_by_its_claim(tmp_path: Path) -> None:
    others = [replace(JOB, id=number) for number in range(1_001)]
    answers: list[tuple[int, Any]] = [
        *((200, {}), LOST, (200, {"lost": [4]}), (200, {"lost": [1_000]})),
        *((204, b""), (204, b""), (204, b""), (204, b"")),
    ]
    async with source(tmp_path, *answers) as (remote, server):
        assert await remote.reroute(Elsewhere(JOB, "image/png"))
        assert not await remote.reroute(Elsewhere(JOB, "image/png"))
        assert await remote.extend(others, POOL) == set(range(1_000)) - {4}
        await remote.report(JOB, POOL, step="x" * 501, percent=101.0, parts=None, checkpoint=[1])
        await remote.report(JOB, POOL, step="", percent=-1, parts={"a": 1}, checkpoint=None)
        await remote.hand_back(others)
        remote.waiting = {"audio": 6}
        assert (await remote.depth(POOL), await remote.depth(Pool("other"))) == (6, 0)
    said = [(one.path.rpartition("/")[2], one.word) for one in server.asked]
    assert said[0] == said[1] == ("reroute", {**CLAIM, "mime_type": "image/png"})
    assert [(path, len(word["claims"])) for path, word in (*said[2:4], *said[6:])] == [
        *(("extend", 1_000), ("extend", 1), ("release", 1_000), ("release", 1)),
    ]
    assert said[3][1] == {"claims": [{"job_id": 1_000, "token": 3}]}
    assert said[4] == ("progress", {**CLAIM, "step": "x" * 500, "percent": 100.0, "checkpoint": [1]})
    assert said[5] == ("progress", {**CLAIM, "step": "…", "percent": 0.0, "parts": {"a": 1}})


async def test_files_go_up_whole_with_their_hash_until_they_arrive_as_they_were_sent(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a b.bin").write_bytes(data)
    new = NewKept("v.m4s", tmp_path / "part", 4, hashlib.sha256(b"part").hexdigest(), {"at": 1})
    new.path.write_bytes(b"part")
    broken = problem(422, "hash_mismatch")
    answers = [AWAY, broken, broken, (200, {"path": "p", "bytes": 300_000}), (204, b"")]
    async with source(tmp_path, *answers) as (remote, server):
        made = await remote.keep_derivatives(JOB, tmp_path / "made", {"a": "a b.bin"})
        assert made == {"a": {"path": "p", "bytes": 300_000}}
        await remote.keep(JOB, POOL, new)
        assert not new.path.exists(), "it is at the server's now"
        server.answers = [broken, broken, broken]
        with pytest.raises(ServerFailedError, match="3 times"):
            await remote.keep_derivatives(JOB, tmp_path / "made", {"a": "a b.bin"})
        server.answers = [problem(422, "bad_file_name")]
        with pytest.raises(WordRefusedError):
            await remote.keep_derivatives(JOB, tmp_path / "made", {"a": "a b.bin"})
    files, kept = [one for one in server.asked if "/files/" in one.path], server.asked[4]
    assert [one.body == data for one in files] == [True] * 8
    assert {(one.method, one.path) for one in files} == {
        ("PUT", "/api/worker/jobs/7/files/a%20b.bin?token=3")
    }
    assert {one.headers["x-content-sha256"] for one in files} == {hashlib.sha256(data).hexdigest()}
    assert (kept.method, kept.path, kept.body) == ("PUT", "/api/worker/jobs/7/kept/v.m4s?token=3", b"part")
    assert json.loads(kept.headers["x-facts"]) == {"at": 1}


async def test_what_earlier_attempts_kept_is_asked_for_until_the_server_says_it(tmp_path: Path) -> None:
    files = [{"name": "v.m4s", "bytes": 4, "facts": {"at": 1}}]
    async with source(tmp_path, AWAY, (200, {"files": files}), problem(403, "revoked")) as (remote, server):
        assert await remote.kept(JOB) == {"v.m4s": {"at": 1, "bytes": 4}}
        with pytest.raises(RefusedError):
            await remote.kept(JOB)
        assert await remote.input(replace(JOB, payload_json="{}")) is None
    assert [(one.method, one.path) for one in server.asked] == [
        ("GET", "/api/worker/jobs/7/kept?token=3")
    ] * 3


# -- greeting, pools, heartbeats


def home_of(server: Canned, folder: Path, **plan: Any) -> RemoteHome:
    return RemoteHome(server.url, "key", Engine(Kinds([])), WorkerPlan("near", data_folder=folder, **plan))


@pytest.mark.spec("E21")
async def test_a_worker_that_is_set_to_beat_more_often_does_so_whatever_the_server_says(
    tmp_path: Path,
) -> None:
    greeted = {"name": "far", "heartbeat_seconds": 30, "worker_id": 5}
    async with canned((200, greeted), (200, OLDER)) as server:
        home = home_of(server, tmp_path, heartbeat_seconds=15)
        await home.register(lambda _: None)
        assert home.heartbeat_seconds == 15
        await home.beat(Beat(WorkerState.IDLE, [], [], {}))
        assert home.heartbeat_seconds == 15
        await home.close()


async def test_a_worker_greets_and_learns_its_name_and_is_known_by_its_process(tmp_path: Path) -> None:
    pools = [
        {**{"name": "audio", "processor": "scripted", "matches": ["audio/*"], "concurrency": 3}, **more}
        for more in ({"waiting": 4, "newer": 1}, {"name": "other", "processor": "nowhere", "waiting": "2"})
    ]
    greeted = {"name": "far", "heartbeat_seconds": 11, "worker_id": "5"}
    beats = [(200, {"heartbeat_seconds": 12, "command": "shutdown", "lost": [8]}), (200, OLDER)]
    async with canned((200, greeted), (200, {"pools": pools}), *beats) as server:
        home = home_of(server, tmp_path, gpu=True)
        crashes: list[BaseException] = []
        assert await home.register(crashes.append) == 5
        assert (home._plan.name, home.heartbeat_seconds, home.source.worker_id) == ("far", 11, 5)
        (pool,) = await home.pools()
        assert (pool.name, pool.matches, pool.concurrency) == ("audio", ("audio/*",), 3)
        assert home.source.waiting == {"audio": 4, "other": 2}
        held = [JOB, *(replace(JOB, id=number) for number in range(100, 1_100))]
        answer = await home.beat(Beat(WorkerState.BUSY, held[:1], held, {"completed": 1}))
        assert (answer.command, answer.disabled, answer.lost) == (Command.SHUTDOWN, False, frozenset({8}))
        assert home.heartbeat_seconds == 12
        answer = await home.beat(Beat(WorkerState.IDLE, [], [JOB], {}))
        assert (answer.command, answer.lost) == (None, frozenset())
        server.answers = [problem(403, "revoked")]
        with pytest.raises(RefusedError) as refused:
            await home.beat(Beat(WorkerState.IDLE, [], [], {}))
        assert crashes == [refused.value]
        await home.close()
    hello, _, full, short, _ = server.asked
    assert (hello.method, hello.path) == ("POST", "/api/worker/hello")
    assert hello.word == {
        "instance": server.asked[1].headers["x-worker-instance"],
        "protocol": 1,
        "hostname": socket.gethostname(),
        "capabilities": WorkerPlan(gpu=True).capabilities,
        "metadata": {"pid": os.getpid(), "version": __version__},
    }
    assert "x-worker-instance" not in hello.headers
    assert full.path == "/api/worker/heartbeat"
    assert (full.word["current_job_id"], len(full.word["claims"]), full.word["all_claims"]) == (
        7,
        1_000,
        False,
    )
    assert full.word["claims"][0] == CLAIM
    assert short.word == {
        **{"state": "idle", "hostname": socket.gethostname(), "current_job_id": None, "stats": {}},
        **{"claims": [CLAIM], "all_claims": True},
    }


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (problem(404, "not_found"), ServerTooOldError, "too old for this worker"),
        (problem(405, "method_not_allowed"), ServerTooOldError, "too old for this worker"),
        (problem(422, "bad_word"), RefusedError, "^no$"),
        ((200, b"<html>"), RefusedError, "is not a mediamill"),
        (AWAY, AwayError, "answers 503"),
    ],
)
async def test_a_greeting_that_is_not_answered_ends_the_worker_or_is_tried_again(
    tmp_path: Path, answer: tuple[int, Any], error: type[Exception], says: str
) -> None:
    async with canned(answer) as server:
        home = home_of(server, tmp_path)
        with pytest.raises(error, match=says) as caught:
            await home.register(lambda _: None)
        assert type(caught.value) is error
        await home.close()


async def test_a_worker_that_leaves_says_so_and_waits_for_nobody(tmp_path: Path) -> None:
    for answer in ((204, b""), AWAY, problem(422, "bad_word")):
        async with canned(answer) as server:
            home = home_of(server, tmp_path)
            await home.leave()
            await home.close()
        assert [(one.method, one.path) for one in server.asked] == [("POST", "/api/worker/leave")]


# -- the key


async def test_a_worker_registers_by_the_admin_secret_or_by_a_token() -> None:
    plan = WorkerPlan("near", pools=("audio",), encoders=("x",))
    async with canned((201, {"key": "k-1"}), (201, {"key": "k-2"}), (200, b"<html>")) as server:
        given = RemoteKey(server.url, "k-1")
        assert await register_worker(f"{server.url}/", SecretStr("s"), None, plan) == given
        assert (await register_worker(server.url, None, SecretStr("t"), plan)).key == "k-2"
        with pytest.raises(RefusedError, match="is not a mediamill"):
            await register_worker(server.url, None, SecretStr("t"), plan)
        with pytest.raises(NoWorkerKeyError, match="admin secret of the server, or a token"):
            await register_worker(server.url, None, None, plan)
    by_secret, by_token, _ = server.asked
    assert (by_secret.method, by_secret.path) == ("POST", "/api/worker/register")
    assert by_secret.word == {"name": "near", "pools": ["audio"], "capabilities": plan.capabilities}
    assert (by_secret.headers.get("x-admin-secret"), by_secret.headers.get("authorization")) == ("s", None)
    assert (by_token.headers.get("x-admin-secret"), by_token.headers["authorization"]) == (None, "Bearer t")


def test_a_stored_key_completes_what_is_given_for_the_same_server_only(tmp_path: Path) -> None:
    folder, stored = tmp_path / "data", RemoteKey("http://a:1", "k")
    assert find_key(folder, None, None) is None
    with pytest.raises(NoWorkerKeyError, match="a worker key, but no server"):
        find_key(folder, None, SecretStr("k-2"))
    with pytest.raises(NoWorkerKeyError, match="no key for http://a:1"):
        find_key(folder, "http://a:1", None)
    path = store_key(folder, stored)
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert store_key(folder, stored) == path, "a second time is as good"
    assert find_key(folder, None, None) == stored
    assert find_key(folder, "http://a:1/", None) == stored
    assert find_key(folder, None, SecretStr("k-2")) == RemoteKey("http://a:1", "k-2")
    assert find_key(folder, "http://b", SecretStr("k-2")) == RemoteKey("http://b", "k-2")
    with pytest.raises(NoWorkerKeyError, match="no key for http://b"):
        find_key(folder, "http://b", None)
    for broken in ("{", "[]", '{"server": 1}'):
        path.write_text(broken)
        with pytest.raises(NoWorkerKeyError, match="cannot be read") as refused:
            find_key(folder, None, None)
        assert refused.value.fix == "delete it"


async def test_a_claim_that_is_lost_is_said_to_whoever_reports(tmp_path: Path) -> None:
    async with source(tmp_path, LOST) as (remote, _):
        with pytest.raises(ClaimLostError):
            await remote.report(JOB, POOL, step="x")


async def test_hints_are_heard_from_a_stream_that_is_begun_again_when_it_ends(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    all_heard = asyncio.Event()

    def hear(channel: str, payload: str) -> None:
        heard.append((channel, payload))
        if len(heard) == 4:
            all_heard.set()

    lines = b'{"": ""}\n\n{"jobs": "audio", "worker": 5}\n'
    async with canned((200, lines), AWAY, (200, b"no JSON\n"), (200, b'{"pools": ""}\n')) as server:
        home = home_of(server, tmp_path)
        await home.open(hear)
        (listening,) = (asyncio.create_task(work, name=name) for name, work in home.chores().items())
        assert listening.get_name() == "wakes"
        await asyncio.wait_for(all_heard.wait(), 60)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await home.close()
    assert heard == [(ANYTHING, ""), ("jobs", "audio"), ("worker", "5"), ("pools", "")]
    assert {(one.method, one.path) for one in server.asked} == {("GET", "/api/worker/wakes")}


async def test_a_worker_brings_home_its_own_flight_logs_alone(tmp_path: Path) -> None:
    flight = FlightLog()
    own, other = flight.dump(tmp_path, 5), flight.dump(tmp_path, 6)
    assert own is not None
    assert other is not None
    greeted = {"name": "far", "heartbeat_seconds": 11, "worker_id": 5}
    async with canned((200, greeted), (204, b""), problem(500, "internal")) as server:
        home = home_of(server, tmp_path)
        await home.register(lambda _: None)
        await home.keep_dump(other)
        await home.keep_dump(own)
        with pytest.raises(ServerFailedError):
            await home.keep_dump(own)
        await home.close()
    assert [(one.method, one.path) for one in server.asked[1:]] == [
        ("PUT", f"/api/worker/dumps/{own.name}")
    ] * 2
    assert server.asked[1].body == pack(own.read_bytes())
