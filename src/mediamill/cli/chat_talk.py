"""The interactive chat: lines from a prompt or a pipe, sent one after the other while answers come in."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mediamill.cli.chat_screen import PROMPT, LiveScreen
from mediamill.cli.chat_session import ChatSession
from mediamill.cli.terminal import say
from mediamill.errors import MediamillError

TICK_SECONDS = 0.12
HELP = "type to talk; /file PATH [caption] sends a file (or drag it in); Ctrl-D leaves"


async def talk(session: ChatSession, wait: float) -> bool:
    """Until the end of the lines. From a pipe: until all of it is answered. Did something fail?"""
    live = session.screen if isinstance(session.screen, LiveScreen) else None
    if live is not None:
        say(f"talking with {session.bot} as {session.correspondent}; {HELP}", style="dim")
    outbox: asyncio.Queue[str] = asyncio.Queue()
    faults: list[str] = []
    async with following(session):
        sending = asyncio.create_task(_send_all(session, outbox, faults))
        try:
            async for line in _typed_lines(live) if live is not None else _piped_lines():
                if line.strip():
                    outbox.put_nowait(line.strip())
            if live is None:
                async with asyncio.timeout(wait):
                    await outbox.join()
                    await session.until_settled()
        except TimeoutError:
            session.screen.show_fault(f"not everything was ready within {wait:g} s")
            faults.append("timeout")
        finally:
            sending.cancel()
    failed = any(each.failed_reason or each.answer_failed for each in session.exchanges.values())
    return live is None and (failed or bool(faults))


@asynccontextmanager
async def following(session: ChatSession) -> AsyncIterator[None]:
    """While this is open, what comes is told, and what is going on moves."""
    tasks = [asyncio.create_task(session.follow())]
    if isinstance(session.screen, LiveScreen):
        tasks.append(asyncio.create_task(_tick(session.screen)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(session.screen, LiveScreen):
            session.screen.close()


async def _tick(screen: LiveScreen) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        screen.tick()


async def _send_all(session: ChatSession, outbox: asyncio.Queue[str], faults: list[str]) -> None:
    """One after the other, so that the order stays; what cannot be sent is told, and the next one tried."""
    while True:
        line = await outbox.get()
        try:
            await _send(session, line)
        except (MediamillError, OSError) as error:
            told = getattr(error, "message", None) or str(error)
            session.screen.show_fault(f"not sent: {told}")
            faults.append(told)
        finally:
            outbox.task_done()


async def _send(session: ChatSession, line: str) -> None:
    file = read_file_line(line)
    if file is not None:
        await session.send_file(*file)
    elif line in ("/help", "/?"):
        say(HELP, style="dim")
    else:
        await session.say(line)


def read_file_line(line: str) -> tuple[Path, str] | None:
    """`/file PATH [caption]`, or a path as terminals write one that is dragged in; None: it is just text."""
    command, _, rest = line.partition(" ")
    try:
        words = shlex.split(rest if command == "/file" else line)
    except ValueError:  # an apostrophe
        words = [rest] if command == "/file" else [line]
    if command == "/file" and words:
        return _as_path(words[0]), " ".join(words[1:])
    if len(words) == 1 and words[0].startswith(("/", "~/", "file:///")):
        path = _as_path(words[0])
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                return path, ""
    return None


def _as_path(word: str) -> Path:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return Path(word).expanduser()


async def _typed_lines(screen: LiveScreen) -> AsyncIterator[str]:
    """Lines from the prompt, until Ctrl-D. The terminal is left as it was."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    begin = _prepare(screen)
    try:
        while True:
            begin()
            line = await _in_thread(lambda: input(PROMPT))
            if line is None:
                return
            screen.end_prompt(line)
            yield line
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _prepare(screen: LiveScreen) -> Callable[[], None]:
    """Arrow keys, and what is typed so far, if Python has readline; it says itself when the prompt is there."""
    try:
        import readline
    except ImportError:
        return screen.begin_prompt
    readline.set_startup_hook(screen.begin_prompt)
    return lambda: None


async def _piped_lines() -> AsyncIterator[str]:
    while line := await _in_thread(sys.stdin.readline):
        yield line


async def _in_thread(read: Callable[[], str]) -> str | None:
    """In a thread that does not keep the process from ending; None at the end of the input."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str | None] = loop.create_future()

    def settle(line: str | None) -> None:
        if not done.done():
            done.set_result(line)

    def work() -> None:
        try:
            line: str | None = read()
        except (EOFError, OSError, ValueError):
            line = None
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=work, daemon=True).start()
    return await done
