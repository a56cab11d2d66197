"""The nouns of conversations, and how the text of a media message is put together. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from mediamill.errors import InvalidError

KIND: Final = "message.process"
CHAT: Final = "chat"  # the network for trying out: whoever writes there is logged in
USER, OUTGOING, BOT = "user", "outgoing", "bot"
SOURCES = (USER, OUTGOING, BOT)
SORRY: Final = "[The media could not be processed]"
CORRUPT: Final = "media_corrupt_"
UNKNOWN_TYPE: Final = "application/octet-stream"
_GUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_MIME_TYPE = re.compile(r"[a-z0-9.+-]{1,63}/[a-z0-9.+_-]{1,127}|media_corrupt_[a-z]{1,20}")


class BadGuidError(InvalidError):
    """A media_processing_id may have letters, digits, - and _ only: it names a file."""

    code = "bad_guid"


def clean_text(text: str) -> str:
    """What the database can keep: no NUL, no halves of characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def clean_time(seconds: int | None) -> int | None:
    """A time that the database can keep; anything else is no time."""
    return seconds if isinstance(seconds, int) and abs(seconds) < 2**62 else None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote a message."""

    identifier: str
    display_name: str | None = None
    alternate_identifiers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """All of it is a stranger's text."""
        object.__setattr__(self, "identifier", clean_text(self.identifier))
        object.__setattr__(self, "display_name", self.display_name and clean_text(self.display_name))
        object.__setattr__(
            self, "alternate_identifiers", tuple(clean_text(other) for other in self.alternate_identifiers)
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The group that a message was written to."""

    identifier: str
    display_name: str | None = None

    def __post_init__(self) -> None:
        """All of it is a stranger's text."""
        object.__setattr__(self, "identifier", clean_text(self.identifier))
        object.__setattr__(self, "display_name", self.display_name and clean_text(self.display_name))


@dataclass(slots=True)
class Message:
    """One message. While `media_processing_id` is set it is a placeholder, and `content` is the caption."""

    id: int
    content: str
    sender: Sender
    source: str
    accepted_time: datetime
    message_size: int
    originating_time: int | None = None
    group: Group | None = None
    provider_message_id: str | None = None
    media_processing_id: str | None = None

    @property
    def is_placeholder(self) -> bool:
        """Is its media still being processed?"""
        return self.media_processing_id is not None

    def to_json(self) -> dict[str, Any]:
        """As it is kept in the database."""
        return {**asdict(self), "accepted_time": self.accepted_time.isoformat()}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Message:
        """As it was before."""
        sender = kept["sender"]
        return cls(
            **{
                **kept,
                "sender": Sender(
                    **{**sender, "alternate_identifiers": tuple(sender["alternate_identifiers"])}
                ),
                "group": Group(**kept["group"]) if kept["group"] else None,
                "accepted_time": datetime.fromisoformat(kept["accepted_time"]),
            }
        )


@dataclass(frozen=True, slots=True)
class Media:
    """What a provider says of the file of a message."""

    guid: str
    mime_type: str
    original_filename: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The guid will be a file's name, so it is looked at before anything else; the type is a stranger's word."""
        if not _GUID.fullmatch(self.guid):
            raise BadGuidError
        object.__setattr__(self, "mime_type", clean_mime_type(self.mime_type))
        name = self.original_filename
        object.__setattr__(self, "original_filename", name and clean_text(name)[:255])

    def to_json(self) -> dict[str, Any]:
        """What is shown beside the message."""
        return {
            "guid": self.guid,
            "mime_type": self.mime_type,
            "original_filename": self.original_filename,
            "failed_reason": None,
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one queue keeps in memory. Placeholders do not count."""

    max_messages: int = 1_000
    max_characters: int = 1_000_000
    max_age_seconds: float = 24 * 3600
    max_message_characters: int = 200_000
    max_caption_characters: int = 50_000  # it travels with the job


def owner_of(bot_id: str) -> str:
    """The owner of a bot's jobs."""
    return f"bot:{bot_id}"


def clean_mime_type(claimed: str) -> str:
    """Without parameters, in small letters; what is no type at all counts as unknown."""
    bare = claimed.partition(";")[0].strip().lower()
    return bare if _MIME_TYPE.fullmatch(bare) else UNKNOWN_TYPE


def finished_content(caption: str, text: str) -> str:
    """The caption with the text appended."""
    return f"{caption}\n\n{text}" if caption and text else caption or text


def failed_content(caption: str, notice: str | None) -> str:
    """The notice before the caption; a processor may have put it there already."""
    notice = notice or SORRY
    return notice if not caption or notice.endswith(caption) else f"{notice} {caption}"
