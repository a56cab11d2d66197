"""The child process: loads one processor, then takes job after job from a socket until the worker is gone.

Started by spawn.py as `python -m mediamill.worker.child <plan as JSON>`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import mediamill.worker.without_commands  # noqa: F401
from mediamill.errors import GiveUpError, MediamillError, NotNowError
from mediamill.media.source_file import InputFile
from mediamill.processors.contract import (
    CALLER,
    NO_CALLER,
    Processor,
    ProcessorInput,
    ProcessorOutput,
    WrongTypeError,
)
from mediamill.processors.load import load_declared
from mediamill.processors.settings import take_given
from mediamill.worker.confine import confine_calls, confine_files
from mediamill.worker.die_with_parent import die_with_parent
from mediamill.worker.messages import (
    HEADER,
    MOST_FILES,
    Done,
    Failed,
    FailureKind,
    FromChild,
    KeptFile,
    Progress,
    Ready,
    Report,
    Spent,
    Start,
    Work,
    decode_work,
    frame,
)
from mediamill.worker.process_namespace import enter_namespace

MESSAGE_CHARS = 10_000
TRACEBACK_CHARS = 100_000
MOST_DESCRIPTORS = 1024


class RefusedOutputError(GiveUpError):
    """What the processor returned or reported cannot be taken."""

    code = "invalid_output"


class Link:
    """The socket to the worker. Threads of a processor may report at once, so writing takes a lock."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._writing = threading.Lock()

    def send(self, data: bytearray) -> None:
        with self._writing:
            self._sock.sendall(data)

    def receive(self) -> tuple[Work, list[int]] | None:
        """The next job and the descriptors of its files, or None when the worker has gone."""
        got, descriptors, _, _ = socket.recv_fds(self._sock, 65536, MOST_FILES)
        while len(got) < HEADER.size:
            if not (more := self._sock.recv(65536)):
                return None
            got += more
        wanted = HEADER.unpack_from(got)[0] + HEADER.size
        if len(got) < wanted:
            whole = bytearray(got)
            while len(whole) < wanted:
                if not (more := self._sock.recv(1 << 20)):
                    return None
                whole += more
            return decode_work(memoryview(whole)[HEADER.size :]), descriptors
        return decode_work(memoryview(got)[HEADER.size :]), descriptors


class Given(ProcessorInput):
    """The input of one attempt. Most jobs write no file, so the folder is made when it is first looked at."""

    __slots__ = ("_where", "folder_made")

    def __init__(self, work: Work, descriptors: Sequence[int], folder: str, link: Link) -> None:
        put = object.__setattr__  # the contract is frozen
        put(self, "payload", work.payload)
        put(self, "mime_type", work.mime_type)
        put(self, "file", _input_file(work, descriptors))
        put(self, "checkpoint", work.checkpoint)
        put(self, "attempt", work.attempt)
        # Not a method of this object: the cycle would keep the payload alive until a garbage collection.
        put(self, "report", partial(send_report, link, work.number, work.output_bytes))
        put(self, "kept", work.kept)
        put(self, "keep", partial(send_kept, link, work.number, work.output_bytes, folder))
        put(self, "_where", folder)
        put(self, "folder_made", False)

    def __getattr__(self, name: str) -> Any:
        # Reached only while the slot of `folder` is empty.
        if name != "folder":
            raise AttributeError(name)
        folder = Path(self._where)
        object.__setattr__(self, "folder_made", True)
        folder.mkdir(mode=0o700, exist_ok=True)
        object.__setattr__(self, "folder", folder)
        return folder


def _input_file(work: Work, descriptors: Sequence[int]) -> InputFile | None:
    if work.file is None:
        return None
    path = os.fsdecode(work.file)
    if work.failed:
        return InputFile.opened(path, failed=work.failed)
    if work.members is None:
        return InputFile.opened(path, descriptor=descriptors[0])
    return InputFile.opened(path, members=dict(zip(work.members, descriptors, strict=True)))


def send_report(
    link: Link,
    number: int,
    limit_bytes: int,
    step: str | None = None,
    percent: float | None = None,
    parts: Mapping[str, Any] | None = None,
    checkpoint: Any = None,
) -> None:
    """What `ProcessorInput.report` does."""
    report = Report(
        None if step is None else printable(str(step), MESSAGE_CHARS),
        None if percent is None else min(100.0, max(0.0, float(percent))),
        None if parts is None else as_json(dict(parts), "parts"),
        as_json(checkpoint, "checkpoint"),
    )
    link.send(bounded(Progress(number, report), limit_bytes))


def send_kept(
    link: Link,
    number: int,
    limit_bytes: int,
    folder: str,
    name: str,
    path: Path | str,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """What `ProcessorInput.keep` does."""
    relative = os.path.relpath(Path(folder, path), folder)
    kept = KeptFile(str(name), relative, as_json(dict(facts or {}), "facts"))
    link.send(bounded(Progress(number, Report(kept=kept)), limit_bytes))


def as_json(value: Any, what: str) -> Any:
    """The value in JSON's own types (dates become text, tuples lists), so that it means the same at home."""
    if value is None:
        return None
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise RefusedOutputError(f"the {what} of the processor is not JSON: {error}") from error


def bounded(message: FromChild, limit_bytes: int) -> bytearray:
    """The frame of a message, refused if it is too large or cannot be written."""
    try:
        data = frame(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RefusedOutputError(f"the output of the processor is not JSON: {error}") from error
    if len(data) - HEADER.size > limit_bytes:
        raise RefusedOutputError(
            f"the output of the processor has {len(data) - HEADER.size} bytes; the limit is {limit_bytes}"
        )
    return data


def printable(text: str, limit: int) -> str:
    """Text that UTF-8 and PostgreSQL can hold, the end of it if it is too long."""
    cut = text if len(text) <= limit else "…" + text[1 - limit :]
    return cut.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def answer(processor: Processor, work: Work, descriptors: Sequence[int], home: str, link: Link) -> bytearray:
    """Run one attempt; the frame that tells how it ended. Nothing that a processor raises ends the child."""
    given = Given(work, descriptors, f"{home}/{work.number}", link)
    try:
        output = process(processor, given, work, link)
        if not isinstance(output, ProcessorOutput):
            raise RefusedOutputError(f"the processor returned {type(output).__name__}, not a ProcessorOutput")
        result = as_json(dict(output.result), "result")
        files = {str(name): os.fspath(path) for name, path in output.files.items()}
        return bounded(Done(work.number, result, files, given.folder_made), work.output_bytes)
    except BaseException as error:
        return frame(failure(error, work.number, given.folder_made))
    finally:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):  # the processor may have closed it
                os.close(descriptor)


def process(processor: Processor, given: Given, work: Work, link: Link) -> ProcessorOutput:
    """The attempt itself; if it is traced, the worker is told when, because nothing here reaches the network."""
    if not work.traced:
        return processor.process(given)
    began, cpu = time.time_ns(), time.process_time()
    try:
        return processor.process(given)
    finally:
        spent = Spent(os.getpid(), began, time.time_ns(), time.process_time() - cpu)
        link.send(frame(Progress(work.number, Report(spent=spent))))


def failure(error: BaseException, number: int, folder: bool) -> Failed:
    """The exception as a message: permanent or temporary by its type."""
    kind: FailureKind = "temporary"
    if isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, GiveUpError):
        kind = "output" if isinstance(error, RefusedOutputError) else "permanent"
        kind = "elsewhere" if isinstance(error, WrongTypeError) else kind
    elif isinstance(error, NotNowError):
        kind = "not_now"
    ours = error if isinstance(error, MediamillError) else None
    try:
        text = ours.message if ours else f"{type(error).__name__}: {error}"
        told: str | None = printable("".join(traceback.format_exception(error)), TRACEBACK_CHARS)
    except Exception:  # no memory left to say more, or an exception that cannot be printed
        text, told = type(error).__name__, None
    code, fix = (ours.code, ours.fix) if ours else (None, None)
    notice = getattr(ours, "notice", None)
    notice = None if notice is None else printable(str(notice), MESSAGE_CHARS)
    real = error.mime_type if isinstance(error, WrongTypeError) else None
    text = printable(text.rstrip(": "), MESSAGE_CHARS)
    wait = error.wait if isinstance(error, NotNowError) else None
    return Failed(number, kind, text, code, fix, told, folder, notice, real, wait)


def set_limits(memory_bytes: int, file_bytes: int) -> None:
    """Memory that the processor may take, no core files, no endless files, not all descriptors of the machine."""
    for which, limit in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, MOST_DESCRIPTORS),
    ):
        hard = resource.getrlimit(which)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (allowed, allowed))


def main(arguments: list[str]) -> None:
    """Load the processor, then work until the worker is gone."""
    plan = msgspec.json.decode(arguments[0], type=Start)
    die_with_parent(plan.parent)
    sockets = [plan.descriptor]
    if os.environ[CALLER] != NO_CALLER:
        sockets.append(int(os.environ[CALLER]))
    for descriptor in sockets:
        os.set_inheritable(descriptor, False)
    if plan.programs:
        enter_namespace(sockets)
    faulthandler.enable()
    take_given()
    link = Link(socket.socket(fileno=plan.descriptor))
    try:
        set_limits(plan.memory_bytes, plan.file_bytes)
        os.chdir(plan.folder)
        if plan.landlock:
            confine_files(Path(plan.folder), Path(plan.models), programs=plan.programs)
        processor = load_declared(plan.processor, plan.declared, plan.mime_types, plan.timeout_seconds)
        if plan.seccomp:
            confine_calls(programs=plan.programs)
    except BaseException as error:
        link.send(frame(failure(error, 0, False)))
        os._exit(1)
    network = getattr(processor, "network", False) is True
    if not network:
        os.environ[CALLER] = NO_CALLER
    link.send(frame(Ready(network)))
    while (received := link.receive()) is not None:
        link.send(answer(processor, *received, plan.folder, link))


if __name__ == "__main__":
    # Always _exit: neither threads nor exit handlers of a processor may keep the child alive.
    try:
        main(sys.argv[1:])
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
