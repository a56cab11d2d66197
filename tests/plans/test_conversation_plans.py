"""The statements of conversations go by indexes and touch what they take, however much was said before."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mediamill.conversations.store import queries
from mediamill.db.connection import connect
from mediamill.db.queries import Query
from tests.conftest import clone_template, database_url, drop_database, run_sql
from tests.plans.measure import literal, nodes, rows_examined

TABLES = ("arrivals", "queues", "replies", "conversations")
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
    f"""insert into replies select 'bot1', 'line', 'ann', n, 'told', 'due'
    from generate_series({STORED + 1}, {STORED + 5}) n""",
)
ANN = {"bot_id": "bot1", "provider_name": "line", "correspondent_id": "ann"}
TEXTS = {"guids": [f"guid{STORED + 1}"], "contents": ["text"], "failed_reasons": [None]}
PAGE = {"before": None, "after": None, "amount": 50}


@dataclass(frozen=True)
class Case:
    """A statement, what it is given, and how many rows it may look at."""

    query: Query
    given: dict[str, Any]
    examines: int
    name: str = ""


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
    Case(queries.next_reply, ANN, 1),
    Case(queries.open_replies, {"bot_id": "bot1"}, 5),
    Case(queries.past_replies, ANN | {"message_id": STORED + 1, "amount": 20}, 20),
    Case(queries.list_failed_replies, ANN | {"amount": 50}, 0),
]


async def explain(url: str) -> dict[tuple[int, str], str]:
    await run_sql(url, *FILL, *(f"vacuum (analyze) {table}" for table in TABLES))
    plans: dict[tuple[int, str], str] = {}
    for mode in ("force_generic_plan", "force_custom_plan"):
        connection = await connect(url, plan_cache_mode=mode)
        for number, case in enumerate(CASES):
            arguments = ", ".join(map(literal, case.query.arguments(case.given)))
            await connection.execute(f"prepare measured as {case.query.sql.rstrip().rstrip(';')}")
            transaction = connection.transaction()
            await transaction.start()
            plans[number, mode] = await connection.fetchval(
                f"explain (analyze, timing off, costs off, format json) execute measured({arguments})"
            )
            await transaction.rollback()
            await connection.execute("deallocate measured")
        await connection.close()
    return plans


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[dict[tuple[int, str], str]]:
    admin, name = database_url(server_url, "postgres"), f"conversation_plans_{os.getpid()}"
    asyncio.run(run_sql(admin, clone_template(name)))
    yield asyncio.run(explain(database_url(server_url, name)))
    asyncio.run(run_sql(admin, drop_database(name)))


@pytest.mark.spec("C8", "C22", "C23")
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize(
    "number", [pytest.param(n, id=f"{case.query.name} {case.name}".strip()) for n, case in enumerate(CASES)]
)
def test_no_table_is_scanned_and_few_rows_are_looked_at(
    plans: dict[tuple[int, str], str], number: int, mode: str
) -> None:
    text = plans[number, mode]
    scans = [
        node
        for node in nodes(json.loads(text)[0]["Plan"])
        if node.get("Relation Name") in TABLES and "Scan" in node["Node Type"]
    ]
    assert [node["Node Type"] for node in scans if node["Node Type"] == "Seq Scan"] == [], text
    assert sum(map(rows_examined, scans)) <= 2 * CASES[number].examines + 2, text
