"""`mediamill bots senders`, `pair`, `allow`, `block` and `revoke`: who may talk to a bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, one_line, print_json, print_table, say, styled

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection

LIST_EXAMPLES = examples("mediamill bots senders shop", "mediamill bots senders shop --json")
PAIR_EXAMPLES = examples("mediamill bots pair shop K7MPQ2XA")
ALLOW_EXAMPLES = examples(
    "mediamill bots allow shop +491701234567",
    "mediamill bots allow shop 120363000000000001@g.us",
    "mediamill bots allow shop 7001 --provider telegram",
)
BLOCK_EXAMPLES = examples("mediamill bots block shop +491701234567")
REVOKE_EXAMPLES = examples("mediamill bots revoke shop +491701234567")

Bot = Annotated[str, typer.Argument(metavar="NAME", help="The bot.", show_default=False)]
Sender = Annotated[
    str,
    typer.Argument(
        metavar="SENDER",
        help="A phone number, or an id of a person or group, as `bots senders` shows them.",
        show_default=False,
    ),
]
Provider = Annotated[
    str | None, typer.Option(help="The chat network, if the bot is on several.", show_default=False)
]


def list_senders(name: Bot, json: Json = False) -> None:
    """Who may talk to a bot, who waits with a code, who is blocked; and what each has used today (UTC)."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.conversations.senders import list_senders

        async with opened.database.connection() as connection:
            return await list_senders(connection, name)

    found = run(story)
    if json:
        print_json(found)
        return
    columns = ("network", "sender", "~name", "state", "code", ">since", ">messages", ">media s", ">tokens")
    rows = [
        [
            each["provider_name"],
            one_line(each["sender_id"], 60),
            one_line(each["display_name"], 40),
            styled(each["state"]),
            each["code"] or "",
            ago(each["asked_at"] if each["code"] else each["decided_at"]),
            each["messages"],
            round(each["media_seconds"]),
            each["tokens"],
        ]
        for each in found
    ]
    print_table(columns, rows, f"nobody was allowed or blocked, and nobody waits with a code for {name}")


def pair(
    name: Bot,
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="What the bot told the person.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Let the person in who was given this code; the bot tells them."""

    async def act(connection: Connection) -> dict[str, Any]:
        from mediamill.conversations.senders import pair_sender

        return await pair_sender(connection, name, code)

    _print(_decide(act), json, f"may talk to {name} now")


def allow(name: Bot, sender: Sender, provider: Provider = None, json: Json = False) -> None:
    """Let a person talk to a bot, or everybody in a group."""
    _print(_decide(_decision(name, sender, provider, "allowed")), json, f"may talk to {name} now")


def block(name: Bot, sender: Sender, provider: Provider = None, json: Json = False) -> None:
    """Ignore a person or a group from the next message on, without a word."""
    _print(_decide(_decision(name, sender, provider, "blocked")), json, f"is ignored by {name} from now on")


def revoke(name: Bot, sender: Sender, provider: Provider = None, json: Json = False) -> None:
    """Take back what was allowed or blocked: a stranger again, who gets a code with the next message."""

    async def act(connection: Connection) -> dict[str, Any]:
        from mediamill.conversations.senders import forget_sender

        return await forget_sender(connection, name, provider, sender)

    _print(_decide(act), json, f"is a stranger to {name} again")


def _decision(
    name: str, sender: str, provider: str | None, state: str
) -> Callable[[Connection], Awaitable[dict[str, Any]]]:
    async def act(connection: Connection) -> dict[str, Any]:
        from mediamill.conversations.senders import decide_sender

        return await decide_sender(connection, name, provider, sender, state)

    return act


def _decide(act: Callable[[Connection], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async def story(opened: App) -> dict[str, Any]:
        async with opened.database.transaction() as connection:
            return await act(connection)

    return run(story)


def _print(decided: dict[str, Any], json: bool, what: str) -> None:
    print_json(decided) if json else say(f"{decided['sender_id']} {what}")
