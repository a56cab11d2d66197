"""Mails: who, when, what about, the best body, and the attachments with the text of those that can be read.

Headers are read by the old policy of the standard library and decoded here: the new one takes minutes for a
header of a megabyte.
"""

from __future__ import annotations

import email.errors
import email.parser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.header import decode_header
from email.message import Message
from pathlib import Path

from mediamill.media.errors import DamagedMediaError, MediaError
from mediamill.processors.document.document_text import (
    MEGABYTE,
    DocumentText,
    Limits,
    Part,
    TextRoom,
    one_line,
    plural,
    until_full,
)
from mediamill.processors.document.plain import decode_text
from mediamill.processors.document.web_page import page_text
from mediamill.processors.page_spans import pages_not_read, spans_of

ReadAttachment = Callable[[bytes], DocumentText]
HEADERS = ("From", "To", "Cc", "Date", "Subject")
HEADER_CHARACTERS = 2_000
MAX_PARTS = 2_000
READ_ATTACHMENTS = 20
NESTED_MAILS = 2


@dataclass(slots=True)
class _Mail:
    """What was found in one message."""

    plain: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    attachments: list[tuple[str, Message]] = field(default_factory=list)
    parts: int = 0


def read_eml(path: Path, limits: Limits, read_attachment: ReadAttachment | None = None) -> DocumentText:
    """A mail; `read_attachment` turns the bytes of an attachment into text, or says why not."""
    document = DocumentText("eml")
    with path.open("rb") as stream:
        data = stream.read(limits.mail_bytes)
    if path.stat().st_size > len(data):
        document.warn(f"only the first {len(data) // MEGABYTE} MB of the mail were read")
    try:
        message = email.parser.BytesParser().parsebytes(data)
        reader = _Reader(document, limits, read_attachment)
        with until_full(document):
            reader.add(message, level=0)
    except (RecursionError, email.errors.MessageError) as error:
        raise DamagedMediaError("the mail is damaged: its parts are nested too deeply") from error
    document.describe({"title": header(message, "Subject"), "author": header(message, "From")})
    return document


def header(message: Message, name: str) -> str:
    """A header as text, bounded before it is decoded."""
    try:
        raw = str(message.get(name, ""))[:HEADER_CHARACTERS]
        decoded = [_decoded(value, charset) for value, charset in decode_header(raw)]
    except (ValueError, LookupError, email.errors.MessageError):
        return one_line(str(message.get(name, ""))[:HEADER_CHARACTERS], HEADER_CHARACTERS)
    return one_line("".join(decoded), HEADER_CHARACTERS)


def _decoded(value: bytes | str, charset: str | None) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return value.decode("latin-1")


class _Reader:
    def __init__(
        self, document: DocumentText, limits: Limits, read_attachment: ReadAttachment | None
    ) -> None:
        self._document, self._limits, self._read_attachment = document, limits, read_attachment
        self._room = TextRoom(limits)
        self._read_count = 0

    def add(self, message: Message, level: int, label: str = "") -> None:
        """A message and what is in it."""
        mail = _Mail()
        for part in walk(message):
            mail.parts += 1
            if mail.parts > MAX_PARTS:
                self._document.warn(f"only the first {MAX_PARTS:,} parts of the mail were read")
                break
            self._sort(part, mail)
        lines = [f"{name}: {value}" for name in HEADERS if (value := header(message, name))]
        body = "\n".join([*lines, "", self._body(mail)]).strip()
        listed = [f"Attachment: {name} ({_size(part)})" for name, part in mail.attachments]
        self._part(label, "\n".join([body, "", *listed[:100]]).strip())
        if len(listed) > 100:
            self._document.warn(f"{plural(len(listed) - 100, 'attachment')} not listed")
        for name, part in mail.attachments:
            self._add_attachment(name, part, level)

    def _part(self, label: str, text: str) -> None:
        self._document.parts.append(Part(label, self._room.take(text)))

    def _sort(self, part: Message, mail: _Mail) -> None:
        kind = part.get_content_type()
        name = _file_name(part)
        attached = name or part.get_content_disposition() == "attachment" or kind == "message/rfc822"
        if attached or not kind.startswith("text/"):
            mail.attachments.append((name or _default_name(kind), part))
        elif kind == "text/html":
            mail.pages.append(self._text(part))
        elif kind != "text/calendar":
            mail.plain.append(self._text(part))
        else:
            mail.attachments.append(("calendar", part))

    def _text(self, part: Message) -> str:
        data = _payload(part)[: self._limits.text_bytes]
        try:
            return decode_text(data, part.get_content_charset())
        except (LookupError, ValueError):
            return decode_text(data)

    def _body(self, mail: _Mail) -> str:
        plain = "\n\n".join(text.strip() for text in mail.plain if text.strip())
        if plain or not mail.pages:
            return plain
        pages = (page_text(page, self._limits, self._document)[1] for page in mail.pages[:20])
        return "\n\n".join(pages)

    def _add_attachment(self, name: str, part: Message, level: int) -> None:
        label = f"Attachment {name}"
        inner = (
            part.get_payload(0)
            if part.get_content_type() == "message/rfc822" and part.is_multipart()
            else None
        )
        if isinstance(inner, Message):
            if level < NESTED_MAILS:
                self.add(inner, level + 1, label)
            else:
                self._document.warn("mails inside mails inside mails were not read")
            return
        if self._read_attachment is None or self._read_count >= READ_ATTACHMENTS or self._limits.late:
            return
        self._read_count += 1
        try:
            inside = self._read_attachment(_payload(part))
        except MediaError as error:
            self._document.warn(f"the attachment {name} was not read: {error.message}")
            return
        text = "\n\n".join(f"{part.label}\n{part.text}".strip() for part in inside.parts)
        if text.strip():
            self._document.ocr_pages += inside.ocr_pages
            self._part(label, text)
        if inside.unread:
            self._document.warn(f"{name}: {pages_not_read(spans_of(inside.unread))}")
        for warning in inside.warnings:
            self._document.warn(f"{name}: {warning}")


def walk(message: Message) -> Iterator[Message]:
    """The leaves of a message, without recursion, not looking into mails inside it."""
    todo = [message]
    while todo:
        part = todo.pop()
        payload = part.get_payload()
        inner = part is not message and part.get_content_maintype() == "message"
        if isinstance(payload, list) and not inner:
            todo += [child for child in reversed(payload) if isinstance(child, Message)]
        else:
            yield part


def _payload(part: Message) -> bytes:
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError):  # broken transfer encoding
        return b""
    return data if isinstance(data, bytes) else b""


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename() or ""
    except (ValueError, LookupError, TypeError):
        return "attachment"
    decoded = "".join(_decoded(value, charset) for value, charset in decode_header(name[:1_000]))
    # Shown to people, never used as a path.
    return one_line(decoded.replace("\\", "/").rpartition("/")[2], 120) or ("attachment" if name else "")


def _default_name(kind: str) -> str:
    return "mail" if kind == "message/rfc822" else f"without a name ({one_line(kind, 60)})"


def _size(part: Message) -> str:
    payload = part.get_payload()
    if isinstance(payload, list):
        return "mail" if part.get_content_maintype() == "message" else plural(len(payload), "part")
    data_bytes = len(_payload(part))
    return f"{data_bytes / MEGABYTE:.1f} MB" if data_bytes >= MEGABYTE else f"{max(1, data_bytes // 1024)} kB"
