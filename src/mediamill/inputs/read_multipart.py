"""A message out of a form (multipart/form-data): the same fields and checks as in JSON, images as files."""

from __future__ import annotations

from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from mediamill.errors import InvalidError
from mediamill.inputs.draft import FIELDS, FieldError, ImageDraft, MessageDraft, ReadMessage

HEADERS: Final = 8  # of one part
HEADER_BYTES: Final = 4096  # of one line
BYTES_OF_CHARACTER: Final = 4
UNTYPED: Final = ("", "application/octet-stream")  # a file of no type: its bytes say what it is


class FormError(InvalidError):
    """The body is not multipart/form-data."""

    code = "form_invalid"
    fix = "let a library write the form"


class MultipartMessageReader:
    """Feed it the body in pieces, then close it."""

    def __init__(self, draft: MessageDraft, content_type: str) -> None:
        _, options = parse_options_header(content_type)
        if not options.get(b"boundary"):
            raise FormError("Content-Type names no boundary")
        self._draft = draft
        self._seen: set[str] = set()
        self._ended = False
        self._begin_part()
        try:
            self._parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": self._part_data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
                max_header_count=HEADERS,
                max_header_size=HEADER_BYTES,
            )
        except FormParserError as error:
            raise FormError(f"not a form: {error}") from error

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise FormError(f"not a form: {error}") from error

    def close(self) -> ReadMessage:
        """The whole message."""
        if not self._ended:
            raise FormError("the body ends too early")
        return self._draft.finish()

    def _begin_part(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._name_bytes, self._value_bytes = b"", b""
        self._name = ""
        self._held = bytearray()
        self._image: ImageDraft | None = None

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name_bytes += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value_bytes += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._name_bytes.lower()] = self._value_bytes
        self._name_bytes, self._value_bytes = b"", b""

    def _open_part(self) -> None:
        """The headers say what it is: an image, or a text."""
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        self._name = _decode("the name of a field", options.get(b"name", b""))
        if self._name == "images":
            self._image = self._draft.begin_image()
            self._image.name(_decode(f"{self._image.where}.filename", options.get(b"filename", b"")))
            mime_type, _ = parse_options_header(self._headers.get(b"content-type"))
            if (claimed := mime_type.decode("latin-1")) not in UNTYPED:
                self._image.claim_type(claimed)
        elif self._name not in FIELDS:
            raise FieldError(f"there is no {self._name[:80]!r}", fix="leave it out")
        elif self._name in self._seen:
            raise FieldError(f"{self._name} is there twice")
        else:
            self._seen.add(self._name)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._image is not None:
            self._image.file.write(data[start:end])
            return
        self._held += data[start:end]
        if len(self._held) > FIELDS[self._name] * BYTES_OF_CHARACTER:
            raise FieldError(f"{self._name} may have {FIELDS[self._name]} characters")

    def _end_part(self) -> None:
        if self._image is not None:
            self._draft.end_image(self._image)
        else:
            self._draft.put(self._name, _decode(self._name, bytes(self._held)))

    def _end(self) -> None:
        self._ended = True


def _decode(what: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FieldError(f"{what} is not UTF-8") from error
