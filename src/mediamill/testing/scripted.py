"""A processor that does what its payload says: for tests, chaos runs and benches.

`{"do": "succeed", "result": {…}}`; the table at the end of this file has the other words.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.processors.contract import ProcessorInput, ProcessorOutput

_CHUNK_BYTES = 8 << 20
_FOREVER_SECONDS = 1_000_000


class ScriptedProcessor:
    """Succeeds, fails, hangs or dies on request. `jobs_seen` shows how long this one has been warm."""

    def __init__(self, mime_types: Sequence[str] = (), timeout_seconds: float = 60) -> None:
        self.mime_types, self.timeout_seconds = tuple(mime_types), timeout_seconds
        self.jobs_seen = 0

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """Do what `do` says, write `files` (name -> text), return `result`, all from the payload."""
        self.jobs_seen += 1
        word = given.payload.get("do", "succeed")
        act = _ACTS.get(word)
        if act is None:
            raise GiveUpError(f"the scripted processor cannot {word!r}; it knows: {', '.join(_ACTS)}")
        extra = act(given) or {}
        if given.payload.get("about"):
            extra |= {"pid": os.getpid(), "jobs_seen": self.jobs_seen, "attempt": given.attempt}
            extra |= {"mime_type": given.mime_type, "checkpoint": given.checkpoint}
            extra |= {
                "file": given.file and str(given.file),
                "types": self.mime_types,
                "timeout_seconds": self.timeout_seconds,
            }
        return ProcessorOutput({**given.payload.get("result", {}), **extra}, _write_files(given))


Extra = dict[str, Any] | None


def _write_files(given: ProcessorInput) -> Mapping[str, str]:
    files: Mapping[str, str] = given.payload.get("files", {})
    for name, text in files.items():
        (given.folder / name).write_text(text)
    for name, target in given.payload.get("links", {}).items():
        (given.folder / name).symlink_to(target)
    claimed: Mapping[str, str] = given.payload.get("claim_files", {})
    return {**{name: name for name in files}, **claimed}


def _succeed(_: ProcessorInput) -> Extra:
    return None


def _sleep(given: ProcessorInput) -> Extra:
    time.sleep(given.payload.get("seconds", 0.1))
    return None


def _raise_permanent(given: ProcessorInput) -> NoReturn:
    raise GiveUpError(_text(given))


def _raise_temporary(given: ProcessorInput) -> NoReturn:
    raise RetryLaterError(_text(given))


def _raise_text(given: ProcessorInput) -> NoReturn:
    raise RuntimeError(_text(given))


def _hang(given: ProcessorInput) -> NoReturn:
    """Never ends, deaf to SIGTERM. `how`: busy, or blocked (inside C, holding the interpreter's lock)."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.payload.get("files"):
        _write_files(given)
    given.report("hanging", parts={"pid": os.getpid()})
    while given.payload.get("how", "blocked") == "busy":
        pass
    while True:
        ctypes.PyDLL(None).sleep(_FOREVER_SECONDS)


def _eat_memory(given: ProcessorInput) -> Extra:
    """Takes `bytes`, then waits `seconds`. `where`: heap, or shared (which RLIMIT_DATA does not count)."""
    eaten: list[Any] = []
    for _ in range(given.payload.get("bytes", 1 << 40) // _CHUNK_BYTES):
        shared = given.payload.get("where") == "shared"
        block: Any = mmap.mmap(-1, _CHUNK_BYTES) if shared else bytearray(_CHUNK_BYTES)
        block[:] = b"x" * _CHUNK_BYTES
        eaten.append(block)
    time.sleep(given.payload.get("seconds", 0))
    return None


_leaked: list[bytearray] = []


def _leak(given: ProcessorInput) -> Extra:
    """Takes `bytes` and never gives them back."""
    _leaked.append(bytearray(b"x") * given.payload["bytes"])
    return _sleep(given)


def _segfault(_: ProcessorInput) -> Extra:
    ctypes.string_at(0)
    return None


def _exit(given: ProcessorInput) -> NoReturn:
    print(_text(given), file=sys.stderr, flush=True)
    os._exit(given.payload.get("code", 3))


def _spawn_and_hang(given: ProcessorInput) -> NoReturn:
    """Starts a process (with `new_session`, one that leaves the session), reports its id and hangs."""
    code = (
        f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({_FOREVER_SECONDS})"
    )
    leaves = bool(given.payload.get("new_session"))
    started = subprocess.Popen([sys.executable, "-c", code], start_new_session=leaves)  # noqa: S603
    given.report("spawned", parts={"pid": os.getpid(), "grandchild": started.pid})
    _hang(given)


def _report(given: ProcessorInput) -> Extra:
    """Reports `times` times, `seconds` apart, with a checkpoint that counts. After each it waits at its `gate`."""
    times = given.payload.get("times", 3)
    for n in range(1, times + 1):
        given.report(f"step {n}", 100 * n / times, {"n": n}, checkpoint={"n": n})
        time.sleep(given.payload.get("seconds", 0))
        _wait_at_gate(given, str(n))
    return None


def _wait_at_gate(given: ProcessorInput, name: str) -> None:
    """Until there is a file of that name in the folder `gate`, if there is such a folder."""
    while (gate := given.payload.get("gate")) and not Path(gate, name).exists():
        time.sleep(0.02)


def _haunt(given: ProcessorInput) -> Extra:
    """Ends, but leaves a thread behind that goes on reporting."""

    def go_on() -> None:
        while True:
            given.report("ghost")
            time.sleep(0.01)

    threading.Thread(target=go_on, daemon=True).start()
    return None


def _big_output(given: ProcessorInput) -> Extra:
    return {"big": "x" * given.payload.get("bytes", 2_000_000)}


def _garbage(given: ProcessorInput) -> Extra:
    """Writes `text` into the worker's own socket, as a processor gone mad would."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                found.send(_text(given).encode())
        except OSError:
            continue
    time.sleep(_FOREVER_SECONDS)
    return None


def _print_noise(given: ProcessorInput) -> Extra:
    """Prints `bytes` on stdout and on stderr, past Python's own buffers too."""
    line = "noise " * 100 + "\n"
    for _ in range(given.payload.get("bytes", 500_000) // len(line) + 1):
        print(line, end="")
        os.write(2, line.encode())
    return None


def _text(given: ProcessorInput) -> str:
    return str(given.payload.get("text", "as the script says"))


def _keep(given: ProcessorInput) -> Extra:
    """Keeps `times` files that are not kept yet; `die_after` so many of them, in the first attempt, it is killed.

    Before that it waits at its `gate` for a file named die.
    """
    names = [f"part-{index:03}.txt" for index in range(given.payload.get("times", 3))]
    made = [name for name in names if name not in given.kept]
    for count, name in enumerate(made):
        if given.attempt == 1 and count == given.payload.get("die_after"):
            given.report("dying")
            _wait_at_gate(given, "die")
            os.kill(os.getpid(), signal.SIGKILL)
        (given.folder / name).write_text(given.payload.get("text", name))
        given.keep(name, name, {"count": count})
        given.report("keeping", 100 * (count + 1) / len(made), parts={"pid": os.getpid()})
        time.sleep(given.payload.get("seconds", 0))
    return {"made": made, "found": sorted(given.kept)}


def _read_input(given: ProcessorInput) -> Extra:
    """Tells what is in its file."""
    assert given.file is not None
    return {"text": given.file.read_text()}


def _temporary_file(_: ProcessorInput) -> Extra:
    """Writes one, and tells where."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
        return {"folder": file.name}


def _leave_temporary_file(_: ProcessorInput) -> Extra:
    """Tells which temporary files there are, and leaves another one."""
    found = os.listdir(tempfile.gettempdir())  # noqa: PTH208
    os.close(tempfile.mkstemp()[0])
    return {"found": found}


def _write(given: ProcessorInput) -> Extra:
    """Writes `bytes` in files that it deletes again at once, so that only the sum shows it; then waits `seconds`."""
    left = given.payload["bytes"]
    while left > 0:
        with tempfile.TemporaryFile() as file:
            for _ in range(8):
                left -= file.write(bytes(max(0, min(left, _CHUNK_BYTES))))
    time.sleep(given.payload.get("seconds", 0))
    return None


_ACTS: dict[str, Callable[[ProcessorInput], Extra]] = {
    "succeed": _succeed,
    "sleep": _sleep,
    "raise_permanent": _raise_permanent,
    "raise_temporary": _raise_temporary,
    "raise_text": _raise_text,
    "hang": _hang,
    "eat_memory": _eat_memory,
    "leak": _leak,
    "segfault": _segfault,
    "exit": _exit,
    "spawn_and_hang": _spawn_and_hang,
    "report": _report,
    "haunt": _haunt,
    "big_output": _big_output,
    "garbage": _garbage,
    "print_noise": _print_noise,
    "keep": _keep,
    "read_input": _read_input,
    "temporary_file": _temporary_file,
    "leave_temporary_file": _leave_temporary_file,
    "write": _write,
}
