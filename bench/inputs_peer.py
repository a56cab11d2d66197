"""The usual way to take images in JSON: FastAPI with pydantic. It keeps them in files and in no database.

python -m bench.inputs_peer PORT FOLDER
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import Base64Bytes, BaseModel

FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()


class ImageIn(BaseModel):
    """One image."""

    mime_type: str
    data_base64: Base64Bytes
    filename: str | None = None


class MessageIn(BaseModel):
    """A text with images."""

    thread_key: str
    text: str
    images: list[ImageIn] = []


app = FastAPI()


@app.post("/v1/messages", status_code=202)
async def send_message(message: MessageIn) -> dict[str, list[str]]:
    """Each image to a file."""
    for image in message.images:
        (FOLDER / uuid.uuid4().hex).write_bytes(image.data_base64)
    return {"sha256": [hashlib.sha256(image.data_base64).hexdigest() for image in message.images]}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
