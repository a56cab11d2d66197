"""The worker's end of a child, whatever the child says or does: here it is a shell, and the test speaks for it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.worker import failures, warm_child
from mediamill.worker.messages import (
    FAILURE_ALLOWANCE_BYTES,
    HEADER,
    Done,
    Failed,
    FromChild,
    Progress,
    Ready,
    Report,
    frame,
)
from mediamill.worker.process_tree import MARK
from mediamill.worker.spawn import ChildPlan, Limits, Started
from mediamill.worker.warm_child import WarmChild
from tests.worker.harness import is_running, wait_until

LIMITS = Limits(timeout_seconds=60, memory_bytes=1 << 30, output_bytes=1_000)
DONE = Done(1, {"text": "x"}, {"a": "b"}, False)


def failed(kind: Any = "temporary", number: int = 1, folder: bool = False) -> Failed:
    return Failed(number, kind, "no", "c", "mend it", "trace", folder)


@dataclass
class Played:
    """A child, and what its worker was told of it."""

    child: WarmChild
    shell: subprocess.Popen[bytes]
    line: socket.socket  # the child's end
    readies: list[WarmChild]
    reasons: list[Exception]
    reports: list[Report] = field(default_factory=list)

    def say(self, *messages: FromChild) -> None:
        self.line.sendall(b"".join(bytes(frame(each)) for each in messages))

    def do(self, command: str) -> None:
        """In the shell."""
        assert self.shell.stdin is not None
        self.shell.stdin.write(command.encode() + b"\n")
        self.shell.stdin.flush()

    def assign(self, data: bytes = b"job", **more: Any) -> asyncio.Future[Done]:
        given: dict[str, Any] = {"number": 1, "files": (), "limits": LIMITS, **more}
        return self.child.assign(
            given["number"], bytearray(data), given["files"], given["limits"], self.reports.append
        )

    async def be_ready(self) -> Played:
        self.say(Ready())
        await wait_until(lambda: self.child.ready, "it is ready")
        return self

    async def be_gone(self) -> Exception:
        """Why it was given up."""
        await wait_until(lambda: bool(self.reasons), "it is given up")
        await self.child.wait_until_reaped()
        assert not is_running(self.shell.pid)
        assert not self.child.alive
        (reason,) = self.reasons
        return reason


Play = Callable[..., Any]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Starts one; at the end of the block it is ended."""

    @asynccontextmanager
    async def play(
        *, limits: Limits = LIMITS, start_seconds: float = 60, callers: socket.socket | None = None
    ) -> AsyncIterator[Played]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.settimeout(30)
        noise, noise_in = os.pipe()
        os.set_blocking(noise, False)
        plan = ChildPlan("scripted", "a:B", f"{os.getpid()}-played.1.", limits, start_seconds, tmp_path)
        with subprocess.Popen(  # noqa: ASYNC220 - it takes no time
            ["sh"],
            stdin=subprocess.PIPE,
            stdout=noise_in,
            stderr=noise_in,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], MARK: plan.mark},
        ) as shell:
            os.close(noise_in)
            monkeypatch.setattr(warm_child, "start_child", lambda _: Started(shell, ours, noise, callers))
            readies: list[WarmChild] = []
            reasons: list[Exception] = []
            played = WarmChild(plan, readies.append, lambda _, reason: reasons.append(reason))
            try:
                with theirs:
                    yield Played(played, shell, theirs, readies, reasons)
            finally:
                played.end(failures.SandboxClosedError())
                await played.wait_until_reaped()

    return play


ODD = "answered what it was not asked"
BEFORE_IT_IS_READY: list[tuple[bytes, type[Exception], str]] = [
    (bytes(frame(failed())), failures.ProcessorStartError, "^no$"),
    (bytes(frame(DONE)), failures.ProcessorStartError, f"^processor 'scripted' {ODD}$"),
    (HEADER.pack(3) + b"abc", failures.ProcessorStartError, "sent something that is not a message"),
    (HEADER.pack(FAILURE_ALLOWANCE_BYTES + 1), failures.ProcessorStartError, "500001 bytes, which is above"),
]
WITH_A_JOB: list[tuple[bytes, str]] = [
    (bytes(frame(Ready())), ODD),
    (bytes(frame(Done(2, {}, {}, False))), ODD),
    (bytes(frame(failed(number=0))), ODD),
    (HEADER.pack(3) + b"abc", "sent something that is not a message"),
    (HEADER.pack(FAILURE_ALLOWANCE_BYTES + 1_001), "501001 bytes, which is above the limit"),
]


@pytest.mark.parametrize(("said", "error", "words"), BEFORE_IT_IS_READY)
async def test_a_child_that_does_not_become_ready_says_why(
    play: Play, said: bytes, error: type[Exception], words: str
) -> None:
    async with play() as played:
        played.line.sendall(said)
        reason = await played.be_gone()
        with pytest.raises(error, match=words):
            raise reason
        assert type(reason) is error
        assert played.readies == []


@pytest.mark.parametrize(("said", "words"), WITH_A_JOB)
async def test_a_child_that_talks_nonsense_is_ended_and_its_job_fails(
    play: Play, said: bytes, words: str
) -> None:
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.line.sendall(said)
        with pytest.raises(failures.ProcessorCrashedError, match=words) as caught:
            await work
        assert type(caught.value) is failures.ProcessorCrashedError
        assert await played.be_gone() is caught.value


async def test_a_child_that_answers_without_a_job_is_ended(play: Play) -> None:
    async with play() as played:
        (await played.be_ready()).say(DONE)
        assert ODD in str(await played.be_gone())


async def test_the_largest_message_that_a_job_may_bring_is_taken(play: Play) -> None:
    async with play() as played:
        work = (await played.be_ready()).assign()
        empty = len(frame(Done(1, {"t": "x" * 100_000}, {}, False))) - 100_000 - HEADER.size
        largest = "x" * (FAILURE_ALLOWANCE_BYTES + LIMITS.output_bytes - empty)
        data = bytes(frame(Done(1, {"t": largest}, {}, False)))
        assert HEADER.unpack_from(data)[0] == FAILURE_ALLOWANCE_BYTES + LIMITS.output_bytes
        await asyncio.to_thread(played.line.sendall, data)
        assert (await work).result == {"t": largest}
        assert played.child.alive


@pytest.mark.parametrize("size", [1, HEADER.size, HEADER.size + 1, 70_000])
async def test_messages_are_understood_in_pieces_of_any_size(play: Play, size: int) -> None:
    report = Progress(1, Report(step="s" * (70_000 if size > 9 else 5)))
    data = b"".join(bytes(frame(each)) for each in (report, report, DONE))
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.line.setblocking(False)
        for start in range(0, len(data), size):
            await asyncio.get_running_loop().sock_sendall(played.line, data[start : start + size])
            await asyncio.sleep(0)
        assert await work == DONE
        assert played.reports == [report.report] * 2
        assert played.child.jobs_done == 1


async def test_a_job_goes_to_the_child_whole_with_its_files(play: Play, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"the file")
    data = os.urandom(3 << 20)  # more than a socket holds
    loop = asyncio.get_running_loop()
    async with play() as played:
        with (tmp_path / "a").open("rb") as file:
            work = (await played.be_ready()).assign(data, files=[file.fileno()])
        assert played.child.busy
        got, descriptors, _, _ = socket.recv_fds(played.line, 65536, 9)
        assert [os.pread(each, 99, 0) for each in descriptors] == [b"the file"]
        os.close(descriptors[0])
        played.line.setblocking(False)
        while len(got) < len(data):
            got += await loop.sock_recv(played.line, 1 << 20)
        assert got == data
        played.line.settimeout(30)
        played.say(DONE)
        assert await work == DONE
        assert not played.child.busy


async def test_what_is_known_of_a_child_follows_its_jobs(play: Play) -> None:
    async with play() as played:
        child = played.child
        assert (child.ready, child.busy, child.is_late, child.owner) == (False, False, False, None)
        await played.be_ready()
        assert played.readies == [child]
        work = played.assign()
        assert (child.busy, child.is_late, child.made_folder) == (True, False, True)
        child._deadline -= 31
        assert child.is_late, "half of its time is over"
        played.say(DONE)
        await work
        assert (child.busy, child.is_late, child.made_folder, child.worn, child.jobs_done) == (
            *(False, False, False, False),
            1,
        )
        for kind, worn in (("temporary", False), ("permanent", False), ("memory", True)):
            work = played.assign()
            played.say(failed(kind, folder=True))
            with pytest.raises(RetryLaterError if kind != "permanent" else GiveUpError):
                await work
            assert (child.made_folder, child.worn, child.alive) == (True, worn, True)
        assert child.jobs_done == 4
        assert played.reasons == []


async def test_reports_of_another_job_are_dropped_and_a_listener_that_fails_harms_nobody(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: Report) -> None:
        raise ValueError

    async with play() as played:
        (await played.be_ready()).say(Progress(0, Report(step="no job")))
        work = played.assign()
        played.say(Progress(0, Report(step="another")), Progress(1, Report(step="mine")), DONE)
        await work
        assert played.reports == [Report(step="mine")]
        work = played.child.assign(2, bytearray(b"j"), (), LIMITS, refuse)
        with caplog.at_level(logging.ERROR):
            played.say(Progress(2, Report(step="x")), Done(2, {}, {}, True))
            assert (await work).folder
        assert "could not be passed on" in caplog.text
        played.say(Progress(2, Report(step="late")))
        work = played.child.assign(3, bytearray(b"j"), (), LIMITS, lambda _: None)
        played.say(Done(3, {}, {}, False))
        await work
        assert played.child.alive


async def test_an_answer_to_a_job_that_was_cancelled_frees_the_child(play: Play) -> None:
    async with play() as played:
        work = (await played.be_ready()).assign()
        work.cancel()
        played.say(failed("memory"))
        await wait_until(lambda: not played.child.busy, "it is free")
        assert (played.child.alive, played.child.jobs_done) == (True, 1)


async def test_a_child_that_dies_is_reported_with_the_last_lines_that_it_printed(play: Play) -> None:
    async with play() as played:
        await played.be_ready()
        played.do("echo of an earlier job")
        await wait_until(lambda: b"earlier" in played.child._tail, "it was read")
        work = played.assign()
        played.do("printf 'one\\ntwo\\nthree\\n four\\000\\n' >&2; exit 3")
        with pytest.raises(failures.ProcessorCrashedError) as caught:
            await work
        assert str(caught.value) == (
            "processor 'scripted' ended by itself with exit code 3: two | three | four\\0"
        )
        assert caught.value.traceback == "one\ntwo\nthree\n four\\0"
        assert await played.be_gone() is caught.value


async def test_a_child_that_dies_in_silence_has_nothing_to_tell(play: Play) -> None:
    async with play() as played:
        played.do("kill -9 $$")
        reason = await played.be_gone()
        assert type(reason) is failures.ProcessorStartError
        assert str(reason).startswith("processor 'scripted' was ended by SIGKILL")
        assert reason.traceback is None


async def test_the_last_words_of_a_child_that_dies_may_be_its_result(play: Play) -> None:
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.say(DONE)
        played.shell.kill()
        played.shell.wait()
        assert await work == DONE
        await played.be_gone()


async def test_a_child_that_hangs_up_is_ended_though_it_lives(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_child, "LOOK_SECONDS", 0.02)
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.line.close()
        with pytest.raises(failures.ProcessorCrashedError, match="closed its connection"):
            await work
        await played.be_gone()


async def test_what_a_child_prints_is_kept_to_its_end_alone(play: Play) -> None:
    async with play() as played:
        played.do("printf '%200000d' 7; echo; echo end")
        await wait_until(lambda: played.child._tail.endswith(b"end\n"), "all is read")
        assert len(played.child._tail) == warm_child.TAIL_BYTES
        played.do("exec >&- 2>&-")
        played.do("exec sleep 600")
        played.say(Ready())
        await wait_until(lambda: played.child.ready, "it goes on without a voice")


async def test_a_child_is_ended_once_and_leaves_nothing_open(play: Play) -> None:
    async with play():
        pass  # what the loop itself opens, it has now
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    closed = failures.SandboxClosedError()
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.do("sleep 600 & echo started")
        await wait_until(lambda: b"started" in played.child._tail, "a program runs")
        played.child.end(closed)
        played.child.end(failures.ProcessorFailedError("too late"))
        with pytest.raises(failures.SandboxClosedError):
            await work
        assert await played.be_gone() is closed
        assert [played.line.recv(9) for _ in range(2)] == [b"job", b""], "its line is closed"
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_a_child_that_takes_too_long_is_ended_at_its_limit_alone(play: Play) -> None:
    async with play(start_seconds=0.05) as played:
        played.do("echo loading")
        reason = await played.be_gone()
        assert type(reason) is failures.ProcessorStartError
        assert str(reason).startswith("processor 'scripted' was not ready within 0.05 s")
    short = Limits(0.05, 1 << 30)
    async with play() as played:
        await played.be_ready()
        played.child._deadline = 0  # of its start: it is over
        played.child._look()
        assert played.child.alive, "nobody waits for it"
        work = played.assign(limits=short)
        played.do("printf 'at work\\000'")
        with pytest.raises(failures.ProcessorTimeoutError, match=r"^TIMEOUT: scripted .* 0\.05s$") as caught:
            await work
        assert caught.value.traceback in (None, "at work\\0")
        assert await played.be_gone() is caught.value


async def test_a_job_that_wrote_too_much_has_no_result(play: Play, tmp_path: Path) -> None:
    limits = Limits(60, 1 << 30, written_bytes=1 << 20)
    async with play() as played:
        await played.be_ready()
        for bytes_, fails in ((500_000, False), (1_500_000, True)):
            work = played.assign(limits=limits)
            played.do(f"printf '%{bytes_}d' 1 > {tmp_path}/made; echo {bytes_}")
            await wait_until(lambda n=b"%d" % bytes_: n in played.child._tail, "written")  # type: ignore[misc]
            played.say(DONE)
            if fails:
                with pytest.raises(failures.TooMuchWrittenError, match="limit of 1048576 bytes"):
                    await work
                await played.be_gone()
            else:
                assert await work == DONE


async def test_what_an_idle_child_does_ends_it_and_is_logged(
    play: Play, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with play() as played:
        await played.be_ready()
        played.do(f"printf '%1500000d' 1 > {tmp_path}/made; echo written")
        await wait_until(lambda: b"written" in played.child._tail, "written")
        with caplog.at_level(logging.WARNING):
            played.child._look()
        assert isinstance(await played.be_gone(), failures.TooMuchWrittenError)
        assert "an idle child process of scripted is ended" in caplog.text


async def test_a_child_that_keeps_growing_is_noticed_once_a_second(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = iter([300, 700, 800, 801])
    weighed: list[int] = []

    def weigh(_pid: int) -> int:
        weighed.append(next(weights))
        return weighed[-1]

    monkeypatch.setattr(warm_child, "measure_memory", weigh)
    async with play(limits=Limits(60, 1_000)) as played:
        child = played.child
        assert [child.has_outgrown_half_its_limit() for _ in range(2)] == [False, False]
        assert weighed == [300], "once a second"
        for weight, outgrown in ((700, False), (800, False), (801, True)):
            assert child._weigh_at - asyncio.get_running_loop().time() <= 1.0
            child._weigh_at = 0
            assert child.has_outgrown_half_its_limit() is outgrown
            assert weighed[-1] == weight


@pytest.mark.parametrize("network", [False, True])
async def test_only_a_child_that_asks_servers_gets_a_caller_which_ends_with_it(
    play: Play, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(callers: socket.socket, _servers: object) -> subprocess.Popen[bytes]:
        callers.close()
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[0]

    monkeypatch.setattr(warm_child, "start_caller", start)
    callers, asking = socket.socketpair()
    with asking:
        async with play(callers=callers) as played:
            played.say(Ready(network))
            await wait_until(lambda: played.child.ready, "it is ready")
            assert callers.fileno() == -1
            assert len(started) == network
            for _ in started:
                work = played.assign()
                played.say(failed())
                with pytest.raises(failures.ProcessorFailedError):
                    await work
                assert not played.child.worn
                if played.child._caller is not None and played.child.jobs_done > 0:
                    started[0].kill()
                    started[0].wait()
                work = played.assign()
                played.say(failed())
                with pytest.raises(failures.ProcessorFailedError):
                    await work
                assert played.child.worn, "without its caller it can ask nobody"
    other, asking = socket.socketpair()
    with asking:
        async with play(callers=other):
            pass
        assert other.fileno() == -1, "it never became ready"


async def test_a_caller_ends_with_its_child(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as caller:  # noqa: ASYNC220 - it takes no time
        monkeypatch.setattr(warm_child, "start_caller", lambda callers, _: callers.close() or caller)
        callers, asking = socket.socketpair()
        with asking:
            async with play(callers=callers) as played:
                played.say(Ready(True))
                await wait_until(lambda: played.child.ready, "it is ready")
                assert caller.poll() is None
            await wait_until(lambda: caller.returncode is not None, "it is killed and reaped")


async def test_where_the_kernel_tells_of_no_death_the_closed_line_does(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_child, "open_pidfd", lambda _: None)
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.say(DONE)
        assert await work == DONE
        work = played.assign()
        played.do("exit 3")
        played.line.close()
        with pytest.raises(failures.ProcessorCrashedError, match=r"'scripted' ended$"):
            await work
        await played.be_gone()
        assert played.shell.returncode is not None, "it is reaped"


async def test_last_words_are_heard_to_their_end_however_long_they_are(play: Play) -> None:
    long = Done(1, {"text": "x" * 100_000}, {}, False)  # more than is read at once
    async with play() as played:
        work = (await played.be_ready()).assign()
        played.line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        played.say(Progress(1, Report(step="a")), long)
        played.shell.kill()
        played.shell.wait()
        assert await work == long
        assert [one.step for one in played.reports] == ["a"]
        await played.be_gone()
