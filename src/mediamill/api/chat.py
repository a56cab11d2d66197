"""The chat for trying out: texts and files to a bot. Its answers are read from the conversation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from mediamill.api.deps import Wired
from mediamill.conversations.say import say_media, say_text

router = APIRouter(prefix="/api/bots/{bot_id}/chat/{correspondent}", tags=["chat"])

Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
MessageId = Annotated[str | None, Query(max_length=200)]
Name = Annotated[str | None, Query(max_length=200)]


class TextIn(BaseModel):
    """Something said. `message_id`: the same again is taken once."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=200_000)
    message_id: str | None = Field(default=None, max_length=200)
    display_name: str | None = Field(default=None, max_length=200)


@router.post("/messages", status_code=201)
async def say(deps: Wired, bot_id: str, correspondent: str, said: TextIn, key: Key = None) -> dict[str, Any]:
    """A text; it is kept when this answers."""
    done = await say_text(
        deps.keeper,
        bot_id,
        correspondent,
        said.text,
        message_id=said.message_id or key,
        display_name=said.display_name,
    )
    return {"id": done.id, "provider_message_id": done.provider_message_id, "repeated": done.repeated}


@router.post(
    "/media",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def send_file(
    request: Request,
    deps: Wired,
    bot_id: str,
    correspondent: str,
    caption: Annotated[str, Query(max_length=10_000)] = "",
    filename: Annotated[str | None, Query(max_length=1_000)] = None,
    message_id: MessageId = None,
    display_name: Name = None,
    key: Key = None,
) -> dict[str, Any]:
    """A file: its bytes are the body, streamed to disk; Content-Type, which may be any, is the claimed type."""
    length = request.headers.get("content-length", "")
    done = await say_media(
        deps.keeper,
        bot_id,
        correspondent,
        request.stream(),
        mime_type=request.headers.get("content-type", ""),
        caption=caption,
        filename=filename,
        message_id=message_id or key,
        display_name=display_name,
        announced_bytes=int(length) if length.isdecimal() else None,
    )
    return {
        "id": done.id,
        "guid": done.guid,
        "provider_message_id": done.provider_message_id,
        "repeated": done.repeated,
    }
