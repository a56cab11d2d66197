"""`mediamill bots conversations`, `messages` and `retry`: who talks with a bot, what was said, and another try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import LARGEST_ID, Json, Limit, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, console, one_line, print_json, print_table, say, styled

if TYPE_CHECKING:
    from rich.text import Text

    from mediamill.app import App

LIST_EXAMPLES = examples("mediamill bots conversations demo", "mediamill bots conversations demo --limit 10")
MESSAGES_EXAMPLES = examples(
    "mediamill bots messages demo chat ann", "mediamill bots messages demo chat ann --before 120 --json"
)
RETRY_EXAMPLES = examples("mediamill bots retry demo chat ann 17")

Bot = Annotated[str, typer.Argument(metavar="NAME", help="The bot.", show_default=False)]
Provider = Annotated[str, typer.Argument(help="The chat network (chat, whatsapp).", show_default=False)]
Correspondent = Annotated[str, typer.Argument(help="Whose conversation.", show_default=False)]


def list_conversations(name: Bot, limit: Limit = 50, json: Json = False) -> None:
    """Who talks with a bot, the latest first."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.conversations.watch import list_conversations

        async with opened.database.connection() as connection:
            return await list_conversations(connection, name, amount=limit)

    found = run(story)
    if json:
        print_json(found)
        return
    columns = ("network", "correspondent", "~name", "", ">last", ">messages", ">media at work")
    rows = [
        [
            each["provider_name"],
            one_line(each["correspondent_id"], 60),
            one_line(each["display_name"], 40),
            "group" if each["is_group"] else "",
            ago(each["last_at"]),
            each["last_id"],
            each["processing"],
        ]
        for each in found
    ]
    print_table(columns, rows, f"nobody has talked with {name} yet")


def list_messages(
    name: Bot,
    provider: Provider,
    correspondent: Correspondent,
    before: Annotated[
        int | None, typer.Option(min=1, max=LARGEST_ID, help="Only messages before this id: to page back.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_ID, help="Only messages after this id.")
    ] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """What was said in a conversation, the newest last; media that are not done say how they are."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.conversations import watch

        keys = (name, provider, correspondent)
        async with opened.database.connection() as connection:
            await watch.find_conversation(connection, *keys)
            return await watch.list_messages(connection, *keys, before=before, after=after, amount=limit)

    messages = run(story)
    if json:
        print_json(messages)
        return
    for message in messages:
        console().print(_line(message), soft_wrap=True)
    if not messages:
        say("no messages there", style="dim")


def _line(message: dict[str, Any]) -> Text:
    from rich.text import Text

    who = message["sender"]["display_name"] or message["sender"]["identifier"]
    when = f"{message['accepted_time'].astimezone():%Y-%m-%d %H:%M}"
    colour = "cyan" if message["source"] == "bot" else "bold"
    line = Text.assemble(
        (f"{message['id']:>5}  {when}  ", "dim"), (f"{one_line(who, 30)}: ", colour), *media_words(message)
    )
    return line.append(one_line(message["content"], 2_000))


def media_words(message: dict[str, Any]) -> list[Text]:
    """What is to say of a message's media, before its text."""
    from rich.text import Text

    media = message["media"]
    if media is None:
        return []
    words = [Text(f"[{one_line(media['original_filename'] or media['mime_type'], 60)}] ", style="dim")]
    if media["state"] == "failed":
        words.append(Text(f"failed: {one_line(media['failed_reason'], 200)} ", style="red"))
    elif media["state"] != "done":
        percent = f" {media['percent']:.0f} %" if media["percent"] is not None else ""
        words += [styled(media["state"]), Text(f"{percent} ")]
    return words


def retry(
    name: Bot,
    provider: Provider,
    correspondent: Correspondent,
    message_id: Annotated[
        int, typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="The message's id.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Try again what failed: the media of a message, or the answer to it."""

    async def story(opened: App) -> str:
        from mediamill.conversations.retry import retry_message
        from mediamill.conversations.watch import find_conversation

        keys = (name, provider, correspondent)
        async with opened.database.transaction() as connection:
            await find_conversation(connection, *keys)
            return await retry_message(connection, opened.engine, *keys, message_id)

    retried = run(story)
    print_json({"id": message_id, "retried": retried}) if json else say(
        f"the {retried} of message {message_id} is tried again"
    )
