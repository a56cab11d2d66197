"""The pages of bots: all of them, one of them; create, start, stop and delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from pydantic import AwareDatetime
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.conversations import bots
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.watch import list_conversations
from mediamill.db.connection import Database
from mediamill.errors import MediamillError
from mediamill.settings import Settings
from mediamill.ui.bot_access import add_bot_access, read_access
from mediamill.ui.forms import read_form
from mediamill.ui.qr import qr_svg
from mediamill.ui.rendering import Renderer, status_of

CONVERSATIONS = 50
TELEGRAM = "telegram"
REPLIES = {
    "echo": "Echo: says what it was told",
    "openai": "A model (OpenAI-compatible)",
    "pi": "The pi agent",
    "none": "Nobody: it only listens",
}
BLANK: dict[str, Any] = {
    "name": "",
    "providers": ["chat"],
    "has_token": False,
    "reply": "echo",
    "model": "",
    "prompt": "",
    "open": False,
}


def add_bot_pages(
    router: APIRouter, renderer: Renderer, database: Database, keeper: BotKeeper, settings: Settings
) -> None:
    """Their routes."""
    pages = _BotPages(renderer, database, keeper, settings)
    add_bot_access(router, database, keeper, pages.show_fault)
    router.get("/bots")(pages.all)
    router.post("/bots")(pages.create)
    router.get("/bots/{bot_id}")(pages.one)
    router.post("/bots/{bot_id}/start")(pages.start)
    router.post("/bots/{bot_id}/stop")(pages.stop)
    router.post("/bots/{bot_id}/config")(pages.change)
    router.post("/bots/{bot_id}/delete")(pages.delete)


class _BotPages:
    def __init__(self, renderer: Renderer, database: Database, keeper: BotKeeper, settings: Settings) -> None:
        self._renderer, self._database, self._keeper, self._settings = renderer, database, keeper, settings

    async def all(self, part: str | None = None) -> HTMLResponse:
        """Every bot, and a form for a new one."""
        return await self._all("bots/list.html" if part else "bots/all.html", form=BLANK)

    async def create(self, request: Request) -> Response:
        """A new bot that runs, from the form; a fault is told above the form, with all that was typed still in it."""
        form = await read_form(request)
        given = {
            **BLANK,
            **_read_fields(form),
            "name": form.get("name", [""])[0].strip(),
            "open": "open" in form,
        }
        try:
            await self._create(given, _read_token(form))
        except MediamillError as error:
            return await self._all("bots/all.html", status_of(error), form=given, fault=_words_of(error))
        only_chat = given["providers"] == ["chat"]
        return RedirectResponse(f"/bots/{quote(given['name'])}{'/chat' if only_chat else ''}", 303)

    async def _create(self, given: dict[str, Any], token: str) -> None:
        access = {"mode": "open" if given["open"] else "paired"}
        config = self._config_of({"access": access}, given, token)
        async with self._database.transaction() as connection:
            await bots.create_bot(connection, given["name"], config)
            await bots.start_bot(connection, given["name"])

    async def change(self, bot_id: str, request: Request) -> Response:
        """Another configuration; what the form does not name stays, and so does a token that is not given."""
        form = await read_form(request)
        given = _read_fields(form)
        try:
            async with self._database.transaction() as connection:
                before = (await bots.show_bot(connection, bot_id))["config"]
                config = self._config_of(before, given, _read_token(form))
                await bots.change_bot(connection, bot_id, config)
        except MediamillError as error:
            return await self._one(
                "bots/one.html", bot_id, status_of(error), change=given, change_fault=_words_of(error)
            )
        return RedirectResponse(f"/bots/{bot_id}", 303)

    def _config_of(self, before: dict[str, Any], given: dict[str, Any], token: str) -> bots.BotConfig:
        """What a bot becomes by what was typed."""
        known = before.get("providers", {})
        providers = {name: dict(known.get(name, {})) for name in given["providers"]}
        if TELEGRAM in providers and token:
            providers[TELEGRAM]["token"] = token
        if TELEGRAM in providers and not (providers[TELEGRAM].get("token") or self._has_server_token):
            raise bots.BadBotError("Telegram needs the token of the bot", fix="@BotFather gives one")
        reply = {"by": given["reply"], "prompt": given["prompt"], "model": given["model"] or None}
        names = self._keeper.provider_names
        return bots.check_config({**before, "providers": providers, "reply": reply}, names)

    @property
    def _has_server_token(self) -> bool:
        return self._settings.telegram_token is not None

    async def one(
        self, bot_id: str, part: str | None = None, before: AwareDatetime | None = None
    ) -> HTMLResponse:
        """One bot: its chat networks with a code to pair, who may talk to it, and its conversations."""
        return await self._one("bots/state.html" if part else "bots/one.html", bot_id, before=before)

    async def show_fault(self, bot_id: str, error: MediamillError, form: dict[str, str]) -> Response:
        """The page again, with what is wrong with its form."""
        return await self._one("bots/one.html", bot_id, status_of(error), form=form, fault=_words_of(error))

    async def _one(
        self,
        template: str,
        bot_id: str,
        status_code: int = 200,
        *,
        before: AwareDatetime | None = None,
        form: dict[str, str] | None = None,
        fault: str | None = None,
        change: dict[str, Any] | None = None,
        change_fault: str | None = None,
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            bot = await bots.show_bot(connection, bot_id)
            talks = await list_conversations(connection, bot_id, before=before, amount=CONVERSATIONS)
            access = await read_access(connection, bot, self._settings)
        return self._renderer.page(
            template,
            status_code,
            bot=_with_providers(bot),
            access=access,
            talks=talks,
            before=before,
            has_more=len(talks) == CONVERSATIONS,
            replies=REPLIES,
            networks=self._keeper.provider_names,
            has_server_token=self._has_server_token,
            form=form or {},
            fault=fault,
            change={**_fields_of(bot["config"]), **(change or {})},
            change_fault=change_fault,
        )

    async def start(self, bot_id: str) -> Response:
        """It should run."""
        async with self._database.transaction() as connection:
            await bots.start_bot(connection, bot_id)
        return RedirectResponse(f"/bots/{bot_id}", 303)

    async def stop(self, bot_id: str) -> Response:
        """It should not run."""
        async with self._database.transaction() as connection:
            await bots.stop_bot(connection, bot_id)
        return RedirectResponse(f"/bots/{bot_id}", 303)

    async def delete(self, bot_id: str) -> Response:
        """With all its conversations."""
        async with self._database.transaction() as connection:
            await bots.delete_bot(connection, bot_id)
        return RedirectResponse("/bots", 303)

    async def _all(
        self, template: str, status_code: int = 200, *, form: dict[str, Any], fault: str | None = None
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            found = await bots.list_bots(connection)
        return self._renderer.page(
            template,
            status_code,
            bots=[_with_providers(bot) for bot in found],
            form=form,
            fault=fault,
            replies=REPLIES,
            networks=self._keeper.provider_names,
            has_server_token=self._has_server_token,
        )


def _read_fields(form: dict[str, list[str]]) -> dict[str, Any]:
    """What was typed, without the token: that is never shown."""
    return {
        "providers": form.get("provider", []),
        "reply": form.get("reply", ["none"])[0],
        "model": form.get("model", [""])[0].strip(),
        "prompt": form.get("prompt", [""])[0].strip(),
    }


def _read_token(form: dict[str, list[str]]) -> str:
    return form.get("token", [""])[0].strip()


def _fields_of(config: dict[str, Any]) -> dict[str, Any]:
    """A bot as the form shows it."""
    return {
        "providers": list(config["providers"]),
        "has_token": bool(config["providers"].get(TELEGRAM, {}).get("token")),
        "reply": config["reply"]["by"],
        "model": config["reply"]["model"] or "",
        "prompt": config["reply"]["prompt"],
    }


def _words_of(error: MediamillError) -> str:
    return f"{error.message}{f' ({error.fix})' if error.fix else ''}"


def _with_providers(bot: dict[str, Any]) -> dict[str, Any]:
    """A bot with what is to be shown of its chat networks."""
    shown = []
    for name in bot["config"]["providers"]:
        status = bot["status"].get(name) or {}
        state = status.get("state") or "starting"
        if not bot["running"] and state != "logged_out":
            state = "stopped"
        shown.append(
            {
                "name": name,
                "state": str(state),
                "detail": str(status.get("detail") or "") if state != "stopped" else "",
                "qr": qr_svg(str(status.get("qr") or "")) if state == "pairing" else "",
                "me": status.get("me") if state == "connected" else None,
            }
        )
    by = bot["config"]["reply"]["by"]
    return {**bot, "providers": shown, "by": by, "is_open": bots.is_open_to_all(bot)}
