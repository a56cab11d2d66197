"""`mediamill doctor` finds what is wrong, and says what to do about each."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mediamill.cli import doctor, symptoms
from mediamill.cli.symptoms import find_symptoms, skew_seconds
from mediamill.db.connection import Database, connect
from mediamill.engine.recovery.sweep import take_turn
from tests.cli.conftest import Mediamill

NOW = datetime(2026, 11, 15, 22, 0, tzinfo=UTC)
WELL: dict[str, Any] = {
    "confinement_gaps": [],
    "disk": {"data_folder": "data", "free_bytes": 50 << 30, "total_bytes": 100 << 30},
    "database": {
        "exists": True,
        "now": NOW,
        "clock_skew_seconds": -0.4,
        "connections": 20,
        "most_connections": 97,
        "oldest_transaction": {"pid": 7, "application_name": "psql", "seconds": 3, "query": "select 1"},
        "workers": {"active": 0, "idle": 1, "busy": 0, "paused": 0, "offline": 3, "disabled": 0},
        "jobs": {"queued": 5, "scheduled": 0, "running": 1, "held": 0, "completed": 0},
        "alerts": {"waiting": 1, "failing": 0, "sent": 3, "given_up": 0, "last_error": None},
        "sweep_seconds": 60.0,
        "last_sweep_at": NOW - timedelta(seconds=70),
    },
}


def ill(section: str, **changes: Any) -> dict[str, Any]:
    facts = copy.deepcopy(WELL)
    facts[section].update(changes)
    return facts


def test_what_is_well_has_no_symptom() -> None:
    assert find_symptoms(WELL) == []
    assert find_symptoms({**WELL, "database": {"exists": False}}) == []
    assert find_symptoms({**WELL, "database": {"exists": True, "error": "it is down"}}) == []


@pytest.mark.parametrize(
    ("facts", "about", "message", "fix"),
    [
        (
            ill(
                "database",
                oldest_transaction={"pid": 7, "application_name": "psql", "seconds": 61, "query": "x"},
            ),
            "database",
            "transaction of psql (process 7) has been open for 1 min",
            "pg_terminate_backend(7)",
        ),
        (ill("database", clock_skew_seconds=2.5), "clock", "2.5 s behind the database's", "NTP"),
        (ill("database", clock_skew_seconds=-90.0), "clock", "ahead of the database's", "NTP"),
        (
            ill(
                "database",
                waits=[
                    {"server": "gpu:4000", "jobs": 2, "since": NOW - timedelta(minutes=3), "reason": "(429)"}
                ],
            ),
            "models",
            "2 jobs waiting for the model server at gpu:4000, for 3 min ((429))",
            "start the server",
        ),
        (ill("database", connections=78), "database", "78 of 97 connections", "max_connections"),
        (ill("disk", free_bytes=999_000_000), "disk", "only 999 MB", "free some space"),
        (ill("disk", free_bytes=4 << 30), "disk", "only 4.3 GB of 107 GB", "free some space"),
        (
            ill("database", last_sweep_at=NOW - timedelta(minutes=6)),
            "sweep",
            "nobody sweeps (for 6 min",
            "mediamill up",
        ),
        (ill("database", last_sweep_at=None), "sweep", "nobody sweeps (never)", "mediamill up"),
        (
            ill("database", alerts={"failing": 1, "given_up": 2, "last_error": "HTTP 500"}),
            "alerts",
            "1 alert did not arrive so far, 2 were given up in the last seven days: HTTP 500",
            "MEDIAMILL_ALERT_WEBHOOK_URL",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    facts: dict[str, Any], about: str, message: str, fix: str
) -> None:
    (symptom,) = find_symptoms(facts)
    assert symptom.about == about
    assert message in symptom.message
    assert fix in symptom.fix


def test_where_nothing_runs_and_nothing_waits_nobody_has_to_sweep() -> None:
    nobody = dict.fromkeys(WELL["database"]["workers"], 0)
    nothing = dict.fromkeys(WELL["database"]["jobs"], 0)
    assert find_symptoms(ill("database", workers=nobody, jobs=nothing, last_sweep_at=None)) == []
    assert len(find_symptoms(ill("database", workers=nobody, last_sweep_at=None))) == 1


def test_the_time_of_the_question_is_no_skew() -> None:
    asked, answered = NOW, NOW + timedelta(seconds=4)
    assert skew_seconds(asked, NOW + timedelta(seconds=2), answered) == 0
    assert skew_seconds(asked, NOW + timedelta(seconds=7), answered) == 5


@pytest.mark.spec("E33", "C31")
async def test_doctor_finds_a_held_open_transaction_failing_alerts_and_missing_sweeps(
    mediamill: Mediamill, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symptoms, "LONG_TRANSACTION_SECONDS", 0)
    monkeypatch.setattr(symptoms, "LITTLE_SPACE_BYTES", 1 << 60)
    assert doctor.ALERT_STATES
    async with database.connection() as connection:
        await connection.execute("insert into workers (name, type, state) values ('a', 'remote', 'idle')")
        await connection.execute(
            "insert into alerts (type, data, tries, last_error) values ('a', '{}', 3, 'HTTP 503 closed')"
        )
        await connection.execute(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, run_after, payload, waits_for, "
            "waiting_since, error) values ('x', 'default', 'o', 1, 1, 'scheduled', now() + interval '1 hour', '{}', "
            "'gpu:4000', now(), 'too many requests (429)')"
        )
    forgotten = await connect(database.url, name="a forgotten shell")
    try:
        await forgotten.execute("begin; select 1")
        found = (await mediamill("doctor", "--json")).json
        text = (await mediamill("doctor")).out
    finally:
        await forgotten.close()
    told = {warning["about"]: warning for warning in found["warnings"]}
    assert set(told) == {"disk", "database", "sweep", "alerts", "models"}
    assert "1 job waiting for the model server at gpu:4000" in told["models"]["message"]
    assert "a forgotten shell" in told["database"]["message"]
    assert "HTTP 503 closed" in told["alerts"]["message"]
    assert found["database"]["most_connections"] > found["database"]["connections"] >= 1
    assert abs(found["database"]["clock_skew_seconds"]) < 60
    assert text.count("warning: ") == text.count("  fix: ") == 5
    monkeypatch.undo()
    assert await take_turn(database, "sweep_turn", 60)
    async with database.connection() as connection:
        await connection.execute("delete from alerts")
    again = (await mediamill("doctor", "--json")).json["warnings"]
    assert not {warning["about"] for warning in again} & {"database", "sweep", "alerts"}


def test_a_weak_sandbox_is_a_symptom() -> None:
    (symptom,) = find_symptoms({**WELL, "confinement_gaps": ["children can do anything"]})
    assert symptom.about == "children"
    assert "mediamill sandbox" in symptom.fix
