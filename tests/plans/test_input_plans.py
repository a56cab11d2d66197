"""The statements of inputs go by indexes and touch what they take, however many runs there were and images wait."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from mediamill.inputs.store import SCOPE_LOCKS, queries
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("runs", "input_images")
DONE, OPEN, WAITING = 100_000, 20, 30_000
RUN = UUID(int=DONE + 1)
# One thread with 100,000 runs and 20 open ones, another 20,000 with a run each; 30,000 people have an image that waits,
# 200 of them in one group; a few have expired.
FILL = (
    f"""insert into runs (run_id, source, thread_key, user_key, delivery_mode, text, payload_hash, idempotency_key,
        state)
    select lpad(to_hex(n), 32, '0')::uuid, 'telegram', 'busy', 'ann', 'prompt', 'text', 'h', 'k' || n,
        case when n <= {DONE} then 'completed' else 'queued' end
    from generate_series(1, {DONE + OPEN}) n""",
    """insert into runs (source, thread_key, delivery_mode, text, payload_hash, state)
    select 'api', 'thread ' || n, 'prompt', 'text', 'h', case when n % 40 = 0 then 'queued' else 'completed' end
    from generate_series(1, 20000) n""",
    f"""insert into input_images (source, thread_key, user_key, run_id, telegram_media_group_id, mime_type, byte_size,
        image_bytes, position)
    select 'telegram', 'busy', 'ann', lpad(to_hex({DONE} + n), 32, '0')::uuid, 'album ' || n, 'image/png', 3, 'abc', p
    from generate_series(1, {OPEN}) n, generate_series(0, 9) p""",
    f"""insert into input_images (source, thread_key, user_key, telegram_media_group_id, mime_type, byte_size,
        image_bytes, position, expires_at)
    select 'telegram', case when n <= 200 then 'busy' else 'chat ' || n end, 'user ' || n, 'of ' || n, 'image/png', 3,
        'abc', 0, now() + make_interval(mins => n - 30)
    from generate_series(1, {WAITING}) n""",
    """insert into input_images (source, thread_key, user_key, mime_type, byte_size, image_bytes, position)
    select 'telegram', 'busy', 'ann', 'image/png', 3, 'abc', p from generate_series(0, 4) p""",
)
EXPIRED = 30
GROUP = 205  # who looks for a person's images may look at those of all in the same chat
ANN = {"source": "telegram", "thread_key": "busy", "user_key": "ann"}
NEW = ANN | {
    "delivery_mode": "prompt",
    "text": "text",
    "agent": "{}",
    "idempotency_key": "new",
    "payload_hash": "h",
    "image_count": 0,
    "image_bytes": 0,
    "start_after_seconds": 0,
}


CASES = [
    Case(queries.purge_expired, {}, 2 * EXPIRED),
    Case(queries.lock_scope, ANN | {"lock_class": SCOPE_LOCKS}, 0),
    Case(queries.add_run, NEW, 1),
    Case(queries.add_run, NEW | {"idempotency_key": "k7"}, 1, "again"),
    Case(queries.find_run_by_key, {"source": "telegram", "idempotency_key": "k7"}, 1),
    Case(queries.show_run, {"run_id": RUN}, 11),
    Case(queries.list_runs, {"before": None, "amount": 50}, 50),
    Case(queries.list_runs, {"before": 500, "amount": 50}, 50, "far back"),
    Case(queries.list_thread_runs, {"thread_key": "busy", "before": None, "amount": 50}, 50 + 10 * OPEN),
    Case(queries.list_thread_runs, {"thread_key": "busy", "before": 500, "amount": 50}, 50, "far back"),
    Case(
        queries.list_thread_runs, {"thread_key": "thread 7", "before": None, "amount": 50}, 1, "a quiet one"
    ),
    Case(queries.count_pending, ANN, GROUP),
    Case(queries.count_pending, ANN | {"thread_key": "chat 999", "user_key": "user 999"}, 1, "a quiet one"),
    Case(queries.claim_pending, ANN | {"run_id": RUN}, GROUP + 10),
    Case(
        queries.claim_pending,
        ANN | {"thread_key": "chat 999", "user_key": "user 999", "run_id": RUN},
        4,
        "a quiet one",
    ),
    Case(queries.drop_pending, ANN, GROUP),
    Case(queries.run_of_group, ANN | {"media_group_id": "album 7"}, 11 * OPEN),
    Case(queries.run_of_group, ANN | {"thread_key": "chat 999", "media_group_id": "of 999"}, 1, "none"),
    Case(queries.next_place, {"run_id": RUN}, 10),
    Case(queries.note_more_images, {"run_id": RUN, "byte_size": 1}, 1),
    Case(queries.images_of_run, {"run_id": RUN}, 10),
    Case(queries.delete_images_of_run, {"run_id": RUN}, 10),
    Case(queries.open_threads, {}, OPEN + 500),
    Case(queries.open_runs, {"thread_key": "busy", "amount": 20}, 11 * OPEN),
    Case(queries.open_runs, {"thread_key": "thread 7", "amount": 20}, 1, "none"),
    Case(queries.start_run, {"run_id": RUN}, 1),
    Case(queries.grow_answer, {"run_id": RUN, "tries": 0, "answer": "a"}, 1),
    Case(queries.complete_run, {"run_id": RUN, "tries": 0, "answer": "a", "tokens": 0}, 1),
    Case(queries.retry_run, {"run_id": RUN}, 1),
    Case(queries.past_runs, {"thread_key": "busy", "sequence": DONE + 1, "amount": 20}, 20),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("I4", "I7", "I8")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
