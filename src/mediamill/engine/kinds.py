"""Job kinds: what runs for a kind, and what happens to its subject when the job moves.

A kind either has a handler (async, in the worker's process, beside the database) or none, and then the
processor of its pool runs in a child process. Hooks run inside the transaction that moves the job.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from asyncpg import InterfaceError

from mediamill.db.connection import Connection
from mediamill.engine.model import ClaimedJob, Moved
from mediamill.errors import InvalidError, MediamillError, NotFoundError, RetryLaterError

Hook = Callable[[Connection, Sequence[Moved]], Awaitable[None]]
RequeueHook = Callable[[Connection, Sequence[Moved]], Awaitable[Collection[int]]]
ProgressHook = Callable[[Connection, ClaimedJob, Mapping[str, Any]], Awaitable[None]]


class Run(Protocol):
    """What a handler gets: the job, its payload, and a way to report."""

    job: ClaimedJob

    @property
    def payload(self) -> Any:
        """The JSON object that was enqueued."""

    async def report(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Any = None,
        checkpoint: Any = None,
    ) -> None:
        """Save progress and extend the lease; raises ClaimLostError when the job is somebody else's."""


Handler = Callable[[Run], Awaitable[Any]]


class UnknownKindError(NotFoundError):
    """There is no such job kind."""

    code = "unknown_kind"


class HookFailedError(MediamillError):
    """What happens to the subject of a job could not be done."""

    code = "hook_failed"


@dataclass(frozen=True, slots=True)
class JobKind:
    """`deliver`: the result is saved on the job first, and this hook hands it over when the owner is there.

    `reaped`: the result is saved likewise, and the process that runs the owner fetches it (see reap_results).
    `on_progress`: told of the parts of a progress report, in the transaction that saves it.
    `on_requeued`: asked before dead jobs go back to the queue; the ids of those whose subjects take them back. The
    others stay where they are, and `requeue_fix` says what to do instead.
    `owns_input`: the staged file that the payload names is deleted when the job has ended.
    `release_counts`: a worker that dies uses up an attempt; else such releases have a limit of their own.
    `keeps_files`: its processor gives finished files away before the end, for later attempts (staging.kept).
    `local`: its payload may name any file of the worker's machine, so it is not taken from the network.
    """

    name: str
    handler: Handler | None = None
    on_claimed: Hook | None = None
    on_completed: Hook | None = None
    on_failed: Hook | None = None
    on_released: Hook | None = None
    on_progress: ProgressHook | None = None
    on_requeued: RequeueHook | None = None
    requeue_fix: str | None = None
    deliver: Hook | None = None
    reaped: bool = False
    owns_input: bool = False
    release_counts: bool = True
    keeps_files: bool = False
    local: bool = False
    description: str = ""

    @property
    def is_plain(self) -> bool:
        """Nothing but the job itself moves when it is done: many can be finished by one statement."""
        return self.on_completed is None and not self.saves_result

    @property
    def saves_result(self) -> bool:
        """Does the result wait on the job until somebody takes it?"""
        return self.deliver is not None or self.reaped


class Kinds:
    """All kinds that this process knows, by name."""

    def __init__(self, kinds: Iterable[JobKind] = ()) -> None:
        self._kinds: dict[str, JobKind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: JobKind) -> None:
        """Declare a kind; a name is taken once."""
        if kind.name in self._kinds:
            raise InvalidError(f"the job kind {kind.name} is declared twice")
        ways = (kind.deliver is not None, kind.on_completed is not None, kind.reaped)
        if sum(ways) > 1:
            raise InvalidError(
                f"the job kind {kind.name} has more than one of deliver, on_completed and reaped; "
                "its result goes one way only"
            )
        self._kinds[kind.name] = kind

    def get(self, name: str) -> JobKind:
        """The kind of that name."""
        try:
            return self._kinds[name]
        except KeyError:
            close = difflib.get_close_matches(name, self._kinds, 1)
            hint = (
                f"did you mean {close[0]}?"
                if close
                else f"known kinds: {', '.join(sorted(self._kinds)) or 'none'}"
            )
            raise UnknownKindError(f"there is no job kind named {name}", fix=hint) from None

    def get_or_retry(self, name: str) -> JobKind:
        """The kind of that name; one that this worker does not know may be known to another: try again later."""
        try:
            return self.get(name)
        except UnknownKindError as error:
            raise RetryLaterError(f"this worker does not know the job kind {name}") from error

    def find(self, name: str) -> JobKind:
        """The kind of that name, or one without hooks: a job of a kind from elsewhere must still be movable."""
        return self._kinds.get(name) or JobKind(name)

    def names(self) -> list[str]:
        """All names."""
        return sorted(self._kinds)

    def delivered(self) -> list[str]:
        """The names of the kinds whose results are handed over."""
        return sorted(name for name, kind in self._kinds.items() if kind.deliver is not None)

    @property
    def watch_claims(self) -> bool:
        """Does any kind want to know of claims?"""
        return any(kind.on_claimed for kind in self._kinds.values())


HookName = str


async def call_hooks(connection: Connection, kinds: Kinds, hook: HookName, moved: Sequence[Moved]) -> None:
    """Call a hook of each kind among these jobs, once per kind."""
    by_kind: dict[str, list[Moved]] = {}
    for job in moved:
        by_kind.setdefault(job.kind, []).append(job)
    for name, jobs in by_kind.items():
        function: Hook | None = getattr(kinds.find(name), hook)
        if function is not None:
            try:
                await function(connection, jobs)
            except (OSError, InterfaceError) as error:
                # A missing file or a wrong argument must not be taken for a database that is away.
                if connection.is_closed():
                    raise
                raise HookFailedError(f"{type(error).__name__}: {error}") from error
