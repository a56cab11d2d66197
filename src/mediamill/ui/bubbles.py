"""Messages as a chat view shows them: on which side, under which day, with which words for their media. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from markupsafe import Markup, escape

from mediamill.conversations.model import BOT, OUTGOING, USER

FOLD_CHARACTERS = 900
FOLD_LINES = 16
_LINK = re.compile(r"https?://[^\s<>\"'`\x00-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,2000}")
_TRAILING = ".,;:!?)]}…"
_CORRUPT = "media_corrupt_"
# What is done with a medium of each kind, while it is done.
DOING = {
    "image": "Looking",
    "sticker": "Looking",
    "audio": "Listening",
    "video": "Watching",
    "document": "Reading",
    "file": "Working on it",
}
NAMES = {
    "image": "Photo",
    "sticker": "Sticker",
    "audio": "Voice note",
    "video": "Video",
    "document": "Document",
    "file": "File",
}


@dataclass(frozen=True, slots=True)
class Medium:
    """The file of a message."""

    kind: str
    filename: str | None
    state: str
    percent: float | None
    failed_reason: str | None
    can_retry: bool

    @property
    def name(self) -> str:
        """In a word."""
        return NAMES[self.kind]

    @property
    def doing(self) -> str:
        """What is done with it now."""
        return DOING[self.kind] if self.state == "processing" else "Waiting for its turn"

    @property
    def is_open(self) -> bool:
        """Is its text still to come?"""
        return self.state in ("waiting", "processing")


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message of a chat view."""

    id: int
    key: str
    mine: bool
    by_bot: bool
    name: str | None  # only where it is news
    at: datetime
    day: date | None  # only where a new one begins
    head: Markup
    rest: Markup
    length: int
    medium: Medium | None
    answer_failed: str | None

    @property
    def is_open(self) -> bool:
        """May it change without anybody writing?"""
        failed = self.medium is not None and self.medium.state == "failed"
        return (self.medium is not None and self.medium.is_open) or failed or self.answer_failed is not None


def make_bubbles(
    messages: Iterable[Mapping[str, Any]],
    *,
    reader_is_correspondent: bool,
    is_group: bool,
    failed_answers: Mapping[int, str],
) -> list[Bubble]:
    """In the given order; names and days stand where they change."""
    bubbles: list[Bubble] = []
    last_day: date | None = None
    last_name: str | None = None
    for message in messages:
        source, at = message["source"], _time_of(message)
        name = _name_of(message) if is_group or source == OUTGOING else None
        head, rest = fold(message["content"])
        bubbles.append(
            Bubble(
                id=message["id"],
                key=message["provider_message_id"] or "",
                mine=(source == USER) if reader_is_correspondent else (source in (BOT, OUTGOING)),
                by_bot=source == BOT,
                name=name if name != last_name else None,
                at=at,
                day=at.date() if at.date() != last_day else None,
                head=show_text(head),
                rest=show_text(rest),
                length=len(message["content"]),
                medium=_medium_of(message["media"]),
                answer_failed=failed_answers.get(message["id"]),
            )
        )
        last_day, last_name = at.date(), name
    return bubbles


def fold(text: str) -> tuple[str, str]:
    """What is seen at once, and what is unfolded; the cut is made between words where there are any."""
    end = FOLD_CHARACTERS
    for number, found in enumerate(re.finditer("\n", text), 1):
        if number >= FOLD_LINES or found.end() > end:
            end = min(end, found.end())
            break
    if len(text) <= end * 1.25:
        return text, ""
    space = max(text.rfind(" ", 0, end), text.rfind("\n", 0, end)) + 1
    cut = space if space > end // 2 else end
    return text[:cut], text[cut:]


def show_text(text: str) -> Markup:
    """Escaped; addresses of web pages can be followed."""
    shown, position = Markup(""), 0
    for found in _LINK.finditer(text):
        address = found.group().rstrip(_TRAILING)
        shown += escape(text[position : found.start()])
        shown += Markup('<a href="{0}" target="_blank" rel="noopener noreferrer nofollow">{0}</a>').format(
            address
        )
        position = found.start() + len(address)
    return shown + escape(text[position:])


def kind_of(mime_type: str) -> str:
    """What sort of thing it is: image, sticker, audio, video, document, or just a file."""
    if mime_type.startswith(_CORRUPT):
        kind = mime_type.removeprefix(_CORRUPT)
        return kind if kind in NAMES else "file"
    if mime_type == "image/webp":
        return "sticker"
    family = mime_type.partition("/")[0]
    if family in ("image", "audio", "video"):
        return family
    return "file" if mime_type == "application/octet-stream" else "document"


def _medium_of(media: Mapping[str, Any] | None) -> Medium | None:
    if media is None:
        return None
    return Medium(
        kind=kind_of(media["mime_type"]),
        filename=media["original_filename"],
        state=media["state"],
        percent=media["percent"],
        failed_reason=media["failed_reason"],
        can_retry=media["can_retry"],
    )


def _name_of(message: Mapping[str, Any]) -> str:
    return str(message["sender"]["display_name"] or message["sender"]["identifier"])


def _time_of(message: Mapping[str, Any]) -> datetime:
    """When it was written, as far as the sender's word can be a time at all; else when it was accepted."""
    written = message["originating_time"]
    try:
        moment = datetime.fromtimestamp(written, UTC) if written else message["accepted_time"]
    except (OverflowError, ValueError, OSError):
        moment = message["accepted_time"]
    local: datetime = moment.astimezone()
    return local
