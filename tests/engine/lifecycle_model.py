"""What the engine should do, in plain Python: the model that the lifecycle machine holds beside the database.

Every move of a job goes through `Model.move`, which knows only the moves of `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from mediamill.engine.model import TRANSITIONS, ClaimedJob, Move, State

PLAIN, SUBJECT, DELIVERED = "test.plain", "test.subject", "test.delivered"
WAITING = (State.QUEUED, State.SCHEDULED, State.HELD)

Transition = tuple[State | None, Move, State | None]


@dataclass(eq=False)
class ModelWorker:
    """A worker as the database should know it. `locked`: its session holds its lock."""

    id: int
    name: str
    local: bool
    state: Literal["active", "idle", "offline", "disabled"] = "active"
    locked: bool = True
    silent: bool = False

    @property
    def gone(self) -> bool:
        return self.state in ("offline", "disabled")


@dataclass(eq=False)
class ModelJob:
    """A job as the database should know it. `due`: its run-after time has come."""

    id: int
    kind: str
    owner: str
    priority: int
    max_attempts: int
    due: bool
    refuse: str | None
    subject: str
    state: State | None = None
    attempts: int = 0
    token: int = 0
    holder: ModelWorker | None = None
    lease: Literal["good", "over", "stale"] = "good"
    has_result: bool = False
    history: list[str] = field(default_factory=list)

    @property
    def exhausted(self) -> bool:
        return self.attempts >= self.max_attempts


class Model:
    """All jobs ever enqueued, and who holds what."""

    def __init__(self, seen: set[Transition]) -> None:
        self.jobs: dict[int, ModelJob] = {}
        self.workers: list[ModelWorker] = []
        self.held: set[str] = set()
        self.keys: dict[tuple[str, str], int] = {}
        self.delivered: set[int] = set()
        self.seen = seen

    def having(self, *states: State | None, owner: str | None = None) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state in states and owner in (None, job.owner)]

    def held_by(self, worker: ModelWorker) -> list[ModelJob]:
        return [job for job in self.having(State.RUNNING) if job.holder is worker]

    def move(self, job: ModelJob, move: Move, to: State | None, told: str | None = None) -> None:
        """The only way a job changes its state; `told`: what the hook of its kind writes on the subject."""
        transition = (job.state, move, to)
        assert transition in TRANSITIONS, f"{transition} is no move of the state machine"
        self.seen.add(transition)
        job.state = to
        if to is not State.RUNNING:
            job.holder = None
        if told is not None and job.kind == SUBJECT:
            job.history.append(told)

    def _wait(self, job: ModelJob, move: Move, otherwise: State, told: str | None = None) -> None:
        self.move(job, move, State.HELD if job.owner in self.held else otherwise, told)

    def enqueue(self, job: ModelJob) -> None:
        self.jobs[job.id] = job
        self._wait(job, Move.ENQUEUE, State.QUEUED if job.due else State.SCHEDULED)

    def enqueue_unseen(self, job: ModelJob) -> Callable[[], None]:
        """As `enqueue`, but others see it only when the returned function is called."""
        self.enqueue(job)
        del self.jobs[job.id]
        return lambda: self.jobs.update({job.id: job})

    def claim(self, taken: list[ClaimedJob], worker: ModelWorker, amount: int) -> None:
        """The claim chose; the model says whether it might."""
        ready = [job for job in self.having(State.QUEUED) if job.owner not in self.held and not job.exhausted]
        mine = [self.jobs[claim.id] for claim in taken]
        assert not mine or worker.state != "disabled"
        assert len({job.id for job in mine}) == len(mine) <= amount
        assert all(job in ready for job in mine), "a job was claimed that nobody may claim"
        assert len({job.priority for job in mine}) <= 1
        for job in mine:
            older = [other for other in ready if other.id < job.id and other not in mine]
            assert not [o for o in older if (o.owner, o.priority) == (job.owner, job.priority)], (
                "not oldest first"
            )
        # What only a sweep can move may stand before the rest until it has run.
        if worker.state != "disabled" and len(ready) == len(self.having(State.QUEUED)):
            assert bool(mine) == bool(ready), "a worker idles while work waits"
        for claim, job in zip(taken, mine, strict=True):
            assert claim.token > job.token, "a fencing token did not grow"
            self.move(job, Move.CLAIM, State.RUNNING, "claimed")
            job.attempts, job.token, job.holder, job.lease = job.attempts + 1, claim.token, worker, "good"
            assert claim.attempts == job.attempts

    def holds(self, claim: ClaimedJob, *, by_lease: bool = True) -> bool:
        """May this claim still settle its job?"""
        job = self.jobs[claim.id]
        held = job.state is State.RUNNING and job.token == claim.token
        if held:
            assert job.holder is not None
            assert job.holder.id == claim.worker_id
        return held and (job.lease == "good" or not by_lease)

    def finish(self, job: ModelJob) -> None:
        if job.kind == DELIVERED:
            job.has_result = True
            self.move(job, Move.SAVE_RESULT, State.COMPLETED)
        else:
            self.move(job, Move.FINISH, State.FINISHED, "completed")

    def fail(self, job: ModelJob, *, permanent: bool) -> None:
        if permanent or job.exhausted:
            self.move(job, Move.GIVE_UP, State.DEAD, "failed")
        else:
            job.due = False
            self._wait(job, Move.RETRY, State.SCHEDULED, "released")

    def hand_back(self, job: ModelJob) -> None:
        job.attempts -= 1
        self._wait(job, Move.RELEASE, State.QUEUED, "released")

    def release(self, job: ModelJob) -> None:
        if job.exhausted:
            self.move(job, Move.GIVE_UP, State.DEAD, "failed")
        else:
            self._wait(job, Move.RELEASE, State.QUEUED, "released")

    def hold(self, owner: str) -> None:
        for job in self.having(State.QUEUED, State.SCHEDULED, owner=owner):
            self.move(job, Move.HOLD, State.HELD)
        self.held.add(owner)

    def resume(self, owner: str) -> None:
        for job in self.having(State.HELD, owner=owner):
            self.move(job, Move.RESUME, State.QUEUED if job.due else State.SCHEDULED)
        self.held.discard(owner)

    def lose_sessions(self) -> None:
        for worker in self.workers:
            if worker.local and not worker.locked and worker.state != "offline":
                for job in self.held_by(worker):
                    self.release(job)
                if worker.state != "disabled":
                    worker.state = "offline"

    def release_expired(self) -> None:
        for job in self.having(State.RUNNING):
            assert job.holder is not None
            if job.lease == "stale" or (job.lease == "over" and job.holder.gone):
                self.release(job)

    def do_waiting_chores(self) -> None:
        for job in self.having(State.SCHEDULED):
            if job.due:
                self.move(job, Move.COME_DUE, State.QUEUED)
        self.release_expired()
        for job in self.having(State.QUEUED):
            if job.exhausted:
                self.move(job, Move.GIVE_UP, State.DEAD, "failed")

    def sweep(self) -> None:
        for worker in self.workers:
            if worker.silent and not worker.gone:
                worker.state = "offline"
        self.do_waiting_chores()
        for job in self.having(State.QUEUED):
            if job.owner in self.held:
                self.move(job, Move.HOLD, State.HELD)
        for job in self.having(State.HELD):
            if job.owner not in self.held:
                self.move(job, Move.RESUME, State.QUEUED if job.due else State.SCHEDULED)

    def deliver(self) -> None:
        for job in self.having(State.COMPLETED):
            if job.owner in self.held:
                continue
            if job.refuse == "delivery":
                self.move(job, Move.GIVE_UP, State.DEAD, "failed")
            else:
                self.move(job, Move.DELIVER, State.FINISHED)
                self.delivered.add(job.id)

    def reap(self, owner: str) -> set[int]:
        ready = self.having(State.COMPLETED, owner=owner)
        for job in ready:
            self.move(job, Move.DELIVER, State.FINISHED)
        taken = {job.id for job in ready}
        self.delivered |= taken
        return taken

    def bury(self, job: ModelJob) -> None:
        self.move(job, Move.GIVE_UP, State.DEAD, "failed")

    def retry(self, job: ModelJob) -> bool:
        """An operator wants it to run again; False: there is nothing to retry."""
        if job.state is State.DEAD:
            self.requeue(job)
        elif job.state is State.SCHEDULED:
            job.due = True
            self.move(job, Move.COME_DUE, State.QUEUED)
        else:
            return False
        return True

    def requeue(self, job: ModelJob) -> None:
        """A result that was only not delivered is delivered, not worked out again."""
        job.attempts, job.due = 0, True
        if job.has_result:
            self.move(job, Move.REQUEUE, State.COMPLETED)
        else:
            self._wait(job, Move.REQUEUE, State.QUEUED, "released")

    def purge(self, jobs: Iterable[ModelJob]) -> None:
        for job in jobs:
            self.move(job, Move.PURGE, None, "failed" if job.state in WAITING else None)
