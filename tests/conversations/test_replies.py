"""Automatic replies: told when ready, with their own history, once, whoever fails or dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from mediamill.conversations import reply
from mediamill.conversations.model import BOT, OUTGOING, USER, Group, Message
from mediamill.conversations.provider import BotContext
from mediamill.conversations.reply import Answer, Turn, send_id_of
from mediamill.conversations.retry import retry_message
from mediamill.conversations.store import queries
from mediamill.errors import GiveUpError
from tests.conftest import wait_until
from tests.conversations.conftest import ANN, Ground, Line, say, send_media

ECHO: dict[str, Any] = {"reply": {"by": "echo"}}


@dataclass
class Scripted:
    """Says what it is told to say, and remembers what it was told."""

    told: list[tuple[str, list[Turn], str]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    gate: asyncio.Event | None = None
    always: str | None = None
    ended: list[str] = field(default_factory=list)

    async def answer(self, thread: str, history: Sequence[Turn], told: str, message_id: int) -> Answer:
        self.told.append((thread, list(history), told))
        if self.errors:
            raise self.errors.pop(0)
        if self.gate is not None:
            await self.gate.wait()
        self.ended.append(told)
        return Answer(f"<{told}>" if self.always is None else self.always)


@pytest.fixture
def scripted(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """The answerer of the ground; pauses between tries are short."""
    monkeypatch.setattr(reply, "FIRST_PAUSE_SECONDS", 0.001)
    answerer = Scripted()
    ground.answerer = answerer
    return answerer


async def until(condition: object) -> None:
    async def met() -> bool:
        return bool(condition() if callable(condition) else condition)

    await wait_until(met, 30)


def sent(line: Line) -> list[str]:
    return [text for _, text in line.sent.values()]


@pytest.mark.spec("C10")
async def test_a_media_message_is_told_only_when_its_text_is_ready(
    ground: Ground, scripted: Scripted
) -> None:
    keeper, queues = await ground.run(**ECHO)
    await send_media(queues, "guid-1", caption="listen")
    await say(queues, "hello")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert [told for *_, told in scripted.told] == ["hello"]
    await ground.finish(*await ground.claim(), text="the words")
    for _ in range(3):
        await keeper.deliver_once()
    await ground.until_row("select count(*) = 2 from replies where state = 'sent'")
    assert [told for *_, told in scripted.told] == ["hello", "listen\n\nthe words"]
    assert sent(ground.line) == ["<hello>", "<listen\n\nthe words>"]
    assert [history for _, history, _ in scripted.told] == [[], [Turn("hello", "<hello>")]]


@pytest.mark.spec("C10", "C30")
async def test_whoever_answers_a_late_transcript_knows_what_was_said_while_it_was_made(
    ground: Ground, scripted: Scripted
) -> None:
    keeper, queues = await ground.run(**ECHO)
    await send_media(queues, "voice-note")
    await say(queues, "my name is Zoe")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    await ground.finish(*await ground.claim(), text="what is my name")
    await keeper.deliver_once()
    await ground.until_row("select count(*) = 2 from replies where state = 'sent'")
    await say(queues, "thanks")
    await ground.until_row("select count(*) = 3 from replies where state = 'sent'")
    zoe, name = Turn("my name is Zoe", "<my name is Zoe>"), Turn("what is my name", "<what is my name>")
    assert [(told, history) for _, history, told in scripted.told] == [
        ("my name is Zoe", []),
        ("what is my name", [zoe]),
        ("thanks", [zoe, name]),
    ]


@pytest.mark.spec("C10", "C30")
async def test_what_became_due_during_an_answer_is_answered_in_the_order_of_the_callbacks(
    ground: Ground, scripted: Scripted
) -> None:
    scripted.gate = asyncio.Event()
    keeper, queues = await ground.run(**ECHO)
    await say(queues, "first")
    await until(lambda: scripted.told)
    await send_media(queues, "voice-note")
    await say(queues, "meanwhile")
    await ground.finish(*await ground.claim(), text="the transcript")
    await keeper.deliver_once()
    await ground.until_row("select count(*) = 3 from replies")
    scripted.gate.set()
    await ground.until_row("select count(*) = 3 from replies where state = 'sent'")
    assert scripted.ended == ["first", "meanwhile", "the transcript"]


@pytest.mark.spec("C10")
async def test_it_keeps_its_own_history_in_order_and_within_its_limit(
    ground: Ground, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "HISTORY_TURNS", 3)
    _, queues = await ground.run(**ECHO)
    for n in range(6):
        await say(queues, str(n))
        await ground.until_row("select count(*) = $1 from replies where state = 'sent'", n + 1)
    await queues.add_message("ben", "hello", ANN, USER)
    await until(lambda: len(scripted.told) == 7)
    thread, history, told = scripted.told[5]
    assert (thread, told) == ("bot/line/ann", "5")
    assert history == [Turn(str(n), f"<{n}>") for n in (2, 3, 4)]
    assert scripted.told[6] == ("bot/line/ben", [], "hello")


@pytest.mark.spec("C10")
async def test_neither_groups_nor_own_messages_are_answered(ground: Ground, scripted: Scripted) -> None:
    _, queues = await ground.run(**ECHO, access={"mode": "open", "groups": "never"})
    await say(queues, "to all", group=Group("g"))
    for source in (OUTGOING, BOT):
        await queues.add_message("ann", "mine", ANN, source)
    await say(queues, "")
    await say(queues, "to you")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert [told for *_, told in scripted.told] == ["to you"]


@pytest.mark.spec("C10")
async def test_groups_are_answered_if_asked_for(ground: Ground, scripted: Scripted) -> None:
    del scripted
    _, queues = await ground.run(**ECHO)
    await say(queues, "to all", group=Group("g"))
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")


@pytest.mark.spec("C10")
async def test_conversations_go_side_by_side_and_each_in_order(ground: Ground, scripted: Scripted) -> None:
    scripted.gate = asyncio.Event()
    _, queues = await ground.run(**ECHO)
    await asyncio.gather(
        *(queues.add_message(person, f"{person}{n}", ANN, USER) for n in range(5) for person in "abc")
    )
    await until(lambda: len(scripted.told) == 3)  # the first of each, at the same time
    assert sorted(told for *_, told in scripted.told) == ["a0", "b0", "c0"]
    scripted.gate.set()
    await ground.until_row("select count(*) = 15 from replies where state = 'sent'")
    for person in "abc":
        assert [told for told in scripted.ended if told[0] == person] == [f"{person}{n}" for n in range(5)]


@pytest.mark.spec("C10")
@pytest.mark.parametrize("error", [RuntimeError("busy"), TimeoutError(), ConnectionRefusedError("no model")])
async def test_a_failure_that_may_pass_is_tried_again_and_then_told(
    ground: Ground, scripted: Scripted, error: Exception
) -> None:
    scripted.errors = [error] * 2
    _, queues = await ground.run(**ECHO)
    await say(queues, "one")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    scripted.errors = [error] * reply.TRIES
    await say(queues, "two")
    await say(queues, "three")
    await ground.until_row(
        "select count(*) = 1 from replies where state = 'failed' and tries = $1", reply.TRIES
    )
    await ground.until_row("select count(*) = 2 from replies where state = 'sent'")
    assert sent(ground.line) == ["<one>", "<three>"]
    assert await ground.one("select error from replies where state = 'failed'") in (
        "busy",
        "TimeoutError",
        "no model",
    )


@pytest.mark.spec("C10")
async def test_a_failure_for_good_is_not_tried_again_until_somebody_asks(
    ground: Ground, scripted: Scripted
) -> None:
    scripted.errors = [GiveUpError("I cannot")]
    keeper, queues = await ground.run(**ECHO)
    await say(queues, "one")
    await ground.until_row("select count(*) = 1 from replies where state = 'failed'")
    assert len(scripted.told) == 1
    async with ground.database.transaction() as connection:
        assert await retry_message(connection, ground.engine, "bot", "line", "ann", 1) == "reply"
    await keeper.keep_once()
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert sent(ground.line) == ["<one>"]


@pytest.mark.spec("C10")
async def test_an_answerer_that_takes_too_long_counts_as_a_failure(
    ground: Ground, scripted: Scripted
) -> None:
    ground.settings = ground.settings.model_copy(update={"reply_timeout_seconds": 0.01})
    scripted.gate = asyncio.Event()
    _, queues = await ground.run(**ECHO)
    await say(queues, "one")
    await ground.until_row("select count(*) = 1 from replies where state = 'failed'")
    assert len(scripted.told) == reply.TRIES


@pytest.mark.spec("C10")
async def test_a_network_that_is_not_there_is_waited_for_and_loses_no_tries(
    ground: Ground, scripted: Scripted
) -> None:
    del scripted
    ground.line.connected = False
    _, queues = await ground.run(**ECHO)
    await say(queues, "one")
    await until(lambda: ground.line.tries > 0)
    assert await ground.rows("select state, answer, tries from replies") == [("written", "<one>", 0)]
    ground.line.connected = True
    await ground.line.contexts[-1].tell_status({"state": "connected"})
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert sent(ground.line) == ["<one>"]


class Strict(Line):
    """A network that must not be spoken to before it was started."""

    is_started = False

    def __call__(self, context: BotContext) -> Strict:
        super().__call__(context)
        return self

    async def start(self) -> None:
        await asyncio.sleep(0)
        self.is_started = True

    async def stop(self) -> None:
        self.is_started = False

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        assert self.is_started
        return await super().send(recipient, text, send_id)


@pytest.mark.spec("C10", "C23")
@pytest.mark.parametrize("state", ["not noted", "due", "written", "sent but not noted", "sent"])
async def test_after_a_restart_in_any_state_it_is_answered_once(
    ground: Ground, scripted: Scripted, state: str
) -> None:
    line = Strict()
    ground.line = line
    keeper, _ = await ground.run(**ECHO)
    await keeper.stop_all()
    waiting = ground.keeper()
    scripted.gate = asyncio.Event()
    await waiting.keep_once()
    await say(waiting.get("bot").queues["line"], "one")
    await until(lambda: len(scripted.told) == 1)
    await waiting.stop_all()
    scripted.gate = None
    send_id = send_id_of("bot", "line", "ann", 1)
    sql = {
        "not noted": "with a as (update arrivals set state = 'ready', message = jsonb_build_object('id', 1, 'content', "
        '\'one\', \'sender\', \'{"identifier": "a", "display_name": null, "alternate_identifiers": []}\'::jsonb, '
        "'source', 'user', 'accepted_time', now(), 'message_size', 3, 'group', null)), "
        "q as (delete from queues) delete from replies",
        "due": "select 1",
        "written": "update replies set state = 'written', answer = '<one>'",
        "sent but not noted": "update replies set state = 'written', answer = '<one>'",
        "sent": "update replies set state = 'sent', answer = '<one>'",
    }[state]
    await ground.one(sql)
    if state.startswith("sent"):
        line.sent[send_id] = ("ann", "<one>")
    again = ground.keeper()
    await again.keep_once()
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    for _ in range(3):
        await again.keep_once()
    assert line.sent == {send_id: ("ann", "<one>")}
    await again.stop_all()
    assert await ground.stored() == (["one"] if state == "sent" else ["one", "<one>"])
    assert len(scripted.told) == (2 if state in ("not noted", "due") else 1)


@pytest.mark.spec("C10")
async def test_two_that_think_at_once_send_one_answer_and_keep_the_one_that_was_sent(ground: Ground) -> None:
    await ground.create(**ECHO)
    await ground.one(
        "insert into replies (bot_id, provider_name, correspondent_id, message_id, told) "
        "values ('bot', 'line', 'ann', 1, 'x')"
    )
    keys = {"bot_id": "bot", "provider_name": "line", "correspondent_id": "ann", "message_id": 1}
    async with ground.database.connection() as connection:
        for answer in ("first", "second"):
            await queries.move_reply.run(
                connection, **keys, state="written", answer=answer, error=None, tries=0
            )
    assert await ground.rows("select state, answer from replies") == [("written", "first")]


@pytest.mark.spec("C8", "C10")
async def test_a_message_is_not_stored_before_its_answer_is_noted_as_due(
    ground: Ground, scripted: Scripted
) -> None:
    scripted.gate = asyncio.Event()
    _, queues = await ground.run(**ECHO)
    async with ground.database.transaction() as blocker:
        await blocker.execute("lock table replies in access exclusive mode")
        await say(queues, "one")
        await ground.until_row(
            "select exists (select from pg_locks where relation = 'replies'::regclass and not granted)"
        )
        for _ in range(20):  # the ingestion goes round every 50 ms
            await asyncio.sleep(0.01)
            assert await ground.stored() == []
    await ground.until_stored("one")
    assert await ground.rows("select state from replies") == [("due",)]


@pytest.mark.spec("C10")
async def test_answers_are_due_in_the_order_of_the_messages_however_slow_the_notes(
    ground: Ground, scripted: Scripted
) -> None:
    keeper, queues = await ground.run(**ECHO)
    async with ground.database.transaction() as blocker:
        await blocker.execute("lock table replies in access exclusive mode")
        for n in range(12):
            await say(queues, str(n))
    await ground.until_row("select count(*) = 12 from replies where state = 'sent'")
    assert scripted.ended == [str(n) for n in range(12)]
    await keeper.stop_all()


@pytest.mark.spec("C10")
@pytest.mark.parametrize("answer", ["", "   ", "nul \0 half \ud800"])
async def test_odd_answers_do_no_harm(ground: Ground, scripted: Scripted, answer: str) -> None:
    scripted.always = answer
    _, queues = await ground.run(**ECHO)
    await say(queues, "one")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert sent(ground.line) == (["nul  half ?"] if answer.strip() else [])


def many(state: str, answer: str, count: int) -> str:
    return f"""insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, answer)
        select 'bot', 'line', 'ann', n, 't' || n, '{state}', {answer} from generate_series(1, {count}) n returning 1"""


@pytest.mark.spec("C10")
async def test_whoever_answers_is_told_the_last_twenty_turns_and_the_answer_has_a_bound(
    ground: Ground, scripted: Scripted
) -> None:
    scripted.always = "a" * 60_001
    _, queues = await ground.run(**ECHO)
    await ground.one(many("sent", "'a' || n", 21))
    queues.restore("ann", Message(21, "", ANN, BOT, datetime.now(UTC), 0), 22)  # all that was said before
    await say(queues, "hello")
    await ground.until_row("select state = 'sent' from replies where message_id = 22")
    assert scripted.told[0][1] == [Turn(f"t{n}", f"a{n}") for n in range(2, 22)]
    assert sent(ground.line) == ["a" * 60_000]


@pytest.mark.spec("C10")
async def test_eight_answers_are_thought_of_at_once(ground: Ground, scripted: Scripted) -> None:
    scripted.gate = asyncio.Event()
    _, queues = await ground.run(**ECHO)
    for person in range(10):
        await queues.add_message(f"p{person}", "hello", ANN, USER)
    await until(lambda: len(scripted.told) == 8)
    await ground.until_row("select count(*) = 10 from replies where state = 'due'")
    assert len(scripted.told) == 8
    scripted.gate.set()
    await ground.until_row("select count(*) = 10 from replies where state = 'sent'")


class WordlessError(Exception):
    """An error that says nothing."""


@pytest.mark.spec("C10", "C22")
async def test_a_failure_is_explained_to_whoever_looks(ground: Ground, scripted: Scripted) -> None:
    told = {
        "one": (GiveUpError("no model", fix="set one"), "no model: set one"),
        "two": (GiveUpError("no model"), "no model"),
        "three": (GiveUpError("x" * 600), "x" * 500),
    }
    scripted.errors = [error for error, _ in told.values()]
    _, queues = await ground.run(**ECHO)
    for text in told:
        await say(queues, text)
    await ground.until_row("select count(*) = 3 from replies where state = 'failed'")
    assert dict(await ground.rows("select told, error from replies")) == {
        text: what for text, (_, what) in told.items()
    }
    assert await ground.rows("select distinct tries, answer is null from replies") == [(1, True)]


@pytest.mark.spec("C10")
async def test_an_error_without_words_is_named_and_the_fifth_try_is_the_last(
    ground: Ground, scripted: Scripted
) -> None:
    lost: list[BaseException] = [ConnectionResetError(), ConnectionResetError("cut off")]
    scripted.errors = [*lost, *(WordlessError() for _ in range(9))]
    _, queues = await ground.run(**ECHO)
    seen: list[str] = []

    async def failed() -> bool:
        [(state, error)] = await ground.rows("select state, error from replies") or [("", None)]
        seen.append(error)
        return bool(state == "failed")

    await say(queues, "hello")
    await wait_until(failed, 30)
    assert seen[-1] == "WordlessError"
    assert len(scripted.told) == 5
    assert sent(ground.line) == []


@pytest.mark.spec("C10")
async def test_what_a_network_loses_its_words_over_counts_as_a_try(
    ground: Ground, scripted: Scripted
) -> None:
    del scripted
    errors: list[Exception] = [ConnectionResetError(), TimeoutError("too slow")]

    class Shaky(Line):
        async def send(self, recipient: str, text: str, send_id: str) -> str:
            if errors:
                raise errors.pop(0)
            return await super().send(recipient, text, send_id)

    ground.line = Shaky()
    _, queues = await ground.run(**ECHO)
    await say(queues, "hello")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert await ground.rows("select tries, error from replies") == [(2, None)]
    assert sent(ground.line) == ["<hello>"]


async def test_a_network_that_answers_by_itself_is_asked_in_place_of_the_bots_own(
    ground: Ground, scripted: Scripted
) -> None:
    own = Scripted(always="mine")
    ground.line.answerer = own  # type: ignore[attr-defined]
    _, queues = await ground.run(**ECHO)
    await say(queues, "hello")
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert sent(ground.line) == ["mine"]
    assert (len(own.told), scripted.told) == (1, [])


async def test_while_a_network_is_not_there_it_is_asked_once_and_then_waited_for(
    ground: Ground, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    del scripted
    waited: list[float] = []

    async def wait(event: asyncio.Event, seconds: float) -> None:
        waited.append(seconds)
        assert not event.is_set()
        await event.wait()

    async def wait_for(turn: int) -> None:
        await until(lambda: len(waited) == turn)

    monkeypatch.setattr(reply, "wait_at_most", wait)
    ground.line.connected = False
    _, queues = await ground.run(**ECHO)
    await say(queues, "hello")
    tell_status = ground.line.contexts[-1].tell_status
    for turn in (1, 2):
        await wait_for(turn)
        assert ground.line.tries == turn
        ground.line.connected = turn == 2
        await tell_status({"state": "connected"})
    await ground.until_row("select count(*) = 1 from replies where state = 'sent'")
    assert waited == [10.0, 10.0]


def test_an_answer_costs_nothing_unless_it_says_so_and_is_sent_under_an_id_of_its_message() -> None:
    assert Answer("hello") == Answer("hello", 0)
    assert send_id_of("bot", "line", "ann", 1) == send_id_of("bot", "line", "ann", 1)
    ids = {send_id_of("bot", "line", "ann", n) for n in range(9)} | {send_id_of("bot", "line", "a", 1)}
    assert len(ids) == 10
    assert all(len(id_) == 32 for id_ in ids)
