"""What a bridge may send, as protocol.md says: frames, a message's payload, a status. Unknown fields are ignored."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from mediamill.errors import InvalidError

FAULTS = 10
FAULT_CHARACTERS = 200
LAST_SECOND = 253_402_300_799  # of the year 9999

# NUL is refused where the text names something; in what people write it is taken out later.
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
Name = Annotated[str, StringConstraints(max_length=1_000)]
Line = Annotated[str, StringConstraints(max_length=4_000, pattern=r"^[^\x00]*$")]
Guid = Annotated[
    str,
    StringConstraints(
        pattern=r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
    ),
]
MimeType = Annotated[
    str,
    StringConstraints(
        max_length=255,
        pattern=r"^([A-Za-z0-9.+_-]+/[A-Za-z0-9.+_-]+(\s*;[^\x00]*)?|media_corrupt_(image|video|audio|document|sticker))$",
    ),
]
Identifiers = Annotated[list[Identifier], Field(max_length=20)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class BadFrameError(InvalidError):
    """The frame is not what the protocol says."""

    code = "bad_frame"

    def __init__(self, code: str, message: str, faults: list[str], spool_id: str | None = None) -> None:
        super().__init__(message)
        self.code, self.faults, self.spool_id = code, faults, spool_id


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class GroupPart(_Part):
    """The group that a message was written to."""

    identifier: Identifier
    display_name: Name | None = None


class PersonPart(_Part):
    """Who wrote a message in a group."""

    identifier: Identifier
    display_name: Name | None = None
    alternate_identifiers: Identifiers = []


class MessagePayload(_Part):
    """One message of WhatsApp."""

    provider_message_id: Identifier
    sender: Identifier
    message: Annotated[str, StringConstraints(max_length=200_000)]
    direction: Literal["incoming", "outgoing"]
    originating_time: Annotated[int, Field(ge=0, le=LAST_SECOND)]
    display_name: Name | None = None
    group: GroupPart | None = None
    alternate_identifiers: Identifiers = []
    recipient_id: Identifier | None = None
    actual_sender: PersonPart | None = None
    media_processing_id: Guid | None = None
    mime_type: MimeType | None = None
    original_filename: Name | None = None
    media_seconds: Annotated[int, Field(ge=0, lt=10**7)] | None = None
    addressed: bool = True
    quota_exceeded: Annotated[bool, Field(alias="_quota_exceeded")] = False

    @model_validator(mode="after")
    def _fits_together(self) -> MessagePayload:
        if (self.media_processing_id is None) != (self.mime_type is None):
            raise ValueError("media_processing_id and mime_type come together")
        if self.direction == "outgoing" and not (self.recipient_id or self.group):
            raise ValueError("an outgoing message needs recipient_id or group")
        return self


class MePart(_Part):
    """The account."""

    identifier: Identifier
    display_name: Line | None = None


class SpoolPart(_Part):
    """What waits in the bridge."""

    waiting: Count = 0
    downloading: Count = 0


class QuotaPart(_Part):
    """How full the staging folder is; `used_bytes` is unknown at first."""

    used_bytes: Count | None = None
    limit_bytes: Count | None = None


class StatusPayload(_Part):
    """How a bot is connected to WhatsApp."""

    state: Literal["connecting", "pairing", "connected", "logged_out", "stopped"]
    qr: Line | None = None
    me: MePart | None = None
    detail: Line | None = None
    spool: SpoolPart | None = None
    quota: QuotaPart | None = None


class MessageFrame(_Part):
    """A message out of the bridge's spool."""

    type: Literal["message"]
    spool_id: Identifier
    payload: MessagePayload


class AskFrame(_Part):
    """May this message come in? Asked before its file is fetched."""

    type: Literal["ask"]
    spool_id: Identifier
    payload: MessagePayload


class StatusFrame(_Part):
    """A change of status."""

    type: Literal["status"]
    status: StatusPayload


Frame = MessageFrame | AskFrame | StatusFrame
_FRAMES: dict[str, TypeAdapter[Any]] = {
    "message": TypeAdapter(MessageFrame),
    "ask": TypeAdapter(AskFrame),
    "status": TypeAdapter(StatusFrame),
}
_SPOOL_ID: TypeAdapter[str] = TypeAdapter(Identifier)


def read_frame(text: str | bytes) -> Frame:
    """The frame, or a BadFrameError with every fault in it."""
    if isinstance(text, bytes):
        raise BadFrameError("binary_frame", "frames are JSON text", ["the frame is binary"])
    found = _parse(text)
    type_ = found.get("type")
    spool_id = _spool_id_of(found)
    if not isinstance(type_, str) or type_ not in _FRAMES:
        raise BadFrameError(
            "unknown_frame", "there is no such frame", [f"type: one of {', '.join(_FRAMES)}"], spool_id
        )
    try:
        frame: Frame = _FRAMES[type_].validate_python(found)
        return frame
    except ValidationError as error:
        raise BadFrameError("bad_payload", "the frame is not valid", _faults_of(error), spool_id) from None


def _parse(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repetition)
    except RecursionError:
        raise BadFrameError("bad_json", "the frame is nested too deeply", ["nested too deeply"]) from None
    except ValueError as error:
        raise BadFrameError("bad_json", "the frame is not JSON", [str(error)[:FAULT_CHARACTERS]]) from None
    if not isinstance(found, dict):
        raise BadFrameError("bad_json", "the frame is not a JSON object", ["not an object"])
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers would not agree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _spool_id_of(found: dict[str, Any]) -> str | None:
    try:
        return _SPOOL_ID.validate_python(found.get("spool_id"), strict=True)
    except ValidationError:
        return None


def _faults_of(error: ValidationError) -> list[str]:
    """Where and what, without what the stranger wrote."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    told = [
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"[:FAULT_CHARACTERS] for fault in found[:FAULTS]
    ]
    return [*told, f"and {len(found) - FAULTS} more"] if len(found) > FAULTS else told
