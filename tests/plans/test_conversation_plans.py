"""The statements of conversations go by indexes and touch what they take, however much was said before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mediamill.conversations.store import queries
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("arrivals", "queues", "replies", "conversations", "correspondents", "senders", "sender_days")
STORED, OPEN = 100_000, 20
MESSAGE = (
    "jsonb_build_object('id', n, 'content', 'text', 'sender', '{}'::jsonb, 'source', 'user', 'accepted_time', now(), "
    "'message_size', 4, 'originating_time', n, 'group', null)"
)
# One conversation with 100,000 messages, another 20,000 conversations; a few messages are open, a few answers are due.
FILL = (
    "insert into bots (id, config) select 'bot' || n, '{}' from generate_series(1, 20) n",
    f"""insert into arrivals select 'bot1', 'line', 'ann', 'p' || n, n, 'stored', 'done' || n, null, '{{}}'
    from generate_series(1, {STORED}) n""",
    f"""insert into arrivals select 'bot1', 'line', 'ann', 'p' || n, n,
        case when n % 2 = 0 then 'ready' else 'placeholder' end, 'guid' || n, {MESSAGE}, '{{}}', now(), now()
    from generate_series({STORED + 1}, {STORED + OPEN}) n""",
    """insert into arrivals select 'bot' || n % 20 + 1, 'line', 'p' || n, 'p' || n, 1, 'stored'
    from generate_series(1, 20000) n""",
    f"""insert into queues select 'bot1', 'line', 'ann', n, 'text', '{{}}', 'user', now(), 4
    from generate_series(1, {STORED}) n""",
    """insert into conversations
    select 'bot' || n % 20 + 1, 'line', 'p' || n, null, false, 1, now() - make_interval(secs => n)
    from generate_series(1, 20000) n""",
    f"insert into conversations values ('bot1', 'line', 'ann', null, false, {STORED + OPEN}, now())",
    f"""insert into replies select 'bot1', 'line', 'ann', n, 'told', 'sent', 'answer'
    from generate_series(1, {STORED}) n""",
    """insert into correspondents select 'bot' || n % 20 + 1, 'line', 'p' || n, 'p' || n
    from generate_series(1, 20000) n""",
    """insert into senders (bot_id, provider_name, sender_id, state)
    select 'bot' || n % 20 + 1, 'line', 'p' || n, 'allowed' from generate_series(1, 20000) n""",
    """insert into sender_days select 'bot' || n % 20 + 1, 'line', 'p' || n, (now() at time zone 'utc')::date - n % 7
    from generate_series(1, 20000) n""",
    f"""insert into replies select 'bot1', 'line', 'ann', n, 'told', 'due'
    from generate_series({STORED + 1}, {STORED + 5}) n""",
)
LINE = {"bot_id": "bot1", "provider_name": "line"}
ANN = {**LINE, "correspondent_id": "ann"}
TEXTS = {"guids": [f"guid{STORED + 1}"], "contents": ["text"], "failed_reasons": [None]}
PAGE = {"before": None, "after": None, "amount": 50}


CASES = [
    Case(
        queries.accept,
        {
            **ANN,
            "provider_message_id": "new",
            "id": 10**6,
            "guid": None,
            "message": "{}",
            "media": None,
            "display_name": None,
            "is_group": False,
        },
        2,
    ),
    Case(queries.find_sender, {**LINE, "identifiers": ["p7", "p7@lid"]}, 2),
    Case(queries.sender_key, {**LINE, "identifiers": ["p7", "p7@lid"], "first": "p7"}, 2),
    Case(queries.read_day, {**LINE, "sender_id": "p7"}, 1),
    Case(queries.lock_day, {**LINE, "sender_id": "p7"}, 1),
    Case(queries.last_id, ANN, 1),
    Case(queries.find_arrival, {**ANN, "provider_message_id": "p7"}, 1),
    Case(queries.open_arrivals, {"bot_id": "bot1"}, 2 * OPEN),
    Case(queries.ready_media, {"bot_ids": ["bot1", "bot2"], "batch": 1000}, OPEN),
    Case(queries.left_behind, {"bot_id": "bot1", "older_than_seconds": 0, "batch": 1000}, OPEN),
    Case(queries.finish_arrivals, TEXTS, 1),
    Case(queries.rewrite_waiting, TEXTS, 1),
    Case(queries.rewrite_stored, TEXTS | {"guids": ["done7"]}, 2),
    Case(
        queries.store_messages,
        {
            "bot_id": "bot1",
            "provider_names": ["line"] * 10,
            "correspondent_ids": ["ann"] * 10,
            "ids": list(range(STORED + 2, STORED + OPEN + 1, 2)),
        },
        40,
    ),
    Case(queries.list_messages, ANN | PAGE, 50 + OPEN),
    Case(queries.list_messages, ANN | PAGE | {"before": 500}, 50 + OPEN, "far back"),
    Case(queries.list_messages, ANN | PAGE | {"before": 501, "after": 499, "amount": 1}, 2, "one"),
    Case(queries.list_conversations, {"bot_id": "bot1", "before": None, "amount": 50}, 50 + OPEN),
    Case(queries.next_reply, {**ANN, "answers": True}, 1),
    Case(queries.open_replies, {"bot_id": "bot1", "answers": True}, 5),
    Case(queries.past_replies, ANN | {"notified_order": STORED + 1, "amount": 20}, 20),
    Case(queries.list_failed_replies, ANN | {"amount": 50}, 0),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("C8", "C22", "C23")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
