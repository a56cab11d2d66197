"""The flight log: everything in memory, nothing on disk until it is wanted."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediamill.engine import flight_log
from mediamill.engine.flight_log import ENTRIES, Entry, FlightLog, dump_on_crash, install, uninstall

log = logging.getLogger("mediamill.test_flight_log")


@pytest.fixture
def console() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def flight(console: io.StringIO) -> Iterator[FlightLog]:
    yield install("WARNING", console=logging.StreamHandler(console))
    uninstall()


@pytest.fixture
def _same_hooks_afterwards() -> Iterator[None]:
    before, before_thread = sys.excepthook, threading.excepthook
    yield
    sys.excepthook, threading.excepthook = before, before_thread


@pytest.mark.spec("E24")
def test_every_level_is_kept_in_memory_and_only_the_wanted_ones_are_shown(
    flight: FlightLog, console: io.StringIO
) -> None:
    log.debug("a %s", "detail")
    log.info("a fact")
    log.warning("a danger")
    assert [entry.message for entry in flight.entries()] == ["a %s", "a fact", "a danger"]
    assert console.getvalue() == "a danger\n"


@pytest.mark.spec("E24")
def test_nothing_reaches_the_handlers_of_the_root_logger_which_may_write_to_disk(
    flight: FlightLog, tmp_path: Path
) -> None:
    disk = logging.FileHandler(tmp_path / "all.log")
    logging.getLogger().addHandler(disk)
    try:
        log.debug("for nobody's disk")
        log.info("nor this")
    finally:
        logging.getLogger().removeHandler(disk)
        disk.close()
    assert (tmp_path / "all.log").read_text() == ""
    assert len(flight.entries()) == 2


@pytest.mark.spec("E24")
def test_the_last_fifty_thousand_entries_are_kept(flight: FlightLog) -> None:
    for number in range(ENTRIES + 10):
        log.debug("entry %d", number)
    entries = flight.entries()
    assert (len(entries), entries[0].args, entries[-1].args) == (50_000, (10,), (50_009,))


@pytest.mark.spec("E24")
def test_a_dump_holds_all_entries_with_tracebacks_under_the_name_of_the_worker(
    flight: FlightLog, tmp_path: Path
) -> None:
    log.debug("before %s and %d", "text", 7)
    try:
        raise ValueError("the reason")
    except ValueError:
        log.exception("it broke")
    path = flight.dump(tmp_path, 42)
    assert path is not None
    assert path.parent == tmp_path / "logs" / "forensics"
    assert path.name.startswith("42_")
    assert path.suffix == ".log"
    text = path.read_text()
    assert "DEBUG" in text
    assert "before text and 7" in text
    assert "Traceback (most recent call last)" in text
    assert "ValueError: the reason" in text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.spec("E24")
def test_two_dumps_at_once_are_two_files_and_the_log_goes_on(flight: FlightLog, tmp_path: Path) -> None:
    log.debug("one")
    first = flight.dump(tmp_path, 1)
    second = flight.dump(tmp_path, 1)
    assert first is not None
    assert second is not None
    assert first != second
    assert "one" in second.read_text()


@pytest.mark.spec("E24")
def test_a_disk_that_refuses_is_logged_and_raises_nothing(
    flight: FlightLog, console: io.StringIO, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("a file where a folder should be")
    assert flight.dump(tmp_path, 1) is None
    assert "could not be written" in console.getvalue()


@pytest.mark.spec("E24")
def test_a_full_disk_leaves_no_half_a_dump(flight: FlightLog) -> None:
    log.debug("something")
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full here")
    with pytest.raises(OSError, match="No space"):
        flight_log._write(full, flight.entries())


@pytest.fixture
def alone() -> tuple[FlightLog, logging.Logger]:
    """A logger whose only handler is the flight log: the test run's own handlers keep things alive, too."""
    flight, logger = FlightLog(), logging.Logger("alone")
    logger.addHandler(flight)
    return flight, logger


def test_an_entry_keeps_neither_frames_nor_objects_alive_and_says_what_was_true_when_it_was_logged(
    alone: tuple[FlightLog, logging.Logger],
) -> None:
    flight, log = alone

    class Big:
        pass

    changing = ["before"]
    log.debug("list: %s", changing)
    changing[0] = "after"

    def fail() -> weakref.ref[Big]:
        big = Big()
        try:
            raise RuntimeError("with a big local")
        except RuntimeError:
            log.exception("failed with %s", big)
        return weakref.ref(big)

    reference = fail()
    gc.collect()
    assert reference() is None
    assert flight.entries()[0].in_words().endswith("list: ['before']\n")


def test_a_text_without_end_is_cut_and_a_wrong_log_line_harms_nothing(
    alone: tuple[FlightLog, logging.Logger],
) -> None:
    flight, log = alone
    log.debug("%s", "x" * 1_000_000)
    log.debug("%d", "no number")
    log.debug("%s and %s", "one")
    words = [entry.in_words() for entry in flight.entries()]
    assert len(words[0]) < 20_000
    assert "no number" in words[1]
    assert "%s and %s" in words[2]


def test_threads_may_log_while_another_dumps(flight: FlightLog, tmp_path: Path) -> None:
    stop = threading.Event()

    def chatter() -> None:
        while not stop.is_set():
            log.debug("chatter %d", 1)

    threads = [threading.Thread(target=chatter) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert all(flight.dump(tmp_path, "w") is not None for _ in range(5))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_installing_twice_keeps_one_flight_log(flight: FlightLog) -> None:
    again = install("ERROR", console=logging.StreamHandler(io.StringIO()))
    log.debug("once")
    assert flight.entries() == []
    assert len(again.entries()) == 1


@pytest.mark.spec("E24")
@pytest.mark.usefixtures("_same_hooks_afterwards")
async def test_an_exception_that_nobody_caught_in_a_task_is_dumped_once(
    flight: FlightLog, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    dump_on_crash(flight, tmp_path, 7, loop)
    log.debug("the way there")

    async def break_() -> None:
        raise RuntimeError("nobody waits for me")

    for _ in range(3):
        task = asyncio.create_task(break_())
        await asyncio.wait({task})
        del task
        gc.collect()
    loop.set_exception_handler(None)
    (path,) = (tmp_path / "logs" / "forensics").glob("7_*.log")
    text = path.read_text()
    assert "the way there" in text
    assert "nobody waits for me" in text


@pytest.mark.spec("E24")
@pytest.mark.parametrize("where", ["main", "thread"])
def test_an_exception_that_ends_a_process_or_a_thread_is_dumped(tmp_path: Path, where: str) -> None:
    script = f"""
        import logging, threading
        from pathlib import Path
        from mediamill.engine.flight_log import dump_on_crash, install
        dump_on_crash(install("ERROR"), Path({str(tmp_path)!r}), 3)
        logging.getLogger("mediamill.x").debug("the way there")
        def crash():
            raise RuntimeError("the end")
        if {where == "thread"}:
            thread = threading.Thread(target=crash); thread.start(); thread.join()
        else:
            crash()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (0 if where == "thread" else 1)
    assert done.stderr.count("RuntimeError: the end") == 1
    (path,) = (tmp_path / "logs" / "forensics").glob("3_*.log")
    assert "the way there" in path.read_text()
    assert "RuntimeError: the end" in path.read_text()


def test_a_request_to_stop_is_no_crash(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from mediamill.engine.flight_log import dump_on_crash, install
        dump_on_crash(install("ERROR"), Path({str(tmp_path)!r}), 3)
        raise KeyboardInterrupt
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60)
    assert not (tmp_path / "logs").exists()


@pytest.mark.spec("E24")
def test_a_folder_of_dumps_is_kept_small_by_number_and_by_age(tmp_path: Path) -> None:
    flight = FlightLog(most=3, keep_days=2)
    written = [flight.dump(tmp_path, worker) for worker in (9, 10, 11)]
    old = written[0]
    assert old is not None
    os.utime(old, (0, 0))
    paths = [flight.dump(tmp_path, 1), flight.dump(tmp_path, 2)]
    assert set((tmp_path / "logs" / "forensics").iterdir()) == {written[2], *paths}


def entry(message: str, args: object = None, traceback: str | None = None) -> str:
    return Entry(0.25, logging.INFO, "mediamill.x", "MainThread", message, args, traceback).in_words()


def test_an_entry_in_words_is_a_line_with_its_traceback_below() -> None:
    head = "1970-01-01T00:00:00.250000+00:00 INFO     MainThread mediamill.x: "
    assert entry("100 %") == f"{head}100 %\n"
    assert entry("%s of %d", ("a", 7)) == f"{head}a of 7\n"
    assert entry("%d", ("a",)) == f"{head}%d ('a',)\n"
    assert entry("%(a)s", {"b": 1}) == f"{head}%(a)s {{'b': 1}}\n"
    assert entry("it broke", None, "Traceback\n  here\n\n") == f"{head}it broke\nTraceback\n  here\n"


def test_a_text_of_ten_thousand_characters_is_kept_and_a_longer_one_keeps_head_and_tail(
    alone: tuple[FlightLog, logging.Logger],
) -> None:
    flight, log = alone
    fits, long = "x" * 10_000, "a" * 5_001 + "b" * 5_000
    cut = "a" * 5_000 + " … " + "b" * 5_000
    for text in (fits, long):
        log.debug(text)
        log.debug("%s", text)
    log.debug("", stack_info=True, exc_info=(ValueError, ValueError(long), None))
    kept = flight.entries()
    assert [(one.message, one.args) for one in kept[:4]] == [
        (fits, None if kept[0].args is None else ()),
        ("%s", (fits,)),
        (cut, None),
        (cut, None),
    ]
    assert len(kept[4].traceback or "") == len(cut)
    log.debug("%s %s %s %s %s", "a", 1, 1.5, True, None)
    assert flight.entries()[5].args == ("a", 1, 1.5, True, None)
    log.debug("%s %s", "a", Path("b"))
    assert (flight.entries()[6].message, flight.entries()[6].args) == ("a b", None), (
        "what may change is worded at once"
    )


def test_a_traceback_that_was_put_into_words_before_is_not_put_into_words_again(
    alone: tuple[FlightLog, logging.Logger],
) -> None:
    flight, log = alone
    record = log.makeRecord("x", logging.ERROR, "", 0, "m", (), (ValueError, ValueError("new"), None))
    record.exc_text = "the words of before"
    log.handle(record)
    assert flight.entries()[0].traceback == "the words of before"
    record.stack_info = "the stack"
    log.handle(record)
    assert flight.entries()[1].traceback == "the words of before\nthe stack"


def test_a_fault_that_repeats_itself_is_dumped_once_a_minute_and_somebody_is_told(
    alone: tuple[FlightLog, logging.Logger], tmp_path: Path
) -> None:
    told: list[Path] = []
    crash = flight_log._CrashDump(alone[0], tmp_path, 7, told.append)
    crash.note(KeyboardInterrupt(), "the main thread")
    assert (told, alone[0].entries()) == ([], [])
    for _ in range(2):
        crash.note(RuntimeError("no"), "the main thread")
    assert len(told) == 1
    assert crash.last is not None
    crash.last -= 60
    crash.note(None, "the event loop")
    assert told == sorted((tmp_path / "logs" / "forensics").iterdir())
    assert len(told) == 2
    kept = alone[0].entries()
    assert [(one.level, one.args, one.traceback is None) for one in kept] == [
        (logging.CRITICAL, ("the main thread",), False),
        (logging.CRITICAL, ("the main thread",), False),
        (logging.CRITICAL, ("the event loop",), True),
    ]
    (tmp_path / "a file").touch()
    refused = flight_log._CrashDump(alone[0], tmp_path / "a file", 7, told.append)
    refused.note(RuntimeError("no"), "x")
    assert len(told) == 2, "nothing was written"


@pytest.mark.usefixtures("_same_hooks_afterwards")
def test_a_crash_of_any_thread_is_dumped_and_shown_as_before(tmp_path: Path) -> None:
    shown: list[object] = []
    sys.excepthook = lambda *what: shown.append(what[1])
    threading.excepthook = lambda what: shown.append(what.exc_value)
    flight, told, error = FlightLog(), list[Path](), RuntimeError("no")
    dump_on_crash(flight, tmp_path, 7, told=told.append)
    sys.excepthook(RuntimeError, error, None)
    threading.excepthook(threading.ExceptHookArgs((RuntimeError, error, None, threading.current_thread())))
    threading.excepthook(threading.ExceptHookArgs((RuntimeError, error, None, None)))
    assert shown == [error] * 3
    name = threading.current_thread().name
    assert [one.args for one in flight.entries()] == [
        ("the main thread",),
        (f"thread {name}",),
        ("thread ?",),
    ]
    assert len(told) == 1


async def test_a_crash_in_the_event_loop_is_shown_by_whoever_did_so_before(tmp_path: Path) -> None:
    loop, flight, shown = asyncio.get_running_loop(), FlightLog(), list[object]()
    loop.set_exception_handler(lambda _loop, context: shown.append(context["message"]))
    flight_log._watch_loop(loop, flight_log._CrashDump(flight, tmp_path, 7))
    loop.call_exception_handler({"message": "a task failed", "exception": RuntimeError("no")})
    loop.set_exception_handler(None)
    assert shown == ["a task failed"]
    (kept,) = flight.entries()
    assert kept.args == ("the event loop: a task failed",)
    assert (kept.traceback or "").strip() == "RuntimeError: no"


def test_what_is_installed_hears_four_loggers_and_uninstalling_leaves_them_as_before() -> None:
    loggers = [logging.getLogger(name) for name in ("mediamill", "asyncio", "uvicorn", "opentelemetry")]
    uninstall()
    before = [(list(logger.handlers), logger.propagate) for logger in loggers]
    flight = install()
    for logger in loggers:
        _, shown = (flight_handler, console) = logger.handlers[-2:]
        assert flight_handler is flight
        assert (shown.level, console.level, logger.propagate) == (logging.INFO, logging.INFO, False)
    assert loggers[0].level == logging.DEBUG
    assert flight.level == logging.DEBUG
    uninstall()
    uninstall()
    assert [(list(logger.handlers), logger.propagate) for logger in loggers] == before
    assert all(logger.propagate for logger in loggers)
    assert loggers[0].level == logging.NOTSET


def test_dumps_are_kept_for_thirty_days_fifty_at_most_and_the_latest_come_first(tmp_path: Path) -> None:
    flight = FlightLog()
    assert (flight.most, flight.keep_days) == (50, 30)
    folder = flight_log.forensics(tmp_path)
    assert flight_log.latest_dumps(folder) == []
    first = flight.dump(tmp_path, "../a worker")
    second = flight.dump(tmp_path, 1)
    assert first is not None
    assert second is not None
    (folder / "other.txt").touch()
    assert first.name.startswith(".._a_worker_")
    assert flight_log.latest_dumps(folder) == [second, first]


def test_a_dump_is_utf_8_whatever_the_language_of_the_system_is(tmp_path: Path) -> None:
    script = (
        "import logging, pathlib, sys\nfrom mediamill.engine.flight_log import FlightLog\n"
        "flight = FlightLog()\n"
        "flight.handle(logging.LogRecord('x', 20, '', 0, 'Gr\\u00fc\\u00dfe \\udc80', (), None))\n"
        "flight.dump(pathlib.Path(sys.argv[1]), 1)"
    )
    own = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=own, check=True, timeout=60)
    (path,) = flight_log.latest_dumps(flight_log.forensics(tmp_path))
    assert path.read_text("utf-8").endswith(" x: Grüße \\udc80\n")
