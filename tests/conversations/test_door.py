"""The one door: text and media, ids across lives, duplicates, bad guids, callers and databases that go away."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.conversations import bot_queues, insist
from mediamill.conversations.bot_queues import BadIdError, BotQueuesManager, QueuesClosedError
from mediamill.conversations.insist import UncertainError
from mediamill.conversations.model import USER, BadGuidError, Group, Message, Sender
from mediamill.db.connection import Database, connect
from tests.conftest import wait_until
from tests.conversations.conftest import ANN, Ground, say, send_media
from tests.conversations.queues import manager
from tests.conversations.wire import Wire, open_wire


def hear(queues: BotQueuesManager) -> list[Message]:
    heard: list[Message] = []
    queues.register_callback(lambda _correspondent, message: heard.append(message))
    return heard


@pytest.mark.spec("C2")
async def test_text_and_media_come_by_the_same_door_with_all_their_facts(ground: Ground) -> None:
    _, queues = await ground.run()
    sender, group = Sender("ann@example", "Ann", ("lid",)), Group("g@example", "The group")
    text = await queues.add_message("ann", "hello", sender, USER, 1_700_000_000, group, "p-1")
    media = await queues.add_message(
        "ann", "look", sender, USER, None, None, "p-2", "guid-1", "image/png", "cat.png", {"from": "phone"}
    )
    assert text is not None
    assert media is not None
    assert (text.id, text.is_placeholder, text.originating_time, text.group) == (
        1,
        False,
        1_700_000_000,
        group,
    )
    assert (media.id, media.media_processing_id, media.content) == (2, "guid-1", "look")
    await ground.until_stored("hello")
    [row] = await ground.rows(
        "select sender ->> 'display_name', \"group\" ->> 'identifier', originating_time, provider_message_id, media "
        "from queues"
    )
    assert row == ("Ann", "g@example", 1_700_000_000, "p-1", None)
    assert not (
        ground.settings.data_folder / "pending_media" / "guid-1"
    ).exists()  # nobody asked for the file


@pytest.mark.spec("C2")
async def test_a_guid_without_a_type_is_text(ground: Ground) -> None:
    _, queues = await ground.run()
    await say(queues, "hello", media_processing_id="guid-1")
    await ground.until_stored("hello")
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C9")
async def test_ids_are_per_correspondent_and_grow_across_lives(ground: Ground) -> None:
    await ground.create()
    for life in range(4):
        queues = manager(ground)
        for n, person in enumerate(("ann", "ben")):
            for k in range(n + 1):
                message = await queues.add_message(person, "x", ANN, USER)
                assert message is not None
                assert message.id == life * (n + 1) + k + 1


@pytest.mark.spec("C9", "C23")
async def test_ids_are_above_every_placeholder_that_was_injected(ground: Ground) -> None:
    keeper, queues = await ground.run()
    for guid in ("g-1", "g-2"):
        await send_media(queues, guid)
    await keeper.stop_all()
    other = ground.keeper()
    await other.keep_once()
    queues = other.get("bot").queues["line"]
    assert [message.id for _, message in queues.placeholders()] == [1, 2]
    message = await say(queues, "hello")
    assert message is not None
    assert message.id == 3


@pytest.mark.spec("C9")
async def test_queues_that_are_let_go_lose_no_ids_under_load(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bot_queues, "IDLE_QUEUES", 10)
    await ground.create()
    queues = manager(ground)
    people = [f"p{n}" for n in range(60)]

    async def talk(person: str) -> None:
        for _ in range(3):
            await queues.add_message(person, "x", ANN, USER)

    async def pop() -> int:
        count = 0
        while not done.is_set():
            count += sum(1 for _ in queues.pop_ready_messages())
            await asyncio.sleep(0)
        return count + sum(1 for _ in queues.pop_ready_messages())

    done = asyncio.Event()
    popping = asyncio.create_task(pop())
    busy = people[:15]
    await asyncio.gather(*(talk(person) for person in people for _ in range(4 if person in busy else 1)))
    done.set()
    assert await popping == 3 * (len(people) + 3 * len(busy))
    assert await ground.one(
        "select bool_and(ids) from (select count(*) = max(id) as ids from arrivals group by correspondent_id) s"
    )


@pytest.mark.spec("C2", "C4")
@pytest.mark.parametrize("guid", [None, "guid-1"])
async def test_a_message_that_comes_again_is_taken_once(ground: Ground, guid: str | None) -> None:
    keeper, queues = await ground.run()
    heard = hear(queues)

    async def come(into: BotQueuesManager) -> Message | None:
        more = {"media_processing_id": guid, "mime_type": "audio/ogg"} if guid else {}
        return await say(into, "hello", provider_message_id="p-1", **more)

    assert sum(message is not None for message in [await come(queues) for _ in range(3)]) == 1
    assert not any(await asyncio.gather(*(come(queues) for _ in range(50))))
    if guid:
        await ground.finish(*await ground.claim(), text="text")
        await keeper.deliver_once()
    await ground.until_stored("hello\n\ntext" if guid else "hello")
    assert await come(queues) is None
    assert await come(manager(ground)) is None
    assert len(heard) == 1
    assert await ground.one("select count(*) from arrivals") == 1
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C2")
@pytest.mark.parametrize("guid", [None, "guid-1"])
async def test_of_fifty_at_once_in_two_lives_one_is_taken(ground: Ground, guid: str | None) -> None:
    await ground.create()
    lives = [manager(ground), manager(ground)]
    heard = [hear(queues) for queues in lives]
    more = {"media_processing_id": guid, "mime_type": "audio/ogg"} if guid else {}
    taken = await asyncio.gather(
        *(say(lives[n % 2], "hello", provider_message_id="p-1", **more) for n in range(50)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Message) for each in taken) == 1
    assert all(each is None or isinstance(each, Message) for each in taken)
    assert len(heard[0] + heard[1]) == (0 if guid else 1)
    assert sum(len(list(queues.placeholders())) for queues in lives) == (1 if guid else 0)
    assert await ground.one("select count(*) from arrivals") == 1
    assert await ground.one("select count(*) from jobs") == (1 if guid else 0)


# Whoever records a message waits half way, where others see its id already and its provider's id not yet.
HALF_WAY = """
    create function wait_half_way(text) returns text immutable language plpgsql as
        'begin perform pg_advisory_xact_lock_shared(7); return $1; end';
    create index half_way on arrivals (wait_half_way(provider_message_id));
    alter table arrivals drop constraint arrivals_pkey,
        add primary key (bot_id, provider_name, correspondent_id, provider_message_id);
"""


@pytest.mark.spec("C2")
@pytest.mark.parametrize("guid", [None, "guid-1"])
async def test_of_two_that_meet_at_the_id_one_is_taken_and_the_other_came_before(
    ground: Ground, guid: str | None
) -> None:
    await ground.create()
    more = {"media_processing_id": guid, "mime_type": "audio/ogg"} if guid else {}
    async with ground.database.transaction() as blocker:
        await blocker.execute(HALF_WAY)
    async with ground.database.transaction() as blocker:
        await blocker.execute("select pg_advisory_xact_lock(7)")
        coming = [
            asyncio.create_task(say(manager(ground), "hello", provider_message_id="p-1", **more))
            for _ in "ab"
        ]
        await ground.until_row("select count(*) = 2 from pg_locks where not granted")
    taken = await asyncio.gather(*coming)
    assert sorted(message is None for message in taken) == [False, True]
    assert await ground.one("select count(*) from arrivals") == 1
    assert await ground.one("select count(*) from jobs") == (1 if guid else 0)


@pytest.mark.spec("C2")
async def test_the_same_provider_id_of_another_correspondent_is_another_message(ground: Ground) -> None:
    _, queues = await ground.run()
    for person in ("ann", "ben"):
        assert await queues.add_message(person, "hello", ANN, USER, provider_message_id="p-1") is not None


@pytest.mark.spec("C2")
@pytest.mark.parametrize("person", ["ann", "ben"])
@pytest.mark.parametrize("finished", [False, True])
async def test_one_guid_for_two_messages_is_refused(ground: Ground, person: str, finished: bool) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1", provider_message_id="p-1")
    if finished:
        await ground.finish(*await ground.claim(), text="text")
        await keeper.deliver_once()
        await ground.until_stored("text")
    for _ in range(2):
        with pytest.raises(BadGuidError, match="belongs to another message"):
            await send_media(queues, "guid-1", provider_message_id="p-2", correspondent_id=person)
    assert queues.has_placeholder("ann", "guid-1") is not finished
    assert not queues.has_placeholder("ben", "guid-1")
    assert await ground.one("select count(*) from arrivals") == 1
    assert await ground.one("select count(*) from jobs") == (0 if finished else 1)


NO_GUIDS = ("", "..", "../x", "a/b", "a\\b", "a.b", "-a", "_", "a b", "a\0", "a\n", "é", "%2e", "a" * 129)


@pytest.mark.spec("C2")
async def test_a_guid_that_is_none_is_refused_before_anything_is_kept(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    for guid in NO_GUIDS:
        with pytest.raises(BadGuidError):
            await send_media(queues, guid)
    assert await ground.one("select count(*) from arrivals") == 0
    assert list(queues.placeholders()) == []


@pytest.mark.spec("C2", "C8")
async def test_strangers_words_that_the_database_cannot_keep_hold_nobody_up(ground: Ground) -> None:
    _, queues = await ground.run()
    bad = "nul \0 half \ud800"
    sender, group = Sender(bad, bad, (bad,)), Group(bad, bad)
    for time in (2**63, -(2**70), 10**40):
        await queues.add_message(bad, bad, sender, USER, time, group, bad)
    await queues.add_message("m", bad, sender, USER, 2**63, group, None, "guid-1", bad, bad, {"note": "fine"})
    await say(queues, "hello")
    await ground.until_stored("hello", "nul  half ?")
    assert await ground.one("select count(*) from jobs") == 1


@pytest.mark.spec("C2")
@pytest.mark.parametrize("guid", [None, "guid-1"])
async def test_a_caller_that_goes_away_leaves_memory_and_database_agreed(
    ground: Ground, guid: str | None
) -> None:
    await ground.create()
    for steps in range(25):
        queues = manager(ground)
        heard = hear(queues)
        more = {"media_processing_id": f"{guid}-{steps}", "mime_type": "audio/ogg"} if guid else {}
        caller = asyncio.create_task(say(queues, "hello", provider_message_id=f"p-{steps}", **more))
        for _ in range(steps):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await queues.close()
        kept = await ground.one("select count(*) from arrivals where provider_message_id = $1", f"p-{steps}")
        assert kept == (len(list(queues.placeholders())) if guid else len(heard))
        assert await ground.one("select count(*) from jobs where subject_id = $1", f"{guid}-{steps}") == (
            kept if guid else 0
        )


@pytest.fixture
async def wire(ground: Ground) -> AsyncIterator[Wire]:
    """A wire to the database; what goes through `ground.database` does not pass it."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_wire(ground.database.url, Path(folder)) as opened:
            yield opened


@pytest.fixture
async def far(wire: Wire) -> AsyncIterator[Database]:
    """The database at the other end of the wire."""
    opened = await Database.open(wire.url, connections=5)
    yield opened
    await opened.close()


@pytest.mark.spec("C2", "C9")
@pytest.mark.parametrize("guid", [None, "guid-1"])
@pytest.mark.parametrize("lost", ["commits_to_lose", "answers_to_lose"])
async def test_a_commit_or_its_answer_that_is_lost_is_made_good(
    ground: Ground, wire: Wire, far: Database, guid: str | None, lost: str
) -> None:
    await ground.create()
    queues = manager(ground, far)
    heard = hear(queues)
    await say(queues, "before")
    setattr(wire, lost, 2)
    more = {"media_processing_id": guid, "mime_type": "audio/ogg"} if guid else {}
    message = await say(queues, "hello", provider_message_id="p-1", **more)
    assert message is not None
    assert wire.cuts == (2 if lost == "commits_to_lose" else 1) or lost == "answers_to_lose"
    assert await say(queues, "hello", provider_message_id="p-1", **more) is None
    assert [each.content for each in heard] == (["before"] if guid else ["before", "hello"])
    assert await ground.rows("select id from arrivals order by id") == [(1,), (message.id,)]
    assert await ground.one("select count(*) from jobs") == (1 if guid else 0)
    assert [each.id for _, each in queues.placeholders()] == ([message.id] if guid else [])


@pytest.mark.spec("C2", "C8", "C22")
@pytest.mark.parametrize("guid", [None, "guid-1"])
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("again", [True, False])
async def test_what_stays_uncertain_turns_out_and_is_taken_once(
    ground: Ground,
    wire: Wire,
    far: Database,
    guid: str | None,
    taken: bool,
    again: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(insist, "INSIST_SECONDS", 0.3)
    near, ground.database = ground.database, far
    keeper, queues = await ground.run()
    ground.database = near
    heard = hear(queues)
    await say(queues, "before")
    await ground.until_stored("before")
    more = {"media_processing_id": guid, "mime_type": "audio/ogg"} if guid else {}
    wire.stays_down = True
    setattr(wire, "answers_to_lose" if taken else "commits_to_lose", 1)
    with pytest.raises(UncertainError):
        await say(queues, "hello", provider_message_id="p-1", **more)
    assert queues.has_placeholder("ann", "guid-1") is False
    wire.mend()
    if again:
        message = await say(queues, "hello", provider_message_id="p-1", **more)
        assert (message is None) is taken
    if guid and (taken or again):

        async def there() -> bool:
            return queues.has_placeholder("ann", "guid-1")

        await wait_until(there)
        await ground.finish(*await ground.claim(), text="text")
        await keeper.deliver_once()
    text = "hello\n\ntext" if guid else "hello"
    expected = ["before", text] if taken or again else ["before"]
    await ground.until_stored(*expected)
    assert [each.content for each in heard] == expected
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C2", "C8")
async def test_a_commit_that_comes_after_the_first_look_is_found_by_a_later_one(
    ground: Ground, wire: Wire, far: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insist, "INSIST_SECONDS", 0.3)
    await ground.create()
    queues = manager(ground, far)
    heard = hear(queues)
    wire.stays_down, wire.commits_to_lose = True, 1
    with pytest.raises(UncertainError):
        await say(queues, "hello", provider_message_id="p-1")
    wire.mend()
    await queues.settle_uncertain()
    assert heard == []
    await say(manager(ground), "hello", provider_message_id="p-1")  # the commit that was under way
    await queues.settle_uncertain()
    assert await say(queues, "hello", provider_message_id="p-1") is None
    assert [each.content for each in heard] == ["hello"]


TERMINATE = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


@pytest.mark.spec("C2", "C9")
async def test_backends_that_are_terminated_at_any_step_lose_nothing_and_double_nothing(
    ground: Ground,
) -> None:
    await ground.create()
    queues = manager(ground)
    heard = hear(queues)
    other = await connect(ground.database.url)
    for n in range(20):
        talk = asyncio.gather(
            say(queues, f"t{n}", provider_message_id=f"t{n}"),
            send_media(queues, f"guid-{n}", provider_message_id=f"m{n}"),
        )
        for _ in range(n):
            await asyncio.sleep(0)
        await other.fetchval(TERMINATE)
        assert all(await talk)
    await other.close()
    ground.database.pool.terminate()  # its connections are gone, too
    ground.database = await Database.open(ground.database.url)
    assert [each.content for each in heard] == [f"t{n}" for n in range(20)]
    ids = {each.id for each in heard} | {each.id for _, each in queues.placeholders()}
    assert len(ids) == 40
    assert await ground.one("select count(*) from arrivals where id = any ($1)", ids) == 40
    assert await ground.one("select count(distinct subject_id) from jobs") == 20


@pytest.mark.parametrize("given", [{"correspondent_id": "a" * 501}, {"provider_message_id": "m" * 501}])
async def test_ids_that_are_too_long_are_refused(ground: Ground, given: dict[str, str]) -> None:
    _, queues = await ground.run()
    with pytest.raises(BadIdError) as refused:
        await queues.add_message(given.get("correspondent_id", "ann"), "hello", ANN, USER, **_only_id(given))
    assert refused.value.code == "bad_id"
    assert await ground.one("select count(*) from arrivals") == 0


def _only_id(given: dict[str, str]) -> Any:
    return {name: value for name, value in given.items() if name == "provider_message_id"}


async def test_the_longest_caption_of_the_widest_characters_fits_into_its_job(ground: Ground) -> None:
    _, queues = await ground.run()
    message = await send_media(queues, "g-1", caption="\N{GRINNING FACE}" * 300_000)
    assert message is not None
    assert message.message_size == 50_000
    assert await ground.one("select count(*) from jobs") == 1


async def test_queues_that_are_closed_take_nothing_more_and_say_that_the_bot_stops(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    longest = await queues.add_message("a" * 500, "hello", ANN, USER, provider_message_id="m" * 500)
    assert longest is not None
    under_way = asyncio.create_task(say(queues, "just in time"))
    await asyncio.sleep(0)  # it has come in, and is not recorded yet
    await queues.close()
    assert under_way.done()
    with pytest.raises(QueuesClosedError) as closed:
        await say(queues, "too late")
    assert (closed.value.code, closed.value.fix) == ("bot_stopping", "send it again")
    assert await ground.one("select count(*) from arrivals") == 2


async def test_a_placeholder_is_known_by_its_correspondent_and_its_guid(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    await send_media(queues, "g-1")
    asked = [("ann", "g-1"), ("ann", "g-2"), ("ben", "g-1")]
    assert [queues.has_placeholder(*keys) for keys in asked] == [True, False, False]
    for person, guid in asked[1:]:
        queues.drop_placeholder(person, guid)
        assert await queues.update_message_by_media_id(person, guid, "text") is False
    assert [person for person, _ in queues.placeholders()] == ["ann"]
    queues.drop_placeholder("ann", "g-1")
    assert not queues.has_placeholder("ann", "g-1")
    again = await send_media(queues, "g-3")
    assert again is not None
    assert again.id == 2
    assert await queues.update_message_by_media_id("ann", "g-3", "text") is True
