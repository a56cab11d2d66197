"""Search over HTTP: what is asked for reaches the search, words alone will do, and nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.errors import UnavailableError
from mediamill.processors.models.names import look_name, text_name
from mediamill.search.embedders import note_embedders
from mediamill.search.vectors import Subject, ensure_model, put_vector
from mediamill.settings import Settings
from tests.api.serving import Served
from tests.search.ground import Ground, pack

NUMBERS = 384


def towards(direction: int) -> list[float]:
    vector = [0.001] * NUMBERS
    vector[direction] = 1.0
    return vector


class Eyes:
    """Stands for the models: whatever is asked for points one way by meaning, and another by look."""

    def __init__(self, meaning: int, look: int, error: Exception | None = None) -> None:
        self._meaning, self._look, self._error = meaning, look, error

    async def text(self, query: str) -> str:
        """By meaning."""
        if self._error is not None:
            raise self._error
        return pack(towards(self._meaning))

    async def look(self, query: str) -> str:
        """By look."""
        if self._error is not None:
            raise self._error
        return pack(towards(self._look))


@pytest.fixture
async def ground(database: Database) -> Ground:
    """A library with a dog, a harbour, and a film in which a cat comes late."""
    ground = Ground(database)
    library = await ground.library("holiday")
    dog = await ground.asset(library, "a/dog.jpg", "a dog on a beach", tags=["dog", "sand"])
    harbour = await ground.asset(library, "b/harbour.jpg", "boats in a harbour")
    film = await ground.asset(library, "c/film.mp4", type="video")
    await ground.scene(film, 1, "an empty street")
    await ground.scene(film, 2, "a cat crosses the street")
    async with database.transaction() as connection:
        for name, asset, direction in ((text_name, dog, 1), (text_name, harbour, 2), (look_name, harbour, 3)):
            model = await ensure_model(connection, name(Settings()))
            await put_vector(
                connection, model, Subject(asset_id=asset, library=library), pack(towards(direction))
            )
    return ground


async def find(served: Served, status: int = 200, **params: Any) -> Any:
    answer = await served.client.get("/api/search", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


async def titles(served: Served, **params: Any) -> list[str]:
    return [hit["title"] for hit in (await find(served, **params))["hits"]]


@pytest.mark.spec("L12")
async def test_words_alone_find_and_it_is_said_that_they_were_alone(served: Served, ground: Ground) -> None:
    found = await find(served, q="dogs")
    (hit,) = found["hits"]
    assert (hit["title"], hit["place"], hit["type"], hit["why"]) == ("dog.jpg", "holiday", "image", ["words"])
    assert {piece["text"] for piece in hit["snippet"] if piece["marked"]} == {"dog"}
    assert found["ways"] == ["words"]
    assert found["meaning"] == found["look"] == "not available: this server has no models"


@pytest.mark.spec("L20")
async def test_without_pgvector_it_is_said_that_only_words_find(served: Served, ground: Ground) -> None:
    await ground.value("alter table search_vectors alter column v type real[]")
    served.app.state.query_vectors = Eyes(meaning=2, look=2)
    found = await find(served, q="dogs", mode="meaning")
    assert [(hit["title"], hit["why"]) for hit in found["hits"]] == [("dog.jpg", ["words"])]
    assert found["meaning"] == "not available: pgvector is not used yet"
    asset = found["hits"][0]["id"]
    refused = await find(served, 503, like=f"asset:{asset}")
    assert (refused["code"], refused["fix"]) == ("no_pgvector", "the next start of mediamill uses it")
    health = (await served.client.get("/api/health")).json()
    assert health["database"]["search"]["state"] == "next_start"


@pytest.mark.spec("L12")
async def test_the_best_scene_of_a_video_is_found_with_its_time(served: Served, ground: Ground) -> None:
    (hit,) = (await find(served, q="cat"))["hits"]
    best = hit["moments"][0]
    assert (hit["title"], best["of"], best["at_seconds"]) == ("film.mp4", "scene", 10.0)
    assert hit["url"] == f"/assets/{hit['id']}?t=10"


@pytest.mark.spec("L12")
async def test_meaning_and_look_find_what_has_none_of_the_words(served: Served, ground: Ground) -> None:
    served.app.state.query_vectors = Eyes(meaning=1, look=3)
    found = await find(served, q="puppy")
    assert {(hit["title"], *hit["why"]) for hit in found["hits"]} == {
        ("dog.jpg", "meaning"),
        ("harbour.jpg", "look"),
    }
    assert (found["meaning"], found["look"]) == ("used", "used")
    assert await titles(served, q="puppy", mode="meaning") == ["dog.jpg"]
    assert await titles(served, q="puppy", mode="look") == ["harbour.jpg"]
    only = await find(served, q="puppy", mode="words")
    assert (only["hits"], only["meaning"], only["look"]) == ([], "not asked for", "not asked for")


@pytest.mark.parametrize("error", [UnavailableError("the models are not there yet"), RuntimeError("broken")])
async def test_models_that_fail_leave_the_words(served: Served, ground: Ground, error: Exception) -> None:
    served.app.state.query_vectors = Eyes(1, 3, error)
    for mode in ("all", "meaning"):
        found = await find(served, q="dog", mode=mode)
        assert [hit["title"] for hit in found["hits"]] == ["dog.jpg"]
        expected = (
            "the models are not there yet" if isinstance(error, UnavailableError) else "the model failed"
        )
        assert found["meaning"] == f"not available: {expected}"
        assert "broken" not in str(found)


@pytest.mark.spec("L12")
async def test_the_search_is_narrowed_and_goes_on_page_by_page(served: Served, ground: Ground) -> None:
    assert await titles(served) == ["film.mp4", "harbour.jpg", "dog.jpg"], "the newest"
    assert await titles(served, type="image") == ["harbour.jpg", "dog.jpg"]
    assert await titles(served, type=["video", "audio"]) == ["film.mp4"]
    assert await titles(served, since="2024-05-03", until="2024-05-04T00:00:00Z") == ["harbour.jpg"]
    assert await titles(served, source="message") == []
    assert await titles(served, library="holiday", q="street") == ["film.mp4"]
    assert await titles(served, model="nobody") == []
    first = await find(served, amount=2)
    assert first["next"] == 2
    rest = await find(served, amount=2, after=first["next"])
    assert ([hit["title"] for hit in rest["hits"]], rest["next"]) == (["dog.jpg"], None)


@pytest.mark.spec("L12")
async def test_more_like_this(served: Served, ground: Ground) -> None:
    found = await find(served, like="asset:1")
    assert "dog.jpg" not in [hit["title"] for hit in found["hits"]]
    assert found["meaning"] == "not asked for"


@pytest.mark.spec("L14")
async def test_nothing_is_found_in_the_trash(served: Served, ground: Ground) -> None:
    await served.run("update libraries set deleted_at = now()")
    assert await titles(served, q="dog") == []
    assert (await find(served, 404, q="dog", library="holiday"))["code"] == "unknown_library"


@pytest.mark.parametrize(
    "params",
    [
        {"q": "x" * 501},
        {"type": "smell"},
        {"source": "elsewhere"},
        {"since": "yesterday"},
        {"like": "dog"},
        {"like": "asset:x"},
        {"mode": "magic"},
        {"amount": 0},
        {"amount": 201},
        {"after": -1},
        {"after": 1001},
    ],
)
async def test_nonsense_is_refused(served: Served, params: dict[str, Any]) -> None:
    assert (await find(served, 422, **params))["code"] in ("invalid", "bad_search")


@pytest.mark.parametrize(
    "q", ['"', "((", "a & | !", "\x01\x02", "😀", "or or or", "-", "'; drop table assets; --"]
)
async def test_whatever_is_typed_is_an_answer(served: Served, ground: Ground, q: str) -> None:
    await find(served, q=q)


class TwoEyes(Eyes):
    """The model of before points another way than the one of now."""

    def __init__(self) -> None:
        super().__init__(meaning=5, look=6)
        self.asked: list[str | None] = []

    async def text(self, query: str, model: str | None = None) -> str:
        self.asked.append(model)
        return pack(towards(1)) if model else await super().text(query)


@pytest.mark.spec("L11")
async def test_what_has_only_vectors_of_the_model_before_is_found_by_them(
    served: Served, ground: Ground
) -> None:
    now = Settings(embedding="openai", embedding_model="e-2")
    async with ground.database.transaction() as connection:
        await note_embedders(connection, now)
    served.app.state.query_vectors = eyes = TwoEyes()
    found = await find(served, q="puppy", mode="meaning")
    assert [(hit["title"], hit["why"]) for hit in found["hits"]] == [("dog.jpg", ["meaning"])]
    assert eyes.asked == [None, text_name(Settings()).name]
    assert await titles(served, q="puppy", mode="words") == []
    assert len(eyes.asked) == 2
