"""The webhook: Telegram brings updates here. Its own secret opens the door; 200 is said when the update is kept."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.db.connection import LOST
from mediamill.providers.telegram.config import NAME
from mediamill.providers.telegram.parts import WEBHOOK_PATH
from mediamill.providers.telegram.provider import TelegramProvider
from mediamill.providers.telegram.secret import is_right

HEADER = "x-telegram-bot-api-secret-token"
BODY_BYTES = 1024**2


def add_webhook_door(server: FastAPI, keeper: BotKeeper) -> None:
    """Let Telegram in to the bots that the keeper runs."""

    async def door(request: Request, bot_id: str) -> JSONResponse:
        provider = _find(keeper, bot_id)
        given = request.headers.get(HEADER, "")
        if provider is None or not is_right(
            given, provider.webhook_secret
        ):  # one answer: who is here is nobody's business
            return _refuse(403, "denied", "no bot here has a webhook with this secret now")
        body = await _read(request)
        if body is None:
            return _refuse(413, "too_large", f"an update may have {BODY_BYTES} bytes")
        update = _parse(body)
        if update is None:
            return _refuse(422, "bad_update", "this is no update of Telegram")
        try:
            await provider.keep_update(update)
        except LOST:
            return _refuse(503, "database_down", "the database does not answer now")
        return JSONResponse({"ok": True})

    server.add_api_route(WEBHOOK_PATH, door, methods=["POST"], include_in_schema=False)


def _find(keeper: BotKeeper, bot_id: str) -> TelegramProvider | None:
    """None: there is no such bot, or it runs elsewhere, or polls."""
    try:
        provider = keeper.get(bot_id).providers.get(NAME)
    except BotNotRunningError:
        return None
    return provider if isinstance(provider, TelegramProvider) and provider.webhook_secret else None


async def _read(request: Request) -> bytes | None:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            return None
    return bytes(body)


def _parse(body: bytes) -> dict[str, Any] | None:
    try:
        update = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return update if isinstance(update, dict) and isinstance(update.get("update_id"), int) else None


def _refuse(status: int, code: str, detail: str) -> JSONResponse:
    return JSONResponse({"code": code, "detail": detail}, status)
