"""What a run is, what may come with it, and how it is refused: the same limits and codes on every surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args
from uuid import UUID

from mediamill.errors import ConflictError, GiveUpError, InvalidError, NotFoundError, QuotaExceededError

MAX_IMAGES: Final = 10
MAX_IMAGE_BYTES: Final = 50 * 1024**2  # decoded, all images of a message or run together
BODY_LIMIT_BYTES: Final = 78_643_200
MIME_TYPES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif")
TEXT_CHARACTERS: Final = 200_000
THREAD_KEY_CHARACTERS: Final = 512
KEY_CHARACTERS: Final = 200
FILENAME_CHARACTERS: Final = 255

DeliveryMode = Literal["prompt", "follow_up", "steer"]
RunState = Literal["queued", "running", "completed", "failed"]
DELIVERY_MODES: Final[tuple[str, ...]] = get_args(DeliveryMode)
ENDED: Final = ("completed", "failed")


class ImageCountError(QuotaExceededError):
    """A message may have 10 images."""

    code = "image_count_exceeded"
    fix = "send the others with another message"


class ImageBytesError(QuotaExceededError):
    """The images of a message may have 50 MiB together."""

    code = "image_total_bytes_exceeded"
    fix = "send smaller images, or fewer"


class ImageTypeError(InvalidError):
    """The image is no JPEG, PNG, WebP or GIF."""

    code = "image_mime_type_unsupported"
    fix = f"send one of {', '.join(MIME_TYPES)}"


class ImageBase64Error(InvalidError):
    """The image is not valid base64."""

    code = "image_base64_invalid"
    fix = "send plain base64 with padding: no line breaks, no data: prefix"


class ImagesOffError(InvalidError):
    """Images are turned off here."""

    code = "image_input_disabled"
    fix = "send text only, or set MEDIAMILL_IMAGE_INPUT=true"


class ImageBufferError(QuotaExceededError):
    """10 images, or 50 MiB of them, wait for a text already."""

    code = "image_buffer_limit_exceeded"
    fix = "send the text that they are for, then more images"


class ImageUnreadableError(GiveUpError):
    """The image cannot be read."""

    code = "image_unreadable"
    fix = "send the message again, with this image as a new JPEG or PNG"


class PayloadMismatchError(ConflictError):
    """The idempotency key was used before, for something else."""

    code = "idempotency_payload_mismatch"
    fix = "use a new key for a new message"


class UnknownRunError(NotFoundError):
    """There is no such run."""

    code = "unknown_run"


class RunNotFailedError(ConflictError):
    """Only a run that failed can be tried again."""

    code = "run_not_failed"


@dataclass(frozen=True, slots=True)
class SpooledImage:
    """An image that lies in a file of ours until the database has it."""

    path: Path
    mime_type: str
    byte_size: int
    sha256: str
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose images wait together for a text."""

    source: str
    thread_key: str
    user_key: str | None = None


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """Who shall answer; what is None is up to the settings."""

    kind: str | None = None
    model: str | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is asked for. `payload_hash` names its content; without one, the key alone decides what is the same."""

    scope: Scope
    text: str
    delivery_mode: DeliveryMode = "prompt"
    idempotency_key: str | None = None
    payload_hash: str = ""
    agent: AgentChoice = AgentChoice()
    start_after_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is now."""

    run_id: UUID
    sequence: int
    source: str
    thread_key: str
    user_key: str | None
    delivery_mode: DeliveryMode
    text: str
    state: RunState
    answer: str
    error_code: str | None
    error: str | None
    tries: int
    failures: int
    image_count: int
    image_bytes: int
    images_waiting: int  # not yet taken by the agent
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    agent: AgentChoice = field(default=AgentChoice(), repr=False)
    tokens: int = 0  # what the answer cost, as the model reports it

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        shown = {name: getattr(self, name) for name in SHOWN}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in shown.items()
        } | {"run_id": str(self.run_id)}


SHOWN: Final = (
    "run_id",
    "source",
    "thread_key",
    "user_key",
    "delivery_mode",
    "text",
    "state",
    "answer",
    "error_code",
    "error",
    "tries",
    "image_count",
    "image_bytes",
    "images_waiting",
    "created_at",
    "started_at",
    "ended_at",
)


def check_images(images: Sequence[SpooledImage], *, before: tuple[int, int] = (0, 0)) -> None:
    """The limits of a message or run; `before`: how many are there already, and how many bytes."""
    if before[0] + len(images) > MAX_IMAGES:
        raise ImageCountError
    if before[1] + sum(image.byte_size for image in images) > MAX_IMAGE_BYTES:
        raise ImageBytesError


def agent_choice(stored: Mapping[str, Any]) -> AgentChoice:
    """As it was stored."""
    return AgentChoice(stored.get("kind"), stored.get("model"), stored.get("instructions") or "")
