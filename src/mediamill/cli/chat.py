"""`mediamill chat`: talk with a bot of the running server: type, send files, see their text and the answers come."""

from __future__ import annotations

import asyncio
import getpass
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import examples
from mediamill.errors import InvalidError, UnavailableError

if TYPE_CHECKING:
    from mediamill.cli.chat_session import ChatSession, Screen
    from mediamill.cli.server_client import ServerClient

EXAMPLES = examples(
    "mediamill chat",
    'mediamill chat "hello there"',
    'mediamill chat -f voice.ogg -f photo.jpg "what is this?" --json',
    "mediamill chat --bot helper --as ann",
)
DEMO = "demo"
_UNSAFE = re.compile(r"[^0-9A-Za-z._@+-]+")


class NotReadyError(UnavailableError):
    """Not everything was ready in time."""

    code = "not_ready"


def chat(
    text: Annotated[
        str | None,
        typer.Argument(
            help="Say this and wait for the answer; with -f: the first caption.", show_default=False
        ),
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Send this file; may be given several times.")
    ] = None,
    bot: Annotated[
        str | None, typer.Option(help="With whom. Unset: a bot `demo`, made on first use, that echoes.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="Who you are; each name is a conversation of its own.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Wait so many seconds for texts and answers.")] = 300,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Talk with a bot, on the server that `mediamill up` runs.

    Without a text or a file: a prompt. There, /file PATH sends a file (or drag it in), Ctrl-D leaves. Exit code 1 if
    a file did not become text, or an answer failed.
    """
    failed = asyncio.run(_chat(text, file or [], bot, name or _user(), wait, json))
    if failed:
        raise typer.Exit(1)


async def _chat(
    text: str | None, files: list[Path], bot: str | None, name: str, wait: float, json: bool
) -> bool:
    from mediamill.cli.chat_session import ChatSession
    from mediamill.cli.server_client import connected
    from mediamill.settings import Settings

    _check_files(files)
    once = text is not None or bool(files)
    async with connected(Settings()) as client:
        chosen = await _find_bot(client, bot)
        answers = chosen["config"]["reply"]["by"] != "none"
        screen = _choose_screen(once, json)
        session = ChatSession(client, chosen["id"], _slug(name), name, answers, screen)
        await session.begin()
        if not once:
            from mediamill.cli.chat_talk import talk

            return await talk(session, wait)
        return await _say_once(session, text, files, wait, json)


async def _say_once(
    session: ChatSession, text: str | None, files: list[Path], wait: float, json: bool
) -> bool:
    from mediamill.cli.chat_talk import following
    from mediamill.cli.terminal import print_json

    try:
        async with following(session), asyncio.timeout(wait):
            captions = [text or "", *([""] * len(files))]
            for path, caption in zip(files, captions, strict=False):
                await session.send_file(path, caption)
            if text is not None and not files:
                await session.say(text)
            await session.until_settled()
    except TimeoutError:
        raise NotReadyError(
            f"not everything was ready within {wait:g} s; the server goes on with it",
            fix=f"mediamill bots messages {session.bot} chat {session.correspondent}",
        ) from None
    if json:
        from mediamill.cli.chat_screen import report

        sent = [report(each) for each in session.exchanges.values()]
        print_json({"bot": session.bot, "correspondent": session.correspondent, "messages": sent})
    return any(each.failed_reason or each.answer_failed for each in session.exchanges.values())


async def _find_bot(client: ServerClient, bot: str | None) -> dict[str, Any]:
    """The bot that is meant; nobody in particular is the demo, made and started if need be."""
    from mediamill.cli.server_client import ServerSaidError
    from mediamill.cli.terminal import warn

    if bot is not None:
        found: dict[str, Any] = await client.ask("GET", f"/api/bots/{_path_part(bot)}")
        return found
    new = {"id": DEMO, "config": {"providers": {"chat": {}}, "reply": {"by": "echo"}}, "start": True}
    try:
        made: dict[str, Any] = await client.ask("POST", "/api/bots", json=new)
        warn(f"made a bot {DEMO} that echoes what it is told; mediamill bots shows it", style="dim")
        return made
    except ServerSaidError as error:
        if error.code != "bot_exists":
            raise
    there: dict[str, Any] = await client.ask("GET", f"/api/bots/{DEMO}")
    if not there["running"]:
        await client.ask("POST", f"/api/bots/{DEMO}/start")
        warn(f"started the bot {DEMO}", style="dim")
    return there


def _choose_screen(once: bool, json: bool) -> Screen:
    from mediamill.cli.chat_screen import JsonScreen, LiveScreen, PlainScreen, SilentScreen

    if json:
        return SilentScreen() if once else JsonScreen()
    if sys.stdout.isatty() and (once or sys.stdin.isatty()):
        return LiveScreen()
    return PlainScreen()


def _check_files(files: list[Path]) -> None:
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise InvalidError(f"there is no file {', '.join(missing)}")


def _path_part(bot: str) -> str:
    from urllib.parse import quote

    return quote(bot, safe="") or "-"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "you"


def _slug(name: str) -> str:
    """The name of the conversation: only what the API takes."""
    return _UNSAFE.sub("-", name).strip("-._@+")[:128] or "you"
