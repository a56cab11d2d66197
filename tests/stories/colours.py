"""A server whose model names the colours of the images that it is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from mediamill.testing.openai_server import OpenAiServer, images_in
from tests.crash.processes import Mill
from tests.ports import free_port

COLOURS = ("red", "lime", "blue")


@pytest.fixture
def model() -> Iterator[OpenAiServer]:
    """Answers with the colours of the images that it was shown last."""

    def say(messages: list[Any]) -> str:
        shown = images_in(messages[-1]["content"])
        return "I see " + (", ".join(map(colour_of, shown)) or "nothing") + "."

    with OpenAiServer(say=say) as opened:
        yield opened


@pytest.fixture
async def mill(new_url: str, tmp_path: Path, model: OpenAiServer) -> AsyncIterator[Mill]:
    """A data folder and a port of its own."""
    settings = {
        "MEDIAMILL_PORT": str(free_port()),
        "MEDIAMILL_OPENAI_URL": f"{model.url}/v1",
        "MEDIAMILL_TEXT_MODEL": "m",
        "MEDIAMILL_WORKER_PROCESSES": "0",
    }
    mill = Mill(tmp_path, new_url, settings=settings)
    yield mill
    mill.close()


def colour_of(image: bytes) -> str:
    """By its name."""
    red, green, blue = Picture.open(BytesIO(image)).convert("RGB").getpixel((0, 0))  # type: ignore[misc]
    return COLOURS[[red, green, blue].index(max(red, green, blue))]


def paint(colour: str, kind: str = "PNG") -> bytes:
    file = BytesIO()
    Picture.new("RGB", (64, 64), colour).save(file, kind)
    return file.getvalue()


def address(mill: Mill) -> str:
    return f"http://127.0.0.1:{mill.settings['MEDIAMILL_PORT']}"
