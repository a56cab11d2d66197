"""While another model embeds everything again, what has only old vectors is found by them."""

from __future__ import annotations

import pytest

from mediamill.processors.models.names import ModelName
from mediamill.search import embedders
from mediamill.search.embedders import note_embedders, older_models
from mediamill.search.model import QueryVector
from mediamill.search.vectors import Subject, ensure_model, put_vector
from mediamill.settings import Settings
from tests.search.ground import LOOK, MEANING, Ground, pack, towards

pytestmark = pytest.mark.spec("L11")

NEW = ModelName("text", "openai", "new@1", 4)


async def older(ground: Ground) -> list[tuple[str, str]]:
    async with ground.database.connection() as connection:
        return [(way, name) for way, name in await older_models(connection)]


async def use(ground: Ground, monkeypatch: pytest.MonkeyPatch, text: ModelName) -> None:
    monkeypatch.setattr(embedders, "text_name", lambda _: text)
    monkeypatch.setattr(embedders, "look_name", lambda _: LOOK)
    async with ground.database.transaction() as connection:
        await note_embedders(connection, Settings())


async def test_old_and_new_vectors_find_together_and_each_thing_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = await ground.library()
    await ground.asset(library, "old.jpg", meaning=towards(0))
    new = await ground.asset(library, "new.jpg")
    both = await ground.asset(library, "both.jpg", meaning=towards(0, 0.1))
    await use(ground, monkeypatch, MEANING)
    assert await older(ground) == []
    await use(ground, monkeypatch, NEW)
    assert await older(ground) == [("meaning", MEANING.name)]
    async with ground.database.transaction() as connection:
        model = await ensure_model(connection, NEW)
        for asset in (new, both):
            subject = Subject(asset_id=asset, library=library)
            await put_vector(connection, model, subject, pack([1.0, 0.0, 0.0, 0.0]))
    asked = QueryVector(NEW.name, [1.0, 0.0, 0.0, 0.0])
    before = ("meaning", QueryVector(MEANING.name, towards(0)))
    assert sorted(await ground.titles("hound", meaning=asked)) == ["both.jpg", "new.jpg"]
    found = await ground.find("hound", meaning=asked, older=(before,))
    assert sorted(hit.title for hit in found.hits) == ["both.jpg", "new.jpg", "old.jpg"]
    assert {hit.why for hit in found.hits} == {("meaning",)}
    assert found.ways == ("words", "meaning")


async def test_a_model_whose_vectors_are_gone_is_not_asked(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.asset(await ground.library(), "old.jpg", meaning=towards(0))
    await use(ground, monkeypatch, NEW)
    await ground.value("delete from search_vectors")
    assert await older(ground) == []
