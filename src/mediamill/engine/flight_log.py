"""The flight log: the latest log entries of a process, in memory, and on disk only when something breaks.

An entry costs one small tuple; it is put into words when it is dumped. What time could spoil (objects that
change, tracebacks that keep whole frames alive, long texts) is put into words at once, and cut.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mediamill.logs import make_console, tell

log = logging.getLogger(__name__)

ENTRIES = 50_000
ENTRY_CHARACTERS = 10_000
CRASH_DUMP_SECONDS = 60.0  # a fault that repeats itself fills no disk

_LOGGERS = ("mediamill", "asyncio", "uvicorn", "opentelemetry")
_LASTING = frozenset({str, int, float, bool, type(None)})
_tracebacks = logging.Formatter()
_installed: list[logging.Handler] = []


class Entry(NamedTuple):
    """One log record, without what only the logging package needs."""

    at: float
    level: int
    logger: str
    thread: str | None
    message: str
    args: Any
    traceback: str | None

    def in_words(self) -> str:
        """One line, and the traceback below it."""
        at = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="microseconds")
        line = f"{at} {logging.getLevelName(self.level):8} {self.thread} {self.logger}: {self._text()}\n"
        return line if self.traceback is None else f"{line}{self.traceback.rstrip()}\n"

    def _text(self) -> str:
        try:
            return self.message % self.args if self.args else self.message
        except (TypeError, ValueError, KeyError):
            return f"{self.message} {self.args!r}"


class FlightLog(logging.Handler):
    """Keeps the last entries of every level. Any thread may log while another dumps."""

    def __init__(self, entries: int = ENTRIES, *, most: int = 50, keep_days: float = 30) -> None:
        super().__init__(logging.DEBUG)
        self._entries: deque[Entry] = deque(maxlen=entries)
        self.most, self.keep_days = most, keep_days  # dumps in one folder

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        message, args = record.msg, record.args
        if type(message) is not str or len(message) > ENTRY_CHARACTERS or not _lasts(args):
            message, args = _cut(_worded(record)), None
        traceback = None
        if record.exc_info or record.exc_text or record.stack_info:
            traceback = _cut(_traceback(record))
        self._entries.append(
            Entry(record.created, record.levelno, record.name, record.threadName, message, args, traceback)
        )

    def entries(self) -> list[Entry]:
        """What is kept now, oldest first."""
        with self.lock or threading.RLock():
            return list(self._entries)

    def dump(self, folder: Path, worker_id: int | str) -> Path | None:
        """Write all of it to logs/forensics in the data folder. A disk that refuses is only logged: None."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        who = re.sub(r"[^\w.-]", "_", str(worker_id))
        name = f"{who}_{stamp}.log"
        target = forensics(folder) / name
        part = target.with_name(f"{name}.part")
        entries = self.entries()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(part, entries)
            part.replace(target)
        except OSError as error:
            log.error("the flight log could not be written to %s: %s", target, error)
            _remove(part)
            return None
        tell(log, "flight_log_written", entries=len(entries), path=str(target))
        self._forget_old(target.parent)
        return target

    def _forget_old(self, folder: Path) -> None:
        oldest = time.time() - self.keep_days * 86_400
        for number, path in enumerate(latest_dumps(folder), 1):
            if number > self.most or path.stat().st_mtime < oldest:
                _remove(path)


def forensics(folder: Path) -> Path:
    """Where the dumps are, below the data folder."""
    return folder / "logs" / "forensics"


def latest_dumps(folder: Path) -> list[Path]:
    """The dumps in a folder, the latest first: each name ends with its time."""
    found = list(folder.glob("*.log")) if folder.is_dir() else []
    return sorted(found, key=lambda path: path.name.rpartition("_")[2], reverse=True)


def install(
    level: int | str = "INFO",
    *,
    form: str = "plain",
    console: logging.Handler | None = None,
    entries: int = ENTRIES,
) -> FlightLog:
    """Everything of mediamill goes to the flight log, what is at least of this level also to the console.

    Nothing is handed on to the root logger: what stands there would get DEBUG too, and may write it to disk.
    """
    uninstall()
    flight = FlightLog(entries)
    shown = console or make_console(form)
    shown.setLevel(level)
    for logger in map(logging.getLogger, _LOGGERS):
        logger.addHandler(flight)
        logger.addHandler(shown)
        logger.propagate = False
    logging.getLogger(_LOGGERS[0]).setLevel(logging.DEBUG)
    _installed[:] = [flight, shown]
    return flight


def uninstall() -> None:
    """Logging as it was before."""
    if not _installed:
        return
    for logger in map(logging.getLogger, _LOGGERS):
        for handler in _installed:
            logger.removeHandler(handler)
        logger.propagate = True
    logging.getLogger(_LOGGERS[0]).setLevel(logging.NOTSET)
    _installed.clear()


@dataclass(slots=True)
class _CrashDump:
    """Dumps for exceptions that nobody caught, not more often than once a minute."""

    flight: FlightLog
    folder: Path
    worker_id: int | str
    told: Callable[[Path], None] | None = None
    last: float | None = None

    def note(self, error: BaseException | None, where: str) -> None:
        if error is not None and not isinstance(error, Exception):
            return  # a request to stop is no crash
        self._keep(error, where)
        now = time.monotonic()
        if self.last is None or now - self.last >= CRASH_DUMP_SECONDS:
            self.last = now
            path = self.flight.dump(self.folder, self.worker_id)
            if path is not None and self.told is not None:
                self.told(path)

    def _keep(self, error: BaseException | None, where: str) -> None:
        """In the flight log alone: the hook that stood here before shows it to people."""
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        self.flight.handle(
            log.makeRecord(log.name, logging.CRITICAL, "", 0, "unhandled exception in %s", (where,), exc_info)
        )


def dump_on_crash(
    flight: FlightLog,
    folder: Path,
    worker_id: int | str,
    loop: asyncio.AbstractEventLoop | None = None,
    told: Callable[[Path], None] | None = None,
) -> None:
    """Dump when an exception reaches the top of the process, of a thread, or of the event loop; `told` of each file."""
    crash = _CrashDump(flight, folder, worker_id, told)
    before, before_thread = sys.excepthook, threading.excepthook

    def on_exception(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        crash.note(error, "the main thread")
        before(kind, error, trace)

    def on_thread_exception(args: threading.ExceptHookArgs) -> None:
        crash.note(args.exc_value, f"thread {args.thread.name if args.thread else '?'}")
        before_thread(args)

    sys.excepthook = on_exception
    threading.excepthook = on_thread_exception
    if loop is not None:
        _watch_loop(loop, crash)


def _watch_loop(loop: asyncio.AbstractEventLoop, crash: _CrashDump) -> None:
    before = loop.get_exception_handler()

    def on_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)
        crash.note(context.get("exception"), f"the event loop: {context.get('message')}")

    loop.set_exception_handler(on_loop_exception)


def _lasts(args: Any) -> bool:
    """Would these arguments still say the same later, and are they small?"""
    return not args or (
        type(args) is tuple
        and all(
            type(arg) in _LASTING and (type(arg) is not str or len(arg) <= ENTRY_CHARACTERS) for arg in args
        )
    )


def _worded(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a wrong log line must not become the program's fault
        return f"{record.msg!r} with arguments that do not fit"


def _traceback(record: logging.LogRecord) -> str:
    text = record.exc_text or ""
    if not text and record.exc_info:
        text = _tracebacks.formatException(record.exc_info)
    return f"{text}\n{record.stack_info}" if record.stack_info else text


def _cut(text: str) -> str:
    """Head and tail of a long text; the last lines of a traceback say most."""
    if len(text) <= ENTRY_CHARACTERS:
        return text
    half = ENTRY_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def _write(path: Path, entries: list[Entry]) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(_lines(entries))
        file.flush()
        os.fsync(file.fileno())


def _lines(entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        yield entry.in_words()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.debug("%s stays behind: %s", path, error)
