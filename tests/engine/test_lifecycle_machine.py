"""A machine that does everything to jobs in random order, against a real database, beside a model in plain Python.

After each step the database must say what the model says: no job in two hands, none lost, none settled twice,
each subject where its job is. At the end everything drains: no state is a trap.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from mediamill.db.connection import Connection
from mediamill.engine.dead import UnknownJobError, purge_dead, purge_jobs, requeue_dead, retry_job
from mediamill.engine.deliver import deliver_results, reap_results
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.model import TRANSITIONS, ClaimedJob, State
from mediamill.engine.recovery.janitor import bury_forgotten, forget_old
from mediamill.engine.recovery.lost_sessions import release_lost_sessions
from mediamill.engine.recovery.sweep import SWEEP, do_waiting_chores, run_chore, run_chores
from mediamill.errors import ConflictError
from tests.conftest import admin_url, clone_template, database_url, drop_database, run_sql
from tests.engine.lifecycle_ground import World
from tests.engine.lifecycle_model import WAITING, ModelJob, ModelWorker
from tests.engine.lifecycle_worker_rules import OWNERS, PICKS, WorkerRules, when


class Machine(WorkerRules):
    """The rules of time, recovery, owners and operators, and the end."""

    # --- time ---

    # --- stories that chance alone would tell too seldom ---

    @when(lambda self: self.claims_that_come_back())
    @rule(pick=PICKS)
    def words_come_after_the_job_was_taken_over(self, pick: int) -> None:
        self.take_over(pick, same=False)

    @when(lambda self: self.claims_that_come_back())
    @rule(pick=PICKS)
    def words_come_from_a_worker_that_holds_the_job_anew(self, pick: int) -> None:
        """It has two claims of one job, and mixes them up."""
        self.take_over(pick, same=True)

    def claims_that_come_back(self) -> list[ClaimedJob]:
        """Their jobs can be claimed again after a release."""
        jobs = self.model.jobs
        free = [claim for claim in self.claims_held() if claim.owner not in self.model.held]
        return [claim for claim in free if not jobs[claim.id].exhausted]

    def take_over(self, pick: int, *, same: bool) -> None:
        choice = self.claims_that_come_back()
        claim = self.lose(choice[pick % len(choice)])
        living = [worker for worker in self.model.workers if worker.locked and worker.state != "disabled"]
        again = [worker for worker in living if (worker.id == claim.worker_id) == same]
        while again and self.model.jobs[claim.id].state is State.QUEUED:
            if not self.claim_as(again[pick % len(again)], 50):
                break
        self.say_in_vain(claim, "half", "alive", "done", "failed", "stop")

    @when(lambda self: self.claims_held())
    @rule(pick=PICKS, stale=st.booleans())
    def words_come_after_the_lease_ran_out(self, pick: int, stale: bool) -> None:
        claim = self.pick_claim(pick, late=False)
        self.expire(self.model.jobs[claim.id], stale=stale)
        self.say_in_vain(claim, "half", "alive", "done", "failed")

    def say_in_vain(self, claim: ClaimedJob, *words: str) -> None:
        for word in words:
            assert not self.model.holds(claim)
            self.say(claim, word)
            self.compare()

    @when(lambda self: self.claims_held())
    @rule(pick=PICKS, word=st.sampled_from(["done", "done", "failed", "stop"]))
    def a_word_comes_after_the_owner_was_held(self, pick: int, word: str) -> None:
        claim = self.pick_claim(pick, late=False)
        self.hold(claim.owner)
        self.say(claim, word)
        self.deliver()

    @when(lambda self: self.claims_held())
    @rule(pick=PICKS, sweep=st.booleans())
    def the_limit_of_attempts_is_lowered(self, pick: int, sweep: bool) -> None:
        job = self.model.jobs[self.lose(self.pick_claim(pick, late=False)).id]
        if job.state is State.QUEUED:
            job.max_attempts = job.attempts
            self.sql("update jobs set max_attempts = attempts where id = $1", job.id)
            self.compare()
            (self.sweep if sweep else self.do_waiting_chores)()

    def lose(self, claim: ClaimedJob) -> ClaimedJob:
        self.expire(self.model.jobs[claim.id], stale=True)
        self.sweep()
        self.compare()
        return claim

    def expire(self, job: ModelJob, *, stale: bool) -> None:
        seconds = 1000 if stale else 1
        self.sql(
            "update jobs set lease_expires_at = now() - make_interval(secs => $2) where id = $1",
            job.id,
            seconds,
        )
        job.lease = "stale" if stale else "over"

    @when(lambda self: [job for job in self.model.having(State.SCHEDULED, State.HELD) if not job.due])
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

    @when(lambda self: any(not worker.locked for worker in self.model.workers))
    @rule()
    def look_for_lost_sessions(self) -> None:
        self.run(release_lost_sessions(self.database, self.engine))
        self.model.lose_sessions()

    @when(lambda self: self.model.having(State.COMPLETED, *WAITING))
    @rule(pick=PICKS)
    def nobody_moves_a_job_for_hours(self, pick: int) -> None:
        waiting = self.model.having(State.COMPLETED, *WAITING)
        job = waiting[pick % len(waiting)]
        (before,) = self.sql("select created_at, run_after from jobs where id = $1", job.id)
        self.sql("delete from throughput")
        self.sql(
            "insert into served select pool, now() - interval '10 hours', now() "
            "from (select '' as pool union select name from pools) pools on conflict do nothing"
        )
        self.sql(
            "update jobs set created_at = now() - interval '4 hours', run_after = now() - interval '4 hours',"
            " claimed_at = null, progress_at = null where id = $1",
            job.id,
        )
        self.run(run_chore(self.database, self.engine, bury_forgotten))
        if job.state is State.HELD or job.owner in self.model.held:  # it waits as long as it takes
            self.sql("update jobs set created_at = $2, run_after = $3 where id = $1", job.id, *before)
        else:
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

    @when(lambda self: self.model.having(State.COMPLETED))
    @rule()
    def deliver(self) -> None:
        self.run(deliver_results(self.database, self.engine))
        self.model.deliver()

    @when(lambda self: self.model.having(State.COMPLETED))
    @rule(owner=OWNERS)
    def reap(self, owner: str) -> None:
        """The owner's own process takes the results for good."""

        async def take(connection: Connection) -> set[int]:
            taken = await reap_results(connection, [owner])
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
            # After a failure the draining would only fail, too, and hide the cause.
            if self.model.workers and sys.exc_info()[0] is None:
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
                self.expire(job, stale=True)
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
        while taken := self.claim_as(worker, 50):
            for claim in taken:
                self.complete([claim])
                if self.model.holds(claim):  # its subject refused
                    self.fail(claim, permanent=True)


@pytest.fixture
def world(server_url: str, template_url: str) -> Iterator[World]:
    admin, name = admin_url(server_url), f"lifecycle_{os.getpid()}"
    with asyncio.Runner() as runner:
        runner.run(run_sql(admin, clone_template(name)))
        world = runner.run(World.make(runner, database_url(server_url, name)))
        yield world
        runner.run(world.close())
        runner.run(run_sql(admin, drop_database(name)))


@pytest.mark.spec("E2", "E5", "E6", "E7", "E8", "E9", "E11", "E12", "E13")
@pytest.mark.timeout(600)
def test_whatever_happens_in_whatever_order_no_job_is_lost_doubled_or_stuck(world: World) -> None:
    run_state_machine_as_test(
        lambda: Machine(world),  # type: ignore[arg-type]
        settings=settings(
            max_examples=60,
            stateful_step_count=50,
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
