"""Who may talk to a bot, on its page: open or paired, groups, limits; approve, block, revoke, allow by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mediamill.conversations import bots, senders
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import CHAT
from mediamill.db.connection import Connection, Database
from mediamill.errors import InvalidError, MediamillError
from mediamill.settings import Settings
from mediamill.ui.forms import read_form

MODES = {
    "paired": "Only people I allow, or pair by a code",
    "open": "Anybody who knows its number or name",
}
GROUPS = {
    "mentioned": "When it is mentioned or replied to",
    "always": "Every message",
    "never": "Never",
}
LIMITS = {
    "messages_per_day": "Messages",
    "media_seconds_per_day": "Seconds of sound and video",
    "tokens_per_day": "Tokens of the model",
}
DECISIONS = ("allowed", "blocked", "unknown")

ShowFault = Callable[[str, MediamillError, dict[str, str]], Awaitable[Response]]


def add_bot_access(router: APIRouter, database: Database, keeper: BotKeeper, show_fault: ShowFault) -> None:
    """Their routes; `show_fault` draws the page again with a fault and what was typed."""
    forms = _AccessForms(database, keeper, show_fault)
    router.post("/bots/{bot_id}/access")(forms.change)
    router.post("/bots/{bot_id}/senders")(forms.decide)


async def read_access(connection: Connection, bot: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """What the page shows. None of it for a bot that is on the chat in the browser alone."""
    networks = [name for name in bot["config"]["providers"] if name != CHAT]
    return {
        "networks": networks,
        "is_open": bots.is_open_to_all(bot),
        "senders": await senders.list_senders(connection, bot["id"]) if networks else [],
        "modes": MODES,
        "groups": GROUPS,
        "limits": LIMITS,
        "usual": {name: getattr(settings, f"sender_{name}") for name in LIMITS},
    }


class _AccessForms:
    def __init__(self, database: Database, keeper: BotKeeper, show_fault: ShowFault) -> None:
        self._database, self._keeper, self._show_fault = database, keeper, show_fault

    async def change(self, bot_id: str, request: Request) -> Response:
        """Who may talk, when it answers in groups, and the limits; what the form does not name stays."""
        form = {name: values[0].strip() for name, values in (await read_form(request)).items()}

        async def act(connection: Connection) -> None:
            config = (await bots.show_bot(connection, bot_id))["config"]
            config["access"] |= _access_of(form)
            await bots.change_bot(connection, bot_id, bots.check_config(config, self._keeper.provider_names))

        return await self._do(bot_id, act, form)

    async def decide(self, bot_id: str, request: Request) -> Response:
        """Allow, block or forget somebody."""
        form = {name: values[0].strip() for name, values in (await read_form(request)).items()}

        async def act(connection: Connection) -> None:
            state, network = form.get("state", ""), form.get("network") or None
            if state not in DECISIONS:
                raise InvalidError(f"a sender is {', '.join(DECISIONS)}")
            if state == "unknown":
                await senders.forget_sender(connection, bot_id, network, form.get("sender", ""))
            else:
                await senders.decide_sender(connection, bot_id, network, form.get("sender", ""), state)

        return await self._do(bot_id, act, form)

    async def _do(
        self, bot_id: str, act: Callable[[Connection], Awaitable[None]], form: dict[str, str]
    ) -> Response:
        try:
            async with self._database.transaction() as connection:
                await act(connection)
        except InvalidError as error:
            return await self._show_fault(bot_id, error, form)
        return RedirectResponse(f"/bots/{bot_id}#access", 303)


def _access_of(form: dict[str, str]) -> dict[str, Any]:
    """An empty limit is the server's. What is no number is refused by name, with the rest."""
    given: dict[str, Any] = {name: form[name] for name in ("mode", "groups") if name in form}
    for name in LIMITS:
        if name in form:
            given[name] = int(form[name]) if form[name].isdecimal() else form[name] or None
    return given
