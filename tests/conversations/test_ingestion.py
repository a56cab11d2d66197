"""Ingestion: finished messages into the queues table, once; what fails is kept and stored later."""

from __future__ import annotations

import pytest

from mediamill.conversations import ingest
from mediamill.conversations.deliver import write_texts
from mediamill.conversations.ingest import IngestionService
from mediamill.settings import Settings
from tests.conversations.conftest import Ground, say, send_media
from tests.conversations.queues import manager


@pytest.mark.spec("C8")
def test_it_happens_about_once_a_second_by_default() -> None:
    assert Settings().ingest_seconds == 1


@pytest.mark.spec("C8")
async def test_stopping_drains_what_is_finished_and_never_a_placeholder(ground: Ground) -> None:
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 3600})
    keeper, queues = await ground.run()
    for n in range(3):
        await say(queues, f"t{n}")
        await send_media(queues, f"guid-{n}", caption="c")
    [first, *_] = await ground.claim()
    await ground.finish(first, text="text")
    await keeper.deliver_once()
    await keeper.stop_all()
    assert sorted(await ground.stored()) == ["c\n\ntext", "t0", "t1", "t2"]
    assert await ground.one("select count(*) from arrivals where state = 'placeholder'") == 2
    assert (
        await ground.one("select count(*) from arrivals where state = 'stored' and message is not null") == 0
    )


@pytest.mark.spec("C8")
async def test_what_cannot_be_stored_now_is_stored_later_and_once(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    ingestion = IngestionService(ground.database, "bot", [queues])
    await ground.one("alter table queues add constraint full_up check (content <> 'b')")
    for text in "abc":
        await say(queues, text)
    for _ in range(2):
        with pytest.raises(Exception, match="full_up"):
            await ingestion.ingest()
    await say(queues, "d")
    assert await ground.stored() == []
    assert [each.content for _, each in queues.pop_ready_messages()] == ["d"]  # the others are out of memory
    await ground.one("alter table queues drop constraint full_up")
    assert await ingestion.ingest() == 3
    assert await ingestion.ingest() == 0
    assert await ground.stored() == ["a", "b", "c"]


@pytest.mark.spec("C8")
async def test_a_store_whose_answer_was_lost_is_done_again_without_harm(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    for text in "ab":
        await say(queues, text)
    popped = [("line", person, message) for person, message in queues.pop_ready_messages()]
    for _ in range(2):
        ingestion = IngestionService(ground.database, "bot", [])
        ingestion._popped = list(popped)  # as it is after a store that did not answer
        assert await ingestion.ingest() == 2
    assert await ground.stored() == ["a", "b"]


@pytest.mark.spec("C6", "C8", "C22")
async def test_messages_that_a_limit_evicted_are_stored_all_the_same(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "LEFT_BEHIND_SECONDS", 0.0)
    keeper, queues = await ground.run(limits={"max_messages": 1, "max_characters": 5}, reply={"by": "echo"})
    for n in range(5):
        await say(queues, f"text {n} is too long")
    await send_media(queues, "guid-1")
    await ground.finish(*await ground.claim(), text="far too long as well")
    await keeper.deliver_once()

    texts = [f"text {n} is too long" for n in range(5)] + ["far too long as well"]
    for text in texts:
        await ground.until_row("select count(*) = 1 from queues where source = 'user' and content = $1", text)
        await ground.until_row(
            "select count(*) = 1 from queues where source = 'bot' and content = $1", f"You said: {text}"
        )
    assert len(ground.line.sent) == 6


@pytest.mark.spec("C8", "C22")
async def test_a_text_on_its_way_to_memory_is_not_stored_before_it_is_heard(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "LEFT_BEHIND_SECONDS", 0.0)
    keeper, queues = await ground.run(reply={"by": "echo"})
    await send_media(queues, "guid-1")
    async with ground.database.transaction() as connection:
        assert await write_texts(connection, {"guid-1": ("spoken", None)}) == {"guid-1"}
    service = ingest.IngestionService(ground.database, "bot", [queues])
    assert await service.store_left_behind() == 0
    await keeper.deliver_once()
    await ground.until_row("select count(*) = 1 from queues where content = 'You said: spoken'")


@pytest.mark.spec("C8")
async def test_a_stored_message_is_unique_by_bot_provider_correspondent_and_id(ground: Ground) -> None:
    columns = await ground.one(
        "select array_agg(a.attname order by k.n)::text[] from pg_index i "
        "cross join lateral unnest(i.indkey) with ordinality as k (number, n) "
        "join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number "
        "where i.indrelid = 'queues'::regclass and i.indisunique"
    )
    assert columns == ["bot_id", "provider_name", "correspondent_id", "id"]


@pytest.mark.spec("C30")
async def test_text_after_a_slow_video_is_stored_and_answered_first_and_ids_give_the_true_order(
    ground: Ground,
) -> None:
    keeper, queues = await ground.run(reply={"by": "echo"})
    await send_media(queues, "guid-1", mime_type="video/mp4", originating_time=1)
    await say(queues, "after", originating_time=2)
    await ground.until_stored("after", "You said: after")
    await ground.finish(*await ground.claim(), text="video")
    await keeper.deliver_once()
    await ground.until_stored("video", "after", "You said: after", "You said: video")
    assert [text for _, text in ground.line.sent.values()] == ["You said: after", "You said: video"]
    assert await ground.rows(
        "select content from queues where originating_time is not null order by originating_time"
    ) == [("video",), ("after",)]


@pytest.mark.spec("C8")
async def test_what_was_left_behind_for_a_minute_is_stored_by_the_loop_itself(ground: Ground) -> None:
    await ground.create()
    kept = manager(ground)
    for text in ("just now", "long ago"):
        await say(kept, text)
    old = "update arrivals set ready_at = now() - interval '61 seconds' where id = 2 returning 1"
    await ground.one(old)
    due: list[int] = []

    async def note() -> None:
        due.append(1)

    service = IngestionService(ground.database, "bot", [manager(ground)], every_seconds=0.01, before=note)
    service.start()
    await ground.until_stored("long ago")
    await service.stop()
    assert await ground.stored() == ["long ago"]
    assert due == [1]
