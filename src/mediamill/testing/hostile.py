"""A processor that has been taken over: it tries every way out of its child process that we could think of.

The payload names one attempt of escape_attempts.py (`{"attempt": …, "targets": {…}}`); the result says whether it was
refused. `race`: the worker takes a file from a folder that is being exchanged for a link. `hold` gives files
away and goes on writing to them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.models.calls import Call, CallFailed, open_calls
from mediamill.testing.escape import AT_FDCWD, EXHAUSTED, LIMITS, REFUSED, RENAME_EXCHANGE, Attempt, Targets
from mediamill.testing.escape_attempts import ATTEMPTS


class HostileProcessor:
    """Tries what it is asked to; a thread that is older than the filter on system calls tries as well, if asked."""

    def __init__(self, mime_types: Sequence[str] = (), timeout_seconds: float = 60) -> None:
        del mime_types, timeout_seconds
        self._asked: list[Callable[[], None]] = []
        self._wake = threading.Semaphore(0)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while self._wake.acquire():
            self._asked.pop()()

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One attempt."""
        if other := OTHERS.get(given.payload["attempt"]):
            return other(given)
        attempt, targets = ATTEMPTS[given.payload["attempt"]], Targets(**given.payload["targets"])
        told: dict[str, Any] = {}
        if given.payload.get("thread"):
            done = threading.Event()

            def ask() -> None:
                told.update(_try(attempt, targets, given))
                done.set()

            self._asked.append(ask)
            self._wake.release()
            done.wait()
        else:
            told = _try(attempt, targets, given)
        return ProcessorOutput(told)


class AskingHostileProcessor(HostileProcessor):
    """One that asks model servers, so it has a caller."""

    network = True


def _try(attempt: Attempt, targets: Targets, given: ProcessorInput) -> dict[str, Any]:
    """Refused is what the kernel refuses with an error that says so; any other error means that it listened."""
    refused = EXHAUSTED if attempt.by == LIMITS else REFUSED
    try:
        got = attempt.act(targets, given)
    except OSError as error:
        return {"refused": error.errno in refused, "said": f"{type(error).__name__}: {error.strerror}"}
    except Exception as error:
        return {"refused": False, "said": f"{type(error).__name__}: {error}"}
    return {"refused": False, "said": repr(got)[:200]}


def race(given: ProcessorInput) -> ProcessorOutput:
    """Gives files away, `tries` times, while a thread exchanges them, their folder or the job's own for a link.

    The links lead to `folder`, which has files of the same names. `by`: a result, or keep().
    """
    names = [f"f-{number:04}.txt" for number in range(given.payload["tries"])]
    real, outside = given.folder / "real", Path(given.payload["folder"])
    link = given.folder.with_name(f"link-{given.folder.name}")
    real.mkdir()
    for name in names:
        for folder in (real, given.folder):
            (folder / name).write_text("mine")
    if given.payload["what"] == "file":
        for name in names:
            (given.folder / f"{name}.link").symlink_to(outside / name)
        pairs = [(given.folder / name, given.folder / f"{name}.link") for name in names]
    else:
        link.symlink_to(outside)
        pairs = [({"folder": real, "job": given.folder}[given.payload["what"]], link)]
    threading.Thread(target=_exchange_all, args=(pairs,), daemon=True).start()
    within = "real/" if given.payload["what"] == "folder" else ""
    if given.payload.get("by") == "result":
        return ProcessorOutput({}, {name: f"{within}{name}" for name in names})
    for name in names:
        given.keep(name, f"{within}{name}")
    return ProcessorOutput({})


def _exchange_all(pairs: Sequence[tuple[Path, Path]]) -> None:
    libc = ctypes.CDLL(None)
    encoded = [(os.fsencode(one), os.fsencode(other)) for one, other in pairs]
    while True:
        for one, other in encoded:
            libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)


def hold(given: ProcessorInput) -> ProcessorOutput:
    """Gives away three files, one of them by keep(), that a thread goes on changing in every way it knows."""
    names = ("kept", "written", "mapped")
    for name in names:
        (given.folder / name).write_bytes(b"checked")
    writing = [os.open(given.folder / name, os.O_RDWR) for name in ("kept", "written")]
    mapped = os.open(given.folder / "mapped", os.O_RDWR)
    memory = mmap.mmap(mapped, 7)
    os.close(mapped)
    reading = [os.open(given.folder / name, os.O_RDONLY) for name in names]

    def change() -> None:
        for count in itertools.count():
            for descriptor in writing:
                os.pwrite(descriptor, b"%07d" % count, 0)
            memory[:] = b"%07d" % count
            for descriptor in reading:  # once more by their names, wherever they are by now
                with contextlib.suppress(OSError), Path(f"/proc/self/fd/{descriptor}").open("r+b") as again:
                    again.write(b"%07d" % count)
            time.sleep(0.005)

    threading.Thread(target=change, daemon=True).start()
    given.keep("kept.txt", "kept")
    return ProcessorOutput({}, {name: name for name in names[1:]})


def linger(given: ProcessorInput) -> ProcessorOutput:
    """Ends at once, but leaves a thread behind that writes or computes."""

    def write() -> None:
        with tempfile.TemporaryFile() as file:
            while True:
                file.write(bytes(1 << 20))
                time.sleep(0.2)  # computing is another offence

    def compute() -> None:
        while True:
            pass

    threading.Thread(target={"write": write, "compute": compute}[given.payload["how"]], daemon=True).start()
    return ProcessorOutput({"pid": os.getpid()})


def bury(given: ProcessorInput) -> ProcessorOutput:
    """Leaves folders behind that are deeper than a stack or a table of descriptors, and closed to their owner."""
    for folder in (tempfile.gettempdir(), given.folder):
        os.chdir(folder)
        for _ in range(1500):
            Path("d").mkdir()
            os.chdir("d")
        Path("closed").mkdir(mode=0)
    os.chdir(given.folder.parent)
    return ProcessorOutput({"pid": os.getpid()})


def stray(given: ProcessorInput) -> ProcessorOutput:
    """For one that may run programs: starts some that leave their session, their parents and their environment.

    `how`: one, a hundred, or a bomb whose processes start others until there are `most`.
    """
    if given.payload["how"] == "bomb":
        _explode(mmap.mmap(-1, 8), given.payload["most"])
    for _ in range({"one": 1, "hundred": 100}[given.payload["how"]]):
        if (pid := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve("/bin/sleep", [given.payload["mark"], "600"], {})  # noqa: S606
            os._exit(0)
        os.waitpid(pid, 0)
    return ProcessorOutput({})


def _explode(count: mmap.mmap, most: int) -> NoReturn:
    while True:
        if int.from_bytes(count[:8], "little") < most:
            count[:8] = (int.from_bytes(count[:8], "little") + 1).to_bytes(8, "little")
            if os.fork() == 0:
                os.setsid()
        time.sleep(0.05)


def ask(given: ProcessorInput) -> ProcessorOutput:
    """Asks the caller to post to each of the addresses; tells what came of it."""
    body = b'{"name": "mine", "scopes": ["admin"]}'
    answers = [
        open_calls().perform(Call("POST", url, [], len(body), 20), [body]) for url in given.payload["urls"]
    ]
    told = [one.kind if isinstance(one, CallFailed) else str(one.status) for one in answers]
    return ProcessorOutput({"told": told})


OTHERS = {"ask": ask, "stray": stray, "race": race, "hold": hold, "linger": linger, "bury": bury}
