"""The chat view of one conversation: read it, go back in it, say something, try again what failed.

One address for all of it, since a correspondent's id may be any text. `part=live` answers with what may have changed
since, `part=older` with what was said before; both are rows that the page's script puts in their place.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.conversations import bots
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import CHAT
from mediamill.conversations.retry import retry_message
from mediamill.conversations.say import say_text
from mediamill.conversations.watch import (
    UnknownConversationError,
    failed_replies,
    find_conversation,
    in_true_order,
    list_messages,
)
from mediamill.db.connection import Connection, Database
from mediamill.engine.rules import Engine
from mediamill.ui.bubbles import Bubble, make_bubbles
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer

COOKIE = "mediamill_chat"
COOKIE_SECONDS = 400 * 24 * 3600
PAGE_MESSAGES = 50
LIVE_MESSAGES = 100
MOST_OPEN = 30
MOST_FAILED = 5
_OWN = re.compile(r"guest-[0-9a-f]{8}")
MessageId = Annotated[int | None, Query(ge=0, le=2**62)]


def add_chat_pages(
    router: APIRouter, renderer: Renderer, database: Database, engine: Engine, keeper: BotKeeper
) -> None:
    """Their routes."""
    pages = _ChatPages(renderer, database, engine, keeper)
    router.get("/bots/{bot_id}/chat")(pages.own)
    router.get("/bots/{bot_id}/{provider}/{correspondent:path}")(pages.show)
    router.post("/bots/{bot_id}/{provider}/{correspondent:path}")(pages.post)


class _ChatPages:
    def __init__(self, renderer: Renderer, database: Database, engine: Engine, keeper: BotKeeper) -> None:
        self._renderer, self._database, self._engine, self._keeper = renderer, database, engine, keeper

    async def own(self, request: Request, bot_id: str) -> Response:
        """To the reader's own conversation; who that is, a cookie says from now on."""
        async with self._database.connection() as connection:
            await bots.show_bot(connection, bot_id)
        mine = request.cookies.get(COOKIE, "")
        if not _OWN.fullmatch(mine):
            mine = f"guest-{secrets.token_hex(4)}"
        answer = RedirectResponse(f"/bots/{bot_id}/{CHAT}/{mine}", 303)
        answer.set_cookie(COOKIE, mine, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", path="/bots")
        return answer

    async def show(
        self,
        bot_id: str,
        provider: str,
        correspondent: str,
        part: str | None = None,
        before: MessageId = None,
        after: MessageId = None,
        open: Annotated[list[int] | None, Query(max_length=MOST_OPEN)] = None,
    ) -> HTMLResponse:
        """The newest messages, or those before one; or the parts that a page which is open needs."""
        async with self._database.connection() as connection:
            talk = await _find_talk(connection, bot_id, provider, correspondent)
            if part == "live":
                found, too_much = await _changed_messages(connection, talk, after or 0, open or [])
                bubbles = await _make_bubbles(connection, talk, found)
                return self._renderer.page("bots/live.html", talk=talk, bubbles=bubbles, too_much=too_much)
            found = await list_messages(connection, *talk.keys, before=before, amount=PAGE_MESSAGES)
            bubbles = await _make_bubbles(connection, talk, found)
        return self._renderer.page(
            "bots/older.html" if part == "older" else "bots/chat.html",
            talk=talk,
            bubbles=bubbles,
            before=before,
            older_than=min(bubble.id for bubble in bubbles) if len(found) == PAGE_MESSAGES else None,
            message_id=secrets.token_hex(16),
        )

    async def post(self, request: Request, bot_id: str, provider: str, correspondent: str) -> Response:
        """Say something in the chat for trying out, or have another try at what failed."""
        form = await read_form(request)
        retry = form.get("retry", [""])[0]
        if retry.isdecimal() and len(retry) < 19:
            async with self._database.transaction() as connection:
                await retry_message(connection, self._engine, bot_id, provider, correspondent, int(retry))
        else:
            await self._say(bot_id, provider, correspondent, form)
        if "text/html" not in request.headers.get("accept", ""):
            return Response(status_code=204)
        return RedirectResponse(_address(bot_id, provider, correspondent), 303)

    async def _say(self, bot_id: str, provider: str, correspondent: str, form: dict[str, list[str]]) -> None:
        if provider != CHAT:
            raise UnknownConversationError(f"messages to {provider} are written there")
        text = form.get("text", [""])[0].replace("\r\n", "\n")
        message_id = form.get("message_id", [""])[0] or None
        await say_text(self._keeper, bot_id, correspondent, text, message_id=message_id)


class _Talk:
    """One conversation, as the templates want it."""

    def __init__(self, bot: dict[str, Any], provider: str, correspondent: str, row: dict[str, Any]) -> None:
        self.bot = bot
        self.keys = (bot["id"], provider, correspondent)
        self.provider, self.correspondent = provider, correspondent
        self.is_group: bool = row["is_group"]
        self.is_chat = provider == CHAT
        self.name: str = (row["display_name"] or "").strip() or correspondent
        self.address = _address(*self.keys)
        self.upload = f"/api/bots/{bot['id']}/chat/{quote(correspondent, safe='')}/media"
        status = bot["status"].get(provider) or {}
        self.state: str = str(status.get("state") or "starting") if bot["running"] else "stopped"


async def _find_talk(connection: Connection, bot_id: str, provider: str, correspondent: str) -> _Talk:
    """A chat for trying out may begin on its own page; any other conversation begins elsewhere."""
    bot = await bots.show_bot(connection, bot_id)
    try:
        row = await find_conversation(connection, bot_id, provider, correspondent)
    except UnknownConversationError:
        if provider != CHAT or CHAT not in bot["config"]["providers"]:
            raise
        row = {"is_group": False, "display_name": None}
    return _Talk(bot, provider, correspondent, row)


async def _changed_messages(
    connection: Connection, talk: _Talk, after: int, open_ids: list[int]
) -> tuple[list[dict[str, Any]], bool]:
    """What came after one message, and what may have changed up to it; is it too much?

    That is what was not done when it was last seen, and the newest of those whose answer failed meanwhile.
    """
    news = await list_messages(connection, *talk.keys, after=after, amount=LIVE_MESSAGES)
    by_id = {message["id"]: message for message in news}
    failed = [row["message_id"] for row in await failed_replies(connection, *talk.keys)]
    new_failures = [id_ for id_ in failed if id_ not in open_ids][:MOST_FAILED]
    for id_ in {after, *(each for each in [*open_ids, *new_failures] if 0 < each < after)}:
        # Each with the one before it: whose name and which day stands over it depends on that.
        for message in await list_messages(connection, *talk.keys, before=id_ + 1, amount=2):
            by_id[message["id"]] = message
    return in_true_order(by_id.values()), len(news) == LIVE_MESSAGES


async def _make_bubbles(connection: Connection, talk: _Talk, found: list[dict[str, Any]]) -> list[Bubble]:
    failed = await failed_replies(connection, *talk.keys)
    return make_bubbles(
        found,
        reader_is_correspondent=talk.is_chat,
        is_group=talk.is_group,
        failed_answers={row["message_id"]: row["error"] or "no reason is known" for row in failed},
    )


def _address(bot_id: str, provider: str, correspondent: str) -> str:
    return f"/bots/{bot_id}/{quote(provider, safe='')}/{quote(correspondent, safe='')}"
