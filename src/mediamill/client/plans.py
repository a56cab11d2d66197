"""All that a client decides, without any network: each plan says what to do next and is told what came of it.

`Client` and `AsyncClient` carry plans out, one by blocking, the other by awaiting; neither knows more than that.
"""

from __future__ import annotations

import json
from collections.abc import Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

from mediamill.client.body import Body, Progress
from mediamill.client.model import (
    DeliveryMode,
    Finished,
    ImageLike,
    Restarted,
    Run,
    RunEvent,
    StateChanged,
    TextPiece,
    as_image,
    read_run,
)
from mediamill.client.problems import NoServerError, ProblemError
from mediamill.client.sse import EventParser, ServerEvent
from mediamill.client.video import Video, read_video
from mediamill.clock import retry_after_seconds

T = TypeVar("T")

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0
# The server, or what stands before it, says that it has not done it; the others leave it open.
NOT_DONE, LEFT_OPEN = (429, 503), (502, 504)
STREAM = "text/event-stream"


class Sendable(Protocol):
    """A body of known length; each time it is sent, its pieces are made anew."""

    @property
    def length(self) -> int: ...

    @property
    def content_type(self) -> str: ...

    def pieces(self) -> Generator[bytes, None, None]: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request and read the answer."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Sendable | None = None
    repeatable: bool = True  # nothing is lost or doubled if the server gets it twice
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listen:
    """Open a stream of events, from a place on; end the one that is open."""

    path: str
    after: str | None


@dataclass(frozen=True, slots=True)
class Hear:
    """Wait for more of the stream that is open: bytes, or Lost at its end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Give this to whoever follows the run."""

    event: RunEvent


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; of a stream only the beginning is known."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_stream(self) -> bool:
        """Whether events follow."""
        return self.status == 200 and self.headers.get("content-type", "").startswith(STREAM)


@dataclass(frozen=True, slots=True)
class Lost:
    """There is no answer. Was there a connection at all?"""

    reason: str
    connected: bool = True


Step: TypeAlias = Ask | Listen | Hear | Pause | Tell
Reply: TypeAlias = Answer | Lost | bytes | None
Plan: TypeAlias = Generator[Step, Reply, T]


def next_step(plan: Plan[None], reply: Reply) -> Step | None:
    """What is to be done now; None: nothing more."""
    try:
        return plan.send(reply)
    except StopIteration:
        return None


@dataclass(frozen=True, slots=True)
class Plans:
    """What can be asked of the server at `url`; `patience` is how many seconds to wait for it in all."""

    url: str
    patience: float

    def send_message(
        self,
        thread_key: str,
        text: str,
        images: Sequence[ImageLike],
        delivery_mode: DeliveryMode,
        idempotency_key: str | None,
        progress: Progress | None,
    ) -> Plan[Run]:
        """It always has a key, so that sending it again is safe."""
        said = {"thread_key": thread_key, "text": text, "delivery_mode": delivery_mode}
        fields = {"idempotency_key": idempotency_key or uuid4().hex, **said}
        body = Body(fields, [as_image(image) for image in images], progress)
        told = yield from self._insist(Ask("POST", "/v1/messages", body=body))
        return read_run({**said, "image_count": len(images), **told})

    def run(self, run_id: str) -> Plan[Run]:
        """The run as it is now."""
        return read_run((yield from self._insist(Ask("GET", f"/v1/runs/{path_part(run_id)}"))))

    def runs(self, thread_key: str, limit: int) -> Plan[list[Run]]:
        """Page by page, newest first."""
        found: list[Run] = []
        params: dict[str, str] = {}
        while True:
            path = f"/v1/threads/{path_part(thread_key)}/runs"
            page = yield from self._insist(Ask("GET", path, {"limit": str(min(limit, 100)), **params}))
            found += map(read_run, page["runs"])
            if len(found) >= limit or not page.get("next"):
                return found[:limit]
            params = {"before": str(page["next"])}

    def retry(self, run_id: str) -> Plan[Run]:
        """Not repeatable: a second one would be told that the run is not failed."""
        path = f"/v1/runs/{path_part(run_id)}/retry"
        return read_run((yield from self._insist(Ask("POST", path, repeatable=False))))

    def video(self, video_id: str) -> Plan[Video]:
        """A video as it is now, by its id or slug."""
        return read_video((yield from self._insist(Ask("GET", f"/api/videos/{path_part(video_id)}"))))

    def follow(self, run_id: str) -> Plan[None]:
        """The events of a run to its end. When the connection is lost, on from where it broke off."""
        path, place = f"/v1/runs/{path_part(run_id)}/events", None
        waits = Waits(self.patience)
        while True:
            reply = yield Listen(path, place)
            if isinstance(reply, Answer) and reply.is_stream:
                parser = EventParser()
                while isinstance(reply := (yield Hear()), bytes):
                    for event in parser.feed(reply):
                        place = event.id or place
                        if told := _read_event(event):
                            waits = Waits(self.patience)
                            yield Tell(told)
                        if isinstance(told, Finished):
                            return
            seconds = waits.again(reply, repeatable=True)
            if seconds is None:
                self.read(reply)
                raise self.stranger()
            yield Pause(seconds)

    def _insist(self, ask: Ask) -> Plan[Any]:
        """Ask until there is an answer or patience is at its end; the answer's JSON."""
        return self.read((yield from self.insist(ask)))

    def insist(self, ask: Ask) -> Plan[Reply]:
        """Ask until there is an answer or patience is at its end; the last reply."""
        waits = Waits(self.patience)
        while True:
            reply = yield ask
            seconds = waits.again(reply, repeatable=ask.repeatable)
            if seconds is None:
                return reply
            yield Pause(seconds)

    def read(self, reply: Reply) -> Any:
        """The answer's JSON. What is not an answer, or a refusal, is raised."""
        match reply:
            case Lost(reason, connected=False):
                raise NoServerError(
                    f"no mediamill runs at {self.url}" + (f": {reason}" if reason else ""),
                    fix="start it: mediamill up",
                )
            case Answer(status, _, body):
                told = _json(body)
                if 200 <= status < 300 and isinstance(told, dict):
                    return told
                if isinstance(told, dict) and "code" in told:
                    raise ProblemError(str(told["code"]), status, str(told.get("detail")), told.get("fix"))
                raise self.stranger()
            case Lost(reason):
                raise NoServerError(
                    f"the server at {self.url} does not answer: {reason}",
                    fix="mediamill doctor looks into it",
                )
        raise AssertionError(reply)

    def stranger(self) -> NoServerError:
        """Somebody else answers there."""
        return NoServerError(f"what answers at {self.url} is not a mediamill", fix="look at the address")


class Waits:
    """How long to wait before the next try: longer each time, as long as the server says, in all within patience."""

    def __init__(self, patience: float) -> None:
        self._left = patience
        self._pauses = _pauses()

    def again(self, reply: Reply, *, repeatable: bool, also: Container[int] = ()) -> float | None:
        """The seconds to wait; None: there is nothing to wait for. `also`: statuses that pass."""
        asked = 0.0
        match reply:
            case Lost(connected=False):
                pass
            case Lost() if repeatable:
                pass
            case Answer(status, headers) if (
                status in NOT_DONE or status in also or (repeatable and status in LEFT_OPEN)
            ):
                asked = retry_after_seconds(headers.get("retry-after")) or 0
            case _:
                return None
        seconds = max(next(self._pauses), asked)
        self._left -= seconds
        return seconds if self._left >= 0 else None


def _pauses() -> Iterator[float]:
    seconds = FIRST_PAUSE_SECONDS
    while True:
        yield seconds
        seconds = min(2 * seconds, LONGEST_PAUSE_SECONDS)


def _read_event(event: ServerEvent) -> RunEvent | None:
    """None: an event that this client does not know."""
    data = _json(event.data)
    match event.name, data:
        case "text", {"text": str(text)}:
            return TextPiece(text)
        case "state", {"state": state}:
            return StateChanged(state)
        case "restart", _:
            return Restarted()
        case (("completed" | "failed"), {"run_id": _}):
            return Finished(read_run(data))
    return None


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def path_part(key: str) -> str:
    """A part of a path: a slash in it is data, and so are dots alone, which would lead elsewhere."""
    return quote(key, safe="") if key.strip(".") else "%2E" * len(key)
