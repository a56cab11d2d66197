"""Things to be found on the search page, and a stand-in for the models that find them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from mediamill.processors.models.names import ModelName, look_name, text_name
from mediamill.search.entries import Entry, put_entries
from mediamill.search.vectors import Subject, ensure_model, put_vector
from tests.api.serving import Served

TITLE = "A talk <script>window.hurt=1</script> on <i>boats</i>"
HOSTILE = "the <b>boat</b> & <img src=x onerror=window.hurt=1> of a stranger"


class Seer:
    """Stands in for a model: whatever is searched for points the same way."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions

    async def text(self, query: str) -> str:
        return arrow(self.dimensions, 0)

    async def look(self, query: str) -> str:
        return arrow(self.dimensions, 1)


def arrow(dimensions: int, way: int, blur: float = 0.0) -> str:
    """A vector that points one way, more or less, as models give it."""
    vector = np.zeros(dimensions, "<f2")
    vector[way], vector[way + 2] = 1 - blur, blur
    return base64.b64encode(vector.tobytes()).decode()


async def teach(served: Served, made: dict[str, Any]) -> None:
    """The second scene of the film means what is searched for; some pictures look like it and like each other."""
    settings = served.app.state.deps.settings
    text, look = text_name(settings), look_name(settings)
    assert text.dimensions is not None
    async with served.database.transaction() as connection:
        scene = await connection.fetchval("select id from video_scenes where number = 2")
        await _see(
            connection, text, Subject(asset_id=made["film"], scene_id=scene, library=made["number"]), 0, 0.1
        )
        for index, path in enumerate([path for path in made["ids"] if path.startswith("2024/")][:6]):
            subject = Subject(asset_id=made["ids"][path], library=made["number"])
            await _see(connection, look, subject, 1, 0.05 * index)
    served.app.state.query_vectors = Seer(text.dimensions)


async def _see(connection: Any, model: ModelName, subject: Subject, way: int, blur: float) -> None:
    number = await ensure_model(connection, model)
    await put_vector(connection, number, subject, arrow(model.dimensions or 384, way, blur))


async def tell(served: Served) -> None:
    """Something that is found by what is said in it, with a hostile text."""
    async with served.database.transaction() as connection:
        entry = Entry(TITLE, HOSTILE, 12.5, None, "/videos/a-talk?t=12.5", {"type": "video"})
        await put_entries(connection, "video", "00000000-0000-4000-8000-000000000001", [entry])
        bad = Entry("Bad boat link", "boat", None, None, "javascript:window.hurt=1", {"type": "document"})
        await put_entries(connection, "file", "bad", [bad])
