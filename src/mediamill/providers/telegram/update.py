"""What an update of Telegram says, as far as we need it. A stranger's JSON: what is of the wrong sort is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mediamill.conversations.model import Sender, clean_text
from mediamill.providers.telegram import wording

ALLOWED_UPDATES = ("message", "edited_message")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
LONGEST_NAME = 255
BIGGEST = 2**62
MOST_ENTITIES = 100

MediaKind = Literal["image", "video", "audio", "document", "sticker"]
# What Telegram calls it, what we call it, and its type where Telegram states none.
_MEDIA: tuple[tuple[str, MediaKind, str], ...] = (
    ("animation", "video", "video/mp4"),  # before document: Telegram names both
    ("voice", "audio", "audio/ogg"),
    ("audio", "audio", "audio/mpeg"),
    ("video", "video", "video/mp4"),
    ("video_note", "video", "video/mp4"),
    ("sticker", "sticker", "image/webp"),
    ("document", "document", "application/octet-stream"),
)
_COMMAND = re.compile(r"/([a-z0-9_]{1,32})(?:@\w{1,64})?(?:\s|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file of a message."""

    kind: MediaKind
    file_id: str
    mime_type: str
    filename: str | None = None
    seconds: int = 0  # how long it plays, as Telegram says

    @property
    def is_image(self) -> bool:
        """Something that an agent can look at."""
        return self.mime_type in IMAGE_TYPES and self.kind in ("image", "document")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message. `text` is what was written, or the caption, or what stands for it in words."""

    chat: str
    message_id: int
    date: int | None
    sender: str
    sender_name: str | None
    sender_username: str | None
    group_name: str | None  # None: a private chat
    text: str
    command: str | None = None
    file: MediaFile | None = None
    album: str | None = None
    edit: int | None = None  # when, if it is a correction
    mentioned_ids: frozenset[int] = frozenset()  # of accounts that it mentions or replies to
    mentioned_names: frozenset[str] = frozenset()  # user names in it, in small letters, without @

    @property
    def is_group(self) -> bool:
        """More than two can read it."""
        return self.group_name is not None

    @property
    def provider_message_id(self) -> str:
        """A correction is a message of its own."""
        return f"{self.message_id}" if self.edit is None else f"{self.message_id}.{self.edit}"


def sender_of(message: Incoming) -> Sender:
    """Who wrote it."""
    others = (f"@{message.sender_username}",) if message.sender_username else ()
    return Sender(message.sender, message.sender_name, others)


@dataclass(frozen=True, slots=True)
class Head:
    """What must be known of an update to keep it: whose turn it is in, and with which it belongs together."""

    update_id: int
    chat: str
    message_id: int
    album: str | None


def read_head(update: Any) -> Head | None:
    """None: no update at all."""
    update_id = _number(update, "update_id") if isinstance(update, dict) else None
    if update_id is None:
        return None
    message = _message_of(update)[0]
    chat = _number(_dict(message, "chat"), "id")
    album = _text(message, "media_group_id")
    return Head(
        update_id, "" if chat is None else str(chat), _number(message, "message_id") or 0, album or None
    )


def read_message(update: Mapping[str, Any]) -> Incoming | None:
    """None: nothing that anybody said."""
    message, is_edit = _message_of(update)
    chat, message_id = _dict(message, "chat"), _number(message, "message_id")
    chat_id = _number(chat, "id")
    if chat_id is None or message_id is None:
        return None
    file = None if is_edit else _file_of(message)
    said = _text(message, "text") or _text(message, "caption")
    text = said or (wording.describe(message) if file is None and not is_edit else "")
    if not text.strip() and file is None:
        return None
    who = _dict(message, "sender_chat") or _dict(message, "from") or chat
    command = _COMMAND.match(_text(message, "text")) if not is_edit else None
    return Incoming(
        chat=str(chat_id),
        message_id=message_id,
        date=_number(message, "date"),
        sender=str(_number(who, "id") or chat_id),
        sender_name=_name_of(who),
        sender_username=_text(who, "username")[:LONGEST_NAME] or None,
        group_name=None if chat.get("type") == "private" else _name_of(chat) or str(chat_id),
        text=f"[Edited] {text}" if is_edit else wording.in_context(message, text),
        command=command.group(1) if command else None,
        file=file,
        album=_text(message, "media_group_id") or None,
        edit=(_number(message, "edit_date") or 0) if is_edit else None,
        mentioned_ids=frozenset(_mentioned_ids(message)),
        mentioned_names=frozenset(_mentioned_names(message)),
    )


def _mentioned_ids(message: Mapping[str, Any]) -> Iterator[int]:
    """Whom it answers, and accounts without a user name that it mentions."""
    users = [_dict(_dict(message, "reply_to_message"), "from")]
    users += [_dict(entity, "user") for entity, _ in _entities(message, "text_mention")]
    for user in users:
        if (found := _number(user, "id")) is not None:
            yield found


def _mentioned_names(message: Mapping[str, Any]) -> Iterator[str]:
    """`@name`, and the name in `/command@name`."""
    for _, said in _entities(message, "mention", "bot_command"):
        name = said.partition("@")[2].casefold()
        if name:
            yield name


def _entities(message: Mapping[str, Any], *kinds: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Marked parts of the text or the caption, with what stands there; Telegram counts in UTF-16 units."""
    for text_name, name in (("text", "entities"), ("caption", "caption_entities")):
        raw = _text(message, text_name).encode("utf-16-le")
        found = message.get(name)
        for entity in found[:MOST_ENTITIES] if isinstance(found, list) else ():
            if isinstance(entity, dict) and entity.get("type") in kinds:
                start, length = _number(entity, "offset") or 0, _number(entity, "length") or 0
                if start >= 0 and length >= 0:
                    part = raw[2 * start : 2 * (start + length)]
                    yield entity, part.decode("utf-16-le", "replace")


def _file_of(message: Mapping[str, Any]) -> MediaFile | None:
    photo = _largest(message.get("photo"))
    if photo is not None:
        return MediaFile("image", _text(photo, "file_id"), "image/jpeg")
    for name, kind, usual in _MEDIA:
        found = _dict(message, name)
        file_id = _text(found, "file_id")
        if file_id and not found.get("is_animated"):  # a drawing in a form of Telegram's own
            stated = "video/webm" if found.get("is_video") else _text(found, "mime_type").lower()[:255]
            filename = _text(found, "file_name")[:LONGEST_NAME]
            seconds = max(0, _number(found, "duration") or 0)
            return MediaFile(kind, file_id, stated or usual, filename or None, seconds)
    return None


def _largest(sizes: Any) -> dict[str, Any] | None:
    """Of the sizes of a photo."""
    known = (
        [size for size in sizes if isinstance(size, dict) and _text(size, "file_id")]
        if isinstance(sizes, list)
        else []
    )
    return max(
        known, key=lambda size: (_number(size, "width") or 0) * (_number(size, "height") or 0), default=None
    )


def _message_of(update: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    edited = _dict(update, "edited_message")
    return (edited, True) if edited else (_dict(update, "message"), False)


def _name_of(who: Mapping[str, Any]) -> str | None:
    name = " ".join(filter(None, (_text(who, "first_name"), _text(who, "last_name")))) or _text(who, "title")
    return name[:LONGEST_NAME] or _text(who, "username")[:LONGEST_NAME] or None


def _dict(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def _text(holder: Mapping[str, Any], name: str) -> str:
    found = holder.get(name)
    return clean_text(found) if isinstance(found, str) else ""


def _number(holder: Mapping[str, Any], name: str) -> int | None:
    found = holder.get(name)
    is_number = isinstance(found, int) and not isinstance(found, bool) and abs(found) < BIGGEST
    return found if is_number else None
