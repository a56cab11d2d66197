"""Rules of the lifecycle machine: jobs are enqueued, workers claim, report, settle, come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mediamill.db.connection import Connection
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.lease import extend_leases, report_progress
from mediamill.engine.model import ClaimedJob, Failure, Priority, WorkerState
from mediamill.engine.settle import Finish, fail_job, finish_jobs, finish_plain_jobs, hand_back
from mediamill.engine.workers import disable_worker, enable_worker, heartbeat, set_state
from mediamill.errors import ClaimLostError
from tests.engine.lifecycle_ground import TABLES, Ground
from tests.engine.lifecycle_model import DELIVERED, PLAIN, SUBJECT, ModelWorker

PICKS = st.integers(0, 999)
OFTEN_NOT = st.sampled_from([False, False, True])
OWNERS = st.sampled_from(["ann", "bob"])
WORDS = st.sampled_from(["half", "alive", "done", "done", "failed", "failed", "hopeless", "stop"])
NEW_JOBS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([PLAIN, SUBJECT, DELIVERED]),
        "owner": OWNERS,
        "priority": st.sampled_from(list(Priority)),
        "max_attempts": st.sampled_from([1, 2, 3, 3]),
        "later": OFTEN_NOT,
        "refuse": st.sampled_from([None, None, None, "completed", "delivery"]),
    }
)


Rule = TypeVar("Rule", bound=Callable[..., Any])


def when(needed: Callable[[Any], Any]) -> Callable[[Rule], Rule]:
    """A rule that needs something to work on."""
    return precondition(lambda self: bool(needed(self)))


class WorkerRules(Ground):
    """Each rule does one thing to the engine and to the model."""

    @initialize(given=st.lists(NEW_JOBS, min_size=2, max_size=5))
    def begin(self, given: list[dict[str, Any]]) -> None:
        self.sql(f"truncate {TABLES}")
        for name in ("one", "two"):
            self.start_worker(name, local=True)
        self.start_worker("far", local=False)
        self.enqueue(given)
        self.claim(pick=0, amount=2)

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
        self.claim_as(living[pick % len(living)], amount)

    def claim_as(self, worker: ModelWorker, amount: int) -> list[ClaimedJob]:
        claimer = self.claimers[worker]
        taken = self.do(lambda connection: claimer.claim_jobs(connection, self.pool, amount))
        self.model.claim(taken, worker, amount)
        self.claims += taken
        return taken

    @when(lambda self: self.claims)
    @rule(picks=st.lists(PICKS, min_size=2, max_size=3), late=st.booleans())
    def complete_some(self, picks: list[int], late: bool) -> None:
        """Several at once by one worker; with `late`, by claims that were lost."""
        first, *others = [self.pick_claim(pick, late=late) for pick in picks]
        self.complete([first, *(claim for claim in others if claim.worker_id == first.worker_id)])

    @when(lambda self: self.claims)
    @rule(pick=PICKS, late=OFTEN_NOT, word=WORDS)
    def say_something(self, pick: int, late: bool, word: str) -> None:
        self.say(self.pick_claim(pick, late=late), word)

    def say(self, claim: ClaimedJob, word: str) -> None:
        match word:
            case "half" | "alive":
                self.report(claim, word)
            case "done":
                self.complete([claim])
            case "failed" | "hopeless":
                self.fail(claim, permanent=word == "hopeless")
            case "stop":
                self.hand_back(claim)

    def report(self, claim: ClaimedJob, word: str) -> None:
        """Progress, or the sign of life for many jobs at once."""

        async def tell(connection: Connection) -> bool:
            if word == "alive":
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

    def complete(self, some: list[ClaimedJob]) -> None:
        claims = {claim.id: claim for claim in some}
        worker_id = some[0].worker_id
        jobs = [self.model.jobs[id_] for id_ in claims]
        held = {id_ for id_, claim in claims.items() if self.model.holds(claim)}
        refused = {job.id for job in jobs if (job.kind, job.refuse) == (SUBJECT, "completed")} & held
        finishes = [Finish(claim, '{"answer": 42}') for claim in claims.values()]
        if all(job.kind == PLAIN for job in jobs):
            settled = self.do(lambda connection: finish_plain_jobs(connection, worker_id, finishes))
        else:
            settled = self.run(finish_jobs(self.database, self.engine, worker_id, finishes))
        assert (settled.done, settled.lost) == (held - refused, claims.keys() - held)
        assert settled.failed.keys() == refused
        for job in jobs:
            if job.id in settled.done:
                self.model.finish(job)

    def fail(self, claim: ClaimedJob, *, permanent: bool) -> None:
        failure = Failure("it broke", permanent, "Traceback: …")
        accepted = self.do(lambda connection: fail_job(connection, self.engine, claim, failure, self.pool))
        assert bool(accepted) == self.model.holds(claim)
        if accepted:
            self.model.fail(self.model.jobs[claim.id], permanent=permanent)

    def hand_back(self, claim: ClaimedJob) -> None:
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
            # With a claim in its name it is not offline yet: the end of its session puts that job back at once.
            if worker.state != "disabled" and not self.model.held_by(worker):
                worker.state = "offline"
        elif how == "disable":
            self.do(lambda connection: disable_worker(connection, worker.id))
            worker.state = "disabled"
        else:
            self.do(lambda connection: enable_worker(connection, worker.id))
            worker.state = "offline" if worker.state == "disabled" else worker.state

    @when(lambda self: not all(worker.silent or worker.local for worker in self.model.workers))
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
