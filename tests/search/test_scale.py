"""Where there is much: words step by step, indexes of vectors. Nothing hidden comes out, or is in the way."""

from __future__ import annotations

import pytest

from mediamill.search import nearest
from mediamill.search.find import search
from mediamill.search.indexes import ensure_indexes
from mediamill.search.model import QueryVector, Wanted
from mediamill.search.nearest import nearest_of
from mediamill.search.words import BLOCK, LIBRARY, MANY, MANY_OF_WORD, MODEL, SORT, SORTS, Widening, key
from tests.search.ground import MEANING, Ground, towards

TWO, PHRASE = "'a' & 'b'", "'a' <-> 'b'"
ROWS = 140_000
HIDDEN = 3_000


@pytest.fixture
async def crowd(ground: Ground) -> Ground:
    """Every row has `dog`; the oldest library has the first thousand; one row has `needle`."""
    old, new = await ground.library("old"), await ground.library("new")
    await ground.value(
        """insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, search_vector)
        select case when n <= 1000 then $1::int else $2::int end, 1, n::text, 'image', 0, 1, n, now(), 'completed',
            case when n = 70000 then 'dog:1 needl:2'::tsvector else 'dog:1'::tsvector end
        from generate_series(1, $3::int) n""",
        old,
        new,
        ROWS,
    )
    await ground.value("analyze assets")
    return ground


async def test_rare_and_common_words_are_found_among_many_rows(crowd: Ground) -> None:
    assert await crowd.titles("needle") == ["70000"]
    assert await crowd.titles("dog needle") == ["70000"]
    assert await crowd.titles("needle -dog") == []
    assert len(set(await crowd.titles("dog", amount=200))) == 200
    oldest = [int(title) for title in await crowd.titles("dog", library="old", amount=200)]
    assert len(oldest) == 200
    assert max(oldest) <= 1000
    await crowd.value("update libraries set deleted_at = now() where slug = 'new'")
    assert max(int(title) for title in await crowd.titles("dog", amount=200)) <= 1000
    assert await crowd.titles("needle") == []


async def test_of_a_word_that_nearly_all_have_only_what_was_scanned_last_is_ranked(crowd: Ground) -> None:
    """What is true, not what is wanted. Ranking every row that has such a word takes too long, so the rows with the
    highest ids are ranked, and those are of the folders that a scan came to last, whenever their photos were taken.
    Wanted: of rows that fit equally well, the photos that were taken last. That needs an order of ids, or an index,
    that follows the time of the capture; when there is one, this test is to be turned around.
    """
    await crowd.value(
        "update assets set shown_at = now() - id * interval '1 minute'"
    )  # the last are the oldest
    ranked = [int(title) for title in await crowd.titles("dog", amount=200)]
    assert min(ranked) > ROWS - 2 * (1 << 14)


async def test_keys_are_those_that_the_index_has(ground: Ground) -> None:
    keys = set(await ground.value("select search_keys(50000, 7, 'image', 3)"))
    assert {key(BLOCK, 50_000 >> 14), key(LIBRARY, 7), key(MODEL, 3), key(SORT, SORTS["image"])} <= keys


def walk(expected: int, found: list[int], query: str = "'a'") -> list[int]:
    """How many blocks are asked, step by step, in ten million rows; 611: all of them."""
    wider = Widening(10_000_000, expected, query)
    asked: list[int] = []
    for so_far in [0, *found]:
        if asked:
            wider.widen(so_far)
        if wider.is_over(so_far):
            break
        keys = wider.keys()
        asked.append(611 if keys is None else len(set(keys)))
    return asked


def test_few_rows_are_read_at_once() -> None:
    assert walk(0, [0]) == walk(MANY_OF_WORD, [0]) == [611]
    assert walk(MANY, [0], TWO) == walk(MANY, [0], PHRASE) == [611]
    assert Widening(10_000_000, MANY, TWO).most > Widening(10_000_000, MANY + 1, TWO).most


def test_of_many_rows_the_newest_are_asked_first_then_more_and_more_blocks() -> None:
    assert walk(5_000_000, [500]) == [2], "a common word"
    assert walk(30_000, [90, 500]) == walk(30_000, [90, 500], TWO) == [2, 9], "a word, two words"
    assert walk(30_000, [1, 20, 50], PHRASE) == [2, 9, 27], "a phrase: by what was found"
    assert walk(30_000, [0, 0, 0]) == [2, 9, 611], "nothing so far"
    assert Widening(10_000_000, 30_000, TWO).keys() == [key(BLOCK, 610), key(BLOCK, 609)]


def test_a_phrase_of_very_common_words_is_given_up_at_some_time() -> None:
    assert walk(1_000_000, [0, 0, 0], PHRASE) == [2, 4, 32]
    assert walk(1_000_000, [0, 0, 0]) == [2, 4, 32, 611], "words are somewhere, if not there"


@pytest.fixture
async def barking(crowd: Ground) -> Ground:
    """One row in ten has `dog` and `bark`; in one of them they follow each other."""
    await crowd.value(
        "update assets set search_vector = 'dog:1 bark:3 cat:4' where id % 10 = 0 and id <> 9990"
    )
    await crowd.value("update assets set search_vector = 'dog:1 bark:2' where id = 9990")
    await crowd.value("vacuum analyze assets")
    return crowd


async def test_a_phrase_is_found_by_which_words_follow_each_other_however_long_it_takes(
    barking: Ground,
) -> None:
    assert await barking.titles('"dog barks"') == ["9990"]
    assert await barking.titles('dog "dog barks" -cat') == ["9990"]
    assert await barking.titles('"barks dog"') == []
    assert len(await barking.titles('"dog the barks"', amount=200)) == 200
    assert await barking.titles('"dog barks" or nothing') == ["9990"]
    assert await barking.titles('"barks dog" or nothing') == []


@pytest.mark.spec("L12", "L14")
async def test_what_is_hidden_is_not_in_the_way_of_what_is_near(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "FEW", 0)  # as if there were too many to compare with all
    kept, gone = await ground.library("kept"), await ground.library("gone", trash=True)
    for number in range(5):
        await ground.asset(kept, f"{number}.jpg", meaning=towards(0, 0.5))
    await ground.asset(kept, "other.jpg", meaning=towards(4))
    await ground.value(
        """with hidden as (
            insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status)
            select $1::int, 1, n::text, 'image', 0, 1, n, now(), 'completed' from generate_series(1, $2::int) n
            returning id)
        insert into search_vectors (model_id, library, asset_id, v)
        select m.id, $1, h.id, $3::text::halfvec from hidden h, ai_models m where m.name = $4""",
        gone,
        HIDDEN,
        nearest.vector_text(towards(0)),
        MEANING.name,
    )
    await ensure_indexes(ground.database)
    assert await ground.titles(meaning=towards(0)) == [f"{number}.jpg" for number in range(5)]
    assert await ground.titles(meaning=towards(0), library="kept", types=("image",), amount=3)
    await ground.value("update libraries set deleted_at = null")
    assert len(await ground.titles(meaning=towards(0), library="gone", amount=100)) == 100


async def test_the_index_of_a_model_is_used(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", meaning=towards(0))
    await ensure_indexes(ground.database)
    statement = nearest_of(8)
    given = {
        "model_id": await ground.value("select id from ai_models where name = $1", MEANING.name),
        "libraries": [library],
        "entries": True,
        "narrow": False,
        "types": None,
        "tagger": None,
        "sources": [],
        "since": None,
        "local_since": None,
        "local_until": None,
        "until": None,
        "v": nearest.vector_text(towards(0)),
        "amount": 10,
    }
    async with ground.database.transaction() as connection:
        for setting in ("plan_cache_mode = force_custom_plan", "enable_seqscan = off", "enable_sort = off"):
            await connection.execute(f"set local {setting}")
        rows = await connection.fetch(f"explain {statement.sql}", *statement.arguments(given))
    assert f"search_vectors_model_{given['model_id']}" in "\n".join(row[0] for row in rows)


async def test_a_plan_knows_its_values_however_often_it_is_made(ground: Ground) -> None:
    await ground.asset(await ground.library(), "a.jpg", "dog")
    async with ground.database.connection() as connection:
        for _ in range(12):
            await search(connection, Wanted(words="dog", meaning=QueryVector("nobody@1", [1.0])))
        plans = await connection.fetchrow(
            """select sum(generic_plans) as generic, sum(custom_plans) as custom from pg_prepared_statements
            where statement like $1""",
            "%::tsquery%limit%",
        )
    assert plans is not None
    assert plans["generic"] == 0
    assert plans["custom"] >= 12
