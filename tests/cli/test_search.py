"""`mediamill search`: a table of what was found, where, when and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mediamill.cli.search import read_day, snippet_text
from mediamill.db.connection import Database
from mediamill.errors import InvalidError, UnavailableError
from mediamill.staging.file_names import to_text
from tests.api.serving import serve
from tests.cli.conftest import Mediamill
from tests.search.ground import Ground


@pytest.fixture
async def ground(database: Database) -> Ground:
    """A library with a dog, and a film in which a cat comes late."""
    ground = Ground(database)
    library = await ground.library("holiday")
    await ground.asset(library, "a/dog.jpg", "a dog on a beach", tags=["dog", "sand"])
    film = await ground.asset(library, to_text(b"c/fil\xe9\x1bm.mp4"), type="video")
    await ground.scene(film, 1, "an empty street")
    await ground.scene(film, 7, "a cat crosses the street")
    return ground


@pytest.mark.spec("L12", "L17")
async def test_what_is_found_is_a_table(mediamill: Mediamill, ground: Ground) -> None:
    found = (await mediamill("search", "dog", "--mode", "words")).out
    assert all(
        word in found for word in ("asset:1", "holiday", "a/dog.jpg", "2024-05-02", "words", "dog on a beach")
    )
    scene = (await mediamill("search", "cat", "--mode", "words")).out
    assert all(word in scene for word in ("1:00", "c/fil\ufffd\\x1bm.mp4", "cat crosses the street"))
    assert "\x1b" not in scene
    nothing = await mediamill("search", "zebra", "--mode", "words")
    assert "nothing is found" in nothing.out


@pytest.mark.spec("L12", "L17")
async def test_models_take_part_where_they_are_and_are_missed_where_not(
    mediamill: Mediamill, ground: Ground
) -> None:
    told = (await mediamill("search", "dog", "--json")).json
    assert [hit["title"] for hit in told["hits"]] == ["dog.jpg"]
    for way in ("meaning", "look"):
        assert told[way] == "used" or told[way].startswith("not available: "), told[way]


@pytest.mark.spec("L12", "L17")
async def test_the_search_is_narrowed(mediamill: Mediamill, ground: Ground) -> None:
    for words, count in (
        ((), 2),
        (("--type", "image"), 1),
        (("--type", "image", "--type", "video"), 2),
        (("--since", "2024-05-03"), 1),
        (("--until", "2024-05-02"), 1),
        (("--library", "holiday", "--amount", "1"), 1),
        (("--model", "nobody"), 0),
        (("--like", "asset:1"), 0),
        (("--after", "1"), 1),
    ):
        told = (await mediamill("search", *words, "--json")).json
        assert len(told["hits"]) == count, words
        assert told["meaning"] == "not asked for"
    more = await mediamill("search", "--amount", "1")
    assert "add --after 1" in more.err


class Eyes:
    """Stands for the models of a server."""

    asked = 0

    async def text(self, query: str) -> str:
        """By meaning."""
        self.asked += 1
        raise UnavailableError("only a test")

    look = text


@pytest.mark.spec("L12", "L17")
async def test_a_server_that_runs_is_asked_and_its_models_are_not_loaded_twice(
    mediamill: Mediamill, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(ground.database, tmp_path / "data") as served:
        monkeypatch.setenv("MEDIAMILL_PORT", served.url.rpartition(":")[2])
        served.app.state.query_vectors = eyes = Eyes()
        told = (await mediamill("search", "dog", "--type", "image", "--since", "2024-05-01", "--json")).json
        assert [hit["title"] for hit in told["hits"]] == ["dog.jpg"]
        assert (eyes.asked, told["meaning"]) == (2, "not available: only a test")
        shown = await mediamill("search", "cat")
        assert ("1:00" in shown.out, "by meaning: not available: only a test" in shown.err) == (True, True)
        unknown = await mediamill("search", "dog", "--library", "nothing")
        assert (unknown.code, "there is no library 'nothing'" in unknown.err) == (1, True)
        asked = eyes.asked
        monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path / "others"))  # what another mill has is not ours
        assert (await mediamill("search", "dog", "--mode", "look")).code == 0
        assert eyes.asked == asked


async def test_what_cannot_be_searched_for_is_said(mediamill: Mediamill, ground: Ground) -> None:
    for words, said in (
        (("dog", "--mode", "words", "--library", "nothing"), "there is no library 'nothing'"),
        (("--like", "dog"), "asset:12"),
        (("dog", "--since", "yesterday"), "write it like 2024-05-31"),
    ):
        answer = await mediamill("search", *words)
        assert (answer.code, said in answer.err) == (1, True), answer.err


def test_what_was_searched_for_is_bold_and_nothing_steers_the_terminal() -> None:
    said = (("a \x1b[31m", False), ("dog", True), ("\non a beach", False))
    text = snippet_text([{"text": words, "marked": marked} for words, marked in said])
    assert text.plain == "a \ufffd[31mdog on a beach"
    assert [(span.start, span.end, span.style) for span in text.spans if span.style] == [(7, 10, "bold")]


def test_days_are_whole_and_times_are_times() -> None:
    assert read_day(None) is None
    day, over = read_day("2024-05-31"), read_day("2024-05-31", end=True)
    assert day is not None
    assert over == day + timedelta(days=1)
    assert day.tzinfo is not None
    noon = datetime(2024, 5, 31, 12, tzinfo=UTC)
    assert read_day("2024-05-31T12:00:00Z", end=True) == noon
    for wrong in ("yesterday", "2024-13-01", "", "9999-12-31"):
        with pytest.raises(InvalidError):
            read_day(wrong, end=True)
