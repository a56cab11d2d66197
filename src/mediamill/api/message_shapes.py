"""What messages and runs look like over HTTP, for the OpenAPI document and its readers."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from mediamill.inputs.model import (
    DELIVERY_MODES,
    FILENAME_CHARACTERS,
    KEY_CHARACTERS,
    MAX_IMAGES,
    MIME_TYPES,
    TEXT_CHARACTERS,
    THREAD_KEY_CHARACTERS,
    DeliveryMode,
    RunState,
)


class Links(BaseModel):
    """Where to go on."""

    run: str
    events: str


class AcceptedMessageOut(BaseModel):
    """A message that is kept."""

    run_id: UUID
    thread_key: str
    delivery_mode: DeliveryMode
    state: RunState
    repeated: bool = Field(description="It was sent before, with the same idempotency key.")
    image_count: int
    links: Links


class RunOut(BaseModel):
    """One text for the agent, and what came of it so far."""

    run_id: UUID
    source: str
    thread_key: str
    user_key: str | None
    delivery_mode: DeliveryMode
    text: str
    state: RunState
    answer: str = Field(description="Grows while the run is running.")
    error_code: str | None
    error: str | None
    tries: int
    image_count: int
    image_bytes: int
    images_waiting: int = Field(description="Not yet taken by the agent.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class RunsOut(BaseModel):
    """Runs of a thread, newest first."""

    runs: list[RunOut]
    next: int | None = Field(description="The `before` of the next page.")


IMAGE: dict[str, Any] = {
    "title": "MessageImageIn",
    "type": "object",
    "required": ["mime_type", "data_base64"],
    "additionalProperties": False,
    "properties": {
        "mime_type": {"type": "string", "enum": list(MIME_TYPES)},
        "data_base64": {
            "type": "string",
            "minLength": 4,
            "contentEncoding": "base64",
            "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            "description": "The bytes of the image in base64 with padding; no line breaks, no data: prefix.",
        },
        "filename": {"type": ["string", "null"], "maxLength": FILENAME_CHARACTERS},
    },
}
TEXTS: dict[str, Any] = {
    "thread_key": {
        "type": "string",
        "minLength": 1,
        "maxLength": THREAD_KEY_CHARACTERS,
        "description": "Names the conversation. Its messages are answered in order.",
    },
    "text": {"type": "string", "minLength": 1, "maxLength": TEXT_CHARACTERS, "pattern": r"\S"},
    "delivery_mode": {
        "type": "string",
        "enum": list(DELIVERY_MODES),
        "default": "prompt",
        "description": "`prompt` and `follow_up` wait for their turn; `steer` is said into the run that goes on.",
    },
}
KEY: dict[str, Any] = {"minLength": 1, "maxLength": KEY_CHARACTERS}
MESSAGE: dict[str, Any] = {
    "title": "MessageIn",
    "type": "object",
    "required": ["thread_key", "text"],
    "additionalProperties": False,
    "properties": {
        **TEXTS,
        "idempotency_key": {"type": ["string", "null"], **KEY},
        "images": {
            "type": ["array", "null"],
            "maxItems": MAX_IMAGES,
            "items": {"$ref": "#/components/schemas/MessageImageIn"},
        },
    },
}
FORM: dict[str, Any] = {
    "type": "object",
    "required": ["thread_key", "text"],
    "additionalProperties": False,
    "properties": {
        **TEXTS,
        "idempotency_key": {"type": "string", **KEY},
        "images": {
            "type": "array",
            "maxItems": MAX_IMAGES,
            "items": {"type": "string", "format": "binary"},
            "description": "Files, in order. One of application/octet-stream is what its bytes are.",
        },
    },
}
# Named in the document: generators of clients make no good types of what has no name.
SCHEMAS = {schema["title"]: schema for schema in (IMAGE, MESSAGE)}
PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "description": "At most 78,643,200 bytes; the images, decoded, at most 50 MiB. Read as it arrives.",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/MessageIn"},
            "examples": {
                "text": {"value": {"thread_key": "holiday", "text": "Where shall we go?"}},
                "image": {
                    "summary": "a text with an image",
                    "value": {
                        "thread_key": "holiday",
                        "text": "What is on it?",
                        "idempotency_key": "b1946ac9",
                        "images": [{"mime_type": "image/gif", "data_base64": PIXEL, "filename": "dot.gif"}],
                    },
                },
            },
        },
        "multipart/form-data": {
            # Generators of clients for TypeScript use the type of the first body and import that of the second,
            # without making it, if it has fields.
            "schema": {
                "type": "object",
                "additionalProperties": True,
                "description": "The fields of the JSON body; `images` are files, in order, of at most 10.",
            },
            "x-fields": FORM,
        },
    },
}
