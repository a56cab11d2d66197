"""`mediamill bots qr`: the pairing code of a bot's chat network, drawn in the terminal until the bot is paired."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import print_line, say, warn
from mediamill.errors import ConflictError, InvalidError, UnavailableError

if TYPE_CHECKING:
    from mediamill.app import App

EXAMPLES = examples("mediamill bots qr family", "mediamill bots qr family --wait 60")
SILENT_SECONDS = 10.0


class NotPairedError(UnavailableError):
    """The bot was not paired in time."""

    code = "not_paired"


def show_qr(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The bot.", show_default=False)],
    provider: Annotated[
        str | None, typer.Option(help="Its chat network, if it is on several.", show_default=False)
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Wait so many seconds for the pairing.")] = 300,
    json: Annotated[
        bool, typer.Option("--json", help="Print each change of status as a line of JSON.")
    ] = False,
) -> None:
    """Show the QR code by which a bot is paired, and wait until it is.

    A new code is drawn whenever the old one has run out. On the phone: WhatsApp, Linked devices, Link a device.
    """

    async def story(opened: App) -> None:
        await _pair(opened, name, provider, wait, json)

    run(story)


async def _pair(opened: App, name: str, provider: str | None, wait: float, json: Json) -> None:
    from mediamill.cli.follow import read_patiently, wakeups
    from mediamill.conversations.bots import show_bot

    begun, shown, told = time.monotonic(), None, False
    async with wakeups(opened) as pause:
        while True:
            bot = await read_patiently(opened, lambda connection: show_bot(connection, name))
            status = _status(bot, _network(bot, provider))
            if status and status != shown:
                print_line(status) if json else _draw(status, shown)
                shown = status
            if status.get("state") == "connected":
                return
            waited = time.monotonic() - begun
            if waited >= wait:
                raise NotPairedError(f"{name} was not paired within {wait:g} s", fix="run this again")
            if not status.get("qr") and waited > SILENT_SECONDS and not told:
                warn("no code yet; does `mediamill up` run?", style="yellow")
                told = True
            await pause(1.0)


def _network(bot: dict[str, Any], provider: str | None) -> str:
    """The network that is meant: the one named, else the only one besides the chat for trying out."""
    there: list[str] = list(bot["config"]["providers"])
    if provider is not None:
        if provider not in there:
            raise InvalidError(f"{bot['id']} is not on {provider}", fix=f"it is on {', '.join(there)}")
        return provider
    others = [name for name in there if name != "chat"]
    if len(others) != 1:
        what = (
            f"is on {', '.join(others)}: say --provider" if others else "is on no network that needs pairing"
        )
        raise InvalidError(
            f"{bot['id']} {what}", fix="mediamill bots create NAME --whatsapp makes one that does"
        )
    return others[0]


def _status(bot: dict[str, Any], network: str) -> dict[str, Any]:
    if not bot["running"]:
        raise ConflictError(f"the bot {bot['id']} does not run", fix=f"mediamill bots start {bot['id']}")
    found: dict[str, Any] = bot["status"].get(network) or {}
    return {key: found.get(key) for key in ("state", "qr", "me", "detail")} if found else {}


def _draw(status: dict[str, Any], before: dict[str, Any] | None) -> None:
    if status["state"] == "connected":
        me = status["me"] or {}
        who = " ".join(str(part) for part in (me.get("display_name"), me.get("identifier")) if part)
        say(f"paired{f' as {who}' if who else ''}", style="green")
    elif status["qr"] and status["qr"] != (before or {}).get("qr"):
        import segno

        say("scan this on the phone (WhatsApp, Linked devices, Link a device):")
        segno.make(status["qr"], error="l").terminal(out=sys.stdout, compact=True)
        sys.stdout.flush()
    elif status["state"] != (before or {}).get("state") or status["detail"] != (before or {}).get("detail"):
        say(f"{status['state']}{': ' + str(status['detail']) if status['detail'] else ''}", style="dim")
