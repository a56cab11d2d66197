"""The WebSocket route of bridges. Its own secret opens it, on loopback too; refusals are said before it opens."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket
from starlette.responses import JSONResponse

from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.providers.whatsapp.provider import NAME, AnotherBridgeError, WhatsAppProvider
from mediamill.providers.whatsapp.secret import bridge_secret, is_right
from mediamill.settings import Settings

PATH = "/api/bridge/whatsapp/{bot_id}"
LONGEST_BRIDGE_ID = 200


def add_bridge_door(server: FastAPI, keeper: BotKeeper, settings: Settings) -> None:
    """Let bridges in to the bots that the keeper runs."""

    async def door(websocket: WebSocket, bot_id: str) -> None:
        refusal = _judge_secret(websocket, settings)
        if refusal is None:
            try:
                line = _find(keeper, bot_id).attach(websocket, _bridge_id_of(websocket))
            except BotNotRunningError as error:
                refusal = _refuse(404, error.code, error.message)
            except AnotherBridgeError as error:
                refusal = _refuse(409, error.code, error.message)
            else:
                await line
                return
        await websocket.send_denial_response(refusal)

    server.add_api_websocket_route(PATH, door)


def _find(keeper: BotKeeper, bot_id: str) -> WhatsAppProvider:
    provider = keeper.get(bot_id).providers.get(NAME)
    if not isinstance(provider, WhatsAppProvider):
        raise BotNotRunningError(f"the bot {bot_id} is not on WhatsApp")
    return provider


def _judge_secret(websocket: WebSocket, settings: Settings) -> JSONResponse | None:
    scheme, _, given = websocket.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        return _refuse(401, "unauthenticated", "this needs the bridge's secret")
    if not is_right(given.strip(), bridge_secret(settings)):
        return _refuse(403, "denied", "this is not the bridge's secret")
    return None


def _bridge_id_of(websocket: WebSocket) -> str:
    return websocket.headers.get("x-bridge-id", "")[:LONGEST_BRIDGE_ID]


def _refuse(status: int, code: str, detail: str) -> JSONResponse:
    return JSONResponse({"code": code, "detail": detail}, status)
