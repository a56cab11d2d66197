"""What a client sends and gets back: images, runs, and the events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

DeliveryMode: TypeAlias = Literal["prompt", "follow_up", "steer"]
RunState: TypeAlias = Literal["queued", "running", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image: the path of a file, which is read while it is sent, or bytes. Unset: the type that its bytes show."""

    data: Path | bytes
    mime_type: str | None = None
    filename: str | None = None


ImageLike: TypeAlias = Image | str | PathLike[str] | bytes


def as_image(given: ImageLike) -> Image:
    """A path or bytes as an image."""
    if isinstance(given, Image):
        return given
    return Image(given) if isinstance(given, bytes) else Image(Path(given))


@dataclass(frozen=True, slots=True)
class Run:
    """One text for the agent, and what came of it: as the server told it last.

    Right after sending, only the facts above `repeated` are known; `client.run(run_id)` tells the others.
    """

    run_id: str
    thread_key: str
    state: RunState
    delivery_mode: DeliveryMode
    text: str
    image_count: int
    repeated: bool = False  # it was sent before, with the same idempotency key
    answer: str = ""  # grows while the run is running
    error_code: str | None = None
    error: str | None = None
    tries: int = 0
    source: str | None = None
    user_key: str | None = None
    image_bytes: int | None = None
    images_waiting: int | None = None  # not yet taken by the agent
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes, unless a failed run is tried again."""
        return self.state in ("completed", "failed")


@dataclass(frozen=True, slots=True)
class UploadedVideo:
    """A video that has arrived whole, and waits to be made into a stream."""

    video_id: str
    byte_size: int
    resumed_from: int  # so many bytes of it were there already


TIMES = ("created_at", "started_at", "ended_at")


def read_run(told: Mapping[str, Any]) -> Run:
    """From the server's JSON; what a newer server tells besides is left out."""
    known = {name: told[name] for name in Run.__dataclass_fields__ if name in told}
    times = {name: datetime.fromisoformat(known[name]) for name in TIMES if known.get(name)}
    return Run(**{**known, **times, "run_id": str(told["run_id"])})


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The run waits for its turn, or is being worked on."""

    state: RunState


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The answer goes on with this."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """The answer begins anew: what came so far is void."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the run as it ended, completed or failed."""

    run: Run


RunEvent: TypeAlias = StateChanged | TextPiece | Restarted | Finished
