"""`mediamill bots`: create, list, show, start, stop, set, delete. What else they do has files of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mediamill.cli import bot_conversations, bot_pairing, bot_senders
from mediamill.cli.bot_settings import add_options, change_config, read_config, read_token
from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import (
    clock,
    one_line,
    plural,
    print_fields,
    print_json,
    print_table,
    say,
    styled,
    warn,
)

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection

app = typer.Typer(
    no_args_is_help=True, help="Bots: on which chat networks they are, who answers, and what was said."
)
app.command("conversations", epilog=bot_conversations.LIST_EXAMPLES)(bot_conversations.list_conversations)
app.command("messages", epilog=bot_conversations.MESSAGES_EXAMPLES)(bot_conversations.list_messages)
app.command("retry", epilog=bot_conversations.RETRY_EXAMPLES)(bot_conversations.retry)
app.command("qr", epilog=bot_pairing.EXAMPLES)(bot_pairing.show_qr)
app.command("senders", epilog=bot_senders.LIST_EXAMPLES)(bot_senders.list_senders)
app.command("pair", epilog=bot_senders.PAIR_EXAMPLES)(bot_senders.pair)
app.command("allow", epilog=bot_senders.ALLOW_EXAMPLES)(bot_senders.allow)
app.command("block", epilog=bot_senders.BLOCK_EXAMPLES)(bot_senders.block)
app.command("revoke", epilog=bot_senders.REVOKE_EXAMPLES)(bot_senders.revoke)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The bot.", show_default=False)]


@app.command(
    "create",
    epilog=examples(
        "mediamill bots create demo --reply echo",
        "mediamill bots create family --whatsapp --no-start",
        "mediamill bots create shop --telegram --token-file token.txt --reply openai",
        'mediamill bots create helper --whatsapp --reply openai --model llama3 --prompt "Answer briefly."',
        "mediamill bots create hotline --telegram --open --groups never",
    ),
)
def create(
    name: Name,
    whatsapp: Annotated[bool, typer.Option("--whatsapp", help="On WhatsApp; pair with `bots qr`.")] = False,
    telegram: Annotated[
        bool, typer.Option("--telegram", help="On Telegram; asks for the token that @BotFather gave.")
    ] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the Telegram token, instead of asking; - is stdin.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="On the chat for trying out (the default if no other is named).")
    ] = False,
    reply: Annotated[Literal["none", "echo", "openai", "pi"], typer.Option(help="Who answers.")] = "none",
    prompt: Annotated[str | None, typer.Option(help="What the one who answers is told first.")] = None,
    model: Annotated[str | None, typer.Option(help="Its model. Unset: MEDIAMILL_TEXT_MODEL.")] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open", help="Anybody may talk to it, at your cost. Else: whom you allow, or pair by a code."
        ),
    ] = False,
    groups: Annotated[
        Literal["mentioned", "always", "never"] | None,
        typer.Option(help="When it answers in groups; mentioned if not given.", show_default=False),
    ] = None,
    start: Annotated[bool, typer.Option(help="Start it.")] = True,
    config: Annotated[
        Path | None, typer.Option(help="The configuration as a JSON file instead; - is stdin.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a bot, and start it."""
    chosen: dict[str, Any] = {each: {} for each, it in (("whatsapp", whatsapp), ("chat", chat)) if it}
    if telegram or token_file is not None:
        chosen["telegram"] = read_token(token_file)
    said = {"by": reply if reply != "none" else None, "prompt": prompt, "model": model}
    access = {"mode": "open" if open_ else None, "groups": groups}
    given = add_options(read_config(config) if config is not None else {}, chosen, said, access)

    async def act(connection: Connection) -> None:
        from mediamill.conversations import bots

        await bots.create_bot(connection, name, bots.check_config(given, _providers()))
        if start:
            await bots.start_bot(connection, name)

    bot = _act(name, act)
    how = "created and started" if start else f"created; mediamill bots start {name} starts it"
    pair = f"; pair it: mediamill bots qr {name}" if whatsapp and start else ""
    print_json(bot) if json else say(f"{name} is {how}{pair}")
    if not json:
        _say_who_may_talk(bot)


def _say_who_may_talk(bot: dict[str, Any]) -> None:
    from mediamill.conversations.bots import is_open_to_all
    from mediamill.conversations.model import CHAT

    if is_open_to_all(bot):
        fix = f"mediamill bots set {bot['id']} access=paired"
        warn(f"anybody who knows its number or name may talk to it, at your cost; {fix} changes that")
    elif set(bot["config"]["providers"]) != {CHAT}:
        say(f"strangers get a code: mediamill bots pair {bot['id']} CODE lets them in", style="dim")


@app.command("list", epilog=examples("mediamill bots list"))
def list_bots(json: Json = False) -> None:
    """All bots and how they are."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.conversations.bots import list_bots

        async with opened.database.connection() as connection:
            return await list_bots(connection)

    bots = run(story)
    if json:
        print_json(bots)
        return
    columns = ("bot", "state", "~networks", "answers", ">conversations", ">media at work")
    rows = [
        [
            bot["id"],
            styled("running" if bot["running"] else "stopped"),
            networks(bot),
            bot["config"]["reply"]["by"],
            bot["conversations"],
            bot["processing"],
        ]
        for bot in bots
    ]
    print_table(columns, rows, "no bots; mediamill bots create makes one, and mediamill chat a demo")


def networks(bot: dict[str, Any]) -> str:
    """The chat networks of a bot, with what they say of themselves while it runs."""
    told = bot["status"] if bot["running"] else {}
    states = {name: told.get(name, {}).get("state") for name in bot["config"]["providers"]}
    return ", ".join(f"{name} ({state})" if state else name for name, state in states.items())


@app.command("show", epilog=examples("mediamill bots show demo", "mediamill bots show demo --json"))
def show(name: Name, json: Json = False) -> None:
    """One bot: its configuration and how it is."""

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.conversations.bots import show_bot

        async with opened.database.connection() as connection:
            return await show_bot(connection, name)

    bot = run(story)
    print_json(bot) if json else print_fields(_fields(bot))


def _fields(bot: dict[str, Any]) -> dict[str, Any]:
    reply, limits, access = (bot["config"][part] for part in ("reply", "limits", "access"))
    fields: dict[str, Any] = {
        "bot": bot["id"],
        "state": styled("running" if bot["running"] else "stopped"),
        "created": clock(bot["created_at"]),
        "conversations": bot["conversations"],
        "media at work": bot["processing"],
        "answers": reply["by"],
        "who may talk": "anybody" if access["mode"] == "open" else "whom you allow, or pair by a code",
        "in groups": {"mentioned": "when mentioned or replied to"}.get(access["groups"], access["groups"]),
        "limits a day": _day_limits(access),
        "model": reply["model"],
        "prompt": one_line(reply["prompt"], 200) or None,
        "limits": f"{limits['max_messages']} messages, {limits['max_characters']} characters in memory",
    }
    for name in bot["config"]["providers"]:
        fields[name] = _status(name, bot)
    return fields


def _day_limits(access: dict[str, Any]) -> str:
    names = ("messages_per_day", "media_seconds_per_day", "tokens_per_day")
    words = ("messages", "seconds of media", "tokens")
    shown = {None: "the server's number of", 0: "any number of"}
    return ", ".join(
        f"{shown.get(access[name], access[name])} {word}" for name, word in zip(names, words, strict=True)
    )


def _status(name: str, bot: dict[str, Any]) -> str:
    told: dict[str, Any] = bot["status"].get(name, {})
    status: dict[str, Any] = told if bot["running"] else {"state": "stopped"}
    me = (status.get("me") or {}).get("identifier")
    pairing = f"pair it: mediamill bots qr {bot['id']}" if status.get("qr") else None
    return "; ".join(str(part) for part in (status.get("state"), me, status.get("detail"), pairing) if part)


@app.command("start", epilog=examples("mediamill bots start demo"))
def start(name: Name, json: Json = False) -> None:
    """It runs from now on, wherever `mediamill up` runs, and after every start of that."""

    async def act(connection: Connection) -> None:
        from mediamill.conversations.bots import start_bot

        await start_bot(connection, name)

    bot = _act(name, act)
    print_json(bot) if json else say(f"{name} is started")


@app.command("stop", epilog=examples("mediamill bots stop demo"))
def stop(name: Name, json: Json = False) -> None:
    """It stops; media at work are finished, and wait for its return."""
    held = 0

    async def act(connection: Connection) -> None:
        from mediamill.conversations.bots import stop_bot

        nonlocal held
        held = await stop_bot(connection, name)

    bot = _act(name, act)
    waiting = f"; {plural(held, 'media message')} wait for its return" if held else ""
    print_json({**bot, "held": held}) if json else say(f"{name} is stopped{waiting}")


@app.command(
    "set",
    epilog=examples(
        "mediamill bots set demo reply=openai model=llama3",
        "mediamill bots set shop access=paired groups=never",
        "mediamill bots set shop messages_per_day=50 media_seconds_per_day=600 tokens_per_day=none",
        'mediamill bots set demo prompt="You are a patient librarian."',
        "mediamill bots set demo providers.whatsapp={} limits.max_messages=500",
    ),
)
def set_(
    name: Name,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE…",
            help="reply, prompt, model, access, groups, messages_per_day, media_seconds_per_day, tokens_per_day (0: no "
            "limit, none: the server's), providers.NAME={} (none takes it off), limits.….",
            show_default=False,
        ),
    ],
    json: Json = False,
) -> None:
    """Change the configuration; a bot that runs is restarted with it."""

    async def act(connection: Connection) -> None:
        from mediamill.conversations import bots

        before = (await bots.show_bot(connection, name))["config"]
        config = bots.check_config(change_config(before, settings), _providers())
        await bots.change_bot(connection, name, config)

    bot = _act(name, act)
    print_json(bot) if json else say(f"{name} is changed")


@app.command("delete", epilog=examples("mediamill bots delete demo --yes"))
def delete(name: Name, yes: Yes = False, json: Json = False) -> None:
    """Delete a stopped bot with all its conversations."""
    confirm(f"Delete the bot {name} with all its conversations?", yes)

    async def story(opened: App) -> None:
        from mediamill.conversations.bots import delete_bot

        async with opened.database.transaction() as connection:
            await delete_bot(connection, name)

    run(story)
    print_json({"id": name}) if json else say(f"{name} is deleted")


def _act(name: str, act: Callable[[Connection], Awaitable[None]]) -> dict[str, Any]:
    """Do it in one transaction; the bot as it is then."""

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.conversations.bots import show_bot

        async with opened.database.transaction() as connection:
            await act(connection)
            return await show_bot(connection, name)

    return run(story)


def _providers() -> list[str]:
    from mediamill.app import provider_names

    return provider_names()
