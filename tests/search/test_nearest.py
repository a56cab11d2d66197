"""Near enough: how near something must be to count, by model and by what it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mediamill.processors.models.names import look_name, text_name
from mediamill.search.entries import Entry, put_entries
from mediamill.search.model import QueryVector
from mediamill.search.nearest import OTHER_FLOORS, floor_of
from mediamill.search.vectors import Subject, ensure_model, put_vector
from mediamill.settings import Settings
from tests.search.ground import Ground, pack

BETWEEN = 0.38  # near enough for a text, not for the few words about a picture


def at(similarity: float) -> list[float]:
    """A vector that is so near to the first direction."""
    return [similarity, math.sqrt(1 - similarity**2), *[0.0] * 6]


def test_the_local_models_have_floors_of_their_own() -> None:
    text, look = text_name(Settings()).name, look_name(Settings()).name
    assert floor_of(text, "entry") < BETWEEN < floor_of(text, "asset") == floor_of(text, "scene")
    assert floor_of(look, "asset") > floor_of(text, "asset")
    assert floor_of("somebody@1", "entry") == OTHER_FLOORS[0]


@pytest.mark.spec("L12")
async def test_a_few_words_must_be_nearer_than_a_text(ground: Ground) -> None:
    model = replace(text_name(Settings()), dimensions=8)
    library = await ground.library()
    far, near = [await ground.asset(library, name) for name in ("far.jpg", "near.jpg")]
    async with ground.database.transaction() as connection:
        model_id = await ensure_model(connection, model)
        await put_entries(connection, "file", "letter", [Entry("letter")])
        entry = await connection.fetchval("select id from search_entries")
        for subject, similarity in (
            (Subject(asset_id=far, library=library), BETWEEN),
            (Subject(asset_id=near, library=library), 0.7),
            (Subject(entry_id=entry), BETWEEN),
        ):
            await put_vector(connection, model_id, subject, pack(at(similarity)))
    found = await ground.titles(meaning=QueryVector(model.name, at(1.0)))
    assert found == ["near.jpg", "letter"]
