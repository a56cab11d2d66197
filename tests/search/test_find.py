"""Searching: what is found, why, in which order, and what must never be."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from mediamill.search.entries import Entry, drop_entries, put_entries
from mediamill.search.find import search
from mediamill.search.model import BadSearchError, Like, Piece, QueryVector, UnknownPlaceError, Wanted
from tests.search.ground import MEANING, START, Ground, towards


@pytest.mark.spec("L12")
async def test_words_find_descriptions_tags_names_and_what_is_read(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "two dogs run along the beach")
    await ground.asset(library, "b.jpg", tags=["lighthouse"])
    await ground.asset(library, "2019/Grandma_Birthday-12.jpg")
    await ground.asset(library, "d.jpg", words="EXIT through the gift shop")
    assert await ground.titles("dog running") == ["a.jpg"]
    assert await ground.titles("lighthouses") == ["b.jpg"]
    assert await ground.titles("birthday") == ["Grandma_Birthday-12.jpg"]
    assert await ground.titles("gift") == ["d.jpg"]
    assert await ground.titles("submarine") == []


@pytest.mark.spec("L12")
async def test_quotes_or_and_not(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "a red car beside a dog")
    await ground.asset(library, "b.jpg", "a car with red dogs")
    await ground.asset(library, "c.jpg", "a tram")
    assert await ground.titles('"red car"') == ["a.jpg"]
    assert sorted(await ground.titles("tram or car")) == ["a.jpg", "b.jpg", "c.jpg"]
    assert await ground.titles('car -"red dogs"') == ["a.jpg"]
    assert await ground.titles("car -dogs") == []


async def test_words_that_english_leaves_out_are_found_in_names(ground: Ground) -> None:
    await ground.asset(await ground.library(), "The Who.jpg")
    assert await ground.titles("the who") == ["The Who.jpg"]


@pytest.mark.spec("L12")
async def test_meaning_and_look_find_without_a_common_word_and_nonsense_finds_nothing(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "puppy", meaning=towards(0), look=towards(3))
    await ground.asset(library, "b.jpg", "tram", meaning=towards(1), look=towards(4))
    hit = await ground.one("hound", meaning=towards(0))
    assert (hit.title, hit.why) == ("a.jpg", ("meaning",))
    assert await ground.titles(look=towards(4)) == ["b.jpg"]
    assert await ground.titles("hound", meaning=towards(6), look=towards(6)) == []


@pytest.mark.spec("L12")
async def test_what_several_ways_find_comes_first_and_says_why(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "words.jpg", "dog")
    await ground.asset(library, "all.jpg", "dog", meaning=towards(0), look=towards(0))
    await ground.asset(library, "look.jpg", "", look=towards(0, 0.3))
    found = await ground.find("dog", meaning=towards(0), look=towards(0))
    assert [hit.title for hit in found.hits] == ["all.jpg", "words.jpg", "look.jpg"]
    assert found.hits[0].why == ("words", "meaning", "look")
    assert found.ways == ("words", "meaning", "look")


@pytest.mark.spec("L12")
async def test_a_video_is_one_hit_with_its_best_moments(ground: Ground) -> None:
    library = await ground.library()
    film = await ground.asset(library, "film.mp4", "", type="video", tags=["dog", "tram"])
    await ground.scene(film, 1, "a tram in the rain")
    best = await ground.scene(film, 2, "a dog on the beach", meaning=towards(0))
    await ground.scene(film, 3, "a dog in a car", meaning=towards(0, 0.9))
    await ground.frame(film, 25_000, "the dog again")
    hit = await ground.one("dog", meaning=towards(0))
    assert (hit.of, hit.id, hit.type) == ("asset", film, "video")
    assert (hit.moments[0].id, hit.moments[0].at_seconds, hit.moments[0].end_seconds) == (best, 10.0, 20.0)
    assert hit.moments[0].file == "scene-00002.jpg"
    assert {moment.of for moment in hit.moments} == {"scene", "frame"}
    assert len(hit.moments) == 3
    assert hit.url == f"/assets/{film}?t=10"


@pytest.mark.spec("L12")
async def test_filters_by_library_type_time_model_and_source(ground: Ground) -> None:
    home, away = await ground.library("home"), await ground.library("away")
    tagger = await ground.value(
        "insert into ai_models (name, task, engine) values ('eye@1', 'vision', 'local') returning id"
    )
    await ground.asset(home, "1.jpg", "dog", meaning=towards(0))
    await ground.asset(away, "2.jpg", "dog", meaning=towards(0))
    await ground.asset(away, "3.mp4", "dog", type="video", tagger=tagger, meaning=towards(0))
    async with ground.database.transaction() as connection:
        await put_entries(
            connection, "message", "m", [Entry("4", "dog", facts={"type": "audio"}, happened_at=START)]
        )
    queries: list[dict[str, Any]] = [{"words": "dog"}, {"meaning": towards(0)}, {}]
    for query in queries:

        async def titles(query: dict[str, Any] = query, **filters: Any) -> set[str]:
            return set(await ground.titles(**query, **filters))

        everywhere = {"1.jpg", "2.jpg", "3.mp4"}
        assert await titles(sources=("library",)) == everywhere
        assert await titles(library="away") == {"2.jpg", "3.mp4"}
        assert await titles(types=("image",)) == {"1.jpg", "2.jpg"}
        assert await titles(types=("video",)) == {"3.mp4"}
        assert await titles(model="eye@1") == {"3.mp4"}
        assert await titles(model="nobody@1") == set()
        assert await titles(since=START + timedelta(days=2), sources=("library",)) == {"2.jpg", "3.mp4"}
        assert await titles(until=START + timedelta(days=2), sources=("library",)) == {"1.jpg"}
    assert await ground.titles("dog", sources=("message",)) == ["4"]
    assert await ground.titles("dog", types=("audio",)) == ["4"]
    with pytest.raises(UnknownPlaceError):
        await ground.find("dog", library="nowhere")


@pytest.mark.spec("L12", "L22")
async def test_a_day_is_a_day_wherever_a_photo_was_taken(ground: Ground) -> None:
    library = await ground.library()
    photo = await ground.asset(library, "night.jpg", "dog", meaning=towards(0), look=towards(0))
    film = await ground.asset(library, "night.mp4", "", type="video")
    await ground.scene(film, 1, "dog", meaning=towards(0), look=towards(0))
    for id_, hour in ((photo, 0.5), (film, 23.5)):
        local = datetime(2024, 6, 1) + timedelta(hours=hour)
        await ground.value("update assets set shown_at = $2 where id = $1 returning id", id_, local)
    east = timezone(timedelta(hours=2))
    june: dict[str, Any] = {
        "since": datetime(2024, 6, 1, tzinfo=east),
        "until": datetime(2024, 6, 2, tzinfo=east),
    }
    queries: list[dict[str, Any]] = [{"words": "dog"}, {"meaning": towards(0)}, {}]
    may: dict[str, Any] = {
        "since": datetime(2024, 5, 31, tzinfo=east),
        "until": datetime(2024, 6, 1, tzinfo=east),
    }
    for query in queries:
        assert set(await ground.titles(**query, **june)) == {"night.jpg", "night.mp4"}
        assert await ground.titles(**query, **may) == []
    hits = (await ground.find("dog")).hits
    assert {hit.happened_at for hit in hits} == {datetime(2024, 6, 1, 0, 30), datetime(2024, 6, 1, 23, 30)}


@pytest.mark.spec("L12", "L14")
async def test_what_vanished_or_is_in_the_trash_is_never_found(ground: Ground) -> None:
    kept, gone = await ground.library("kept"), await ground.library("gone", trash=True)
    there = await ground.asset(kept, "there.jpg", "dog", meaning=towards(0), look=towards(0))
    vanished = await ground.asset(kept, "vanished.jpg", "dog", meaning=towards(0), look=towards(0))
    await ground.value("update assets set vanished_at = now() where id = $1", vanished)
    hidden = await ground.asset(gone, "hidden.mp4", "dog", type="video", meaning=towards(0), look=towards(0))
    scene = await ground.scene(hidden, 1, "dog", meaning=towards(0), look=towards(0))
    assert await ground.titles("dog", meaning=towards(0), look=towards(0)) == ["there.jpg"]
    assert await ground.titles() == ["there.jpg"]
    assert await ground.titles(like=Like("asset", there)) == []
    assert await ground.titles(like=Like("scene", scene)) == []
    with pytest.raises(UnknownPlaceError):
        await ground.find("dog", library="gone")
    await ground.value("update libraries set deleted_at = null")
    assert set(await ground.titles("dog")) == {"there.jpg", "hidden.mp4"}


@pytest.mark.spec("L12")
async def test_more_like_this_leaves_out_the_thing_itself(ground: Ground) -> None:
    library = await ground.library()
    one = await ground.asset(library, "one.jpg", look=towards(0), meaning=towards(5))
    await ground.asset(library, "alike.jpg", look=towards(0, 0.2))
    await ground.asset(library, "other.jpg", look=towards(4))
    film = await ground.asset(library, "film.mp4", type="video")
    scene = await ground.scene(film, 1, "", look=towards(0, 0.5))
    assert await ground.titles(like=Like("asset", one)) == ["alike.jpg", "film.mp4"]
    assert set(await ground.titles(like=Like("scene", scene))) == {"alike.jpg", "one.jpg"}
    assert await ground.titles(like=Like("asset", 999)) == []


@pytest.mark.spec("L12")
async def test_more_like_a_video_is_what_is_like_its_moments(ground: Ground) -> None:
    library = await ground.library()
    film = await ground.asset(library, "film.mp4", type="video")
    for number, other in ((1, 0.3), (2, 0.1)):
        await ground.scene(film, number, "", look=towards(0, other))
    await ground.asset(library, "alike.jpg", look=towards(0))
    await ground.asset(library, "other.jpg", look=towards(4))
    assert await ground.titles(like=Like("asset", film)) == ["alike.jpg"]


@pytest.mark.spec("L12")
async def test_filters_alone_list_the_newest_page_by_page(ground: Ground) -> None:
    library = await ground.library()
    for number in range(5):
        await ground.asset(library, f"{number}.jpg")
    async with ground.database.transaction() as connection:
        late = START + timedelta(days=100)
        await put_entries(
            connection, "file", "f", [Entry("letter.pdf", "Dear", happened_at=late), Entry("letter.pdf")]
        )
    first = await ground.find(amount=3)
    assert [hit.title for hit in first.hits] == ["letter.pdf", "4.jpg", "3.jpg"]
    assert first.next == 3
    second = await ground.find(amount=3, after=3)
    assert [hit.title for hit in second.hits] == ["2.jpg", "1.jpg", "0.jpg"]
    assert second.next is None


async def test_pages_of_a_search_follow_each_other(ground: Ground) -> None:
    library = await ground.library()
    for number in range(25):
        await ground.asset(library, f"{number}.jpg", "dog")
    seen, after = [], 0
    while True:
        found = await ground.find("dog", amount=10, after=after)
        seen += [hit.title for hit in found.hits]
        if found.next is None:
            break
        after = found.next
    assert sorted(seen) == sorted(f"{number}.jpg" for number in range(25))


async def test_no_page_is_promised_that_would_be_refused(ground: Ground) -> None:
    library = await ground.library()
    await ground.value(
        """insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at)
        select $1, 1, n || '.jpg', 'image', 0, 1, n, now() from generate_series(1, 1300) n""",
        library,
    )
    seen, after = 0, 0
    while True:
        found = await ground.find(amount=90, after=after)
        seen += len(found.hits)
        if found.next is None:
            break
        after = found.next
    assert seen == 1080


@pytest.mark.spec("L12")
async def test_words_are_marked_in_the_snippet_and_strangers_cannot_mark(ground: Ground) -> None:
    await ground.asset(
        await ground.library(), "a.jpg", "a \x02big\x03 <b>dog</b> & <script>alert(1)</script>"
    )
    hit = await ground.one("dogs")
    assert Piece("dog", marked=True) in hit.snippet
    assert [piece.text for piece in hit.snippet if piece.marked] == ["dog"]
    assert "\x02" not in "".join(piece.text for piece in hit.snippet)


@pytest.mark.spec("L12")
async def test_entries_of_one_subject_are_one_hit_with_moments(ground: Ground) -> None:
    passages = [
        Entry("My film", "about the sea", facts={"type": "video"}, url="/videos/my-film"),
        Entry(
            "My film", "the dog barks", starts_at=31.0, facts={"type": "video"}, url="/videos/my-film?t=31"
        ),
    ]
    async with ground.database.transaction() as connection:
        await put_entries(connection, "video", "v1", passages)
    hit = await ground.one("barking dog")
    assert (hit.source, hit.type, hit.title, hit.url) == ("video", "video", "My film", "/videos/my-film?t=31")
    assert [moment.at_seconds for moment in hit.moments] == [31.0]
    assert len(await ground.titles("film")) == 1
    async with ground.database.transaction() as connection:
        await drop_entries(connection, "video", "v1")
    assert await ground.titles("film") == []


@pytest.mark.parametrize(
    "words",
    [
        "x" * 500,
        "!!! ??? ((( ))) *** :::",
        "\0\x01\x02 dog",
        "'; drop table assets; --",
        "dog & | ! <-> :* \\ ' \"",
        "\"unclosed 'quotes or -",
        "-dog",
        "or or or -or",
        "🐕 狗 كلب собака \u202edog\ud800",
        "a:b:c:d dog:A* <2>",
        "%s %(x)s {0} $1 :name",
        "\n\t ",
        " ".join(["dog"] * 32),
    ],
)
async def test_hostile_searches_have_an_answer(ground: Ground, words: str) -> None:
    await ground.asset(await ground.library(), "a.jpg", "dog", meaning=towards(0))
    found = await ground.find(words, meaning=towards(0))
    assert len(found.hits) == 1
    await ground.find(words)


async def test_what_cannot_be_asked_is_refused(ground: Ground) -> None:
    refused: list[dict[str, Any]] = [
        {"words": "x" * 501},
        {"words": "x " * 40},
        {"amount": 0},
        {"amount": 201},
        {"after": 1001},
        {"after": -1},
        {"types": ("sound",)},
        {"sources": ("web",)},
        {"since": START.replace(tzinfo=None)},
    ]
    for given in refused:
        with pytest.raises(BadSearchError):
            Wanted(**given)
    await ground.asset(await ground.library(), "a.jpg", meaning=towards(0))
    with pytest.raises(BadSearchError):
        await ground.find(meaning=QueryVector(MEANING.name, [1.0, 2.0]))
    assert await ground.titles(meaning=QueryVector("nobody@1", [1.0])) == []


async def test_a_search_leaves_no_settings_behind(ground: Ground) -> None:
    async with ground.database.transaction() as connection:
        await search(connection, Wanted(words="dog"))
        assert await connection.fetchval("show statement_timeout") == "0"
        assert await connection.fetchval("show enable_seqscan") == "on"
