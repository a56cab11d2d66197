"""What a child says of its attempts and what the worker makes of it: every way to fail, and every bound."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mediamill.errors import GiveUpError, NotNowError, RetryLaterError
from mediamill.processors.contract import ProcessorOutput, WrongTypeError
from mediamill.worker import child, failures
from mediamill.worker.messages import (
    HEADER,
    Done,
    Failed,
    KeptFile,
    Progress,
    Report,
    Work,
    decode_from_child,
    frame,
)
from mediamill.worker.spawn import Limits
from mediamill.worker.warm_child import _error_from, _telling_lines

LIMITS = Limits(timeout_seconds=60, memory_bytes=64 << 20)


class UnprintableError(Exception):
    """As some libraries have them."""

    def __str__(self) -> str:
        raise ValueError


class TellingError(GiveUpError):
    """It tells the sender something."""

    code = "told"
    notice = "sorry\0"


@pytest.fixture
def line() -> Iterator[tuple[child.Link, socket.socket]]:
    """The child's end as its code has it, and the worker's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        theirs.settimeout(10)
        yield child.Link(theirs), ours


def heard(sock: socket.socket) -> Any:
    """The next message of the child."""
    size = HEADER.unpack(sock.recv(HEADER.size, socket.MSG_WAITALL))[0]
    return decode_from_child(sock.recv(size, socket.MSG_WAITALL))


def work(number: int = 1, **more: Any) -> Work:
    given = {"payload": {"a": 1}, "mime_type": None, "file": None, "checkpoint": None, "attempt": 1}
    return Work(**{"number": number, **given, "output_bytes": 1_000, **more})


class Scripted:
    """A processor that does what a test says."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self.process = act


def attempt(
    line: tuple[child.Link, socket.socket], home: Path, act: Callable[[Any], Any], **more: Any
) -> Any:
    """How an attempt ends, as the worker hears it."""
    said = child.answer(Scripted(act), work(**more), [], str(home), line[0])
    return decode_from_child(said[HEADER.size :])


RAISED: list[tuple[BaseException, str, str, str | None, type[Exception], bool]] = [
    # raised, kind, message, code, what the worker raises, whether it is for good
    (ValueError("no"), "temporary", "ValueError: no", None, failures.ProcessorFailedError, False),
    (ValueError(), "temporary", "ValueError", None, failures.ProcessorFailedError, False),
    (KeyboardInterrupt(), "temporary", "KeyboardInterrupt", None, failures.ProcessorFailedError, False),
    (RetryLaterError("later"), "temporary", "later", "retry_later", failures.ProcessorFailedError, False),
    (NotNowError("away"), "not_now", "away", "not_now", failures.ProcessorWaitsError, False),
    (GiveUpError("never"), "permanent", "never", "give_up", failures.ProcessorGaveUpError, True),
    (TellingError("never"), "permanent", "never", "told", failures.ProcessorGaveUpError, True),
    (child.RefusedOutputError("odd"), "output", "odd", "invalid_output", failures.InvalidOutputError, True),
    (MemoryError(), "memory", "MemoryError", None, failures.MemoryLimitError, False),
    (WrongTypeError("a/b"), "elsewhere", "the file is really a/b", "wrong_type", failures.WrongPoolError, False),
]  # fmt: skip


@pytest.mark.parametrize(("raised", "kind", "message", "code", "error", "for_good"), RAISED)
def test_every_way_to_fail_comes_home_as_what_it_is(
    tmp_path: Path,
    line: tuple[child.Link, socket.socket],
    raised: BaseException,
    kind: str,
    message: str,
    code: str | None,
    error: type[Exception],
    for_good: bool,
) -> None:
    def act(_given: Any) -> Any:
        raise raised

    failed = attempt(line, tmp_path, act, number=9)
    assert isinstance(failed, Failed)
    assert (failed.number, failed.kind, failed.message, failed.code) == (9, kind, message, code)
    assert type(raised).__name__ in (failed.traceback or "")
    assert failed.notice == ("sorry\\0" if isinstance(raised, TellingError) else None)
    assert failed.mime_type == ("a/b" if kind == "elsewhere" else None)
    at_home = _error_from(failed, LIMITS)
    assert type(at_home) is error
    assert isinstance(at_home, GiveUpError) is for_good
    assert isinstance(at_home, NotNowError) is (kind == "not_now")
    if kind == "elsewhere":
        assert at_home.mime_type == "a/b"  # type: ignore[attr-defined]
        return
    assert at_home.traceback == failed.traceback  # type: ignore[attr-defined]
    assert at_home.notice == failed.notice  # type: ignore[attr-defined]
    if kind == "memory":
        assert str(64 << 20) in str(at_home)
    elif code is not None:
        assert at_home.code == code  # type: ignore[attr-defined]


def test_a_fix_comes_home_and_an_exception_that_cannot_be_printed_is_named() -> None:
    told = child.failure(RetryLaterError("no", fix="mend it"), 1, True)
    assert (told.fix, told.folder) == ("mend it", True)
    assert _error_from(told, LIMITS).fix == "mend it"  # type: ignore[attr-defined]
    odd = child.failure(UnprintableError(), 1, False)
    assert (odd.message, odd.traceback, odd.folder) == ("UnprintableError", None, False)


def test_words_of_a_failure_are_cut_to_their_end_and_can_be_stored() -> None:
    long = child.failure(ValueError("x" * 200_000), 1, False)
    assert (len(long.message), long.message[:2], len(long.traceback or "")) == (10_000, "…x", 100_000)
    assert child.printable("abc", 3) == "abc"
    assert child.printable("abcd", 3) == "…cd"
    assert child.printable("a\0\udc80", 9) == "a\\0\\udc80"


def test_a_result_is_made_of_json_alone_and_has_its_bounds(
    tmp_path: Path, line: tuple[child.Link, socket.socket]
) -> None:
    def succeed(result: Any, **more: Any) -> Any:
        files: Any = {"a": Path("b")}
        return attempt(line, tmp_path, lambda _: ProcessorOutput(result, files), **more)

    assert succeed({"at": date(2026, 1, 2), "pair": (1, 2), 3: None}) == Done(
        1, {"at": "2026-01-02", "pair": [1, 2], "3": None}, {"a": "b"}, False
    )
    size = len(msgspec.msgpack.encode(Done(1, {"text": "x" * 2_000}, {"a": "b"}, False)))
    assert isinstance(succeed({"text": "x" * 2_000}, output_bytes=size), Done)
    refused = succeed({"text": "x" * 2_000}, output_bytes=size - 1)
    assert (refused.kind, refused.message) == (
        "output",
        f"the output of the processor has {size} bytes; the limit is {size - 1}",
    )
    for odd in ({"a": object()}, {"a": 1 << 80}):
        assert succeed(odd).kind == "output"
    nothing = attempt(line, tmp_path, lambda _: {"text": "x"})
    assert (nothing.kind, nothing.message) == ("output", "the processor returned dict, not a ProcessorOutput")


def test_the_folder_of_an_attempt_is_made_when_it_is_looked_at(
    tmp_path: Path, line: tuple[child.Link, socket.socket]
) -> None:
    def look(given: Any) -> Any:
        assert (given.payload, given.mime_type, given.attempt, given.checkpoint) == ({"a": 1}, "a/b", 4, [5])
        assert (given.kept, given.file) == ({"k": {}}, None)
        with pytest.raises(AttributeError):
            given.folders  # noqa: B018
        assert not (tmp_path / "6").exists()
        assert given.folder == given.folder == tmp_path / "6"
        return ProcessorOutput({})

    done = attempt(line, tmp_path, look, number=6, mime_type="a/b", attempt=4, checkpoint=[5], kept={"k": {}})
    assert done == Done(6, {}, {}, True)
    assert (tmp_path / "6").stat().st_mode & 0o777 == 0o700


def test_reports_are_bounded_and_files_to_keep_are_named_from_the_folder(
    tmp_path: Path, line: tuple[child.Link, socket.socket]
) -> None:
    def act(given: Any) -> Any:
        given.report("s" * 10_001, 101)
        given.report(percent=-1, parts={"a": (1,)}, checkpoint=date(2026, 1, 2))
        given.keep("v.m4s", tmp_path / "3" / "out" / "v.m4s", {"at": 1})
        given.keep("w.m4s", "w.m4s")
        for wrong in ({"parts": {"a": object()}}, {"checkpoint": "x" * 20_000}):
            with pytest.raises(child.RefusedOutputError):
                given.report(**wrong)
        return ProcessorOutput({})

    assert attempt(line, tmp_path, act, number=3, output_bytes=20_000) == Done(3, {}, {}, False)
    assert [heard(line[1]) for _ in range(4)] == [
        Progress(3, Report("…" + "s" * 9_999, 100.0)),
        Progress(3, Report(None, 0.0, {"a": [1]}, "2026-01-02")),
        Progress(3, Report(kept=KeptFile("v.m4s", "out/v.m4s", {"at": 1}))),
        Progress(3, Report(kept=KeptFile("w.m4s", "w.m4s", {}))),
    ]


def test_an_attempt_that_is_traced_says_how_long_it_took_even_if_it_fails(
    tmp_path: Path, line: tuple[child.Link, socket.socket]
) -> None:
    def fail(_given: Any) -> Any:
        raise ValueError

    assert attempt(line, tmp_path, fail, traced=True).kind == "temporary"
    spent = heard(line[1]).report.spent
    assert spent.pid == os.getpid()
    assert 0 < spent.began_ns <= spent.ended_ns
    assert 0 <= spent.cpu_seconds < 60


def test_a_job_comes_in_pieces_of_any_size_with_its_files(
    tmp_path: Path, line: tuple[child.Link, socket.socket]
) -> None:
    link, ours = line
    (tmp_path / "a").write_bytes(b"the file")
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    large = work(file=b"/a", payload={"text": "x" * 200_000})
    small = work(2, file=b"/m", members=("b", "c"))
    for job, first in ((large, 1), (large, HEADER.size), (large, 60_000), (small, 3), (small, 9_999)):
        data = bytes(frame(job))
        socket.send_fds(ours, [data[:first]], [descriptor])
        sending = threading.Thread(target=ours.sendall, args=(data[first:],))
        sending.start()
        received = link.receive()
        sending.join()
        assert received is not None
        found, descriptors = received
        assert found == job
        assert [os.pread(each, 99, 0) for each in descriptors] == [b"the file"]
        for each in descriptors:
            os.close(each)
    os.close(descriptor)


@pytest.mark.parametrize("size", [0, 3, 50])
def test_a_worker_that_is_gone_in_the_middle_of_a_word_ends_the_child(
    line: tuple[child.Link, socket.socket], size: int
) -> None:
    link, ours = line
    ours.sendall(bytes(frame(work(payload={"text": "x" * 99})))[:size])
    ours.shutdown(socket.SHUT_WR)
    assert link.receive() is None


def test_the_file_of_a_job_is_what_the_worker_opened_or_why_it_could_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    one = child._input_file(work(file=b"/far/a\xff"), [descriptor])
    assert one is not None
    assert os.fspath(one) == "/far/a\udcff"
    assert one.read_bytes() == b"one"
    failed = child._input_file(work(file=b"/far/a", failed=errno.ENOENT), [])
    assert failed is not None
    with pytest.raises(FileNotFoundError):
        failed.read_bytes()
    assert child._input_file(work(), []) is None
    os.close(descriptor)


def test_of_what_a_child_printed_the_telling_lines_are_shown() -> None:
    assert _telling_lines("a\n b \nc\nd") == "b | c | d"
    dump = "Fatal Python error\n\nCurrent thread 0x1 (most recent call first):\n  File a\n  File b\n  File c\n  File d"
    assert _telling_lines(dump) == "File a | File b | File c"
    assert _telling_lines("") == ""
