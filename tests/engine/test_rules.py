"""What holds if nothing is said: the engine without settings, a job with a kind alone, what was not counted yet."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mediamill.engine.attempts import BOUNDS, Ended, Outcome
from mediamill.engine.claim import Claimer
from mediamill.engine.events import EventReader
from mediamill.engine.kinds import JobKind, Kinds, UnknownKindError
from mediamill.engine.model import (
    DEAD_REASONS,
    ClaimedJob,
    Failure,
    Moved,
    NewJob,
    Priority,
    State,
    backoff_seconds,
    failure_of,
)
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, Finish, Settled
from mediamill.errors import GiveUpError, NotNowError
from mediamill.settings import Settings

OTHER = {
    "payload_limit_bytes": 1234,
    "heartbeat_seconds": 1.5,
    "offline_after_seconds": 2.5,
    "session_grace_seconds": 3.5,
    "startup_grace_seconds": 4.5,
    "max_releases": 14,
    "sweep_seconds": 5.5,
    "janitor_seconds": 6.5,
    "finished_keep_hours": 7.5,
    "events_keep_hours": 8.5,
    "alert_rate_limit_seconds": 9.5,
    "alert_worker_events": True,
    "alert_pattern_failures": 11,
    "flight_dumps": 12,
    "flight_dumps_keep_days": 13.5,
}


def test_an_engine_without_settings_is_that_of_the_default_settings() -> None:
    kinds = Kinds()
    assert Engine(kinds=kinds) == Engine.from_settings(Settings(), kinds)
    assert Engine().kinds.names() == []
    assert not Engine().alerts_on


def test_every_number_of_the_engine_is_a_setting() -> None:
    given: dict[str, Any] = {"alert_webhook_url": "https://example.com/", **OTHER}
    engine = Engine.from_settings(Settings(**given), Kinds())
    assert {field.name: getattr(engine, field.name) for field in fields(Engine) if field.name != "kinds"} == {
        "alerts_on": True,
        **OTHER,
    }


def test_a_job_of_which_only_the_kind_is_said() -> None:
    job = NewJob("a")
    assert job == NewJob("a", {}, "default", None, None, Priority.NORMAL, None, None, None, None)
    assert NewJob("a").payload is not job.payload, "each has a payload of its own"
    kind = JobKind("a")
    assert [kind.reaped, kind.owns_input, kind.keeps_files, kind.local, kind.description] == [
        *[False] * 4,
        "",
    ]
    assert kind.release_counts
    moved = Moved(1, "a", "o", None, 1, {})
    assert (moved.final, moved.error, moved.reason, moved.result) == (False, None, None, None)
    claimed = ClaimedJob(1, 2, 3, "a", "default", "o", None, None, 1, 3, "{}", None)
    assert (claimed.claim.job_id, claimed.claim.worker_id, claimed.claim.token) == (1, 3, 2)
    assert Finish(claimed).result_json is None


def test_what_nothing_was_counted_in_is_empty_and_nobody_elses() -> None:
    ended = Ended("a", "default", Outcome.DEAD)
    assert (ended.count, ended.seconds, ended.buckets) == (0, 0, [0] * (len(BOUNDS) + 1))
    for make in (Settled, lambda: EventReader(0), lambda: Claimer(1, "a", Kinds())):
        first, second = make(), make()
        for name in ("done", "lost", "failed", "gaps", "last_owners"):
            if hasattr(first, name):
                assert not getattr(first, name)
                assert getattr(first, name) is not getattr(second, name)
    claimer = Claimer(1, "a", Kinds())
    assert (claimer.gpu, claimer.heartbeat_seconds, claimer.looked_at) == (False, 30, 0)


def test_states_outcomes_and_reasons_are_known_by_these_words() -> None:
    """Other programs and older rows of the database have them."""
    assert list(State) == ["scheduled", "queued", "running", "held", "completed", "finished", "dead"]
    assert list(Outcome) == [
        *("completed", "failed", "dead", "put_off", "handed_back", "rerouted", "released"),
    ]
    assert list(DEAD_REASONS) == [
        *("abandoned", "delivery_failed", "hook_failed", "max_attempts_exhausted", "no_retry", "permanent"),
    ]
    assert [*map(int, Fate)] == [0, 1, 2]
    assert not Fate.LOST


def test_a_failure_counts_unless_what_it_needed_was_not_there() -> None:
    assert Failure("a", False).counts
    assert failure_of(ValueError("a")).counts
    assert not failure_of(NotNowError("away")).counts
    given_up = failure_of(GiveUpError("no"), "the trace")
    assert (given_up.counts, given_up.permanent, given_up.traceback) == (True, True, "the trace")
    empty = failure_of(NotNowError("Empty document"))
    assert (empty.counts, empty.permanent) == (True, True), "what is permanent is not waited for"
    assert failure_of(KeyError()).error == "KeyError"


def test_a_pause_is_doubled_thirty_times_at_most() -> None:
    assert backoff_seconds(31, 1, 2.0**40) == backoff_seconds(1000, 1, 2.0**40) == 2.0**30
    assert backoff_seconds(30, 1, 2.0**40) == 2.0**29
    assert isinstance(backoff_seconds(1, 2, 300), float)


def test_an_unknown_kind_is_refused_with_the_nearest_or_with_all() -> None:
    async def hook(*_: object) -> None: ...

    kinds = Kinds(
        [JobKind("media.video"), JobKind("chat.reply", deliver=hook), JobKind("b", on_claimed=hook)]
    )
    for name, fix in (
        ("media.vidoe", "did you mean media.video?"),
        ("xyz", "known kinds: b, chat.reply, media.video"),
    ):
        with pytest.raises(UnknownKindError, match=f"no job kind named {name}") as refused:
            kinds.get(name)
        assert refused.value.fix == fix
    with pytest.raises(UnknownKindError) as refused:
        Kinds().get("a")
    assert refused.value.fix == "known kinds: none"
    assert kinds.get("b").name == kinds.find("b").name == "b"
    assert kinds.find("xyz") == JobKind("xyz")
    assert (kinds.names(), kinds.delivered()) == (["b", "chat.reply", "media.video"], ["chat.reply"])
    assert (kinds.watch_claims, Kinds([JobKind("a")]).watch_claims) == (True, False)
