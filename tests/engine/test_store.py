"""Rows become what the engine works with: every column in its place, JSON as what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.engine import lease, store
from mediamill.engine.enqueue import Enqueuer, PayloadInvalidError, PayloadTooLargeError
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import ClaimedJob, Moved, NewJob
from mediamill.engine.rules import Engine
from mediamill.engine.settle import ResultTooLargeError, encode_result

JOB = ClaimedJob(1, 2, 3, "k", "p", "o", "s", "image/png", 4, 5, '{"a": 1}', '{"at": 7}', "00-ab")
ROW: Any = {
    "id": 1,
    "token": 2,
    "worker_id": 3,
    "kind": "k",
    "pool": "p",
    "owner": "o",
    "subject_id": "s",
    "mime_type": "image/png",
    "attempts": 4,
    "max_attempts": 5,
    "trace": "00-ab",
    "payload": '{"a": 1}',
    "checkpoint": '{"at": 7}',
}


class Odd:
    """Nothing that JSON knows."""

    def __str__(self) -> str:
        return "odd"


def test_a_job_is_the_same_whether_it_was_claimed_or_is_held() -> None:
    claimed: Any = (1, 2, "k", "o", "s", "image/png", 4, 5, '{"a": 1}', '{"at": 7}', "00-ab")
    assert store.claimed_job(claimed, "p", 3) == store.held_job(ROW) == JOB


def test_hooks_are_told_every_column_and_what_became_of_the_job() -> None:
    told = store.moved(ROW, reason="why", final=True)
    assert told == Moved(
        1, "k", "o", "s", 4, {"a": 1}, mime_type="image/png", reason="why", error=None, final=True
    )


def test_columns_of_json_are_decoded_for_people_and_others_are_not() -> None:
    decoded = {"payload", "parts", "checkpoint", "result", "capabilities", "metadata", "stats", "data"}
    row: Any = {**dict.fromkeys([*decoded, "error", "step"], '{"a": 1}'), "id": 7}
    found = store.plain(row)
    assert found == {**{key: {"a": 1} for key in decoded}, "error": '{"a": 1}', "step": '{"a": 1}', "id": 7}
    empty: Any = {"result": None}
    assert store.plain(empty) == {"result": None}


def test_a_result_is_json_of_so_many_bytes_at_most() -> None:
    engine = Engine(payload_limit_bytes=20)
    assert encode_result(engine, None) is None
    assert encode_result(engine, {"a": Odd()}) == '{"a":"odd"}'
    assert encode_result(engine, "x" * 18) == f'"{"x" * 18}"'
    with pytest.raises(ResultTooLargeError, match="has 21 bytes, the limit is 20"):
        encode_result(engine, "x" * 19)


def test_a_payload_is_a_json_object_of_a_million_bytes_at_most() -> None:
    def payload_of(given: Any) -> str:
        return Enqueuer(Kinds())._payload(NewJob("a", given))

    class Mine(dict[str, Any]):
        pass

    assert json.loads(payload_of({"a": Odd(), "b": [None, 1.5]})) == {"a": "odd", "b": [None, 1.5]}
    assert json.loads(payload_of(Mine(a=1))) == {"a": 1}
    assert len(payload_of({"a": "x" * (1_000_000 - 8)})) == 1_000_000
    with pytest.raises(PayloadTooLargeError, match="has 1000001 bytes, the limit is 1000000"):
        payload_of({"a": "x" * (1_000_000 - 7)})
    wrong: Any
    for wrong in ([], "a", None):
        with pytest.raises(PayloadInvalidError, match="must be a JSON object"):
            payload_of(wrong)
    with pytest.raises(PayloadInvalidError, match="no JSON object"):
        payload_of({"a": "\ud800"})


def test_a_progress_report_has_a_million_bytes_at_most() -> None:
    assert lease._json(None) is None
    assert lease._json({"a": 1}) == '{"a":1}'
    assert len(lease._json("x" * 999_998) or "") == 1_000_000
    with pytest.raises(lease.ProgressTooLargeError, match="may have 1000000 bytes, this has 1000001"):
        lease._json("x" * 999_999)
