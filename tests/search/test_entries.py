"""Entries: put, put again, dropped, cut into passages, embedded."""

from __future__ import annotations

import asyncio
import json

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import Moved
from mediamill.engine.rules import Engine
from mediamill.engine.settle import bury_jobs
from mediamill.processors.models.names import text_name
from mediamill.search.embedders import note_embedders
from mediamill.search.entries import (
    BadEntryError,
    Entry,
    cut_passages,
    drop_entries_under,
    put_entries,
    spoken_at,
)
from mediamill.search.feed import do_chores, feed_embeddings
from mediamill.search.indexes import ensure_index, ensure_indexes
from mediamill.search.jobs import keep_vectors, search_kinds
from mediamill.search.model import QueryVector
from mediamill.search.vectors import BadVectorError, Subject, ensure_model, put_vector
from mediamill.settings import Settings
from tests.conftest import as_admin, run_sql
from tests.search.ground import LOOK, MEANING, Ground, pack, towards

MODEL = text_name(Settings())


async def put(ground: Ground, subject: str, *bodies: str, source: str = "message") -> None:
    async with ground.database.transaction() as connection:
        await put_entries(connection, source, subject, [Entry("title", body) for body in bodies])


async def work(ground: Ground, *, model: str | None = None) -> int:
    """Feed, and do what a worker would with vectors that point to the place of each text's first digit."""
    enqueuer = Enqueuer(Kinds(search_kinds()))
    await feed_embeddings(ground.database, enqueuer, Settings())
    done = 0
    async with ground.database.transaction() as connection:
        for row in await connection.fetch("delete from jobs where kind = 'search.embed' returning *"):
            payload = json.loads(row["payload"])
            vectors = []
            for text in payload["texts"]:
                numbers = [-0.001] * (MODEL.dimensions or 0)
                numbers[next(int(letter) for letter in text if letter.isdigit())] = 1.0
                vectors.append(pack(numbers))
            result = {"model": model or payload["model"], "vectors": vectors}
            await keep_vectors(
                connection, [Moved(row["id"], row["kind"], row["owner"], None, 1, payload, result)]
            )
            done += 1
    return done


def direction(number: int) -> QueryVector:
    numbers = [-0.001] * (MODEL.dimensions or 0)
    numbers[number] = 1.0
    return QueryVector(MODEL.name, numbers)


@pytest.mark.spec("L12")
async def test_entries_without_a_vector_get_one_by_a_job(ground: Ground) -> None:
    await put(ground, "a", *(f"text {number % 3}" for number in range(70)))
    assert await work(ground) == 2
    assert await ground.value("select count(*) from search_vectors") == 70
    hit = await ground.one(meaning=direction(1))
    assert (hit.place, hit.why) == ("a", ("meaning",))
    assert await work(ground) == 0


async def test_a_text_that_changes_is_embedded_again_and_one_that_does_not_is_not(ground: Ground) -> None:
    await put(ground, "a", "text 1", "text 2")
    await work(ground)
    await put(ground, "a", "text 1", "text 5")
    assert await ground.value("select count(*) from search_entries where embedded_by is null") == 1
    await work(ground)
    assert await ground.titles(meaning=direction(2)) == []
    assert await ground.titles(meaning=direction(5)) == ["title"]


async def test_a_text_that_changed_while_its_job_ran_waits_for_another(ground: Ground) -> None:
    await put(ground, "a", "text 1")
    await feed_embeddings(ground.database, Enqueuer(Kinds(search_kinds())), Settings())
    await put(ground, "a", "text 2")
    await work(ground)  # both jobs
    assert await ground.titles(meaning=direction(1)) == []
    assert await ground.titles(meaning=direction(2)) == ["title"]


async def test_vectors_of_another_model_than_was_asked_are_not_kept(ground: Ground) -> None:
    await put(ground, "a", "text 1")
    await work(ground, model="somebody@1")
    assert await ground.value("select count(*) from search_vectors") == 0
    await do_chores(ground.database, Settings())  # its job is gone: it waits again
    assert await work(ground) == 1
    assert await ground.value("select count(*) from search_vectors") == 1


async def choose(ground: Ground, model: str | None = None) -> Settings:
    """A server starts with this model, or with the local one."""
    settings = Settings() if model is None else Settings(embedding="openai", embedding_model=model)
    async with ground.database.transaction() as connection:
        await note_embedders(connection, settings)
    return settings


@pytest.mark.spec("L11")
async def test_another_model_embeds_everything_again_and_the_old_vectors_serve_until_then(
    ground: Ground,
) -> None:
    await choose(ground)
    await put(ground, "a", *(f"text {number % 3}" for number in range(70)))
    await work(ground)
    settings = await choose(ground, "e-2")
    await do_chores(ground.database, settings)
    assert await ground.value("select count(*) from search_entries where embedded_by is null") == 70
    assert (await ground.one(meaning=direction(1))).place == "a"
    assert await work(ground) == 2
    names = "select array_agg(distinct m.name) from search_vectors v join ai_models m on m.id = v.model_id"
    assert await ground.value(names) == ["openai:e-2"]
    assert await ground.value("select count(*) from search_vectors") == 70
    await do_chores(ground.database, settings)
    assert await work(ground) == 0


@pytest.mark.spec("L11")
async def test_a_job_of_the_old_model_that_ends_after_the_change_is_not_the_last(ground: Ground) -> None:
    await choose(ground)
    await put(ground, "a", "text 1")
    await feed_embeddings(ground.database, Enqueuer(Kinds(search_kinds())), Settings())
    await ground.value("update jobs set state = 'running'")
    settings = await choose(ground, "e-2")
    await do_chores(ground.database, settings)
    assert await work(ground) == 1  # by the old one
    await do_chores(ground.database, settings)
    assert await work(ground) == 1
    assert await ground.value("select m.name from search_vectors v join ai_models m on m.id = model_id") == (
        "openai:e-2"
    )


@pytest.mark.parametrize("dead", [False, True])
async def test_a_job_that_waits_for_the_old_model_or_died_of_it_is_let_go_of(
    ground: Ground, dead: bool
) -> None:
    await choose(ground)
    await put(ground, "a", "text 1")
    await feed_embeddings(ground.database, Enqueuer(Kinds(search_kinds())), Settings())
    if dead:
        async with ground.database.transaction() as connection:
            rows = await connection.fetch("select * from jobs for update")
            await bury_jobs(connection, Engine(), rows, "permanent")
    settings = await choose(ground, "e-2")
    await do_chores(ground.database, settings)
    assert await ground.value("select count(*) from jobs") == 0
    assert await work(ground) == 1
    assert await ground.value("select count(*) from search_vectors") == 1


async def test_fewer_passages_take_the_place_of_more_and_a_prefix_drops_its_own_only(ground: Ground) -> None:
    await put(ground, "bot/1", "one", "two", "three")
    await put(ground, "bot/1", "one")
    await put(ground, "bot2/1", "one")
    assert await ground.value("select count(*) from search_entries") == 2
    async with ground.database.transaction() as connection:
        await drop_entries_under(connection, "message", "bot")
    assert await ground.value("select array_agg(subject) from search_entries") == ["bot2/1"]


async def test_texts_of_strangers_are_kept_as_far_as_they_can_be(ground: Ground) -> None:
    await put(ground, "a", "nul \0 and \ud800 dog " + "x" * 20_000)
    assert (await ground.one("dog")).place == "a"
    with pytest.raises(BadEntryError):
        await put(ground, "a", "x", source="web")


def test_passages_are_about_half_a_minute_or_four_hundred_characters() -> None:
    spoken = [(float(second), second + 2.0, f"word{second}") for second in range(0, 100, 2)]
    passages = cut_passages(spoken)
    assert [one.starts_at for one in passages] == [0.0, 30.0, 60.0, 90.0]
    assert " ".join(one.text for one in passages) == " ".join(text for _, _, text in spoken)
    assert all(len(one.text) <= 400 for one in cut_passages((0.0, 1.0, "x" * 90) for _ in range(20)))
    assert cut_passages([(0.0, 1.0, " "), (1.0, 2.0, "")]) == []


def test_the_time_of_a_word_is_that_of_its_sentence_and_of_its_place_in_a_long_one() -> None:
    [passage] = cut_passages([(0.0, 4.0, "Good morning."), (6.0, 26.0, "x " * 50)])
    assert passage.times == [(0, 13, 0.0, 4.0), (14, 99, 6.0, 26.0)]
    assert spoken_at(passage.times, 5) == 0.0
    assert spoken_at(passage.times, 14) == 6.0
    assert spoken_at(passage.times, 16) == 6.0
    assert spoken_at(passage.times, 64) == pytest.approx(6 + 20 * 50 / 99 - 2, abs=0.1)
    assert 23 < spoken_at(passage.times, len(passage.text) - 1) < 26


@pytest.mark.spec("L12")
async def test_an_index_for_each_model_is_made_once_even_by_two_at_the_same_time(ground: Ground) -> None:
    await ground.vectors(Subject())
    made = await asyncio.gather(ensure_indexes(ground.database), ensure_indexes(ground.database))
    assert sum(made) == 2
    names = """select array_agg(indexname order by indexname) from pg_indexes
        where indexname like 'search_vectors_model_%'"""
    both = [await _id_of(ground.database, model.name) for model in (MEANING, LOOK)]
    assert await ground.value(names) == [f"search_vectors_model_{number}" for number in sorted(both)]
    assert await ensure_indexes(ground.database) == 0


async def test_an_index_that_was_cut_off_is_made_anew(ground: Ground, server_url: str) -> None:
    await ground.vectors(Subject())
    await ensure_indexes(ground.database)
    number = await _id_of(ground.database, LOOK.name)
    await run_sql(
        as_admin(server_url, ground.database.url),
        f"update pg_index set indisvalid = false where indexrelid = 'search_vectors_model_{number}'::regclass",
    )
    assert await ensure_index(ground.database, number, 8)
    assert await ground.value(
        f"select indisvalid from pg_index where indexrelid = 'search_vectors_model_{number}'::regclass"
    )


async def test_a_vector_of_another_length_is_refused(ground: Ground) -> None:
    asset = await ground.asset(await ground.library(), "a.jpg", meaning=towards(0))
    async with ground.database.transaction() as connection:
        model = await ensure_model(connection, MEANING)
        with pytest.raises(BadVectorError):
            await put_vector(connection, model, Subject(asset_id=asset), pack([1.0, 2.0]))


async def _id_of(database: Database, name: str) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("select id from ai_models where name = $1", name))
