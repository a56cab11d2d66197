"""The nouns of the engine, its states, and the decisions that need no database."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mediamill.errors import GiveUpError, NotNowError

SHORT_ERROR_CHARACTERS = 500
PERMANENT_TEXTS = ("empty document", "document too large", "empty image data")
ABANDONED = "abandoned"
MAX_ATTEMPTS_EXHAUSTED = "max_attempts_exhausted"
STALE_REQUEUED = "stale_processing_requeued"
DEAD_REASONS = (
    ABANDONED,
    "delivery_failed",
    "hook_failed",
    MAX_ATTEMPTS_EXHAUSTED,
    "no_retry",
    "permanent",
)
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class State(enum.StrEnum):
    """Where a job is. The two last are other tables: a job that ended leaves the hot one."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    HELD = "held"
    COMPLETED = "completed"
    FINISHED = "finished"
    DEAD = "dead"


class Move(enum.StrEnum):
    """What moves a job from one state to another."""

    ENQUEUE = "enqueue"
    COME_DUE = "come due"
    CLAIM = "claim"
    FINISH = "finish"
    SAVE_RESULT = "save result"
    DELIVER = "deliver"
    RETRY = "retry"
    RELEASE = "release claim"
    GIVE_UP = "give up"
    HOLD = "hold owner"
    RESUME = "release owner"
    REQUEUE = "requeue"
    PURGE = "purge"


# The whole life of a job; docs/state-machine.md draws it, and a test compares the two. None: no job (any more).
TRANSITIONS: frozenset[tuple[State | None, Move, State | None]] = frozenset(
    {
        (None, Move.ENQUEUE, State.QUEUED),
        (None, Move.ENQUEUE, State.SCHEDULED),
        (None, Move.ENQUEUE, State.HELD),
        (State.SCHEDULED, Move.COME_DUE, State.QUEUED),
        (State.SCHEDULED, Move.HOLD, State.HELD),
        (State.QUEUED, Move.CLAIM, State.RUNNING),
        (State.QUEUED, Move.HOLD, State.HELD),
        (State.QUEUED, Move.GIVE_UP, State.DEAD),
        (State.RUNNING, Move.FINISH, State.FINISHED),
        (State.RUNNING, Move.SAVE_RESULT, State.COMPLETED),
        (State.RUNNING, Move.RETRY, State.SCHEDULED),
        (State.RUNNING, Move.RETRY, State.HELD),
        (State.RUNNING, Move.RELEASE, State.QUEUED),
        (State.RUNNING, Move.RELEASE, State.HELD),
        (State.RUNNING, Move.GIVE_UP, State.DEAD),
        (State.HELD, Move.RESUME, State.QUEUED),
        (State.HELD, Move.RESUME, State.SCHEDULED),
        (State.HELD, Move.GIVE_UP, State.DEAD),
        (State.COMPLETED, Move.DELIVER, State.FINISHED),
        (State.COMPLETED, Move.GIVE_UP, State.DEAD),
        (State.SCHEDULED, Move.GIVE_UP, State.DEAD),
        (State.DEAD, Move.REQUEUE, State.QUEUED),
        (State.DEAD, Move.REQUEUE, State.HELD),
        (State.DEAD, Move.REQUEUE, State.COMPLETED),
        (State.QUEUED, Move.PURGE, None),
        (State.SCHEDULED, Move.PURGE, None),
        (State.HELD, Move.PURGE, None),
        (State.DEAD, Move.PURGE, None),
        (State.FINISHED, Move.PURGE, None),
    }
)


class Priority(enum.IntEnum):
    """Smaller is sooner."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class WorkerState(enum.StrEnum):
    """What a worker is doing, as far as anybody knows."""

    ACTIVE = "active"
    IDLE = "idle"
    BUSY = "busy"
    PAUSED = "paused"
    OFFLINE = "offline"
    DISABLED = "disabled"


class Command(enum.StrEnum):
    """What a worker can be told."""

    PAUSE = "pause"
    RESUME = "resume"
    SHUTDOWN = "shutdown"
    FORENSIC_DUMP = "forensic_dump"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued. `owner`: whose work it is; `subject_id`: the row it serves."""

    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    owner: str = "default"
    subject_id: str | None = None
    mime_type: str | None = None
    priority: Priority = Priority.NORMAL
    pool: str | None = None
    max_attempts: int | None = None
    run_after: datetime | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What every finish must show: which job, who holds it, and the fencing token of that hold."""

    job_id: int
    worker_id: int
    token: int


@dataclass(slots=True)
class ClaimedJob:
    """A job in a worker's hands. `payload` is JSON text until somebody wants it; `trace`: what it belongs to."""

    id: int
    token: int
    worker_id: int
    kind: str
    pool: str
    owner: str
    subject_id: str | None
    mime_type: str | None
    attempts: int
    max_attempts: int
    payload_json: str
    checkpoint_json: str | None
    trace: str | None = None

    @property
    def claim(self) -> Claim:
        """The proof of the hold."""
        return Claim(self.id, self.worker_id, self.token)


@dataclass(frozen=True, slots=True)
class Moved:
    """A job that a hook is told about, inside the transaction that moves it."""

    job_id: int
    kind: str
    owner: str
    subject_id: str | None
    attempts: int
    payload: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    reason: str | None = None
    final: bool = False
    notice: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. `notice`: what the one who sent the work is told, if there is more to say than sorry.

    `counts`: without it, what the work needs was not there, and the attempt was none.
    """

    error: str
    permanent: bool
    traceback: str | None = None
    notice: str | None = None
    counts: bool = True

    def __post_init__(self) -> None:
        """Bytes that the database refuses must not keep a failure from being written down."""
        object.__setattr__(self, "error", _storable(self.error))
        if self.traceback is not None:
            object.__setattr__(self, "traceback", _storable(self.traceback))
        if self.notice is not None:
            object.__setattr__(self, "notice", _storable(self.notice))

    @property
    def refuses_file(self) -> bool:
        """Is it the file that cannot be used, so that no other try would help? Its sender is notified."""
        return self.permanent and self.notice is not None

    @property
    def short(self) -> str:
        """The part that is kept beside the job."""
        return self.error[:SHORT_ERROR_CHARACTERS]


def has_nul(json_text: bytes) -> bool:
    """Does JSON text hold an escaped NUL? Such a text cannot become jsonb."""
    return b"\\u0000" in json_text and _NUL.search(json_text) is not None


def without_nul(json_text: bytes) -> bytes:
    """The same JSON with the sign for what cannot be shown in the place of each NUL."""
    return _NUL.sub(rb"\1\\ufffd", json_text) if b"\\u0000" in json_text else json_text


def _storable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def failure_of(error: BaseException, traceback: str | None = None) -> Failure:
    """Permanent by type, or by one of the few texts that are known to be permanent."""
    text = str(error) or type(error).__name__
    known = any(permanent in text.lower() for permanent in PERMANENT_TEXTS)
    permanent = isinstance(error, GiveUpError) or known
    counts = permanent or not isinstance(error, NotNowError)
    return Failure(text, permanent, traceback, getattr(error, "notice", None), counts)


def backoff_seconds(attempt: int, first: float, limit: float) -> float:
    """Wait after the given failed attempt: doubled each time, up to a limit."""
    return float(min(limit, first * 2 ** min(attempt - 1, 30)))
