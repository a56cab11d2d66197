"""Two processes that could run the same bot: one does, the other takes over, and nothing happens twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mediamill.conversations.bot_queues import BotQueuesManager, IdTakenError
from mediamill.conversations.keeper import BotNotRunningError
from tests.conversations.conftest import Ground, say, send_media
from tests.conversations.queues import placeholders, queues_of

# Waits until they are gone: a session is told its end before its locks are free.
LOCKERS = """
    select count(pg_terminate_backend(pid, 60000)) from pg_stat_activity
    where application_name = 'mediamill bots' and datname = current_database()
"""


@pytest.mark.spec("C23", "E12")
async def test_one_of_two_processes_runs_a_bot_and_the_other_takes_over_when_it_is_gone(
    ground: Ground,
) -> None:
    first, queues = await ground.run()
    second = ground.keeper()
    await second.keep_once()
    with pytest.raises(BotNotRunningError):
        second.get("bot")
    await send_media(queues, "guid-1")
    await ground.one(LOCKERS)  # as when the first one's machine dies
    await second.keep_once()
    assert placeholders(queues_of(second)) == ["guid-1"]
    await ground.finish(*await ground.claim(), text="text")
    await asyncio.gather(first.deliver_once(), second.deliver_once())
    await second.deliver_once()
    await first.keep_once()  # it was only cut off, and learns now that the bot is not its own any more
    with pytest.raises(BotNotRunningError):
        first.get("bot")
    await ground.until_stored("text")
    await second.tidy()  # the first may have stored the text before the second had it
    assert placeholders(queues_of(second)) == []


@pytest.mark.spec("C23", "E34")
async def test_a_placeholder_whose_text_another_process_stored_is_dropped(ground: Ground) -> None:
    first, queues = await ground.run()
    await send_media(queues, "guid-1")
    await send_media(queues, "guid-2")
    await ground.one(LOCKERS)
    second = ground.keeper()
    await second.keep_once()
    job = next(job for job in await ground.claim() if job.subject_id == "guid-1")
    await ground.finish(job, text="text")
    await first.deliver_once()  # it does not know yet that it lost the bot
    await ground.until_stored("text")
    await second.deliver_once()
    assert placeholders(queues_of(second)) == ["guid-1", "guid-2"]
    await second.tidy()
    assert placeholders(queues_of(second)) == ["guid-2"]


@pytest.mark.spec("C23")
async def test_a_process_that_lost_its_locks_takes_them_again_if_nobody_else_has(ground: Ground) -> None:
    first, queues = await ground.run()
    await ground.one(LOCKERS)
    await first.keep_once()
    assert queues_of(first) is queues
    second = ground.keeper()
    await second.keep_once()
    with pytest.raises(BotNotRunningError):
        second.get("bot")


@pytest.mark.spec("C23")
async def test_a_bot_that_is_lost_while_another_one_is_taken_is_noticed_too(ground: Ground) -> None:
    first, _ = await ground.run()
    second = ground.keeper()
    await ground.one(LOCKERS)
    await second.keep_once()
    await first._locks.take("another")  # the connection is made anew here
    await first.keep_once()
    with pytest.raises(BotNotRunningError):
        first.get("bot")


async def send_by_both(one: BotQueuesManager, two: BotQueuesManager, text: str, **more: Any) -> None:
    """Until one of them has accepted it: both refuse it if an answer takes the id that they would have given."""
    while True:
        outcomes = await asyncio.gather(
            say(one, text, **more), say(two, text, **more), return_exceptions=True
        )
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert all(isinstance(error, IdTakenError) for error in errors), errors
        if len(errors) < 2:
            return


@pytest.mark.spec("C10", "C23", "E12")
async def test_while_two_run_one_bot_nothing_is_stored_or_sent_twice(ground: Ground) -> None:
    first, one = await ground.run(reply={"by": "echo"})
    await send_media(one, "guid-1")
    await ground.one(LOCKERS)
    second = ground.keeper()
    await second.keep_once()
    two = queues_of(second)
    for n in range(10):
        await send_by_both(one, two, f"t{n}", provider_message_id=f"p{n}")
    await ground.finish(*await ground.claim(), text="text")
    await asyncio.gather(first.deliver_once(), second.deliver_once())
    await asyncio.gather(first.deliver_once(), second.deliver_once())
    await ground.until_row("select count(*) = 11 from replies where state = 'sent'")
    await first.stop_all()
    await second.stop_all()
    third = ground.keeper()
    await third.keep_once()
    await third.stop_all()
    texts = await ground.rows("select content, count(*) from queues group by 1 order by 1")
    expected = ["text", *(f"t{n}" for n in range(10))]
    assert texts == sorted((text, 1) for text in [*expected, *(f"You said: {each}" for each in expected)])
    assert sorted(text for _, text in ground.line.sent.values()) == sorted(
        f"You said: {each}" for each in expected
    )
