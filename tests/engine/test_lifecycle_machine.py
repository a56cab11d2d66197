"""A machine that does everything to jobs in random order, against a real database, beside a model in plain Python.

After each step the database must say what the model says: no job in two hands, none lost, none settled twice,
each subject where its job is. At the end everything drains: no state is a trap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from mediamill.db.connection import Connection
from mediamill.engine.dead import UnknownJobError, purge_dead, purge_jobs, requeue_dead, retry_job
from mediamill.engine.deliver import deliver_results, reap_results
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.lease import extend_leases, report_progress
from mediamill.engine.model import TRANSITIONS, ClaimedJob, Failure, Priority, State, WorkerState
from mediamill.engine.recovery.janitor import bury_forgotten, forget_old
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.recovery.sweep import SWEEP, do_waiting_chores, run_chore, run_chores
from mediamill.engine.settle import Finish, fail_job, finish_jobs, finish_plain_jobs, hand_back
from mediamill.engine.workers import disable_worker, enable_worker, heartbeat, set_state
from mediamill.errors import ClaimLostError, ConflictError
from tests.conftest import database_url, run_sql
from tests.engine.lifecycle_ground import TABLES, Ground, World
from tests.engine.lifecycle_model import DELIVERED, PLAIN, SUBJECT, WAITING, ModelWorker

PICKS = st.integers(0, 999)
OFTEN_NOT = st.sampled_from([False, False, True])
OWNERS = st.sampled_from(["ann", "bob", "cat"])
NEW_JOBS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([PLAIN, SUBJECT, SUBJECT, DELIVERED]),
        "owner": OWNERS,
        "priority": st.sampled_from(list(Priority)),
        "max_attempts": st.integers(1, 3),
        "later": OFTEN_NOT,
        "refuse": st.sampled_from([None, None, None, "completed", "delivery"]),
    }
)


Rule = TypeVar("Rule", bound=Callable[..., Any])


def when(needed: Callable[[Machine], Any]) -> Callable[[Rule], Rule]:
    """A rule that needs something to work on."""
    return precondition(lambda self: bool(needed(self)))


class Machine(Ground):
    """The rules; each does one thing to the engine and to the model."""

    @initialize()
    def begin(self) -> None:
        self.sql(f"truncate {TABLES}")
        for name in ("one", "two"):
            self.start_worker(name, local=True)
        self.start_worker("far", local=False)

    @invariant()
    def the_database_agrees_with_the_model(self) -> None:
        self.compare()

    # --- enqueue ---

    @rule(given=st.lists(NEW_JOBS, min_size=1, max_size=4))
    def enqueue(self, given: list[dict[str, Any]]) -> None:
        jobs = [self.new_job(one) for one in given]
        ids = self.do(lambda connection: self.enqueuer.enqueue_jobs(connection, jobs))
        for job, id_ in zip(jobs, ids, strict=True):
            self.model.enqueue(self.model_job(id_, job))

    @rule(given=NEW_JOBS, key=st.sampled_from(["x", "y"]))
    def enqueue_with_key(self, given: dict[str, Any], key: str) -> None:
        job = self.new_job(given, key=key)
        id_ = self.do(lambda connection: self.enqueuer.enqueue_job(connection, job))
        assert id_ == self.model.keys.setdefault((job.kind, key), id_)
        if id_ not in self.model.jobs:
            self.model.enqueue(self.model_job(id_, job))

    @rule(given=NEW_JOBS)
    def enqueue_while_the_owner_is_being_held_or_released(self, given: dict[str, Any]) -> None:
        """The transaction that enqueues began before the other one, and commits after it."""
        held = given["owner"] in self.model.held
        job = self.new_job(given)

        async def race() -> int:
            async with self.database.transaction() as slow:
                id_ = await self.enqueuer.enqueue_job(slow, job)
                async with self.database.transaction() as quick:
                    await (release_owner if held else hold_owner)(quick, job.owner)
                return id_

        new = self.model_job(self.run(race()), job)
        unseen = self.model.enqueue_unseen(new)
        (self.model.resume if held else self.model.hold)(job.owner)
        unseen()

    # --- the worker's side ---

    @when(lambda self: [worker for worker in self.model.workers if worker.locked])
    @rule(pick=PICKS, amount=st.integers(1, 4))
    def claim(self, pick: int, amount: int) -> None:
        living = [worker for worker in self.model.workers if worker.locked]
        worker = living[pick % len(living)]
        taken = self.do(lambda connection: self.claimers[worker].claim_jobs(connection, self.pool, amount))
        self.model.claim(taken, worker, amount)
        self.claims += taken

    @when(lambda self: self.claims)
    @rule(pick=PICKS, old=OFTEN_NOT, step=st.booleans())
    def report(self, pick: int, old: bool, step: bool) -> None:
        """Progress, or the sign of life for many jobs at once: from the holder, or a late word."""
        claim = self.pick_claim(pick, old=old)

        async def tell(connection: Connection) -> bool:
            if not step:
                mine = [claim.claim]
                return bool(
                    await extend_leases(connection, mine, worker_id=claim.worker_id, lease_seconds=300)
                )
            try:
                await report_progress(connection, claim.claim, lease_seconds=300, step="half", checkpoint=[1])
            except ClaimLostError:
                return False
            return True

        assert self.do(tell) == self.model.holds(claim)

    @when(lambda self: self.claims)
    @rule(picks=st.lists(PICKS, min_size=1, max_size=3), old=OFTEN_NOT)
    def complete(self, picks: list[int], old: bool) -> None:
        """Several at once by one worker; with `old`, claims that were lost long ago among them."""
        first, *others = [self.pick_claim(pick, old=old) for pick in picks]
        claims = {claim.id: claim for claim in (first, *others) if claim.worker_id == first.worker_id}
        jobs = [self.model.jobs[id_] for id_ in claims]
        held = {id_ for id_, claim in claims.items() if self.model.holds(claim)}
        refused = {job.id for job in jobs if (job.kind, job.refuse) == (SUBJECT, "completed")} & held
        finishes = [Finish(claim, '{"answer": 42}') for claim in claims.values()]
        if all(job.kind == PLAIN for job in jobs):
            settled = self.do(lambda connection: finish_plain_jobs(connection, first.worker_id, finishes))
        else:
            settled = self.run(finish_jobs(self.database, self.engine, first.worker_id, finishes))
        assert (settled.done, settled.lost) == (held - refused, claims.keys() - held)
        assert settled.failed.keys() == refused
        for job in jobs:
            if job.id in settled.done:
                self.model.finish(job)

    @when(lambda self: self.claims)
    @rule(pick=PICKS, old=OFTEN_NOT, permanent=OFTEN_NOT)
    def fail(self, pick: int, old: bool, permanent: bool) -> None:
        claim = self.pick_claim(pick, old=old)
        failure = Failure("it broke", permanent, "Traceback: …")
        accepted = self.do(lambda connection: fail_job(connection, self.engine, claim, failure, self.pool))
        assert accepted == self.model.holds(claim)
        if accepted:
            self.model.fail(self.model.jobs[claim.id], permanent=permanent)

    @when(lambda self: self.claims)
    @rule(pick=PICKS, old=OFTEN_NOT)
    def hand_back(self, pick: int, old: bool) -> None:
        claim = self.pick_claim(pick, old=old)
        self.run(hand_back(self.database, self.engine, claim.worker_id, [claim]))
        if self.model.holds(claim, by_lease=False):
            self.model.hand_back(self.model.jobs[claim.id])

    # --- workers come and go ---

    @when(lambda self: self.sessions)
    @rule(pick=PICKS)
    def crash(self, pick: int) -> None:
        living = list(self.sessions)
        self.cut_session(living[pick % len(living)])

    @when(lambda self: any(not worker.locked for worker in self.model.workers))
    @rule(pick=PICKS)
    def come_back(self, pick: int) -> None:
        """A worker whose connection was cut gets itself another one, perhaps before anybody noticed."""
        lost = [worker for worker in self.model.workers if not worker.locked]
        self.open_session(lost[pick % len(lost)])

    @when(lambda self: len(self.model.workers) < 6)
    @rule()
    def start_another_worker(self) -> None:
        self.start_worker(f"worker {len(self.model.workers)}", local=True)

    @rule(pick=PICKS, how=st.sampled_from(["leave", "disable", "enable"]))
    def go_offline(self, pick: int, how: str) -> None:
        worker = self.model.workers[pick % len(self.model.workers)]
        if how == "leave":
            self.do(lambda connection: set_state(connection, worker.id, worker.name, WorkerState.OFFLINE))
            worker.state = worker.state if worker.state == "disabled" else "offline"
        elif how == "disable":
            self.do(lambda connection: disable_worker(connection, worker.id))
            worker.state = "disabled"
        else:
            self.do(lambda connection: enable_worker(connection, worker.id))
            worker.state = "offline" if worker.state == "disabled" else worker.state

    @rule()
    def the_remote_worker_falls_silent(self) -> None:
        (worker,) = [worker for worker in self.model.workers if not worker.local]
        self.sql("update workers set heartbeat_at = now() - interval '1 hour' where id = $1", worker.id)
        worker.silent = True

    @rule(pick=PICKS)
    def beat(self, pick: int) -> None:
        living = [worker for worker in self.model.workers if worker.locked]
        if living:
            worker = living[pick % len(living)]
            heard = self.do(lambda connection: heartbeat(connection, worker.id, state=WorkerState.IDLE))
            worker.silent = False
            worker.state = "disabled" if worker.state == "disabled" else "idle"
            assert heard.state == worker.state

    # --- time ---

    @when(lambda self: self.model.having(State.RUNNING))
    @rule(pick=PICKS, stale=st.booleans())
    def a_lease_runs_out(self, pick: int, stale: bool) -> None:
        running = self.model.having(State.RUNNING)
        job = running[pick % len(running)]
        seconds = 1000 if stale else 1
        self.sql(
            "update jobs set lease_expires_at = now() - make_interval(secs => $2) where id = $1",
            job.id,
            seconds,
        )
        job.lease = "stale" if stale else "over"

    @rule()
    def the_back_off_is_over(self) -> None:
        self.sql(
            "update jobs set run_after = now() - interval '1 second' where state in ('scheduled', 'held')"
        )
        for job in self.model.having(State.SCHEDULED, State.HELD):
            job.due = True

    # --- recovery ---

    @rule()
    def sweep(self) -> None:
        self.run(run_chores(self.database, self.engine, SWEEP))
        self.model.sweep()

    @rule()
    def do_waiting_chores(self) -> None:
        self.run(do_waiting_chores(self.database, self.engine))
        self.model.do_waiting_chores()

    @rule()
    def look_for_lost_sessions(self) -> None:
        self.run(release_lost_sessions(self.database, self.engine))
        self.model.lose_sessions()

    @when(lambda self: [job for job in self.model.having(State.QUEUED) if job.attempts])
    @rule(pick=PICKS)
    def the_limit_of_attempts_is_lowered(self, pick: int) -> None:
        tried = [job for job in self.model.having(State.QUEUED) if job.attempts]
        job = tried[pick % len(tried)]
        job.max_attempts = job.attempts
        self.sql("update jobs set max_attempts = attempts where id = $1", job.id)

    @when(lambda self: self.model.having(State.COMPLETED, *WAITING))
    @rule(pick=PICKS)
    def nobody_moves_a_job_for_hours(self, pick: int) -> None:
        waiting = self.model.having(State.COMPLETED, *WAITING)
        job = waiting[pick % len(waiting)]
        self.sql("delete from throughput")
        self.sql(
            "update jobs set created_at = now() - interval '4 hours', run_after = now() - interval '4 hours',"
            " claimed_at = null, progress_at = null where id = $1",
            job.id,
        )
        self.run(run_chore(self.database, self.engine, bury_forgotten))
        self.model.bury(job)

    @when(lambda self: self.model.having(State.FINISHED))
    @rule()
    def the_day_is_over(self) -> None:
        self.sql("update finished_jobs set finished_at = now() - interval '2 days'")
        self.run(run_chore(self.database, self.engine, forget_old))
        self.model.purge(self.model.having(State.FINISHED))

    # --- owners and operators ---

    @rule(owner=OWNERS)
    def hold(self, owner: str) -> None:
        self.do(lambda connection: hold_owner(connection, owner))
        self.model.hold(owner)

    @when(lambda self: self.model.held)
    @rule(owner=OWNERS)
    def release(self, owner: str) -> None:
        self.do(lambda connection: release_owner(connection, owner))
        self.model.resume(owner)

    @rule()
    def deliver(self) -> None:
        self.run(deliver_results(self.database, self.engine))
        self.model.deliver()

    @when(lambda self: self.model.having(State.COMPLETED))
    @rule(owner=OWNERS)
    def reap(self, owner: str) -> None:
        """The owner's own process takes the results for good."""

        async def take(connection: Connection) -> set[int]:
            taken = await reap_results(connection, owner)
            for job in taken:
                await connection.execute("insert into deliveries (job_id) values ($1)", job.job_id)
            return {job.job_id for job in taken}

        assert self.do(take) == self.model.reap(owner)

    @when(lambda self: self.model.jobs)
    @rule(pick=PICKS)
    def retry(self, pick: int) -> None:
        jobs = list(self.model.jobs.values())
        job = jobs[pick % len(jobs)]
        again = self.model.retry(job)
        error = None if again else UnknownJobError if job.state is None else ConflictError
        if error is None:
            self.do(lambda connection: retry_job(connection, self.engine, job.id))
        else:
            with pytest.raises(error):
                self.do(lambda connection: retry_job(connection, self.engine, job.id))

    @when(lambda self: self.model.having(State.DEAD))
    @rule(picks=st.none() | st.lists(PICKS, min_size=1, max_size=3), forget=st.booleans())
    def empty_the_dead_letter(self, picks: list[int] | None, forget: bool) -> None:
        dead = self.model.having(State.DEAD)
        chosen = (
            dead if picks is None else [dead[place] for place in sorted({pick % len(dead) for pick in picks})]
        )
        ids = None if picks is None else [job.id for job in chosen]
        if forget:
            gone = self.do(lambda connection: purge_dead(connection, ids))
            self.model.purge(chosen)
        else:
            gone = self.do(lambda connection: requeue_dead(connection, self.engine, ids))
            for job in chosen:
                self.model.requeue(job)
        assert sorted(gone) == sorted(job.id for job in chosen)

    @when(lambda self: self.model.jobs)
    @rule(pick=PICKS)
    def purge_a_job(self, pick: int) -> None:
        jobs = list(self.model.jobs.values())
        job = jobs[pick % len(jobs)]
        gone = self.do(lambda connection: purge_jobs(connection, self.engine, [job.id]))
        assert gone == ([job.id] if job.state in WAITING else [])
        self.model.purge([job] if gone else [])

    # --- the end: everything drains ---

    def teardown(self) -> None:
        try:
            if self.model.workers:
                self._drain()
        finally:
            super().teardown()

    def _drain(self) -> None:
        """Only time passes, owners come back, and one worker works; nothing may be left."""
        worker = self.start_worker("last", local=True)
        for _ in range(12):
            if not self.model.having(*WAITING, State.RUNNING, State.COMPLETED):
                break
            for owner in list(self.model.held):
                self.release(owner)
            for job in self.model.having(State.RUNNING):
                self.sql("update jobs set lease_expires_at = now() - interval '1 hour' where id = $1", job.id)
                job.lease = "stale"
            self.the_back_off_is_over()
            self.look_for_lost_sessions()
            self.sweep()
            self.compare()
            self._work_off(worker)
            self.deliver()
            self.compare()
        left = self.sql("select id, state from jobs")
        assert left == [], "a state is a trap"

    def _work_off(self, worker: ModelWorker) -> None:
        while True:
            taken = self.do(lambda connection: self.claimers[worker].claim_jobs(connection, self.pool, 50))
            self.model.claim(taken, worker, 50)
            if not taken:
                return
            for claim in taken:
                settled = self.run(finish_jobs(self.database, self.engine, claim.worker_id, [Finish(claim)]))
                job = self.model.jobs[claim.id]
                if settled.done:
                    self.model.finish(job)
                    continue
                self._give_up(claim)
                self.model.fail(job, permanent=True)

    def _give_up(self, claim: ClaimedJob) -> None:
        failure = Failure("refused", permanent=True)
        assert self.do(lambda connection: fail_job(connection, self.engine, claim, failure, self.pool))


@pytest.fixture
def world(server_url: str, template_url: str) -> Iterator[World]:
    admin = database_url(server_url, "postgres")
    with asyncio.Runner() as runner:
        runner.run(run_sql(admin, "create database lifecycle template mediamill_template"))
        world = runner.run(World.make(runner, database_url(server_url, "lifecycle")))
        yield world
        runner.run(world.database.close())
        runner.run(run_sql(admin, "drop database lifecycle with (force)"))


@pytest.mark.spec("E2", "E5", "E6", "E7", "E8", "E9", "E11", "E12", "E13")
@pytest.mark.timeout(600)
def test_whatever_happens_in_whatever_order_no_job_is_lost_doubled_or_stuck(world: World) -> None:
    run_state_machine_as_test(
        lambda: Machine(world),  # type: ignore[arg-type]
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    # A machine that did not get about proves nothing. The rest of the moves comes with luck.
    assert len(world.seen) >= 0.8 * len(TRANSITIONS), sorted(map(str, TRANSITIONS - world.seen))


def test_every_state_that_a_job_can_come_to_has_a_move_that_leads_on() -> None:
    reached = {after for _, _, after in TRANSITIONS if after is not None}
    assert reached == set(State)
    assert {before for before, _, _ in TRANSITIONS if before is not None} == reached
