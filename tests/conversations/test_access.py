"""Who may talk to a bot: strangers get a code and nothing else, owners decide, and each day has its limits."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from mediamill.conversations import access, bots, senders
from mediamill.conversations.access import (
    ENOUGH,
    WELCOME,
    DayLimits,
    Gate,
    LimitReachedError,
    clean_name,
    declared_seconds,
    identifiers_of,
    make_code,
    time_left,
)
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import BotConfig
from mediamill.conversations.janitor import forget_senders
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import OUTGOING, USER, Group, Sender
from mediamill.conversations.reply import Answer
from mediamill.engine.settle import Finish, finish_jobs
from tests.conversations.conftest import Ground, say, send_media

ANN = Sender("ann@example", "Ann", ("ann@lid",))
PAIRED = {"mode": "paired"}


class Costly:
    """A model whose answers cost something."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.asked = 0

    async def answer(self, thread: str, history: Any, told: str, message_id: int) -> Answer:
        del thread, history, message_id
        self.asked += 1
        return Answer(f"<{told}>", self.tokens)


async def begin(ground: Ground, by: str = "echo", **given: Any) -> tuple[BotKeeper, BotQueuesManager]:
    return await ground.run(reply={"by": by}, access={**PAIRED, **given})


async def knock(queues: BotQueuesManager, text: str = "hello", **more: Any) -> Any:
    sender = more.pop("sender", ANN)
    return await queues.add_message(sender.identifier, text, sender, USER, **more)


async def decide(ground: Ground, state: str, sender: str = "ann@example") -> None:
    async with ground.database.transaction() as connection:
        await senders.decide_sender(connection, "bot", None, sender, state)


async def listed(ground: Ground) -> list[dict[str, Any]]:
    async with ground.database.connection() as connection:
        return await senders.list_senders(connection, "bot")


async def until_sent(ground: Ground, keeper: BotKeeper, count: int) -> list[tuple[str, str]]:
    await keeper.keep_once()
    await ground.until_row("select count(*) = $1 from replies where state = 'sent'", count)
    return list(ground.line.sent.values())


@pytest.mark.spec("C50")
async def test_a_stranger_gets_one_code_and_nothing_of_the_message_is_kept(ground: Ground) -> None:
    keeper, queues = await begin(ground)
    for number in range(3):
        assert await knock(queues, f"secret {number}") is None
    assert await send_media(queues, "guid-1", caption="secret") is None
    [sender] = await listed(ground)
    assert (sender["sender_id"], sender["display_name"], sender["state"]) == ("ann@example", "Ann", "pending")
    [(recipient, text)] = await until_sent(ground, keeper, 1)
    assert recipient == "ann@example"
    assert sender["code"] in text
    for table in ("arrivals", "queues", "conversations", "correspondents", "jobs", "sender_days"):
        assert await ground.one(f"select count(*) from {table}") == 0, table
    kept = [dict(row) for row in await listed(ground)]
    assert "secret" not in json.dumps(kept, default=str)
    assert await ground.one("select count(*) from replies where told <> '' or answer like '%secret%'") == 0


@pytest.mark.spec("C50")
async def test_whoever_is_paired_by_the_code_is_told_and_answered_from_then_on(ground: Ground) -> None:
    keeper, queues = await begin(ground)
    await knock(queues)
    code = (await listed(ground))[0]["code"]
    async with ground.database.transaction() as connection:
        with pytest.raises(senders.UnknownCodeError):
            await senders.pair_sender(connection, "bot", "AAAAAAAA")
        paired = await senders.pair_sender(connection, "bot", f" {code[:4].lower()}-{code[4:]}")
    assert paired == {"provider_name": "line", "sender_id": "ann@example", "state": "allowed"}
    assert (await until_sent(ground, keeper, 2))[-1] == ("ann@example", WELCOME)
    assert await knock(queues, "now?") is not None
    # By the other id, which came with the first message, it is the same person.
    assert await knock(queues, "by my LID", sender=Sender("ann@lid")) is not None
    sent = await until_sent(ground, keeper, 4)
    assert [text for _, text in sent[2:]] == ["You said: now?", "You said: by my LID"]
    assert await ground.one("select count(*) from queues where content in ($1, $2)", WELCOME, sent[0][1]) == 0


@pytest.mark.spec("C50")
async def test_what_the_owner_decides_is_in_force_with_the_next_message(ground: Ground) -> None:
    keeper, queues = await begin(ground)
    await decide(ground, "allowed")
    assert await knock(queues, "one") is not None
    await decide(ground, "blocked")
    assert await knock(queues, "two") is None
    async with ground.database.transaction() as connection:
        await senders.forget_sender(connection, "bot", None, "ann@example")
    assert await knock(queues, "three") is None
    assert [sender["state"] for sender in await listed(ground)] == ["pending"]
    await decide(ground, "blocked")
    assert await knock(queues, "four") is None
    sent = [text for _, text in await until_sent(ground, keeper, 2)]
    assert [text for text in sent if "You said" in text] == ["You said: one"]
    assert len(sent) == 2  # the code, once; nothing for whom is blocked, and no welcome to whom never asked


@pytest.mark.spec("C50")
async def test_in_open_mode_everybody_may_talk_but_those_who_are_blocked(ground: Ground) -> None:
    _, queues = await ground.run(access={"mode": "open"})
    assert await knock(queues) is not None
    await decide(ground, "blocked")
    assert await knock(queues) is None
    assert await knock(queues, sender=Sender("new", None, ("ann@example",))) is None


async def test_a_code_expires_and_only_so_many_wait(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_CODES", 3)
    keeper, queues = await begin(ground)
    await asyncio.gather(*(knock(queues, sender=Sender(f"s{n}")) for n in range(8)))
    assert len(await listed(ground)) == 3
    await until_sent(ground, keeper, 3)
    old = {sender["code"] for sender in await listed(ground)}
    await ground.one("update senders set expires_at = now() - interval '1 second' returning 1")
    assert await listed(ground) == []
    async with ground.database.transaction() as connection:
        with pytest.raises(senders.UnknownCodeError):
            await senders.pair_sender(connection, "bot", old.pop())
    await knock(queues, sender=Sender("s1"))
    assert [sender["sender_id"] for sender in await listed(ground)] == ["s1"]
    assert await ground.one("select count(*) from senders") == 1
    await until_sent(ground, keeper, 4)


async def test_a_bot_for_which_nobody_answers_gives_codes_too(ground: Ground) -> None:
    keeper, queues = await begin(ground, by="none")
    await knock(queues)
    assert len(await until_sent(ground, keeper, 1)) == 1


@pytest.mark.spec("C50", "C10")
async def test_a_code_that_was_decided_on_is_sent_once_by_whoever_runs_the_bot_next(ground: Ground) -> None:
    ground.line.connected = False
    keeper, queues = await begin(ground)
    await knock(queues)
    await keeper.keep_once()
    await ground.until_row("select count(*) = 1 from replies where state = 'written'")
    await keeper.stop_all()  # as if it had died: the notice is in the database alone
    ground.line.connected = True
    later = ground.keeper()
    await later.keep_once()
    await until_sent(ground, later, 1)
    assert await knock(later.get("bot").queues["line"]) is None  # the network brings the message again
    await until_sent(ground, later, 1)
    assert len(ground.line.sent) == 1


@pytest.mark.spec("C51")
async def test_messages_are_counted_once_and_end_with_one_word_about_the_limit(ground: Ground) -> None:
    keeper, queues = await begin(ground, messages_per_day=2)
    await decide(ground, "allowed")
    for number in (1, 1, 2):
        await knock(queues, str(number), provider_message_id=f"p-{number}")
    assert (await listed(ground))[0]["messages"] == 2
    assert await knock(queues, "2", provider_message_id="p-2") is None  # again: nobody is told of a limit
    await until_sent(ground, keeper, 2)
    for number in (3, 4):
        assert await knock(queues, str(number), provider_message_id=f"p-{number}") is None
    texts = [text for _, text in await until_sent(ground, keeper, 3)]
    assert [text.split(",")[0] for text in texts if text.startswith("You have")] == [ENOUGH.split(",")[0]]
    assert (await listed(ground))[0]["messages"] == 2
    await ground.one("update sender_days set day = day - 1 returning 1")
    assert await knock(queues, "tomorrow") is not None


@pytest.mark.spec("C51")
async def test_the_limit_holds_when_messages_come_at_once_from_everywhere(ground: Ground) -> None:
    _, queues = await ground.run(access={"mode": "open", "groups": "always", "messages_per_day": 5})
    groups = [Group(f"g{n}") for n in range(20)]
    took = await asyncio.gather(
        *(queues.add_message(group.identifier, "hi", ANN, USER, group=group) for group in groups)
    )
    assert sum(message is not None for message in took) == 5
    assert await ground.rows("select messages from sender_days") == [(5,)]
    assert await ground.one("select count(*) from arrivals") == 5


@pytest.mark.spec("C51")
async def test_declared_seconds_are_checked_before_and_measured_ones_counted_after(ground: Ground) -> None:
    keeper, queues = await ground.run(access={"mode": "open", "media_seconds_per_day": 100})
    declared = {"declared_seconds": 60}
    assert await send_media(queues, "guid-1", media_metadata=declared) is not None
    assert await send_media(queues, "guid-2", media_metadata=declared) is None  # 120 would be too many
    [job] = await ground.claim()
    result = json.dumps({"content": "words", "facts": {"duration_seconds": 95.5}})
    await finish_jobs(ground.database, ground.engine, job.worker_id, [Finish(job, result)])
    await keeper.deliver_once()
    assert await ground.rows("select messages, media_seconds from sender_days") == [(1, 95.5)]
    assert await send_media(queues, "guid-3", media_metadata={"declared_seconds": 5}) is None
    assert await say(queues, "a text") is not None


@pytest.mark.spec("C51")
async def test_the_message_after_the_last_token_is_not_answered(ground: Ground) -> None:
    model = Costly(70)
    ground.answerer = model
    keeper, queues = await begin(ground, by="openai", tokens_per_day=100)
    await decide(ground, "allowed")
    for number in (1, 2):
        assert await knock(queues, str(number)) is not None
        await until_sent(ground, keeper, number)
    assert (await listed(ground))[0]["tokens"] == 140
    assert await knock(queues, "3") is None
    assert model.asked == 2


@pytest.mark.spec("C52")
@pytest.mark.parametrize(
    ("groups", "addressed", "comes_in"),
    [
        ("mentioned", True, True),
        ("mentioned", False, False),
        ("always", False, True),
        ("never", True, False),
    ],
)
async def test_in_groups_the_bot_hears_what_is_meant_for_it(
    ground: Ground, groups: str, addressed: bool, comes_in: bool
) -> None:
    _, queues = await ground.run(access={"mode": "open", "groups": groups})
    message = await queues.add_message("g", "hi", ANN, USER, group=Group("g"), addressed=addressed)
    assert (message is not None) is comes_in
    assert await ground.one("select count(*) from arrivals") == int(comes_in)


@pytest.mark.spec("C52")
async def test_in_a_group_the_sender_must_be_allowed_or_the_group_and_nobody_gets_a_code(
    ground: Ground,
) -> None:
    _, queues = await begin(ground, groups="always")
    group = Group("g")
    assert await queues.add_message("g", "hi", ANN, USER, group=group) is None
    assert await listed(ground) == []
    await decide(ground, "allowed", "g")
    assert await queues.add_message("g", "hi", ANN, USER, group=group) is not None
    await decide(ground, "blocked")
    assert await queues.add_message("g", "hi", ANN, USER, group=group) is None
    assert await queues.add_message("g", "hi", Sender("ben"), USER, group=group) is not None


async def test_what_the_account_writes_elsewhere_is_kept_where_the_other_side_may_talk(
    ground: Ground,
) -> None:
    _, queues = await begin(ground)
    await decide(ground, "allowed")
    me = Sender("me")
    assert await queues.add_message("ann@example", "mine", me, OUTGOING) is not None
    assert await queues.add_message("ben", "mine", me, OUTGOING) is None
    assert await queues.add_message("g", "mine", me, OUTGOING, group=Group("g")) is None


async def test_old_codes_notices_and_days_are_forgotten(ground: Ground) -> None:
    keeper, queues = await begin(ground)
    await knock(queues)
    await until_sent(ground, keeper, 1)
    await decide(ground, "allowed", "ben")
    await knock(queues, sender=Sender("ben"))
    await until_sent(ground, keeper, 2)
    for sql in (
        "update senders set expires_at = now() where state = 'pending' returning 1",
        "update replies set ended_at = now() - interval '2 days' returning 1",
        "update sender_days set day = day - 40 returning 1",
    ):
        await ground.one(sql)
    await forget_senders(ground.database)
    assert await ground.rows("select sender_id from senders") == [("ben",)]
    assert await ground.rows("select message_id > 0 from replies") == [(True,)]
    assert await ground.one("select count(*) from sender_days") == 0


@pytest.mark.parametrize(
    ("network", "given", "found"),
    [
        ("whatsapp", "+49 170 111-11 11", "491701111111@s.whatsapp.net"),
        ("whatsapp", "491701111111@s.whatsapp.net", "491701111111@s.whatsapp.net"),
        ("whatsapp", "120363000000000001@g.us", "120363000000000001@g.us"),
        ("whatsapp", "ann", None),
        ("telegram", " 7001 ", "7001"),
        ("telegram", "-1001234", "-1001234"),
        ("telegram", "@ann", None),
        ("letters", "ann@example.org", "ann@example.org"),
        ("letters", "", None),
        ("letters", "x" * 300, None),
    ],
)
def test_senders_are_named_as_their_network_does(network: str, given: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(senders.BadSenderError):
            senders.sender_id_of(network, given)
    else:
        assert senders.sender_id_of(network, given) == found


async def test_the_network_is_named_where_there_are_several(ground: Ground) -> None:
    config = BotConfig.model_validate({"providers": {"chat": {}, "line": {}, "post": {}}})
    async with ground.database.transaction() as connection:
        await bots.create_bot(connection, "two", config)
        assert await senders.find_provider(connection, "two", "post") == "post"
        for wrong in (None, "chat", "whatsapp"):
            with pytest.raises(senders.BadSenderError, match="two is"):
                await senders.find_provider(connection, "two", wrong)


def test_names_of_strangers_are_short_and_on_one_line() -> None:
    assert clean_name("Ann\n\u202eevil\x1b[31m  x") == "Ann evil [31m x"
    assert clean_name("a" * 500) == "a" * 80
    assert clean_name("\n \t") is None
    assert clean_name(None) is None


def test_codes_are_clear_to_read_and_times_are_words() -> None:
    codes = {make_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(len(code) == 8 and not set(code) & set("01ILO") for code in codes)
    assert [time_left(seconds) for seconds in (1, 90, 3_599, 3_601, 86_400)] == [
        "1 minute",
        "2 minutes",
        "1 hour",
        "2 hours",
        "24 hours",
    ]


@pytest.mark.parametrize(
    ("limits", "used", "more_seconds", "allowed"),
    [
        (DayLimits(), (10**6, 10.0**6, 10**6), 60, True),
        (DayLimits(messages=3), (2, 0, 0), 0, True),
        (DayLimits(messages=3), (3, 0, 0), 0, False),
        (DayLimits(tokens=3), (9, 9, 2), 0, True),
        (DayLimits(tokens=3), (0, 0, 3), 0, False),
        (DayLimits(media_seconds=60), (9, 50, 9), 10, True),
        (DayLimits(media_seconds=60), (0, 50, 0), 10.1, False),
        (DayLimits(1, 1, 1), None, 1, True),
        (DayLimits(media_seconds=60), None, 61, False),
    ],
)
def test_a_limit_of_a_day_is_what_may_be_used_and_none_is_no_limit(
    limits: DayLimits, used: Any, more_seconds: float, allowed: bool
) -> None:
    assert limits.allow(used, more_seconds) is allowed


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        ({"declared_seconds": 5}, 5.0),
        ({"declared_seconds": 0.5}, 0.5),
        ({"declared_seconds": 0}, 0.0),
        ({"declared_seconds": 9_999_999}, 9_999_999.0),
        ({"declared_seconds": 10_000_000}, 0.0),
        ({"declared_seconds": -1}, 0.0),
        ({"declared_seconds": "5"}, 0.0),
        ({}, 0.0),
        (None, 0.0),
        ("odd", 0.0),
    ],
)
def test_seconds_that_cannot_be_right_count_as_none(metadata: Any, seconds: float) -> None:
    assert declared_seconds(metadata) == seconds


def test_somebodys_ids_are_named_once_and_user_names_are_none() -> None:
    assert identifiers_of(Sender("ann", None, ("lid", "@ann", "ann", "lid"))) == ["ann", "lid"]
    assert identifiers_of(Sender("@ann")) == ["@ann"]


def test_the_time_left_is_rounded_up_to_minutes_and_then_to_hours() -> None:
    said = {-1: "1 minute", 0: "1 minute", 60: "1 minute", 61: "2 minutes", 3_540: "59 minutes"}
    said |= {3_541: "1 hour", 3_600: "1 hour", 7_200: "2 hours", 7_201: "3 hours"}
    assert {seconds: time_left(seconds) for seconds in said} == said


@pytest.mark.spec("C50")
async def test_fifty_strangers_wait_at_most_each_for_an_hour(ground: Ground) -> None:
    keeper, queues = await begin(ground)
    pending = """insert into senders (bot_id, provider_name, sender_id, state, identifiers, code, asked_at, expires_at)
        select 'bot', 'line', 's' || n, 'pending', '{}', 'CODE' || n, now(), now() + interval '1 hour'
        from generate_series(1, 49) n returning 1"""
    await ground.one(pending)
    for sender in (ANN, Sender("too late")):
        assert await knock(queues, sender=sender) is None
    assert await ground.rows(
        "select sender_id, display_name, identifiers, expires_at - asked_at from senders where code not like 'CODE%'"
    ) == [("ann@example", "Ann", ["ann@example", "ann@lid"], timedelta(hours=1))]
    [(recipient, text)] = await until_sent(ground, keeper, 1)
    assert recipient == "ann@example"
    assert text.endswith("It is valid for one hour.")


async def test_what_was_used_is_remembered_for_a_month(ground: Ground) -> None:
    await ground.create(start=False)
    days = """insert into sender_days (bot_id, provider_name, sender_id, day)
        select 'bot', 'line', 'ann', (now() at time zone 'utc')::date - n from generate_series(30, 33) n returning 1"""
    await ground.one(days)
    await forget_senders(ground.database)
    left = "select (now() at time zone 'utc')::date - day from sender_days order by 1"
    assert await ground.rows(left) == [(30,), (31,)]


@pytest.mark.spec("C52")
@pytest.mark.parametrize("groups", ["always", "mentioned", "never"])
async def test_what_the_account_writes_to_a_group_is_kept_where_all_of_it_is_heard(
    ground: Ground, groups: str
) -> None:
    _, queues = await begin(ground, groups=groups)
    kept = await queues.add_message("g", "mine", Sender("me"), OUTGOING, group=Group("g"))
    assert (kept is not None) is (groups == "always")


@pytest.mark.spec("C50", "C52")
async def test_without_a_word_a_bot_wants_strangers_paired_and_hears_groups_that_mention_it(
    ground: Ground,
) -> None:
    _, queues = await ground.run(access={})
    assert await knock(queues) is None
    assert [sender["state"] for sender in await listed(ground)] == ["pending"]
    await decide(ground, "allowed")
    assert await queues.add_message("g", "hi", ANN, USER, group=Group("g")) is not None
    assert await queues.add_message("g", "hi", ANN, USER, group=Group("g"), addressed=False) is None


@pytest.mark.spec("C51")
async def test_a_message_is_judged_and_counted_by_the_gate_alone_too(ground: Ground) -> None:
    await ground.create(start=False)
    config = BotConfig.model_validate({"access": {"mode": "open"}}).access
    gate = Gate(ground.database, "bot", "line", config, DayLimits(messages=1, media_seconds=10))
    used = "select sender_id, messages, media_seconds, tokens from sender_days"
    for seconds, fine in ((10.0, True), (10.5, False)):
        admitted = await gate.admit("ann", ANN, None, provider_message_id="p", media_seconds=seconds)
        assert admitted is fine
    assert await gate.admit("ann", ANN, None, provider_message_id="p")
    assert await gate.admit("g", ANN, Group("g"), provider_message_id="p")
    async with ground.database.transaction() as connection:
        await gate.count(connection, ANN)
        with pytest.raises(LimitReachedError):
            await gate.count(connection, ANN)
        await gate.count(connection, ANN, 2.5, strict=False)
    assert await ground.rows(used) == [("ann@example", 2, 2.5, 0)]
    assert not await gate.admit("ann", ANN, None, provider_message_id="p")
