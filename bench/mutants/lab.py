"""A warm pytest process: it has collected the tests and started PostgreSQL, and forks a child for each mutant.

Processes that a test starts import the file with the fault (overlay.py). A fault that cannot be put into the modules as
they are (in the body of a class, for example) needs a fresh pytest, which imports it likewise.

Each child has a warden, to which everything falls that a test leaves behind, and which ends it all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import coverage
import psutil
import pytest
from _pytest.runner import runtestprotocol

from bench.mutants.mutate import Mutant
from bench.mutants.overlay import lay_over
from bench.mutants.put_in import put_in

SESSION_FIXTURES = ("empty_home", "template_url")
PR_SET_CHILD_SUBREAPER = 36
# A test hangs if it takes this much longer than it did without a fault.
SLOWER = 5
PATIENCE_SECONDS = 20.0
COLD_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Passed:
    """A test that passes without a fault: how long it takes, and which lines of which file it runs itself.

    Lines are the bits of a number, in hexadecimal.
    """

    seconds: float
    lines: dict[str, str]

    def runs(self, file: str, lines: int) -> bool:
        """One of them."""
        return bool(int(self.lines.get(file, "0"), 16) & lines)


class Lab:
    """A pytest plugin in whose place of the test loop `work` runs."""

    def __init__(self, work: Callable[[Lab], None]) -> None:
        self._work = work
        self.items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[types.FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running every test."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self._set_up_session()
        self._index_functions()
        self._base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.collect()
        gc.freeze()
        self._work(self)
        return True

    def _set_up_session(self) -> None:
        """What all tests share is made once, in the process that the others are forked from."""
        self.session._setupstate.setup(self.session)  # type: ignore[arg-type]
        for name in SESSION_FIXTURES:
            item = next((one for one in self.session.items if name in getattr(one, "fixturenames", ())), None)
            if item is not None:
                item._request.getfixturevalue(name)  # type: ignore[attr-defined]

    def _index_functions(self) -> None:
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType):
                self._functions.setdefault(one.__code__.co_filename, []).append(one)

    # --- without a fault ---

    def measure(
        self, folders: list[Path], tests: list[str], jobs: int
    ) -> Iterator[tuple[str, Passed | None]]:
        """Each of the tests, in so many processes; None of those that do not pass."""
        files = sorted({name.partition("::")[0] for name in tests})
        shares = [{*files[number::jobs]} for number in range(jobs)]
        readers: list[Connection] = []
        for share in shares:
            reader, writer = multiprocessing.Pipe(duplex=False)
            if os.fork() == 0:
                with _quiet_child():
                    reader.close()
                    self._measure(folders, [one for one in tests if one.partition("::")[0] in share], writer)
            writer.close()
            readers.append(reader)
        while readers:
            for ready in wait(readers):
                assert isinstance(ready, Connection)
                try:
                    yield ready.recv()
                except EOFError:
                    readers.remove(ready)
        for _ in shares:
            os.wait()

    def _measure(self, folders: list[Path], tests: list[str], writer: Connection) -> None:
        watched = [f"{folder}/*" for folder in folders]
        traced = coverage.Coverage(data_file=None, include=watched, messages=False)
        for name in tests:
            traced.erase()
            traced.start()
            started = time.monotonic()
            passes = self._passes(self.items[name])
            seconds = round(time.monotonic() - started, 3)
            traced.stop()
            data = traced.get_data()
            lines = {file: f"{bits(data.lines(file) or []):x}" for file in data.measured_files()}
            writer.send((name, Passed(seconds, lines) if passes else None))

    def _passes(self, item: pytest.Item) -> bool:
        reports = runtestprotocol(item, log=False, nextitem=_OnlySession(self.session))  # type: ignore[arg-type]
        return all(report.outcome != "failed" for report in reports)

    # --- with one ---

    def start(self, mutant: Mutant, path: Path, tests: dict[str, float]) -> int:
        """A warden, whose exit code is one of OUTCOMES."""
        pid = os.fork()
        if pid:
            return pid
        with _quiet_child():
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            os._exit(self._guard(mutant, path, tests))
        raise AssertionError("a child never gets here")

    def _guard(self, mutant: Mutant, path: Path, tests: dict[str, float]) -> int:
        reader, writer = os.pipe()
        folder = self._base / f"mutant-{os.getpid()}"
        if os.fork() == 0:
            with _quiet_child():
                os.close(reader)
                self._move_files(folder)
                if mutant.new != mutant.old:
                    lay_over(path, mutant.source, Path(tempfile.mkdtemp(dir=folder)))
                self._try(mutant, path, list(tests), writer)
        os.close(writer)
        try:
            return self._watch(reader, tests)
        finally:
            _end_descendants()
            shutil.rmtree(folder, ignore_errors=True)

    def _move_files(self, folder: Path) -> None:
        """The folders of the tests go with the mutant: pytest would keep those of failed tests to the end."""
        folder.mkdir(mode=0o700)
        self.session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]

    def _watch(self, reader: int, tests: dict[str, float]) -> int:
        """One byte before each test, and one at the end."""
        limits = [PATIENCE_SECONDS + SLOWER * seconds for seconds in tests.values()]
        wait, began = PATIENCE_SECONDS, False
        while select.select([reader], [], [], wait)[0]:
            said = os.read(reader, 1)
            if said == b"t":
                wait = limits.pop(0) if limits else PATIENCE_SECONDS
            elif said == b"c":
                wait = COLD_SECONDS + SLOWER * sum(tests.values())
            elif said == b"s":
                return _SURVIVED
            elif said == b"f":
                return _KILLED
            else:  # the process itself ended: in the middle of a test, by the fault
                return _KILLED if began else _BROKEN
            began = True
        return _TIMEOUT

    def _try(self, mutant: Mutant, path: Path, tests: list[str], writer: int) -> None:
        if mutant.new != mutant.old and not put_in(mutant, path, self._functions.get(str(path), [])):
            self._try_cold(tests, writer)
            return
        for name in tests:
            os.write(writer, b"t")
            if not self._passes(self.items[name]):
                os.write(writer, b"f")
                return
        os.write(writer, b"s")

    def _try_cold(self, tests: list[str], writer: int) -> None:
        os.write(writer, b"c")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run([*command, *tests], check=False)
        os.write(writer, b"s" if done.returncode == 0 else b"f")


def bits(lines: Iterable[int]) -> int:
    """A number with these bits."""
    return sum(1 << line for line in set(lines))


_SURVIVED, _KILLED, _TIMEOUT, _BROKEN = 0, 1, 2, 3
OUTCOMES = {_SURVIVED: "survived", _KILLED: "killed", _TIMEOUT: "timeout"}


class _OnlySession:
    """The next test of a run of which only the session stays set up."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        return [self._session]


@contextlib.contextmanager
def _quiet_child() -> Iterator[None]:
    """A process that never returns to the code of its parent, and says nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    try:
        yield
    except BaseException:
        os._exit(_BROKEN)
    os._exit(0)


def _end_descendants() -> None:
    """Also those that became ours when their parent ended."""
    while found := psutil.Process().children(recursive=True):
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found, timeout=5)
